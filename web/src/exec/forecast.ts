// The line of the capacity forecast, and how sure it is. No React here.
import type { Schemas } from '../api/client';
import { dayWord } from '../ui/zone';

type Forecast = Schemas['CapacityForecast'];

const DAY = 86_400_000;
/** It looks so far ahead at least, and a year at most, as the server does. */
const [LEAST, MOST] = [60, 365];

/** The forecast counts whole days of UTC, and so do its sentences. */
const date = (at: string) => dayWord(at, true, 'UTC');

export interface Projection {
  /** Midnights of UTC, in milliseconds. */
  at: number[];
  line: number[];
  /** One standard deviation of the days below and above it. */
  low: number[];
  high: number[];
}

/** Does demand fall, by the line? Where it ends up is then no forecast: nobody wants less than nothing. */
export const falls = (f: Pick<Forecast, 'growth_gpus_per_day'>) => (f.growth_gpus_per_day ?? 0) < 0;

/** A line of fewer days is said to be short. */
const SHORT = 14;

/**
 * Demand as the straight line goes on, from the end of the last whole day; null with too few days for a line, or one that falls.
 * Only drawing: its level, slope and spread, and when it meets what is in service, are the server's. The chart needs a
 * point for each day of them.
 */
export function projection(f: Forecast, to: number): Projection | null {
  const { demand_gpus: demand, growth_gpus_per_day: growth, spread_gpus: spread } = f;
  if (typeof demand !== 'number' || typeof growth !== 'number' || falls(f)) return null;
  const start = Math.floor(to / DAY) * DAY;
  const meets = f.meets_latest ?? f.meets_at;
  const ahead = meets ? Math.ceil(((Date.parse(meets) - start) / DAY) * 1.15) : 0;
  const days = Math.min(MOST, Math.max(LEAST, Number.isFinite(ahead) ? ahead : 0));
  const off = typeof spread === 'number' ? spread : 0;
  const out: Projection = { at: [], line: [], low: [], high: [] };
  for (let d = 0; d <= days; d++) {
    const v = demand + growth * d;
    out.at.push(start + d * DAY);
    out.line.push(Math.max(0, v));
    out.low.push(Math.max(0, v - off));
    out.high.push(Math.max(0, v + off));
  }
  return out;
}

/** Is as much wanted on the newest day as is in service, as the server says it? */
function metNow({ newest_demand_gpus: wanted, newest_in_service_gpus: service }: Forecast): boolean {
  return typeof wanted === 'number' && typeof service === 'number' && wanted > 0 && wanted >= service;
}

/** When demand meets what is in service, with how sure that is. */
export function meetsWords(f: Forecast): { value: string; note: string } {
  if (f.growth_gpus_per_day === null || f.growth_gpus_per_day === undefined)
    return { value: 'not known', note: 'at least 3 whole days are needed' };
  const met = metNow(f) ? '; demand is at what is in service now' : '';
  if (falls(f)) return { value: 'no growth', note: `the line falls${met}` };
  if (f.met) return { value: 'met already', note: 'demand is at what is in service' };
  if (!f.meets_at)
    return {
      value: 'not within a year',
      note: `by a straight line${f.days < SHORT ? ` through ${f.days} days only` : ''}${met}`,
    };
  const [early, late] = [f.meets_earliest, f.meets_latest];
  const note =
    early && late
      ? `between ${date(early)} and ${date(late)}`
      : early
        ? `as early as ${date(early)}, maybe not within a year`
        : 'how sure that is, is not known';
  return { value: date(f.meets_at), note: `${note}${met}` };
}
