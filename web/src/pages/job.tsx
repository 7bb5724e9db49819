import { useQuery } from '@tanstack/react-query';
import { Link, useNavigate, useParams, useSearch } from '@tanstack/react-router';
import { Fragment } from 'react';
import type { Schemas } from '../api/client';
import { History } from '../history/section';
import { Actions } from '../jobs/actions';
import { JobLog } from '../jobs/log';
import { ended, stateWord } from '../jobs/offers';
import { JobSpecPanel } from '../jobs/spec';
import { explain, job as jobQuery } from '../queries';
import { useRights } from '../rights';
import { LeftPast } from '../time/left-past';
import { NodeLink } from '../ui/links';
import { Ago, Clock, count, Fact, Loaded, Panel, Since, State, span } from '../ui/parts';
import { num, Table } from '../ui/table';
import { BASIS_TEXT, domainWords } from '../words';
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
        <State word={stateWord(j)} />
        {/* Why it waits has a panel of its own below. */}
        {(j.state !== 'queued' || j.held) && <span className="dim">{whereOrWhy(j)}</span>}
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
          <JobLog
            key={j.id}
            id={j.id}
            over={ended(j)}
            attempts={j.attempts}
            ranks={ranksOf(j)}
            simulated={!!j.spec.simulate}
          />
        </div>
        <div>
          <Panel title="Job" weight="quiet">
            <div className="body">
              <dl className="facts">
                <Fact word="project">{j.project}</Fact>
                <Fact word="user">{j.user}</Fact>
                <Fact word="gang">{gang(j)}</Fact>
                <Fact word="priority">{String(j.spec.priority ?? 'normal')}</Fact>
                <Fact word="time limit">
                  {j.spec.time_limit ?? 'none'}
                  {!ended(j) && j.attempt?.deadline && (
                    <>
                      , reached <Ago at={j.attempt.deadline} />
                    </>
                  )}
                </Fact>
                <Fact word="submitted">
                  <Ago at={j.submitted_at} />
                </Fact>
                <Times job={j} />
                {ended(j) && j.ended_at && (
                  <Fact word="ended">
                    <Ago at={j.ended_at} />
                    {j.exit_code !== null && j.exit_code !== undefined && `, exit code ${j.exit_code}`}
                  </Fact>
                )}
                {j.reserved_start && j.state === 'queued' && (
                  <Fact word="reserved start">
                    <Ago at={j.reserved_start.at} />, {BASIS_TEXT[j.reserved_start.basis]}
                  </Fact>
                )}
                {j.progress && (
                  <Fact word="progress">
                    step {j.progress.step}, <Ago at={j.progress.at} />
                  </Fact>
                )}
                {j.checkpoint && (
                  <Fact word="checkpoint">
                    <Ago at={j.checkpoint.at} />
                    {j.checkpoint.step !== null &&
                      j.checkpoint.step !== undefined &&
                      `, step ${j.checkpoint.step}`}
                  </Fact>
                )}
                <Fact word="failures">
                  {j.infrastructure_failures} of the infrastructure, {j.application_failures} of its own,{' '}
                  {count(j.preemptions, 'preemption')}
                </Fact>
              </dl>
            </div>
          </Panel>
          {submits && <JobSpecPanel job={j} />}
          {j.state !== 'queued' || j.past.length > 0 ? <Report id={j.id} over={ended(j)} /> : null}
          {j.recovery && <Recovery r={j.recovery} over={ended(j)} />}
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
  if (!j.started_at) return <Fact word="started">not yet</Fact>;
  const waits = j.state === 'queued';
  const now = waits ? null : j.attempt?.started_at;
  const freed = j.attempt?.freed_at;
  const end = freed ?? j.past.at(-1)?.ended_at ?? j.ended_at;
  const again = waits || (j.attempt && now !== j.started_at);
  return (
    <>
      <Fact word={again ? 'first started' : 'started'}>
        <Ago at={j.started_at} />
      </Fact>
      {ended(j) && end && <Fact word="took">{span(Date.parse(end) - Date.parse(j.started_at))}</Fact>}
      {!ended(j) && now && freed && <Fact word="ran for">{span(Date.parse(freed) - Date.parse(now))}</Fact>}
      {!ended(j) && now && !freed && (
        <Fact word="runs for">
          <Since at={now} />
        </Fact>
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
    <Panel title={`Attempt ${a.no}`} note={`${domainWords(a.domain)}${fabricOf(a)}${preflight}`}>
      <Table label="Ranks and nodes" tall cards heads={['Node', 'Ranks', 'GPUs', 'State']}>
        {a.slots.map((s) => (
          <tr key={`${s.node}${s.node_rank}`}>
            <td>
              <NodeLink name={s.node} />
            </td>
            <td className="mono" data-l={s.ranks > 1 ? 'ranks' : 'rank'}>
              {s.ranks > 1 ? `${s.first_rank}-${s.first_rank + s.ranks - 1}` : s.first_rank}
            </td>
            <td className="mono" data-l="GPUs">
              {s.gpus.join(' ') || 'none'}
            </td>
            <td>
              <State word={s.state} />
            </td>
          </tr>
        ))}
      </Table>
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
      <Table
        label="Earlier attempts"
        tall
        cards
        heads={[num('No'), 'Placed', 'Ended', 'Exit cause', 'Why', 'Nodes']}
      >
        {[...j.past].reverse().map((p) => (
          <tr key={p.no}>
            <td className="num" data-l="attempt">
              {p.no}
            </td>
            <td className="nowrap" data-l="placed">
              <Clock at={p.placed_at} />
            </td>
            <td className="nowrap" data-l="ended">
              <Clock at={p.ended_at} />
            </td>
            <td data-l="exit cause">{p.attributed_to}</td>
            <td className="whole">{p.reason}</td>
            <td className="whole dim" data-l="nodes">
              {p.nodes.slice(0, 3).map((name, i) => (
                <Fragment key={name}>
                  {i > 0 && ', '}
                  <span className="nowrap">{name}</span>
                </Fragment>
              ))}
              {p.nodes.length > 3 && `, ${p.nodes.length - 3} more`}
            </td>
          </tr>
        ))}
      </Table>
    </Panel>
  );
}

/** How long a recovery took: known when the job works again, as its first step says. */
export function recoveryWords(
  r: Pick<Schemas['Recovery'], 'working_at' | 'total_ms'>,
  over: boolean,
): string {
  if (r.working_at) return span(r.total_ms);
  return over ? 'not completed' : 'not yet';
}

function Recovery({ r, over }: { r: Schemas['Recovery']; over: boolean }) {
  const parts: [string, number | null | undefined][] = [
    ['detected', r.detect_ms],
    ['decided', r.decide_ms],
    ['work left', r.drain_ms],
    ['placed', r.place_ms],
    ['started', r.start_ms],
    ['worked again', r.load_ms],
  ];
  return (
    <Panel title="Last recovery" note={recoveryWords(r, over)}>
      <div className="body">
        <dl className="facts">
          {parts.map(([word, ms]) => (
            <Fact key={word} word={word}>
              {ms !== null && ms !== undefined ? span(ms) : over ? 'not known' : 'not yet'}
            </Fact>
          ))}
          {r.held_ms !== null && r.held_ms !== undefined && (
            <Fact word="held, not in the whole">{span(r.held_ms)}</Fact>
          )}
        </dl>
      </div>
    </Panel>
  );
}
