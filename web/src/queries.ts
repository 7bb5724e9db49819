// What pages read. The first word of a key is what `live/hints.ts` makes stale.

import { infiniteQueryOptions, keepPreviousData, queryOptions } from '@tanstack/react-query';
import { api, must, type Schemas, stream } from './api/client';
import { type EventSearch, eventQuery } from './find/events';
import { type OutputSearch, outputQuery } from './find/output';
import { type JobSearch, jobQuery, sameJobs } from './jobs/filters';

export const whoami = () =>
  queryOptions({
    queryKey: ['whoami'],
    queryFn: async () => must(await api.GET('/v1/whoami')),
    staleTime: 60_000,
  });

export const health = () =>
  queryOptions({ queryKey: ['health', 'summary'], queryFn: async () => must(await api.GET('/v1/health')) });

/** What is wrong, one entry for each cause. `hidden`: how often it is read while no stream reports changes. */
export const causes = (hidden: number | false = false) =>
  queryOptions({
    queryKey: ['causes'],
    queryFn: async () => must(await api.GET('/v1/causes')),
    refetchInterval: hidden,
    refetchIntervalInBackground: true,
  });

export const node = (name: string) =>
  queryOptions({
    queryKey: ['node', name],
    queryFn: async () =>
      must(await api.GET('/v1/nodes/{name}', { params: { path: { name } } })) as Schemas['Node'],
  });

export const timeline = (name: string) =>
  queryOptions({
    queryKey: ['node', name, 'timeline'],
    queryFn: async () =>
      must(await api.GET('/v1/nodes/{name}/timeline', { params: { path: { name }, query: { limit: 200 } } })),
  });

export const telemetry = (name: string) =>
  queryOptions({
    queryKey: ['telemetry', name],
    queryFn: async () => must(await api.GET('/v1/nodes/{name}/telemetry', { params: { path: { name } } })),
    // One node's rows come every ten seconds; nothing in the log shows them.
    refetchInterval: 10_000,
  });

/** Incidents, newest first. */
export const incidents = () =>
  queryOptions({
    queryKey: ['health', 'incidents'],
    queryFn: async () => must(await api.GET('/v1/incidents', { params: { query: { limit: 100 } } })),
  });

export const incidentRecord = (id: string) =>
  queryOptions({
    queryKey: ['health', 'incident', id],
    queryFn: async () => must(await api.GET('/v1/incidents/{id}/record', { params: { path: { id } } })),
  });

export const runbooks = () =>
  queryOptions({ queryKey: ['runbooks'], queryFn: async () => must(await api.GET('/v1/runbooks')) });

export const runbook = (name: string) =>
  queryOptions({
    queryKey: ['runbooks', name],
    queryFn: async () => must(await api.GET('/v1/runbooks/{name}', { params: { path: { name } } })),
  });

export const runbookRuns = () =>
  queryOptions({
    queryKey: ['runbook-runs'],
    queryFn: async () => must(await api.GET('/v1/runbook-runs', { params: { query: { limit: 100 } } })),
  });

export const runbookRun = (id: string) =>
  queryOptions({
    queryKey: ['runbook-runs', id],
    queryFn: async () => must(await api.GET('/v1/runbook-runs/{id}', { params: { path: { id } } })),
    // What a step sees changes without the run's doing.
    refetchInterval: (query) => (query.state.data?.ended_at ? false : 30_000),
  });

/** Remediations that ended, newest first. */
export const endedRemediations = () =>
  queryOptions({
    queryKey: ['oncall', 'remediations'],
    queryFn: async () =>
      must(await api.GET('/v1/remediations', { params: { query: { open: false, limit: 20 } } })),
  });

/** The newest test of the network that has ended, with its pairs, and how many go on. */
export const fabric = () =>
  queryOptions({
    queryKey: ['health', 'fabric'],
    queryFn: async () => {
      const { items } = must(await api.GET('/v1/fabric/tests'));
      const done = items.find((t) => t.state === 'done' || t.state === 'failed');
      const going = items.filter((t) => t.state === 'waiting' || t.state === 'running').length;
      const newest = done
        ? must(await api.GET('/v1/fabric/tests/{id}', { params: { path: { id: done.id } } }))
        : null;
      return { newest, going };
    },
    // A test is not in the log; while one goes on it is looked at.
    refetchInterval: (query) => (query.state.data?.going ? 3000 : false),
  });

