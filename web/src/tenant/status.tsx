import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { useFleet } from '../live/context';
import { useStanding } from '../live/fleet';
import { Causes } from '../oncall/list';
import { StaleNote } from '../oncall/strip';
import { Burning } from '../pages/slo-parts';
import { causes, health, reservations } from '../queries';
import { Page } from '../ui/page';
import {
  Ago,
  Clock,
  count,
  DateAndTime,
  Empty,
  exact,
  Fact,
  Loaded,
  NotShown,
  Panel,
  Problem,
  State,
  Word,
} from '../ui/parts';
import { ForTenant } from './for-tenant';
import { EVERY } from './queries';
import { affectsWork, nodesWords, ownFirst, planned, serviceOf } from './words';

/**
 * How the site does, as far as this token is shown it; `stale`: why what is known may not hold any more. A page about
 * another project changes it too, and the stream does not say so to this token.
 */
function useService() {
  const query = useQuery({ ...health(), refetchInterval: EVERY });
  const open = useQuery({ ...causes(), refetchInterval: EVERY, refetchIntervalInBackground: false });
  const standing = useStanding(useFleet());
  const failed = query.isRefetchError ? query.error : open.isRefetchError ? open.error : null;
  const stale =
    standing === 'away'
      ? 'The server does not answer.'
      : failed
        ? `It cannot be read again: ${failed.message}.`
        : null;
  return { query, open, stale, away: standing === 'away' };
}

/** One true sentence about the site. What is not known is not called well. */
export function ServiceLine({ project }: { project: string }) {
  const { query, open, stale } = useService();
  if (!query.data)
    return query.isError ? <Problem error={query.error} again={() => void query.refetch()} /> : null;
  const { tone, word, text } = serviceOf(query.data, project, open.data?.count, affectsWork(open.data));
  return (
    <p className="service" role="status">
      <Word tone={stale ? 'plain' : tone}>{stale ? 'status not known' : word}</Word>:{' '}
      {stale && `${stale} As of ${exact(query.dataUpdatedAt)}: `}
      {text} <Link to="/status">Service status</Link>
    </p>
  );
}

/** Whether the site works for one project, what is open about its jobs, and what is planned. */
export function StatusPage() {
  return (
    <ForTenant
      title="Service status"
      instead={
        <>
          The status of the whole site is on <Link to="/oncall">On-call</Link>.
        </>
      }
    >
      {(project) => <Status project={project} />}
    </ForTenant>
  );
}

function Status({ project }: { project: string }) {
  const { query, open, stale, away } = useService();
  return (
    <Page
      className={stale ? 'oncall stale' : 'oncall'}
      title="Service status"
      about={<span className="dim">project {project}</span>}
    >
      {stale && !away && <StaleNote at={query.dataUpdatedAt} />}
      <div className="columns wide-left">
        <div>
          <Panel title="Now" weight="primary">
            <Loaded query={query}>
              {(h) => {
                const affected = affectsWork(open.data);
                const { tone, word, text } = serviceOf(h, project, open.data?.count, affected);
                return (
                  <div className="body">
                    <p>
                      <Word tone={stale ? 'plain' : tone}>{stale ? 'status not known' : word}</Word>
                    </p>
                    <p>{text}</p>
                    <dl className="facts">
                      <Fact word="nodes">{nodesWords(h.nodes)}</Fact>
                      <Fact word="as of">
                        <Clock at={new Date(query.dataUpdatedAt).toISOString()} />
                      </Fact>
                    </dl>
                  </div>
                );
              }}
            </Loaded>
          </Panel>
          <Loaded query={open}>
            {(list) => (
              <Causes causes={ownFirst(list.items)} total={list.count} order="what affects your jobs first" />
            )}
          </Loaded>
          <NotShown
            project={project}
            what="incidents, remediations and breakers of the site, and what concerns other projects"
          />
        </div>
        <div>
          <Burning />
          <PlannedWindows />
        </div>
      </div>
    </Page>
  );
}

/** Maintenance, and what is reserved for the project. */
function PlannedWindows() {
  // Maintenance is the site's: the stream does not send it to this token.
  const query = useQuery({ ...reservations(), refetchInterval: EVERY });
  return (
    <Panel
      title="Planned"
      note={
        query.isRefetchError
          ? `cannot be read again; as of ${exact(query.dataUpdatedAt)}`
          : 'maintenance and own reservations'
      }
    >
      <Loaded query={query}>
        {(page) => {
          const items = planned(page.items);
          if (items.length === 0)
            return (
              <Empty title="Nothing is planned">
                <p>Maintenance windows and reservations of this project appear here before they begin.</p>
              </Empty>
            );
          return items.map((r) => (
            <div className="item" key={r.name}>
              <h3>
                <State word={r.state} />
                <span>{r.name}</span>
                <span className="dim">
                  {r.maintenance ? 'maintenance' : 'reservation'}, {count(r.nodes.length, 'node')}, from{' '}
                  <DateAndTime at={r.window?.start ?? r.start} />
                  {r.window && (
                    <>
                      {' '}
                      to <DateAndTime at={r.window.end} />
                    </>
                  )}{' '}
                  (<Ago at={r.window?.start ?? r.start} />)
                </span>
              </h3>
              {r.reason && <p className="dim">{r.reason}</p>}
              {r.stops && r.stops.length > 0 && (
                <p>It stops {count(r.stops.length, 'running job')} of yours when it begins.</p>
              )}
            </div>
          ));
        }}
      </Loaded>
    </Panel>
  );
}
