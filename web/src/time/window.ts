// Which part of the past the slider spans. No React here.

const HOUR = 3_600_000;

/** Lengths of the slider. `all`: as far as the log goes back. */
export const SPANS = [
  { span: '1h', label: '1 h', ms: HOUR },
  { span: '6h', label: '6 h', ms: 6 * HOUR },
  { span: '1d', label: '1 d', ms: 24 * HOUR },
  { span: '7d', label: '7 d', ms: 168 * HOUR },
] as const;
export type TimeSpan = (typeof SPANS)[number]['span'];

export interface TimeWindow {
  from: number;
  to: number;
}

/** So near to an end of the slider it moves on, as a share of its length. */
const EDGE = 0.02;

/**
 * The stretch of time that the slider spans, in milliseconds. It stays where it is while the moment is well inside;
 * else the moment comes to its centre. Live, it ends now.
 */
export function windowFor(
  at: number | null,
  log: { begin: number; now: number },
  span: TimeSpan | undefined,
  old: TimeWindow | null = null,
): TimeWindow {
  const whole = Math.max(1000, log.now - log.begin);
  const wanted = SPANS.find((s) => s.span === span)?.ms ?? whole;
  const length = Math.min(wanted, whole);
  const begin = log.now - whole;
  if (length === whole) return { from: begin, to: log.now };
  if (at === null) return { from: log.now - length, to: log.now };
  if (old && old.to - old.from === length && old.from >= begin && old.to <= log.now) {
    const edge = length * EDGE;
    const low = old.from <= begin ? old.from : old.from + edge;
    const high = log.now - old.to < edge ? old.to : old.to - edge;
    if (at >= low && at <= high) return old;
  }
  const from = Math.min(log.now - length, Math.max(begin, at - length / 2));
  return { from, to: from + length };
}

/** How far one key goes, in seconds: any minute is reached, on a short slider any second. */
export function stepOf(window: TimeWindow): number {
  const length = window.to - window.from;
  return length <= HOUR ? 1 : length <= 6 * HOUR ? 10 : 60;
}
