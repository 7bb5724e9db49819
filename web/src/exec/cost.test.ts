import { expect, test } from 'vitest';
import { interruptionLosses, outOfService, sum, within } from './cost';
import type { FleetMetrics } from './fleet-metrics';

const metrics = (more: object = {}): FleetMetrics =>
  ({
    gpu_seconds: { lost: 30, restarting: 50 },
    restarting_waiting_gpu_seconds: 20,
    out_of_service_gpu_seconds: { unreachable: 5, being_repaired: 90, cordoned: 0 },
    ...more,
  }) as unknown as FleetMetrics;

test('what interruptions took is lost work and restarts, without what only waited for GPUs', () => {
  expect(interruptionLosses(metrics()).map((l) => [l.word, l.seconds])).toEqual([
    ['lost work', 30],
    ['restarting', 30],
  ]);
  expect(sum(interruptionLosses(metrics()))).toBe(60);
});

test('nothing that is not known becomes a number that is none', () => {
  const none = metrics({ gpu_seconds: {}, restarting_waiting_gpu_seconds: undefined });
  expect(sum(interruptionLosses(none))).toBe(0);
  expect(outOfService(metrics({ out_of_service_gpu_seconds: null }))).toBeNull();
});

test('time out of service is by why, the most first', () => {
  expect(outOfService(metrics())?.map((l) => [l.word, l.seconds])).toEqual([
    ['being repaired', 90],
    ['unreachable', 5],
  ]);
});

test('what automation took out of service is named as in the reports of the command line', () => {
  const some = metrics({ out_of_service_gpu_seconds: { quarantine: 7 } });
  expect(outOfService(some)?.map((l) => l.word)).toEqual(['by automation']);
});

test('incidents of a period are those that went on in it', () => {
  const at = (day: number) => `2030-01-${String(day).padStart(2, '0')}T00:00:00Z`;
  const all = [
    { id: 'open', began_at: at(1), closed_at: null },
    { id: 'before', began_at: at(1), closed_at: at(5) },
    { id: 'across', began_at: at(8), closed_at: at(12) },
    { id: 'after', began_at: at(20), closed_at: null },
  ];
  expect(within(all, Date.parse(at(10)), Date.parse(at(15))).map((i) => i.id)).toEqual(['open', 'across']);
});
