import type { Schemas } from '../api/client';

export type Figures = Schemas['FleetFigures'];
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

const LOSSES: [keyof Figures['gpu_seconds'], string][] = [
  ['starting', 'starting'],
  ['restarting', 'restarting'],
  ['checkpointing', 'checkpoints'],
  ['lost', 'lost work'],
  ['idle', 'held, nothing done'],
];

/** From all GPUs there were to work that counts. Nothing where the fleet itself is not known. */
export function waterfall(f: Figures): Step[] {
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
  off('free', 'free', service - f.allocated_gpu_seconds);
  for (const [key, word] of LOSSES) {
    const waited = key === 'restarting' ? f.restarting_waiting_gpu_seconds : 0;
    off(key, word, f.gpu_seconds[key] - waited);
  }
  // Figures of jobs and of the fleet are read apart; what does not add up is not hidden.
  off('unknown', 'not accounted for', left - f.gpu_seconds.productive);
  steps.push({ key: 'productive', word: 'productive', size: left, from: 0, sum: true });
  return steps;
}

const total = (b: Schemas['FleetBlame']) => b.application + b.infrastructure + b.platform + b.unknown;

/** Jobs that ended well, of those that ended by themselves. */
export function success(f: Figures): number | null {
  const ended = f.jobs.succeeded + total(f.jobs.failed);
  return ended > 0 ? f.jobs.succeeded / ended : null;
}

/** Those that did at their first attempt. */
export function firstTime(f: Figures): number | null {
  const ended = f.jobs.succeeded + total(f.jobs.failed);
  return ended > 0 ? f.jobs.succeeded_first / ended : null;
}

/** Jobs that did not fail by the site's doing. */
export function platform(f: Figures): number | null {
  const { failed, succeeded } = f.jobs;
  const ended = succeeded + total(failed);
  return ended > 0 ? 1 - (failed.infrastructure + failed.platform) / ended : null;
}

export const percent = (v: number | null | undefined, digits = 1) =>
  v === null || v === undefined ? 'not known' : `${(v * 100).toFixed(digits)} %`;

export const hours = (gpuSeconds: number) =>
  (gpuSeconds / 3600).toLocaleString('en', { maximumFractionDigits: gpuSeconds < 36_000 ? 1 : 0 });
