import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { type ReactNode, useEffect, useRef } from 'react';
import { ApiError } from '../api/client';
import type { Picture } from '../live/fleet';
import { job as jobQuery } from '../queries';
import { count, Empty, exact, Fact, State } from '../ui/parts';
import { Skeleton } from '../ui/skeleton';
import { num, Table } from '../ui/table';
import { Before } from './before';
import { type GpuThen, jobThen, jobWords, nodeThen, type Opened } from './then';

interface Props {
  /** The map of that moment; nothing while the log is read. */
  fleet: Picture | undefined;
  /** The moment, as the address has it. */
  at: string;
  opened: Opened;
  show: (next: Opened | null) => void;
}

const ASIDE = 30 * 60_000;

/** The history of half an hour before and after. */
function around(at: string): { from: string; to: string } {
  const ms = Date.parse(at);
  const iso = (v: number) => new Date(v).toISOString();
  return { from: iso(ms - ASIDE), to: iso(Math.min(ms + ASIDE, Date.now())) };
}

/** A node, a GPU or a job as it was: out of the map of then and the log before it, and nothing of now. */
export function PastPanel({ fleet, at, opened, show }: Props) {
  const head = useRef<HTMLHeadingElement>(null);
  const title =
    opened.kind === 'job'
      ? `Job ${opened.job}`
      : opened.kind === 'gpu'
        ? `${opened.node} GPU ${opened.gpu}`
        : opened.node;
  // Whoever opened it by keys reads on in it.
  // biome-ignore lint/correctness/useExhaustiveDependencies: another title is another thing that was opened
  useEffect(() => {
    head.current?.focus();
  }, [title]);
  const close = () => {
    show(null);
    document.querySelector<HTMLElement>('canvas.over')?.focus();
  };
  const object = opened.kind === 'job' ? `job:${opened.job}` : `node:${opened.node}`;
  return (
    <aside
      className="past-panel"
      aria-label={`${title} as it was`}
      onKeyDown={(e) => {
        if (e.key === 'Escape') close();
      }}
    >
      <header>
        <h2 ref={head} tabIndex={-1}>
          {title}
        </h2>
        <button type="button" className="quiet" aria-label="Close" onClick={close}>
          ×
        </button>
      </header>
      <p className="past-when">as it was at {exact(at)}</p>
      {!fleet ? (
        <Skeleton lines={6} say="Reading the log…" />
      ) : opened.kind === 'job' ? (
        <JobThen fleet={fleet} at={at} job={opened.job} show={show} />
      ) : (
        <NodeThen fleet={fleet} at={at} opened={opened} show={show} />
      )}
      <Before object={object} at={at} />
    </aside>
  );
}

const number = (v: number | null, unit: string) => (v === null ? '–' : `${v} ${unit}`);

function JobLink({ of, show }: { of: GpuThen; show: Props['show'] }) {
  const { job } = of;
  if (job === null) return <span className="dim">none</span>;
  if (job === 'other') return <>another project's</>;
  return (
    <button type="button" className="quiet flat link" onClick={() => show({ kind: 'job', job })}>
      job {job}
    </button>
  );
}

interface Then {
  fleet: Picture;
  at: string;
  show: Props['show'];
}

