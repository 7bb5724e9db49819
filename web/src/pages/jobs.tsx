import { useInfiniteQuery } from '@tanstack/react-query';
import { Link, useNavigate, useSearch } from '@tanstack/react-router';
import { useCallback } from 'react';
import type { Schemas } from '../api/client';
import { jobs } from '../queries';
import { useRights } from '../rights';
import { Ago, Empty, Loaded, State, tidy } from '../ui/parts';
import { Rows } from '../ui/virtual';

const STATES: [string, string][] = [
  ['active', 'not ended'],
  ['', 'all'],
  ['queued', 'queued'],
  ['running', 'running'],
  ['failed', 'failed'],
  ['succeeded', 'succeeded'],
  ['cancelled', 'cancelled'],
];
const COLUMNS =
  '90px minmax(120px, 1fr) 110px minmax(90px, 0.6fr) minmax(110px, 0.7fr) 90px minmax(220px, 2.4fr)';

/** `2 x 8 GPUs`. */
export function gang(job: Schemas['Job']): string {
  return job.groups
    .map((g) => {
      const what = g.gpus > 0 ? `${g.gpus} GPU${g.gpus === 1 ? '' : 's'}` : `${g.cpus} CPUs`;
      return g.nodes > 1 ? `${g.nodes} x ${what}` : what;
    })
    .join(' + ');
}

/** What joins its GPUs; nothing for an attempt that holds none. */
export function fabricOf(a: Schemas['Attempt']): string {
  return a.slots.some((s) => s.gpus.length > 0) ? `; ${a.fabric_words}` : '';
}

/** Where it is, or why it is not. */
export function whereOrWhy(job: Schemas['Job']): string {
  if (job.held && job.state === 'queued') return job.held;
  if (job.attempt && job.state !== 'queued') {
    const nodes = new Set(job.attempt.slots.map((s) => s.node));
    const where = nodes.size <= 3 ? [...nodes].join(', ') : `${nodes.size} nodes`;
    if (job.attempt.stop) return job.attempt.stop.message;
    const preflight = job.attempt.preflight;
    if (preflight && !preflight.outcome) return `preflight: ${preflight.message}`;
    return `${where}${fabricOf(job.attempt)}`;
  }
  return tidy((job.state === 'queued' ? job.waiting : null) ?? job.reason ?? '');
}

export function JobsPage() {
  const search = useSearch({ from: '/jobs' });
  const navigate = useNavigate({ from: '/jobs' });
  const { submits } = useRights();
  const state = search.state ?? 'active';
  const asked = state === 'all' ? '' : state;
  const query = useInfiniteQuery(jobs(asked, search.name ?? ''));
  const { fetchNextPage, hasNextPage, isFetchingNextPage } = query;
  const more = useCallback(() => {
    if (hasNextPage && !isFetchingNextPage) void fetchNextPage();
  }, [fetchNextPage, hasNextPage, isFetchingNextPage]);
  return (
    <main className="page full list" id="page">
      <div className="map-bar">
        <h1>Jobs</h1>
        <div className="modes" role="group" aria-label="Which jobs">
          {STATES.map(([value, label]) => (
            <button
              key={label}
              type="button"
              aria-pressed={asked === value}
              onClick={() =>
                void navigate({
                  search: { ...search, state: value === 'active' ? undefined : value || 'all' },
                  replace: true,
                })
              }
            >
              {label}
            </button>
          ))}
        </div>
        <input
          type="search"
          className="search"
          aria-label="Name of a job"
          placeholder="Exact name"
          defaultValue={search.name ?? ''}
          onChange={(e) =>
            void navigate({ search: { ...search, name: e.target.value || undefined }, replace: true })
          }
        />
        <span className="grow" />
        {submits && (
          <Link to="/jobs/new" className="button">
            Submit a job
          </Link>
        )}
      </div>
      <Loaded query={query}>
        {(data) => {
          const items = data.pages.flatMap((p) => p.items);
          if (items.length === 0)
            return (
              <Empty title={asked ? 'No such jobs' : 'No jobs yet'}>
                <p>
                  Try one: <code>muster run --gpus 8 -- nvidia-smi</code>, or submit a file:{' '}
                  <code>muster submit job.yaml</code>. A Slurm script works as it is.
                </p>
              </Empty>
            );
          return (
            <Rows
              items={items}
              columns={COLUMNS}
              label="Jobs"
              more={more}
              header={
                <>
                  <span>Job</span>
                  <span>Name</span>
                  <span>State</span>
                  <span>Project</span>
                  <span>Gang</span>
                  <span>Submitted</span>
                  <span>Where, or why not</span>
                </>
              }
              row={(job) => (
                <Link to="/jobs/$id" params={{ id: job.id }} className="grid-row">
                  <span>{job.id}</span>
                  <span className="cut">{job.name}</span>
                  <State word={job.state} />
                  <span className="cut">{job.project}</span>
                  <span className="cut">{gang(job)}</span>
                  <span className="dim">
                    <Ago at={job.submitted_at} />
                  </span>
                  <span className="cut dim" title={whereOrWhy(job)}>
                    {whereOrWhy(job)}
                  </span>
                </Link>
              )}
            />
          );
        }}
      </Loaded>
    </main>
  );
}
