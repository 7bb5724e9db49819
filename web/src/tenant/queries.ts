// What the page of one's own work reads. `work` is read again when the log says that a job changed.
import { queryOptions } from '@tanstack/react-query';
import { api, must } from '../api/client';
import { inTurn } from './turn';

/** Jobs of a list; the rest is on the page of all jobs. */
export const LISTED = 50;

/** Why a job waits changes with the work of others, of which the stream sends this token nothing. */
export const EVERY = 60_000;

/** The newest jobs in some states, of a user or of all users that this token sees. */
export const workJobs = (state: string, user: string | undefined) =>
  queryOptions({
    queryKey: ['work', state, user ?? null],
    queryFn: async () =>
      must(
        await api.GET('/v1/jobs', {
          // What is held is counted apart, as quotas do.
          params: { query: { state, user, held: state === 'queued' ? false : undefined, limit: LISTED } },
        }),
      ),
    refetchInterval: state === 'queued' || state === 'held' ? EVERY : false,
  });

/**
 * Where the time of a job's attempts went. `last`: the attempt that ended last, of which that is known then. It does not
 * change with the job any more, so that it is read once, and what is read for several jobs is no burst of requests.
 */
export const lostReport = (id: string, last: number) =>
  queryOptions({
    queryKey: ['lost', id, last],
    queryFn: () =>
      inTurn(async () => must(await api.GET('/v1/jobs/{id}/report', { params: { path: { id } } }))),
    retry: false,
  });

/** Why a job waits. Apart from that of its own page, which is read more often. */
export const workExplain = (id: string) =>
  queryOptions({
    queryKey: ['work', 'explain', id],
    queryFn: async () => must(await api.GET('/v1/jobs/{id}/explain', { params: { path: { id } } })),
    refetchInterval: EVERY,
    retry: false,
  });