function NodeThen({ fleet, at, opened, show }: Then & { opened: Exclude<Opened, { kind: 'job' }> }) {
  const node = nodeThen(fleet, opened.node);
  if (!node)
    return (
      <Empty title="Not there at that moment">
        <p>The site had no node {opened.node} then. Step to a later event to see when it joined.</p>
      </Empty>
    );
  const name = opened.node;
  if (opened.kind === 'gpu') {
    const gpu = node.gpus[opened.gpu];
    if (!gpu) return <Empty title={`${name} had no GPU ${opened.gpu} then`} />;
    return (
      <>
        <dl className="facts">
          <Fact word="state">
            <State word={gpu.state} />
            {gpu.spare && ', spare'}
            {gpu.breaker && ', breaker open'}
          </Fact>
          <Fact word="worst finding">{gpu.worst ? <State word={gpu.worst} /> : 'none open'}</Fact>
          <Fact word="job">
            <JobLink of={gpu} show={show} /> {gpu.project && <span className="dim">{gpu.project}</span>}
          </Fact>
          <Fact word="utilisation">{number(gpu.util, '%')}</Fact>
          <Fact word="temperature">{number(gpu.temp, '°C')}</Fact>
          <Fact word="power">{number(gpu.power, 'W')}</Fact>
          <Fact word="node">
            <button
              type="button"
              className="quiet flat link"
              onClick={() => show({ kind: 'node', node: name })}
            >
              {name}
            </button>
          </Fact>
          <Fact word="place">{node.place}</Fact>
        </dl>
        <Kept>
          <Link
            to="/nodes/$name/gpus/$gpu"
            params={{ name, gpu: String(opened.gpu) }}
            search={{ past: at, ...around(at) }}
          >
            Its metrics half an hour before and after
          </Link>
        </Kept>
      </>
    );
  }
  return (
    <>
      <dl className="facts">
        <Fact word="GPUs">
          {node.sku ? `${node.gpus.length} ${node.sku}` : 'none'},{' '}
          {node.gpus.filter((g) => g.job !== null).length} allocated
        </Fact>
        <Fact word="place">{node.place}</Fact>
      </dl>
      <Table heads={['GPU', 'State', 'Job', num('Util'), num('Temp')]}>
        {node.gpus.map((g) => (
          <tr key={g.gpu}>
            <td>
              <button
                type="button"
                className="quiet flat link"
                aria-label={`GPU ${g.gpu}`}
                onClick={() => show({ kind: 'gpu', node: name, gpu: g.gpu })}
              >
                {g.gpu}
              </button>
            </td>
            <td>
              <State word={g.worst ?? g.state} />
            </td>
            <td>
              <JobLink of={g} show={show} />
            </td>
            <td className="num">{number(g.util, '%')}</td>
            <td className="num">{number(g.temp, '°C')}</td>
          </tr>
        ))}
      </Table>
      <Kept>
        <Link to="/nodes/$name" params={{ name }} search={{ past: at, ...around(at) }}>
          Its metrics half an hour before and after
        </Link>
      </Kept>
    </>
  );
}

function JobThen({ fleet, at, job: id, show }: Then & { job: string }) {
  const nodes = jobThen(fleet, id);
  const query = useQuery({ ...jobQuery(id), retry: false });
  const gpus = nodes.reduce((sum, n) => sum + n.gpus.length, 0);
  return (
    <>
      <dl className="facts">
        {query.data && (
          <>
            <Fact word="name">{query.data.name}</Fact>
            <Fact word="project">{query.data.project}</Fact>
            <Fact word="doing">{jobWords(query.data, Date.parse(at))}</Fact>
          </>
        )}
        <Fact word="GPUs">{gpus === 0 ? 'none then' : `${gpus} on ${count(nodes.length, 'node')}`}</Fact>
      </dl>
      {query.error && (
        <p className="dim">
          Its name and attempts:{' '}
          {query.error instanceof ApiError && query.error.status === 404
            ? 'no data, the server has no record of this job any more'
            : query.error.message}
        </p>
      )}
      {nodes.length > 0 && (
        <ul className="past-nodes">
          {nodes.map((n) => (
            <li key={n.node}>
              <button
                type="button"
                className="quiet flat link"
                onClick={() => show({ kind: 'node', node: n.node })}
              >
                {n.node}
              </button>{' '}
              <span className="dim">GPU {n.gpus.join(' ')}</span>
            </li>
          ))}
        </ul>
      )}
      <Kept>
        <Link to="/jobs/$id" params={{ id }} search={{ past: at, ...around(at) }}>
          Its metrics half an hour before and after
        </Link>
      </Kept>
    </>
  );
}

/** What is not answered for a moment that has passed is said, not filled in with what is now. */
function Kept({ children }: { children: ReactNode }) {
  return (
    <p className="past-kept">
      {children}. The rest (versions, remediations, output) is known as it is now only: that page says so.
    </p>
  );
}
