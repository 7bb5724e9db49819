// Geometry of the calendar: what a pointer or a key does to a window of time. No React here.
import { spanMs } from './spans';

export interface Stretch {
  start: number;
  end: number;
}

export const MINUTE = 60_000;
export const HOUR = 60 * MINUTE;
export const DAY = 24 * HOUR;

/** Windows begin and end on a quarter of an hour: all zones differ by whole quarters. */
export const STEP = 15 * MINUTE;

export const snap = (at: number, step = STEP) => Math.round(at / step) * step;

/** The moment under a point of a track, `x` pixels from its left. */
export function momentAt(x: number, width: number, seen: Stretch): number {
  const share = width > 0 ? Math.min(1, Math.max(0, x / width)) : 0;
  return snap(seen.start + share * (seen.end - seen.start));
}

/** Where a stretch is drawn, in percent of the track; null when it is out of sight. */
export function placeOf(of: Stretch, seen: Stretch): { left: number; width: number } | null {
  if (of.end <= seen.start || of.start >= seen.end) return null;
  const share = (at: number) =>
    (100 * (Math.min(seen.end, Math.max(seen.start, at)) - seen.start)) / (seen.end - seen.start);
  return { left: share(of.start), width: share(of.end) - share(of.start) };
}

/** What is dragged: a new window, a whole one, or one of its ends. */
export type Grip = 'new' | 'whole' | 'start' | 'end';

/** The window after a drag from one moment to another. It is never shorter than one step. */
export function dragged(grip: Grip, of: Stretch, from: number, to: number): Stretch {
  if (grip === 'new') {
    const [a, b] = from <= to ? [from, to] : [to, from];
    return { start: a, end: Math.max(b, a + STEP) };
  }
  const by = to - from;
  if (grip === 'whole') return { start: of.start + by, end: of.end + by };
  if (grip === 'start') return { start: Math.min(of.start + by, of.end - STEP), end: of.end };
  return { start: of.start, end: Math.max(of.end + by, of.start + STEP) };
}

const NUDGES: Record<string, number | undefined> = {
  ArrowLeft: -HOUR,
  ArrowRight: HOUR,
  ArrowDown: -STEP,
  ArrowUp: STEP,
};

/** What a key does to a window: arrows move it by a step or an hour, with Shift they move its end. */
export function nudged(of: Stretch, key: string, shift: boolean): Stretch | null {
  const by = NUDGES[key];
  if (by === undefined) return null;
  return dragged(shift ? 'end' : 'whole', of, 0, by);
}

/** As far as the calendar draws it. */
export interface Recurring {
  start: string;
  length: string;
  every?: string | null;
}

/** Most windows of one reservation that are drawn. */
const DRAWN = 200;

/** Windows of a reservation that are in sight. */
export function windowsOf(r: Recurring, seen: Stretch): Stretch[] {
  const [start, length] = [Date.parse(r.start), spanMs(r.length) ?? 0];
  const every = r.every ? spanMs(r.every) : null;
  if (Number.isNaN(start) || length <= 0) return [];
  const out: Stretch[] = [];
  const first = every ? Math.max(0, Math.ceil((seen.start - length - start) / every)) : 0;
  for (let i = first; out.length < DRAWN; i++) {
    const one = { start: start + i * (every ?? 0), end: start + i * (every ?? 0) + length };
    if (one.start >= seen.end) break;
    if (one.end > seen.start) out.push(one);
    if (!every) break;
  }
  return out;
}