export const finding = (id: string) =>
  queryOptions({
    queryKey: ['health', 'finding', id],
    queryFn: async () => must(await api.GET('/v1/findings/{id}', { params: { path: { id } } })),
  });

export const linkFindings = () =>
  queryOptions({
    queryKey: ['health', 'links'],
    queryFn: async () =>
      must(await api.GET('/v1/findings', { params: { query: { open: true, limit: 1000 } } })),
  });

export const jobs = (search: JobSearch) =>
  infiniteQueryOptions({
    queryKey: ['jobs', 'list', search],
    queryFn: async ({ pageParam }) =>
      must(
        await api.GET('/v1/jobs', {
          params: { query: { ...jobQuery(search), limit: 200, cursor: pageParam ?? undefined } },
        }),
      ),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.cursor,
    // In another order the same list stays until it is read: whoever chose the order keeps their place in the page.
    placeholderData: (before, query) =>
      query && sameJobs(query.queryKey[2] as JobSearch, search) ? before : undefined,
  });

export const job = (id: string) =>
  queryOptions({
    queryKey: ['jobs', 'one', id],
    queryFn: async () => must(await api.GET('/v1/jobs/{id}', { params: { path: { id } } })),
  });

/** What was submitted, with what it runs: for those who may submit it again. */
export const jobSpec = (id: string) =>
  queryOptions({
    // Of its own: what runs on the site does not change it.
    queryKey: ['job-spec', id],
    staleTime: 60_000,
    queryFn: async () => must(await api.GET('/v1/jobs/{id}/spec', { params: { path: { id } } })),
    retry: false,
  });

export const explain = (id: string) =>
  queryOptions({
    queryKey: ['jobs', 'explain', id],
    queryFn: async () => must(await api.GET('/v1/jobs/{id}/explain', { params: { path: { id } } })),
  });

export interface AskedRanks {
  order?: string;
  from: number;
  ranks: number;
  attempt?: number;
}

export const jobTelemetry = (id: string, asked: AskedRanks) =>
  queryOptions({
    queryKey: ['telemetry', 'job', id, asked],
    queryFn: async () =>
      must(
        await api.GET('/v1/jobs/{id}/telemetry', {
          params: { path: { id }, query: { ...asked, from: asked.from || undefined } },
        }),
      ),
    placeholderData: keepPreviousData,
    // Rows come every ten seconds; nothing in the log shows them.
    refetchInterval: 10_000,
  });

export const nodes = (state: string) =>
  infiniteQueryOptions({
    queryKey: ['nodes', 'list', state],
    queryFn: async ({ pageParam }) =>
      must(
        await api.GET('/v1/nodes', {
          params: { query: { limit: 200, state: state || undefined, cursor: pageParam ?? undefined } },
        }),
      ),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.cursor,
  });

export const reservations = () =>
  queryOptions({ queryKey: ['reservations'], queryFn: async () => must(await api.GET('/v1/reservations')) });

export const quotas = () =>
  queryOptions({ queryKey: ['quotas'], queryFn: async () => must(await api.GET('/v1/quotas')) });

/** How often what a job's time was is read again: what began just now doubles within seconds. */
export const reportEvery = (over: boolean, wallMs = 0): number | false =>
  over ? false : Math.min(60_000, Math.max(5_000, wallMs / 60));

export const report = (id: string, over: boolean) =>
  queryOptions({
    queryKey: ['jobs', 'report', id],
    queryFn: async () => must(await api.GET('/v1/jobs/{id}/report', { params: { path: { id } } })),
    refetchInterval: (query) => reportEvery(over, query.state.data?.wall_ms),
  });

/** The scenarios that the server can simulate; they come with it. */
export const scenarios = () =>
  queryOptions({ queryKey: ['scenarios'], queryFn: async () => must(await api.GET('/v1/scenarios')) });

/** What matches a text, among what this token may read. */
export const search = (q: string) =>
  queryOptions({
    queryKey: ['search', q],
    queryFn: async () => must(await api.GET('/v1/search', { params: { query: { q, limit: 20 } } })),
    // It is asked anew each time: what it finds changes with the site.
    staleTime: 5_000,
    gcTime: 30_000,
    retry: false,
  });

