import { useQuery } from '@tanstack/react-query';
import { Link, useNavigate, useParams, useSearch } from '@tanstack/react-router';
import type { Schemas } from '../api/client';
import { History } from '../history/section';
import { Actions } from '../jobs/actions';
import { JobLog } from '../jobs/log';
import { ended } from '../jobs/offers';
import { JobSpecPanel } from '../jobs/spec';
import { explain, job as jobQuery } from '../queries';
import { useRights } from '../rights';
import { LeftPast } from '../time/left-past';
import { Ago, Clock, Loaded, Panel, Scroll, Since, State, span } from '../ui/parts';
import { BASIS_TEXT } from '../words';
import { JobRanks } from './debug';
import { Explained } from './explanation';
import { fabricOf, gang, whereOrWhy } from './jobs';
import { Report } from './report';

type Job = Schemas['Job'];

export function JobPage() {
  const { id } = useParams({ from: '/jobs/$id' });
  const { past } = useSearch({ from: '/jobs/$id' });
  const query = useQuery(jobQuery(id));
  return (
    <main className="page" id="page">
      {past && <LeftPast at={past} what="job" open={`job:${id}`} />}
      <Loaded query={query}>{(j) => <Shown job={j} />}</Loaded>
    </main>
  );
}

/** Ranks of the gang as it is written. */
const ranksOf = (j: Job) => j.groups.reduce((sum, g) => sum + g.nodes * g.ranks, 0);

function Shown({ job: j }: { job: Job }) {
  const { submits } = useRights();
  return (
    <>
      <div className="head">
        <h1>
          Job {j.id} {j.name}
        </h1>
        <State word={j.state} />
        <span className="dim">{whereOrWhy(j)}</span>
        {(j.attempt || j.past.length > 0) && (
          <Link to="/debug/jobs/$id" params={{ id: j.id }}>
            Debug
          </Link>
        )}
        <Link to="/jobs/compare" search={{ a: j.id }}>
          Compare
        </Link>
        <Actions job={j} />
      </div>
      <div className="columns wide-left">
        <div>
          {j.state === 'queued' && <Why id={j.id} />}
          <Placement job={j} />
          {j.attempt && <JobRanks id={j.id} />}
          <Attempts job={j} />
          {(j.attempt || j.past.length > 0) && <JobHistory job={j} />}
          <JobLog key={j.id} id={j.id} over={ended(j)} attempts={j.attempts} ranks={ranksOf(j)} />
        </div>
        <div>
          <Panel title="Job" weight="quiet">
            <div className="body">
              <dl className="facts">
                <dt>project</dt>
                <dd>{j.project}</dd>
                <dt>user</dt>
                <dd>{j.user}</dd>
                <dt>gang</dt>
                <dd>{gang(j)}</dd>
                <dt>priority</dt>
                <dd>{String(j.spec.priority ?? 'normal')}</dd>
                <dt>time limit</dt>
                <dd>
                  {j.spec.time_limit ?? 'none'}
                  {!ended(j) && j.attempt?.deadline && (
                    <>
                      , reached <Ago at={j.attempt.deadline} />
                    </>
                  )}
                </dd>
                <dt>submitted</dt>
                <dd>
                  <Ago at={j.submitted_at} />
                </dd>
                <Times job={j} />
                {ended(j) && j.ended_at && (
                  <>
                    <dt>ended</dt>
                    <dd>
                      <Ago at={j.ended_at} />
                      {j.exit_code !== null && j.exit_code !== undefined && `, exit code ${j.exit_code}`}
                    </dd>
                  </>
                )}
                {j.reserved_start && j.state === 'queued' && (
                  <>
                    <dt>reserved start</dt>
                    <dd>
                      <Ago at={j.reserved_start.at} />, {BASIS_TEXT[j.reserved_start.basis]}
                    </dd>
                  </>
                )}
                {j.progress && (
                  <>
                    <dt>progress</dt>
                    <dd>
                      step {j.progress.step}, <Ago at={j.progress.at} />
                    </dd>
                  </>
                )}
                {j.checkpoint && (
                  <>
                    <dt>checkpoint</dt>
                    <dd>
                      <Ago at={j.checkpoint.at} />
                      {j.checkpoint.step !== null &&
                        j.checkpoint.step !== undefined &&
                        `, step ${j.checkpoint.step}`}
                    </dd>
                  </>
                )}
                <dt>failures</dt>
                <dd>
                  {j.infrastructure_failures} of the infrastructure, {j.application_failures} of its own,{' '}
                  {j.preemptions} preemptions
                </dd>
              </dl>
            </div>
          </Panel>
          {submits && <JobSpecPanel job={j} />}
          {j.state !== 'queued' || j.past.length > 0 ? <Report id={j.id} /> : null}
          {j.recovery && <Recovery r={j.recovery} />}
        </div>
      </div>
    </>
  );
}

