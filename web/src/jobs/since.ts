// Metrics of two jobs or attempts on one axis: the time since each began. No React here.
import type { Schemas } from '../api/client';
import { LONGEST } from '../history/range';
import { type Lines, midpoints } from '../history/series';
import type { Tick } from '../history/ticks';

type Job = Schemas['Job'];
type Answer = Schemas['MetricsHistory'];

/** What is drawn, in this order; of those without a sample of either nothing is. */
export const COMPARED_METRICS = ['util', 'power', 'step_time'];

/** When it ran, in milliseconds since 1970; `to` is null while it runs. */
export interface Ran {
  from: number;
  to: number | null;
}

/** The time of a job, or of one of its attempts; null where it has not started. */
export function ranOf(j: Job, attempt: number | null): Ran | null {
  const ran = (from?: string | null, to?: string | null): Ran | null =>
    from ? { from: Date.parse(from), to: to ? Date.parse(to) : null } : null;
  if (attempt === null) return ran(j.started_at, j.ended_at ? (j.past.at(-1)?.ended_at ?? j.ended_at) : null);
  if (j.attempt?.no === attempt) return ran(j.attempt.started_at, j.attempt.freed_at);
  const past = j.past.find((p) => p.no === attempt);
  return past ? ran(past.started_at, past.ended_at) : null;
}

/** How long it ran, in milliseconds: at most what the server answers at once. */
export function lengthRan(ran: Ran | null, now: number): number {
  return ran ? Math.min(LONGEST, Math.max(0, (ran.to ?? now) - ran.from)) : 0;
}

/** Points to ask for of one side, so that those of both are about equally long. */
export function pointsFor(length: number, longest: number, most: number): number {
  return Math.max(2, Math.ceil((most * length) / Math.max(1, longest)));
}

/** The midpoints of an answer, in seconds since the beginning. */
export function sinceStart(answer: Answer, begin: number): number[] {
  return midpoints(answer).map((s) => s - begin / 1000);
}

/** The point that has a moment; null where it is outside all of them. */
export function pointAt(x: readonly number[], at: number, stepMs: number): number | null {
  if (x.length === 0) return null;
  const i = Math.round(((at - x[0]) * 1000) / stepMs);
  return i >= 0 && i < x.length ? i : null;
}

/** One top for both, so that equal values are equally high. */
export function topOf(lines: readonly (Lines | null)[]): number | undefined {
  if (lines.some((l) => l?.unit === '%')) return 100;
  const all = lines.flatMap((l) => l?.max ?? []).filter((v): v is number => v !== null);
  return all.length ? Math.max(1e-9, Math.max(...all) * 1.08) : undefined;
}

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const STEPS = [
  ...[1, 2, 5, 10, 15, 30].map((n) => n * SECOND),
  ...[1, 2, 5, 10, 15, 30].map((n) => n * MINUTE),
  ...[1, 2, 3, 6, 12].map((n) => n * HOUR),
  ...[1, 2, 5, 10, 20, 50].map((n) => n * DAY),
];

/** A length of time with at most two units: `1 h 30 min`. */
export function lengthWord(ms: number): string {
  const s = Math.round(Math.max(0, ms) / 1000);
  const parts = [
    [Math.floor(s / 86_400), 'd'],
    [Math.floor(s / 3600) % 24, 'h'],
    [Math.floor(s / 60) % 60, 'min'],
    [s % 60, 's'],
  ] as const;
  const first = parts.findIndex(([n]) => n > 0);
  if (first < 0) return '0 s';
  const two = parts.slice(first, first + 2).filter(([n]) => n > 0);
  return two.map(([n, unit]) => `${n} ${unit}`).join(' ');
}

/** At most about `most` marks at round lengths of time. */
export function sinceTicks(from: number, to: number, most: number): Tick[] {
  if (!(to > from)) return [];
  const step = STEPS.find((s) => (to - from) / s <= most) ?? 50 * DAY;
  const out: Tick[] = [];
  for (let at = Math.ceil(from / step) * step; at <= to; at += step)
    out.push({ at, word: at === 0 ? 'start' : lengthWord(at) });
  return out;
}

/** Why one side has nothing to draw. */
export function noSamplesWords(name: string, ran: Ran | null, knownFrom: number | null): string {
  if (ran === null) return `${name} has no samples: it has not started.`;
  if (ran.to !== null && knownFrom !== null && ran.to <= knownFrom)
    return `${name} has no samples: it ended before the oldest that are stored.`;
  if (ran.to === null) return `${name} has no samples yet: the first is stored within a minute of its start.`;
  return `${name} has no samples: none was stored while it ran.`;
}
