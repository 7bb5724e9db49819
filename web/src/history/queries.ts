// What the charts of a history read.
import { keepPreviousData, queryOptions } from '@tanstack/react-query';
import { api, must } from '../api/client';
import { askedTime, LONGEST, type Range, readEvery } from './range';
import { firstSample } from './series';

/** Whose history it is. */
export interface Subject {
  node?: string;
  gpu?: number;
  job?: string;
}

/** Events that are drawn at most. */
export const EVENTS_MAX = 200;

export const historyMetrics = () =>
  queryOptions({
    queryKey: ['history', 'metrics'],
    queryFn: async () => must(await api.GET('/v1/metrics/history/metrics')),
    // A new one comes when an agent first sends it.
    staleTime: 60_000,
  });

/** `end`: when what is shown ended; null while it is active. */
export const history = (
  subject: Subject,
  range: Range,
  metrics: string[],
  points: number,
  end: number | null,
) => {
  const every = (known?: { from: number; to: number }) =>
    readEvery(range, end !== null, known && known.to - known.from);
  return queryOptions({
    queryKey: ['history', 'points', subject, range, metrics, points, end],
    queryFn: async () => {
      const query = {
        ...subject,
        ...askedTime(range, end ?? Date.now()),
        metrics: metrics.join(','),
        points,
      };
      return must(await api.GET('/v1/metrics/history', { params: { query } }));
    },
    placeholderData: keepPreviousData,
    // Samples are not in the log: no event says that there are new ones.
    refetchInterval: (query) => every(query.state.data),
    staleTime: (query) => every(query.state.data) || Number.POSITIVE_INFINITY,
  });
};

/** Metrics of a job from a moment on, up to its end or, while `to` is null, up to now. */
export const historySince = (
  job: string,
  { from, to }: { from: number; to: number | null },
  metrics: string[],
  points: number,
) =>
  queryOptions({
    queryKey: ['history', 'since', job, from, to, metrics, points],
    queryFn: async () => {
      // The server refuses no time at all, and one that is too long.
      const end = Math.min(from + LONGEST, Math.max(from + 1000, to ?? Date.now()));
      const query = { job, from, to: end, metrics: metrics.join(','), points };
      return must(await api.GET('/v1/metrics/history', { params: { query } }));
    },
    placeholderData: keepPreviousData,
    refetchInterval: (query) => {
      const known = query.state.data;
      return readEvery({ kind: 'whole' }, to !== null, known && known.to - known.from);
    },
  });

/** When the first sample was that is kept, about; null where none is. */
export const historyBegins = (subject: Subject, metrics: string[]) =>
  queryOptions({
    queryKey: ['history', 'begins', subject, metrics],
    queryFn: async () => {
      const now = Date.now();
      const time = subject.job ? {} : { from: now - LONGEST + 3_600_000, to: now };
      const query = { ...subject, ...time, metrics: metrics.join(','), points: 2000 };
      return firstSample(must(await api.GET('/v1/metrics/history', { params: { query } })));
    },
    staleTime: 60_000,
  });

/** The newest events about it within a time, in milliseconds. */
export const historyEvents = (object: string, from: number, to: number) =>
  queryOptions({
    queryKey: ['history', 'events', object, from, to],
    queryFn: async () => {
      const time = { from: new Date(from).toISOString(), to: new Date(to).toISOString() };
      const query = { object, ...time, order: 'newest' as const, limit: EVENTS_MAX };
      const page = must(await api.GET('/v1/events', { params: { query } }));
      return typeof page === 'string' ? { items: [], cursor: null } : page;
    },
    placeholderData: keepPreviousData,
    gcTime: 60_000,
  });