/** Its GPUs over time, while they were allocated to it: who sees the job sees them. */
function JobHistory({ job: j }: { job: Job }) {
  const search = useSearch({ from: '/jobs/$id' });
  const navigate = useNavigate({ from: '/jobs/$id' });
  return (
    <History
      subject={{ job: j.id }}
      visible
      ended={ended(j) ? j.ended_at : null}
      search={search}
      show={(part) => void navigate({ search: (old) => ({ ...old, ...part }), resetScroll: false })}
    />
  );
}

type Timed = Pick<Job, 'state' | 'started_at' | 'ended_at' | 'attempt' | 'past'>;

/**
 * When a job started, and how long it took or runs: until its last rank ended, also while the cause of that is
 * looked for. One that waits again does not run.
 */
export function Times({ job: j }: { job: Timed }) {
  if (!j.started_at) return <FactRow word="started" text="not yet" />;
  const waits = j.state === 'queued';
  const now = waits ? null : j.attempt?.started_at;
  const freed = j.attempt?.freed_at;
  const end = freed ?? j.past.at(-1)?.ended_at ?? j.ended_at;
  const again = waits || (j.attempt && now !== j.started_at);
  return (
    <>
      <dt>{again ? 'first started' : 'started'}</dt>
      <dd>
        <Ago at={j.started_at} />
      </dd>
      {ended(j) && end && <FactRow word="took" text={span(Date.parse(end) - Date.parse(j.started_at))} />}
      {!ended(j) && now && freed && (
        <FactRow word="ran for" text={span(Date.parse(freed) - Date.parse(now))} />
      )}
      {!ended(j) && now && !freed && (
        <>
          <dt>runs for</dt>
          <dd>
            <Since at={now} />
          </dd>
        </>
      )}
    </>
  );
}

function Why({ id }: { id: string }) {
  const query = useQuery(explain(id));
  return (
    <Panel title="Why it waits">
      <Loaded query={query}>{(e) => <Explained of={e} />}</Loaded>
    </Panel>
  );
}

function Placement({ job: j }: { job: Job }) {
  const a = j.attempt;
  if (!a) return null;
  const preflight = a.preflight ? `; preflight: ${a.preflight.message}` : '';
  return (
    <Panel title={`Attempt ${a.no}`} note={`${a.domain}${fabricOf(a)}${preflight}`}>
      <Scroll label="Ranks and nodes" tall>
        <table>
          <thead>
            <tr>
              <th>Node</th>
              <th>Ranks</th>
              <th>GPUs</th>
              <th>State</th>
            </tr>
          </thead>
          <tbody>
            {a.slots.map((s) => (
              <tr key={`${s.node}${s.node_rank}`}>
                <td>
                  <Link to="/nodes/$name" params={{ name: s.node }}>
                    {s.node}
                  </Link>
                </td>
                <td className="mono">
                  {s.ranks > 1 ? `${s.first_rank}-${s.first_rank + s.ranks - 1}` : s.first_rank}
                </td>
                <td className="mono">{s.gpus.join(' ') || 'none'}</td>
                <td>
                  <State word={s.state} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </Scroll>
    </Panel>
  );
}

function Attempts({ job: j }: { job: Job }) {
  if (j.past.length === 0) return null;
  return (
    <Panel
      title="Earlier attempts"
      note="why each ended"
      actions={
        j.attempts > 1 && (
          <Link to="/jobs/compare" search={{ a: `${j.id}.${j.attempts - 1}`, b: `${j.id}.${j.attempts}` }}>
            Compare the last two
          </Link>
        )
      }
    >
      <Scroll label="Earlier attempts" tall>
        <table>
          <thead>
            <tr>
              <th className="num">No</th>
              <th>Placed</th>
              <th>Ended</th>
              <th>Attributed to</th>
              <th>Why</th>
              <th>Nodes</th>
            </tr>
          </thead>
          <tbody>
            {[...j.past].reverse().map((p) => (
              <tr key={p.no}>
                <td className="num">{p.no}</td>
                <td className="nowrap">
                  <Clock at={p.placed_at} />
                </td>
                <td className="nowrap">
                  <Clock at={p.ended_at} />
                </td>
                <td>{p.attributed_to}</td>
                <td>{p.reason}</td>
                <td className="dim">
                  {p.nodes.slice(0, 3).join(', ')}
                  {p.nodes.length > 3 && `, ${p.nodes.length - 3} more`}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </Scroll>
    </Panel>
  );
}

function Recovery({ r }: { r: Schemas['Recovery'] }) {
  const parts: [string, number | null | undefined][] = [
    ['detected', r.detect_ms],
    ['decided', r.decide_ms],
    ['work left', r.drain_ms],
    ['placed', r.place_ms],
    ['started', r.start_ms],
    ['worked again', r.load_ms],
  ];
  return (
    <Panel title="Last recovery" note={span(r.total_ms)}>
      <div className="body">
        <dl className="facts">
          {parts.map(([word, ms]) => (
            <FactRow key={word} word={word} text={ms === null || ms === undefined ? 'not yet' : span(ms)} />
          ))}
        </dl>
      </div>
    </Panel>
  );
}

function FactRow({ word, text }: { word: string; text: string }) {
  return (
    <>
      <dt>{word}</dt>
      <dd>{text}</dd>
    </>
  );
}
