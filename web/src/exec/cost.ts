// What interruptions and faults took. No React here.
import type { Schemas } from '../api/client';
import type { FleetMetrics } from './fleet-metrics';

export interface Loss {
  word: string;
  definition: string;
  seconds: number;
}

const seconds = (v: number | null | undefined) => (typeof v === 'number' && Number.isFinite(v) ? v : 0);

/** GPU time of jobs that interruptions took: nothing is counted twice. */
export function interruptionLosses(f: FleetMetrics): Loss[] {
  return [
    {
      word: 'lost work',
      definition: 'GPU-hours of work since the last checkpoint, which had to be done again',
      seconds: seconds(f.gpu_seconds.lost),
    },
    {
      word: 'restarting',
      definition: 'GPU-hours of allocated GPUs between an interruption and the first step after it',
      seconds: Math.max(0, seconds(f.gpu_seconds.restarting) - seconds(f.restarting_waiting_gpu_seconds)),
    },
  ];
}

/** As `muster report fleet` writes it: a node that a remediation drains is not quarantined yet. */
export const outBy = (why: string) => (why === 'quarantine' ? 'by automation' : why.replaceAll('_', ' '));

/** GPU time out of service, by why, the most first; null where this token is not shown it. */
export function outOfService(f: FleetMetrics): Loss[] | null {
  if (!f.out_of_service_gpu_seconds) return null;
  return Object.entries(f.out_of_service_gpu_seconds)
    .filter(([, s]) => s > 0)
    .map(([why, s]) => ({
      word: outBy(why),
      definition: 'GPU-hours in which these GPUs could take no work',
      seconds: s,
    }))
    .sort((a, b) => b.seconds - a.seconds);
}

export const sum = (losses: readonly Loss[]) => losses.reduce((n, l) => n + l.seconds, 0);

type Incident = Pick<Schemas['Incident'], 'began_at' | 'closed_at'>;

/** Those that went on in a time, in the order that they came. */
export function within<T extends Incident>(all: readonly T[], from: number, to: number): T[] {
  return all.filter((i) => {
    const ended = i.closed_at ? Date.parse(i.closed_at) : Number.POSITIVE_INFINITY;
    return Date.parse(i.began_at) < to && ended >= from;
  });
}
