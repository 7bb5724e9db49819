// What the timeline of the queue reads.
import { queryOptions } from '@tanstack/react-query';
import { api, must } from '../api/client';
import { type JobSearch, jobQuery } from './filters';
import { type Row, rowsOf, statesOf } from './gantt';
import { Gate } from './gate';

/** Most jobs of a timeline: what is more is not read, and the page says so. */
export const ROWS_MAX = 10_000;
const PAGE = 1000;
/** An estimate needs a look over the queue by the server: so many are asked for at once. */
const AT_ONCE = 2;
/** So long an estimate is shown before it is asked for again. */
const FRESH = 60_000;

/** How often the queue is read again: a long one is more work. */
export function readEvery(rows: number): number {
  return Math.max(5_000, rows * 10);
}

export interface Queue {
  rows: Row[];
  /** There are more than were read. */
  cut: boolean;
}

/** All active jobs that the filters let through, page by page. */
async function allActive(search: JobSearch, signal: AbortSignal): Promise<Queue> {
  const jobs = [];
  let cursor: string | undefined;
  do {
    const state = statesOf(search.state) ?? 'active';
    // By number: a place in this order does not change between two pages.
    const query = { ...jobQuery({ ...search, state, sort: undefined }), limit: PAGE, cursor };
    const page = must(await api.GET('/v1/jobs', { params: { query }, signal }));
    jobs.push(...page.items);
    cursor = page.cursor ?? undefined;
  } while (cursor && jobs.length < ROWS_MAX);
  return { rows: rowsOf(jobs), cut: cursor !== undefined };
}

/** Which time is shown is not the server's to know: the same rows serve all of it. */
export const queue = ({ from: _from, to: _to, view: _view, sort: _sort, ...search }: JobSearch) =>
  queryOptions({
    queryKey: ['queue', search],
    queryFn: ({ signal }) => allActive(search, signal),
    refetchInterval: (query) => readEvery(query.state.data?.rows.length ?? 0),
  });

const gate = new Gate(AT_ONCE);

/** When a job that waits starts, as `explain` has it; null where it has no estimate. */
export const estimate = (id: string) =>
  queryOptions({
    queryKey: ['estimate', id],
    queryFn: ({ signal }) =>
      gate.pass(signal, async () => {
        const path = { id };
        const e = must(await api.GET('/v1/jobs/{id}/explain', { params: { path }, signal }));
        return e.estimated_start ?? null;
      }),
    staleTime: FRESH,
    refetchInterval: FRESH,
    // A job may have ended meanwhile: the next look at the queue leaves it out.
    retry: false,
  });
