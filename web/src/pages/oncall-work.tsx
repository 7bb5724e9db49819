import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { api, must, type Schemas } from '../api/client';
import { useFleet } from '../live/context';
import { type Fleet, useRevision } from '../live/fleet';
import { NO_VALUE } from '../live/frame';
import { HOT } from '../map/colors';
import { useRights } from '../rights';
import { JobLink } from '../ui/links';
import { Ago, count, Empty, Loaded, Panel } from '../ui/parts';
import { gang, whereOrWhy } from './jobs';

type Job = Schemas['Job'];

const SHOWN = 8;

/** The newest jobs in a state: the first of them in an order, with a few words about each. */
function Jobs({
  state,
  title,
  note,
  none,
  order,
  about,
}: {
  state: string;
  title: string;
  /** `open`: there are more than were read. */
  note: (number: number, open: boolean) => string;
  none: string;
  order: (a: Job, b: Job) => number;
  about: (job: Job) => ReactNode;
}) {
  const query = useQuery({
    queryKey: ['oncall', 'jobs', state],
    queryFn: async () => must(await api.GET('/v1/jobs', { params: { query: { state, limit: 50 } } })),
  });
  return (
    <Loaded query={query}>
      {(page) => {
        const all = [...page.items].sort(order);
        return (
          <Panel title={title} note={all.length ? note(all.length, !!page.cursor) : ''}>
            {all.length === 0 && <Empty title={none} />}
            {all.slice(0, SHOWN).map((j) => (
              <div className="item" key={j.id}>
                <h3>
                  <JobLink id={j.id} name={j.name} />
                  <span className="dim">{about(j)}</span>
                </h3>
                <p className="dim">{whereOrWhy(j)}</p>
              </div>
            ))}
            <More state={state} left={all.length - SHOWN} open={!!page.cursor} />
          </Panel>
        );
      }}
    </Loaded>
  );
}

const size = (j: Job) => j.groups.reduce((n, g) => n + g.nodes * g.gpus, 0);

/** Gangs that are queued: largest first, with the reason. */
export function Pending() {
  const { project } = useRights();
  return (
    <Jobs
      state="queued"
      title="Queued jobs"
      note={(number, open) => `${number}${open ? ' or more' : ''}`}
      none={project ? `No job of ${project} is queued` : 'No job is queued'}
      order={(a, b) => size(b) - size(a)}
      about={(j) => (
        <>
          {gang(j)}, submitted <Ago at={j.submitted_at} />
        </>
      )}
    />
  );
}

/** `7 more jobs`; `at least 7 more jobs` where not all of them were read. */
export function more(left: number, open: boolean, what: string): string {
  return `${open ? 'at least ' : ''}${count(left, `more ${what}`)}`;
}

/** How many jobs are not listed here, and where they are. */
function More({ state, left, open }: { state: string; left: number; open: boolean }) {
  if (left <= 0) return null;
  return (
    <p className="item">
      <Link to="/jobs" search={{ state }}>
        {more(left, open, 'job')}
      </Link>
    </p>
  );
}

/** Jobs that failed, newest first, with what the failure is attributed to. */
export function Failing() {
  const { project } = useRights();
  return (
    <Jobs
      state="failed"
      title="Failed jobs"
      note={() => 'newest first'}
      none={project ? `None of ${project} lately` : 'None lately'}
      order={(a, b) => (b.ended_at ?? '').localeCompare(a.ended_at ?? '')}
      about={(j) => (
        <>
          {j.project}, ended <Ago at={j.ended_at} />
        </>
      )}
    />
  );
}

/** The hottest GPU of each node that has one past the limit. */
export function hottest(
  fleet: Pick<Fleet, 'columns' | 'nodeOf'>,
): { node: number; gpu: number; temp: number }[] {
  const best = new Map<number, { node: number; gpu: number; temp: number }>();
  const temps = fleet.columns?.temp ?? new Uint8Array(0);
  for (let i = 0; i < temps.length; i++) {
    if (temps[i] < HOT || temps[i] === NO_VALUE) continue;
    const node = fleet.nodeOf[i];
    if (temps[i] > (best.get(node)?.temp ?? 0)) best.set(node, { node, gpu: i, temp: temps[i] });
  }
  return [...best.values()].sort((a, b) => b.temp - a.temp);
}

export function Hot() {
  const fleet = useFleet();
  useRevision(fleet);
  const all = hottest(fleet);
  const { project } = useRights();
  return (
    <Panel title="Hot nodes" note={all.length ? `${all.length} at ${HOT} °C or more` : ''}>
      {all.length === 0 ? (
        <Empty
          title={project ? `No GPU allocated to ${project} is at ${HOT} °C` : `No GPU is at ${HOT} °C`}
        />
      ) : (
        all.slice(0, SHOWN).map((h) => {
          const name = fleet.layout?.nodes[h.node].name ?? '';
          const gpu = h.gpu - fleet.first[h.node];
          return (
            <div className="item" key={h.node}>
              <Link to="/nodes/$name/gpus/$gpu" params={{ name, gpu: String(gpu) }}>
                {name} GPU {gpu}
              </Link>{' '}
              {h.temp} °C
            </div>
          );
        })
      )}
      {all.length > SHOWN && (
        <p className="item">
          <Link to="/" search={{ by: 'temp' }}>
            {all.length - SHOWN} more hot nodes
          </Link>
        </p>
      )}
    </Panel>
  );
}
