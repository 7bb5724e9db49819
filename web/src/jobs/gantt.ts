// Running jobs and reserved starts in time. No React here.
import type { Schemas } from '../api/client';

type Job = Schemas['Job'];

export interface Bar {
  id: string;
  name: string;
  reserved: boolean;
  from: number;
  /** Null: it has no time limit. */
  to: number | null;
}

const UNITS: Record<string, number> = { ms: 1, s: 1e3, m: 6e4, h: 36e5, d: 864e5, w: 6048e5 };

/** A length of time as the API writes it (`1d12h`), in milliseconds; null where it is none. */
export function lengthMs(text: string | null | undefined): number | null {
  if (!text || !/^(\d+(ms|[smhdw]))+$/.test(text)) return null;
  let sum = 0;
  for (const [, n, unit] of text.matchAll(/(\d+)(ms|[smhdw])/g)) sum += Number(n) * (UNITS[unit] ?? 0);
  return sum;
}

/** What runs, and then what has a reserved start, each in the order of its end or start. */
export function barsOf(jobs: readonly Job[]): Bar[] {
  const running: Bar[] = [];
  const reserved: Bar[] = [];
  for (const j of jobs) {
    const limit = lengthMs(j.spec.time_limit);
    if (j.attempt && j.state !== 'queued') {
      const from = Date.parse(j.attempt.started_at ?? j.attempt.placed_at);
      const to = j.attempt.deadline ? Date.parse(j.attempt.deadline) : limit === null ? null : from + limit;
      running.push({ id: j.id, name: j.name, reserved: false, from, to });
    } else if (j.reserved_start && j.state === 'queued') {
      const from = Date.parse(j.reserved_start.at);
      const to = limit === null ? null : from + limit;
      reserved.push({ id: j.id, name: j.name, reserved: true, from, to });
    }
  }
  const end = (b: Bar) => b.to ?? Number.MAX_SAFE_INTEGER;
  running.sort((a, b) => end(a) - end(b));
  reserved.sort((a, b) => a.from - b.from);
  return [...running, ...reserved];
}

const [BEFORE, AFTER] = [12 * 36e5, 48 * 36e5];

/** The stretch of time that holds the bars: at most half a day back and two days ahead. */
export function stretchOf(bars: readonly Bar[], now: number): { from: number; to: number } {
  const from = Math.min(now - 6e5, ...bars.map((b) => b.from));
  const to = Math.max(now + 36e5, ...bars.map((b) => b.to ?? b.from));
  return { from: Math.max(from, now - BEFORE), to: Math.min(to, now + AFTER) };
}

/** Where a moment is, in thousandths of the stretch. */
export function placeOf(at: number | null, { from, to }: { from: number; to: number }): number {
  if (at === null) return 1000;
  return Math.round(Math.min(1, Math.max(0, (at - from) / (to - from))) * 1000);
}
