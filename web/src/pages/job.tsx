import { useQuery } from '@tanstack/react-query';
import { Link, useParams } from '@tanstack/react-router';
import { useEffect, useRef, useState } from 'react';
import { api, once, type Schemas, stream } from '../api/client';
import { keepReading, Output } from '../live/output';
import { explain, job as jobQuery } from '../queries';
import { useRights } from '../rights';
import { useAct } from '../ui/act';
import { useAsk } from '../ui/ask';
import { Ago, Clock, Empty, Loaded, Panel, Scroll, Since, State, span } from '../ui/parts';
import { PROMISE_WORDS } from '../words';
import { JobRanks } from './debug';
import { Explained } from './explanation';
import { fabricOf, gang, whereOrWhy } from './jobs';
import { Report } from './report';

type Job = Schemas['Job'];

export function JobPage() {
  const { id } = useParams({ from: '/jobs/$id' });
  const query = useQuery(jobQuery(id));
  return (
    <main className="page" id="page">
      <Loaded query={query}>{(j) => <Shown job={j} />}</Loaded>
    </main>
  );
}

function Shown({ job: j }: { job: Job }) {
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
        <Buttons job={j} />
      </div>
      <div className="columns wide-left">
        <div>
          {j.state === 'queued' && <Why id={j.id} />}
          <Placement job={j} />
          {j.attempt && <JobRanks id={j.id} />}
          <Attempts job={j} />
          <Logs id={j.id} over={ended(j)} attempts={j.attempts} />
        </div>
        <div>
          <Panel title="Job">
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
                {j.promise && j.state === 'queued' && (
                  <>
                    <dt>promised</dt>
                    <dd>
                      <Ago at={j.promise.at} />, {PROMISE_WORDS[j.promise.basis]}
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
          {j.state !== 'queued' || j.past.length > 0 ? <Report id={j.id} /> : null}
          {j.recovery && <Recovery r={j.recovery} />}
        </div>
      </div>
    </>
  );
}

const ended = (j: Pick<Job, 'state'>) => ['succeeded', 'failed', 'cancelled'].includes(j.state);

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

function Buttons({ job: j }: { job: Job }) {
  const ask = useAsk();
  const { act, busy } = useAct();
  const params = () => ({ path: { id: j.id }, header: once() });
  const { submits } = useRights();
  if (!submits) return null;
  if (ended(j))
    return (
      <div className="actions">
        <button
          type="button"
          disabled={busy}
          onClick={async () => {
            const yes = await ask({
              title: `Requeue job ${j.id} ${j.name}`,
              text: `It has ${j.state === 'cancelled' ? 'been cancelled' : j.state} and runs again: it goes back into the queue, and a new attempt starts when it fits.`,
              act: 'Requeue',
            });
            if (yes !== null)
              void act(
                () => api.POST('/v1/jobs/{id}/requeue', { params: params() }),
                `Job ${j.id} waits to run again`,
              );
          }}
        >
          Requeue
        </button>
      </div>
    );
  return (
    <div className="actions">
      {j.state === 'queued' && !j.held && (
        <button
          type="button"
          disabled={busy}
          onClick={() =>
            void act(() => api.POST('/v1/jobs/{id}/hold', { params: params() }), `Job ${j.id} is held`)
          }
        >
          Hold
        </button>
      )}
      {j.held && (
        <button
          type="button"
          disabled={busy}
          onClick={() =>
            void act(
              () => api.POST('/v1/jobs/{id}/release', { params: params() }),
              `Job ${j.id} waits for its turn`,
            )
          }
        >
          Release
        </button>
      )}
      <button
        type="button"
        className="risky"
        disabled={busy}
        onClick={async () => {
          const yes = await ask({
            title: `Cancel job ${j.id} ${j.name}`,
            text: 'Its ranks are stopped. This cannot be undone.',
            act: 'Cancel the job',
            risky: true,
          });
          if (yes !== null)
            void act(
              () => api.POST('/v1/jobs/{id}/cancel', { params: params() }),
              `Job ${j.id} is being cancelled`,
            );
        }}
      >
        Cancel
      </button>
    </div>
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
    <Panel title="Earlier attempts" note="why each ended">
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

const KEPT = 2000;

/** The newest output, and what follows while the job goes on. What is shown stays when the connection is lost. */
function Logs({ id, over, attempts }: { id: string; over: boolean; attempts: number }) {
  const [lines, setLines] = useState<string[]>([]);
  const [error, setError] = useState('');
  const [lost, setLost] = useState(false);
  const [rank, setRank] = useState(0);
  const box = useRef<HTMLPreElement>(null);
  // biome-ignore lint/correctness/useExhaustiveDependencies: a new attempt has other output
  useEffect(() => {
    const stop = new AbortController();
    const output = new Output();
    setLines([]);
    setError('');
    setLost(false);
    const read = async (tail: number) => {
      const query = new URLSearchParams({ rank: String(rank), tail: String(tail), follow: String(!over) });
      const response = await stream(`/v1/jobs/${encodeURIComponent(id)}/logs?${query}`, {
        signal: stop.signal,
        headers: { Accept: 'application/x-ndjson' },
      });
      const reader = (response.body as ReadableStream<Uint8Array>)
        .pipeThrough(new TextDecoderStream() as unknown as TransformStream<Uint8Array, string>)
        .getReader();
      setLost(false);
      let rest = '';
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        const parts = (rest + value).split('\n');
        rest = parts.pop() ?? '';
        const fresh = parts
          .filter(Boolean)
          .map((p) => output.take(JSON.parse(p) as Schemas['LogLine']))
          .filter(Boolean);
        if (fresh.length) setLines((old) => [...old, ...fresh].slice(-KEPT));
      }
    };
    keepReading((again) => read(again ? KEPT : 300), {
      over,
      signal: stop.signal,
      lost: () => setLost(true),
      pause: () => new Promise((r) => setTimeout(r, 3000)),
    }).catch((e) => setError((e as Error).message));
    return () => stop.abort();
  }, [id, over, rank, attempts]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the end stays in sight when lines come
  useEffect(() => {
    const b = box.current;
    if (b) b.scrollTop = b.scrollHeight;
  }, [lines]);
  return (
    <Panel
      title="Output"
      note={lost ? 'the connection is lost, trying again' : over ? '' : 'as it comes'}
      actions={
        <label className="dim">
          rank{' '}
          <input
            type="number"
            min={0}
            value={rank}
            onChange={(e) => setRank(Math.max(0, Number(e.target.value) || 0))}
            className="short"
          />
        </label>
      }
    >
      {error && <p className="state">{error}</p>}
      {lines.length === 0 ? (
        !error && (
          <Empty title="No output of this rank yet">
            <p>
              Pretended work (<code>simulate</code>) prints nothing.
            </p>
          </Empty>
        )
      ) : (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls
        <pre className="log" ref={box} tabIndex={0} aria-label="Output">
          {lines.join('')}
        </pre>
      )}
    </Panel>
  );
}
