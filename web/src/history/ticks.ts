// Where marks stand under a chart of time: round times of the clocks of the zone, days at their midnights.
import { dayBegins, dayWord, midnights, timeZone, wall } from '../ui/zone';

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const STEPS = [
  ...[1, 2, 5, 10, 15, 30].map((n) => n * SECOND),
  ...[1, 2, 5, 10, 15, 30].map((n) => n * MINUTE),
  ...[1, 2, 3, 6, 12].map((n) => n * HOUR),
];

export interface Tick {
  /** Milliseconds since 1970. */
  at: number;
  word: string;
}

/** How many words stand under a chart of this width without touching each other. */
export function ticksIn(width: number): number {
  return Math.min(10, Math.max(2, Math.floor(width / 64)));
}

/** At most about `most` marks between two moments. A midnight has its day as its word. */
export function timeTicks(
  from: number,
  to: number,
  most: number,
  zone: string | undefined = timeZone(),
): Tick[] {
  if (!(to > from)) return [];
  const step = STEPS.find((s) => (to - from) / s <= most);
  if (step === undefined)
    return midnights(from, to, most, zone).map((at) => ({ at, word: dayWord(at, false, zone) }));
  const out: Tick[] = [];
  // Counted from each midnight: so they are round also in zones of half hours, and after the clocks were changed.
  for (let day = dayBegins(from, zone); day <= to; ) {
    const next = dayBegins(day + 1.5 * DAY, zone);
    const first = day + Math.max(0, Math.ceil((from - day) / step)) * step;
    for (let at = first; at <= to && at < next; at += step) {
      const time = wall(at, zone).time;
      const word = at === day ? dayWord(at, false, zone) : step < MINUTE ? time : time.slice(0, 5);
      out.push({ at, word });
    }
    day = next;
  }
  return out;
}
