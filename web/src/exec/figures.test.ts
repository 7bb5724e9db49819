import { expect, test } from 'vitest';
import { type Figures, firstTime, percent, platform, success, waterfall } from './figures';

const figures = (more: object = {}): Figures =>
  ({
    gpu_seconds: {
      queued: 500,
      starting: 10,
      productive: 600,
      checkpointing: 20,
      restarting: 50,
      lost: 30,
      idle: 0,
    },
    allocated_gpu_seconds: 690,
    restarting_waiting_gpu_seconds: 20,
    inventory_gpu_seconds: 1000,
    in_service_gpu_seconds: 900,
    jobs: {
      submitted: 10,
      succeeded: 6,
      succeeded_first: 3,
      cancelled: 1,
      failed: { application: 2, infrastructure: 1, platform: 0, unknown: 1 },
    },
    ...more,
  }) as Figures;

test('the way from all GPUs to work that counts adds up', () => {
  const steps = waterfall(figures());
  expect(steps.map((s) => [s.key, s.size])).toEqual([
    ['all', 1000],
    ['out', 100],
    ['free', 210],
    ['starting', 10],
    ['restarting', 30],
    ['checkpointing', 20],
    ['lost', 30],
    ['productive', 600],
  ]);
  for (const s of steps.filter((s) => !s.sum)) expect(s.from).toBeGreaterThanOrEqual(600);
});

test('what does not add up is shown, and nothing is made up', () => {
  const steps = waterfall(figures({ allocated_gpu_seconds: 740 }));
  expect(steps.find((s) => s.key === 'unknown')?.size).toBe(50);
  expect(waterfall(figures({ inventory_gpu_seconds: null }))).toEqual([]);
});

test('success is of those that ended by themselves', () => {
  expect(success(figures())).toBe(0.6);
  expect(firstTime(figures())).toBe(0.3);
  expect(platform(figures())).toBe(0.9);
  const none = figures({
    jobs: {
      succeeded: 0,
      succeeded_first: 0,
      failed: { application: 0, infrastructure: 0, platform: 0, unknown: 0 },
    },
  });
  expect(success(none)).toBeNull();
  expect(percent(success(none))).toBe('not known');
});