/** Pages of lines of job output that have some words, newest first. */
export const output = (search: OutputSearch) =>
  infiniteQueryOptions({
    queryKey: ['output', search],
    queryFn: async ({ pageParam }) =>
      must(
        await api.GET('/v1/search/output', {
          params: {
            query: { ...outputQuery(search, Date.now()), limit: 100, cursor: pageParam ?? undefined },
          },
        }),
      ),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.cursor,
    retry: false,
  });

export const projects = () =>
  queryOptions({ queryKey: ['projects'], queryFn: async () => must(await api.GET('/v1/projects')) });

/** Pages of the log, newest first. `end`: where the log ended when the page was made. */
export const events = (search: EventSearch) =>
  infiniteQueryOptions({
    queryKey: ['events', search],
    queryFn: async ({ pageParam }) => {
      const query = { ...eventQuery(search), order: 'newest' as const, limit: 200 };
      const { data, response } = await api.GET('/v1/events', {
        params: { query: { ...query, before: pageParam ?? undefined } },
      });
      const page = must({ data });
      if (typeof page === 'string') return { items: [], cursor: null, end: null };
      return { items: page.items, cursor: page.cursor ?? null, end: response.headers.get('Muster-Seq') };
    },
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.cursor,
  });

/** The oldest moment that the map can show: what has left the store is read from the archive. */
export const logBegins = () =>
  queryOptions({
    queryKey: ['begin'],
    queryFn: async ({ signal }) => {
      const response = await stream('/v1/console/past-begin', { signal });
      return ((await response.json()) as { at: string | null }).at;
    },
  });

/** What became of the fleet in the last days, by the hour where that is kept. */
export const fleetReport = (days: number) =>
  queryOptions({
    queryKey: ['report', days],
    queryFn: async () => {
      const from = new Date(Date.now() - days * 86_400_000).toISOString();
      const query = { from, step: days > 7 ? ('day' as const) : ('hour' as const) };
      return must(await api.GET('/v1/reports/fleet', { params: { query } }));
    },
    placeholderData: keepPreviousData,
    // An hour's row grows slowly; the log shows too much to follow it.
    refetchInterval: 300_000,
  });

export const slos = () =>
  queryOptions({
    queryKey: ['slo', 'list'],
    queryFn: async () => must(await api.GET('/v1/slos')),
    // Budgets move with the clock.
    refetchInterval: 60_000,
  });

export const slo = (name: string) =>
  queryOptions({
    queryKey: ['slo', 'one', name],
    queryFn: async () => must(await api.GET('/v1/slos/{name}', { params: { path: { name } } })),
    refetchInterval: 60_000,
  });

export const alerts = () =>
  queryOptions({
    queryKey: ['slo', 'alerts'],
    queryFn: async () =>
      must(await api.GET('/v1/alerts', { params: { query: { open: true, limit: 1000 } } })),
  });

export const silences = () =>
  queryOptions({ queryKey: ['slo', 'silences'], queryFn: async () => must(await api.GET('/v1/silences')) });

export const receivers = () =>
  queryOptions({
    queryKey: ['slo', 'receivers'],
    queryFn: async () => must(await api.GET('/v1/receivers')),
    refetchInterval: 60_000,
  });

export const routing = () =>
  queryOptions({ queryKey: ['slo', 'routing'], queryFn: async () => must(await api.GET('/v1/routing')) });

export const policy = () =>
  queryOptions({ queryKey: ['policy'], queryFn: async () => must(await api.GET('/v1/policy')) });

/** What can fail, with its code: rules of the policy name it. */
export const failureModes = () =>
  queryOptions({
    queryKey: ['failure-modes'],
    queryFn: async () => must(await api.GET('/v1/failure-modes')),
    staleTime: 60_000,
  });

/** Names of a project's secrets. That there is no such project is an answer, too. */
export const secretsOf = (project: string) =>
  queryOptions({
    queryKey: ['secrets', project],
    queryFn: async () => must(await api.GET('/v1/secrets', { params: { query: { project } } })),
    staleTime: 60_000,
    retry: false,
  });

export const tokens = () =>
  queryOptions({ queryKey: ['tokens'], queryFn: async () => must(await api.GET('/v1/tokens')) });
