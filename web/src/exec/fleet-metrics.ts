import type { Schemas } from '../api/client';
import { span } from '../ui/parts';

export type FleetMetrics = Schemas['FleetMetrics'];
export type Report = Schemas['FleetReport'];

/** One bar of the way from all GPUs to work that counts. */
export interface Step {
  key: string;
  word: string;
  /** GPU seconds of this bar. */
  size: number;
  /** Where it begins, counted from nothing. */
  from: number;
  /** A sum, or what is taken off. */
  sum: boolean;
}

const LOSSES: [keyof FleetMetrics['gpu_seconds'], string][] = [
  ['starting', 'starting'],
  ['restarting', 'restarting'],
  ['checkpointing', 'checkpoints'],
  ['lost', 'lost work'],
  ['idle', 'allocated, nothing done'],
];

/** From all GPUs there were to work that counts. Nothing where the fleet itself is not known. */
export function waterfall(f: FleetMetrics): Step[] {
  const all = f.inventory_gpu_seconds;
  const service = f.in_service_gpu_seconds;
  if (all === null || all === undefined || service === null || service === undefined || all <= 0) return [];
  const steps: Step[] = [{ key: 'all', word: 'all GPUs', size: all, from: 0, sum: true }];
  let left = all;
  const off = (key: string, word: string, size: number) => {
    const taken = Math.min(Math.max(0, size), left);
    if (taken <= 0) return;
    left -= taken;
    steps.push({ key, word, size: taken, from: left, sum: false });
  };
  off('out', 'out of service', all - service);
  off('free', 'in service, unallocated', service - f.allocated_gpu_seconds);
  for (const [key, word] of LOSSES) {
    const waited = key === 'restarting' ? f.restarting_waiting_gpu_seconds : 0;
    off(key, word, (f.gpu_seconds[key] ?? 0) - waited);
  }
  // FleetMetrics of jobs and of the fleet are read apart; what does not add up is not hidden.
  off('unknown', 'not accounted for', left - f.gpu_seconds.productive);
  steps.push({ key: 'productive', word: 'productive', size: left, from: 0, sum: true });
  return steps;
}

/** A rate that the server computes: its name, its formula in words, and where the answer has it. */
export interface Rate {
  name: string;
  formula: string;
  of: (f: FleetMetrics) => number | null | undefined;
}

/** Every rate of the page. */
export const RATES = {
  allocation: {
    name: 'allocation',
    formula: 'GPU-hours allocated to jobs / GPU-hours in service',
    of: (f) => f.allocation,
  },
  utilisation: {
    name: 'utilisation',
    formula: 'mean share of time in which kernels ran, over GPUs that reported it',
    of: (f) => f.utilisation,
  },
  goodput: {
    name: 'goodput',
    formula: 'productive GPU-hours / GPU-hours allocated to jobs',
    of: (f) => f.goodput,
  },
  availability: {
    name: 'availability',
    formula: 'GPU-hours in service / GPU-hours of all GPUs',
    of: (f) => f.availability,
  },
  success: {
    name: 'success rate',
    formula: 'jobs succeeded / (jobs succeeded + failed); cancelled jobs are not counted',
    of: (f) => f.success_rate,
  },
  first: {
    name: 'first-attempt success rate',
    formula:
      'jobs succeeded at their first attempt / (jobs succeeded + failed); cancelled jobs are not counted',
    of: (f) => f.first_attempt_success_rate,
  },
  site: {
    name: 'not failed by the site',
    formula:
      '1 - jobs failed by infrastructure or platform / (jobs succeeded + failed); cancelled jobs are not counted',
    of: (f) => f.not_failed_by_site_rate,
  },
} satisfies Record<string, Rate>;

/** From when to when figures are known, in milliseconds. */
export interface Known {
  from: number;
  to: number;
}

/** From when to when a report knows what jobs and nodes did, and what GPUs reported. Null: nothing of it. */
export function known(r: Pick<Report, 'from' | 'to' | 'since' | 'telemetry_since'>): {
  log: Known | null;
  telemetry: Known | null;
} {
  const to = Date.parse(r.to);
  const span = (since: number): Known | null => {
    const from = Math.max(Date.parse(r.from), since);
    return from < to ? { from, to } : null;
  };
  const log = Date.parse(r.since);
  const reported = r.telemetry_since ? Date.parse(r.telemetry_since) : null;
  return { log: span(log), telemetry: reported === null ? null : span(Math.max(log, reported)) };
}

/** So long a time a row of a report covers, in seconds: the first one begins with the log, not with its hour. */
export const reportedFor = (r: Pick<Report, 'since'>, row: Pick<Schemas['FleetRow'], 'from' | 'to'>) =>
  (Date.parse(row.to) - Math.max(Date.parse(row.from), Date.parse(r.since))) / 1000;

/** Rates of the whole site, which tenants are not shown. */
const OF_SITE: readonly Rate[] = [RATES.allocation, RATES.utilisation, RATES.availability];

/** A rate in words; `whole`: is the reader shown the whole site? */
export function rateWords(rate: Rate, f: FleetMetrics, whole: boolean | null | undefined): string {
  const v = rate.of(f);
  const none = v === null || v === undefined;
  return none && whole === false && OF_SITE.includes(rate) ? 'not shown to tenants' : percent(v);
}

/** Less than the period is known by so much, in milliseconds, before that is said. */
const MISSING = 3_600_000;
/** What is known of less than this part of a period is no number of the period. */
const LEAST = 0.1;

/** Utilisation, which may be known of a small part of the period only: then the tile says of which. */
export function utilisationWords(
  r: Pick<Report, 'from' | 'to' | 'since' | 'telemetry_since' | 'total'>,
  whole: boolean | null | undefined,
): { value: string; note: string } {
  const value = rateWords(RATES.utilisation, r.total, whole);
  const { telemetry } = known(r);
  const period = Date.parse(r.to) - Date.parse(r.from);
  const length = telemetry ? telemetry.to - telemetry.from : 0;
  const v = r.total.utilisation;
  if (v === null || v === undefined || !telemetry || length >= period - MISSING)
    return { value, note: 'as GPUs reported it' };
  const over = `over the last ${span(length)}`;
  return length < period * LEAST
    ? { value: 'not known yet', note: `${value} ${over}` }
    : { value, note: `${over}, as GPUs reported it` };
}

export const percent = (v: number | null | undefined, digits = 1) =>
  v === null || v === undefined ? 'not known' : `${(v * 100).toFixed(digits)} %`;

export const hours = (gpuSeconds: number) =>
  (gpuSeconds / 3600).toLocaleString('en', { maximumFractionDigits: gpuSeconds < 36_000 ? 1 : 0 });

/** Where a row is drawn: days are those of UTC, and the middle of one has the same date in nearly every zone. */
export const drawnAt = (step: Report['step'], row: Pick<Schemas['FleetRow'], 'from' | 'to'>) =>
  step === 'day' ? Date.parse(row.from) + 43_200_000 : Date.parse(row.from);
