import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { api, must } from '../api/client';
import { useFleet } from '../live/context';
import { type Fleet, useRevision } from '../live/fleet';
import { NO_FIGURE } from '../live/frame';
import { useRights } from '../rights';
import { Ago, count, Empty, Loaded, Panel } from '../ui/parts';
import { gang, whereOrWhy } from './jobs';

const SHOWN = 8;
/** From here on a GPU is called hot: most slow down a few degrees later. */
const HOT = 80;

/** The newest jobs in a state. */
function useJobs(state: string) {
  return useQuery({
    queryKey: ['oncall', 'jobs', state],
    queryFn: async () => must(await api.GET('/v1/jobs', { params: { query: { state, limit: 50 } } })),
  });
}

/** Gangs that are queued: largest first, with the reason. */
export function Pending() {
  const query = useJobs('queued');
  const { project } = useRights();
  return (
    <Loaded query={query}>
      {(page) => {
        const size = (j: (typeof page.items)[number]) => j.groups.reduce((n, g) => n + g.nodes * g.gpus, 0);
        const all = [...page.items].sort((a, b) => size(b) - size(a));
        return (
          <Panel title="Queued jobs" note={all.length ? `${all.length}${page.cursor ? ' or more' : ''}` : ''}>
            {all.length === 0 ? (
              <Empty title={project ? `No job of ${project} is queued` : 'No job is queued'} />
            ) : (
              all.slice(0, SHOWN).map((j) => (
                <div className="item" key={j.id}>
                  <h3>
                    <Link to="/jobs/$id" params={{ id: j.id }}>
                      {j.id} {j.name}
                    </Link>
                    <span className="dim">
                      {gang(j)}, submitted <Ago at={j.submitted_at} />
                    </span>
                  </h3>
                  <p className="dim">{whereOrWhy(j)}</p>
                </div>
              ))
            )}
            <More state="queued" left={all.length - SHOWN} open={!!page.cursor} />
          </Panel>
        );
      }}
    </Loaded>
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
  const query = useJobs('failed');
  const { project } = useRights();
  return (
    <Loaded query={query}>
      {(page) => {
        const all = [...page.items].sort((a, b) => (b.ended_at ?? '').localeCompare(a.ended_at ?? ''));
        return (
          <Panel title="Failed jobs" note={all.length ? 'newest first' : ''}>
            {all.length === 0 ? (
              <Empty title={project ? `None of ${project} lately` : 'None lately'} />
            ) : (
              all.slice(0, SHOWN).map((j) => (
                <div className="item" key={j.id}>
                  <h3>
                    <Link to="/jobs/$id" params={{ id: j.id }}>
                      {j.id} {j.name}
                    </Link>
                    <span className="dim">
                      {j.project}, ended <Ago at={j.ended_at} />
                    </span>
                  </h3>
                  <p className="dim">{whereOrWhy(j)}</p>
                </div>
              ))
            )}
            <More state="failed" left={all.length - SHOWN} open={!!page.cursor} />
          </Panel>
        );
      }}
    </Loaded>
  );
}

/** The hottest GPU of each node that has one past the limit. */
export function hottest(
  fleet: Pick<Fleet, 'columns' | 'nodeOf'>,
): { node: number; gpu: number; temp: number }[] {
  const best = new Map<number, { node: number; gpu: number; temp: number }>();
  const temps = fleet.columns?.temp ?? new Uint8Array(0);
  for (let i = 0; i < temps.length; i++) {
    if (temps[i] < HOT || temps[i] === NO_FIGURE) continue;
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
