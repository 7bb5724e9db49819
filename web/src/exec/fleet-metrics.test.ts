import { expect, test } from 'vitest';
import {
  type FleetMetrics,
  known,
  percent,
  RATES,
  rateWords,
  reportedFor,
  utilisationWords,
  waterfall,
} from './fleet-metrics';

const metrics = (more: object = {}): FleetMetrics =>
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
  }) as FleetMetrics;

test('the way from all GPUs to work that counts adds up', () => {
  const steps = waterfall(metrics());
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
  const steps = waterfall(metrics({ allocated_gpu_seconds: 740 }));
  expect(steps.find((s) => s.key === 'unknown')?.size).toBe(50);
  expect(waterfall(metrics({ inventory_gpu_seconds: null }))).toEqual([]);
});

test('rates of jobs are those of the answer, and are not computed again', () => {
  const rates = { success_rate: 0.5, first_attempt_success_rate: 0.25, not_failed_by_site_rate: 0.75 };
  expect(RATES.success.of(metrics(rates))).toBe(0.5);
  expect(RATES.first.of(metrics(rates))).toBe(0.25);
  expect(RATES.site.of(metrics(rates))).toBe(0.75);
  for (const r of [RATES.success, RATES.first, RATES.site]) {
    expect(r.formula).toContain('(jobs succeeded + failed)');
    expect(r.formula).toContain('cancelled jobs are not counted');
  }
  const none = metrics({ success_rate: null });
  expect(RATES.success.of(none)).toBeNull();
  expect(percent(RATES.success.of(none))).toBe('not known');
});

test('figures are known from when the log or telemetry begins, not from when the period does', () => {
  const at = (text: string) => Date.parse(`2030-01-${text}Z`);
  const report = {
    from: '2030-01-24T00:00:00Z',
    to: '2030-01-31T12:30:00Z',
    since: '2030-01-30T10:00:00Z',
    telemetry_since: '2030-01-31T12:06:00Z',
  };
  expect(known(report)).toEqual({
    log: { from: at('30T10:00:00'), to: at('31T12:30:00') },
    telemetry: { from: at('31T12:06:00'), to: at('31T12:30:00') },
  });
  const old = { ...report, since: '2030-01-01T00:00:00Z', telemetry_since: null };
  expect(known(old)).toEqual({
    log: { from: at('24T00:00:00'), to: at('31T12:30:00') },
    telemetry: null,
  });
});

test('the first hour of a log is as long as what is known of it', () => {
  const row = { from: '2030-01-31T05:00:00Z', to: '2030-01-31T06:00:00Z' };
  expect(reportedFor({ since: '2030-01-31T05:34:00Z' }, row)).toBe(26 * 60);
  expect(reportedFor({ since: '2030-01-30T00:00:00Z' }, row)).toBe(3600);
});

test('a tenant reads that a rate of the site is not shown, not that it is not known', () => {
  const hidden = metrics({ allocation: null, goodput: null });
  expect(rateWords(RATES.allocation, hidden, false)).toBe('not shown to tenants');
  expect(rateWords(RATES.allocation, hidden, true)).toBe('not known');
  expect(rateWords(RATES.goodput, hidden, false)).toBe('not known');
});

test('utilisation says of how much of the period it is, and is no number of the period where that is little', () => {
  const week = { from: '2030-01-24T12:00:00Z', to: '2030-01-31T12:00:00Z', since: '2030-01-01T00:00:00Z' };
  const words = (telemetry_since: string) =>
    utilisationWords({ ...week, telemetry_since, total: metrics({ utilisation: 0.828 }) }, true);
  expect(words('2030-01-31T11:44:00Z')).toEqual({
    value: 'not known yet',
    note: '82.8 % over the last 16 min',
  });
  expect(words('2030-01-28T12:00:00Z')).toEqual({
    value: '82.8 %',
    note: 'over the last 3 d, as GPUs reported it',
  });
  expect(words('2030-01-02T00:00:00Z').note).toBe('as GPUs reported it');
  const none = utilisationWords({ ...week, telemetry_since: null, total: metrics() }, true);
  expect(none.value).toBe('not known');
});
