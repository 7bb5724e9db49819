import { type UseQueryResult, useQuery } from '@tanstack/react-query';
import { Link, useNavigate, useSearch } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import type { Schemas } from '../api/client';
import { quotas, whoami } from '../queries';
import { useRights } from '../rights';
import { Choice } from '../ui/choice';
import { Page } from '../ui/page';
import { count, Empty, Loaded, Panel, type Weight } from '../ui/parts';
import { ForTenant } from './for-tenant';
import { EndedJob, RunningJob, WaitingJob } from './jobs';
import { LISTED, workJobs } from './queries';
import { QuotaPanel } from './quota';
import { ServiceLine } from './status';
import { UsagePanel } from './usage';
import { firstCommands, lastEnded } from './words';

type Job = Schemas['Job'];

/** Jobs of each kind that are listed here. */
const SHOWN = 6;
const WHOSE = [
  ['mine', 'Mine'],
  ['project', 'Whole project'],
] as const;
const ON_NODES = 'starting,running,stopping';

/** Where a tenant begins: what runs, why the rest waits, how it ended, and what there is left to use. */
export function WorkPage() {
  return (
    <ForTenant
      title="My work"
      instead={
        <>
          Jobs of all projects are on <Link to="/jobs">Jobs</Link>.
        </>
      }
    >
      {(project) => <Work project={project} />}
    </ForTenant>
  );
}

function Work({ project }: { project: string }) {
  const { of } = useSearch({ from: '/work' });
  const navigate = useNavigate({ from: '/work' });
  const { submits } = useRights();
  // Jobs have the name of their user, without the word before it that actors have.
  const me = useQuery(whoami()).data?.name.replace(/^user:/, '');
  // Who may not submit has no jobs of their own.
  const all = of === 'project' || !submits;
  const user = all ? undefined : me;
  const running = useQuery(workJobs(ON_NODES, user));
  const waiting = useQuery(workJobs('queued', user));
  const held = useQuery(workJobs('held', user));
  const over = useQuery(workJobs('ended', user));
  const none = [running, waiting, held, over].every((q) => q.data?.items.length === 0);
  const whose = all ? project : 'yours';
  return (
    <Page
      title="My work"
      about={<span className="dim">project {project}</span>}
      actions={
        submits && (
          <>
            <Choice
              label="Whose jobs"
              of={WHOSE}
              chosen={of ?? 'mine'}
              choose={(o) => void navigate({ search: o === 'mine' ? {} : { of: o }, replace: true })}
            />
            <Link to="/jobs/new" className="button">
              Submit a job
            </Link>
          </>
        )
      }
    >
      <ServiceLine project={project} />
      <div className="columns wide-left">
        <div>
          {none ? (
            <FirstJob project={project} all={all} />
          ) : (
            <>
              <List
                title="Running"
                weight="primary"
                query={running}
                search={{ state: ON_NODES, user }}
                empty={
                  <Empty title={`No job of ${whose} runs`}>
                    <p>A job runs here from the moment that its nodes are allocated.</p>
                  </Empty>
                }
                row={(j) => <RunningJob key={j.id} job={j} />}
              />
              <List
                title="Waiting"
                query={waiting}
                search={{ state: 'queued', user }}
                empty={<Empty title={`No job of ${whose} waits`} />}
                row={(j) => <WaitingJob key={j.id} job={j} submits={submits} />}
              />
              {held.data?.items.length !== 0 && (
                <List
                  title="Held"
                  query={held}
                  search={{ state: 'held', user }}
                  empty={null}
                  row={(j) => <WaitingJob key={j.id} job={j} submits={submits} />}
                />
              )}
              <List
                title="Ended lately"
                query={over}
                order={lastEnded}
                // Jobs come by when they were submitted: one that ran long may have ended last and not be among these.
                cut={`of the ${LISTED} submitted last`}
                search={{ state: 'ended', user }}
                empty={
                  <Empty title={`No job of ${whose} has ended yet`}>
                    <p>Why each one ended, and what to do next, is shown here.</p>
                  </Empty>
                }
                row={(j) => <EndedJob key={j.id} job={j} submits={submits} />}
              />
            </>
          )}
        </div>
        <div>
          <QuotaPanel project={project} />
          <UsagePanel project={project} />
        </div>
      </div>
    </Page>
  );
}

const first = (jobs: readonly Job[], most: number): Job[] => jobs.slice(0, most);

/** Some of the jobs of one kind, and where the others are. */
function List({
  title,
  weight,
  query,
  order = first,
  cut,
  search,
  empty,
  row,
}: {
  title: string;
  weight?: Weight;
  query: UseQueryResult<Schemas['JobList']>;
  order?: (jobs: readonly Job[], most: number) => Job[];
  /** What is said when there are more than were read. */
  cut?: string;
  search: { state: string; user: string | undefined };
  empty: ReactNode;
  row: (job: Job) => ReactNode;
}) {
  const found = query.data;
  const number = found?.items.length ?? 0;
  const open = !!found?.cursor;
  return (
    <Panel
      title={title}
      weight={weight}
      note={number > 0 && (open ? (cut ?? `${number} or more`) : `${number}`)}
      actions={
        (open || number > SHOWN) && (
          <Link to="/jobs" search={search}>
            All
          </Link>
        )
      }
    >
      <Loaded query={query}>
        {({ items }) => (items.length === 0 ? empty : order(items, SHOWN).map(row))}
      </Loaded>
    </Panel>
  );
}

/** Nothing was ever submitted: what to type. */
function FirstJob({ project, all }: { project: string; all: boolean }) {
  const { submits } = useRights();
  const account = useQuery(quotas()).data?.report.accounts.find((a) => a.project === project && !a.user);
  const others = all || !account ? 0 : account.running + account.waiting;
  return (
    <Panel title={all ? `No job of ${project} yet` : 'Your first job'} weight="primary">
      <div className="body">
        {submits ? (
          <>
            <p>Where the command line is installed, with the token that you logged in with:</p>
            <pre className="log">{firstCommands(project, globalThis.location?.origin ?? '').join('\n')}</pre>
            <p>
              Or without it: <Link to="/jobs/new">fill in the form</Link>, which says what would happen before
              anything does. Files work too: <code>muster submit job.yaml</code>.
            </p>
            <p className="dim">
              A job appears here as soon as it is submitted: why it waits, where it runs, why it ended.
            </p>
          </>
        ) : (
          <p>This token may not submit jobs. Those of {project} appear here once somebody submits them.</p>
        )}
        {others > 0 && (
          <p>
            Other users of {project} have {count(others, 'active job')}:{' '}
            <Link to="/work" search={{ of: 'project' }}>
              show the whole project
            </Link>
            .
          </p>
        )}
      </div>
    </Panel>
  );
}
