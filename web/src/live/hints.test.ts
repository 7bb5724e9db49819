import { expect, test } from 'vitest';
import { due, touched } from './hints';

const of = (...kinds: string[]) => [...touched({ all: false, kinds })].sort();

test('events make stale what they are about, and no more', () => {
  expect(of('job_placed')).toEqual(['jobs', 'node', 'oncall', 'quotas', 'work']);
  expect(of('attempt_ended')).toContain('work');
  expect(of('alert_opened')).toContain('health');
  expect(of('preflight_set')).toEqual(['jobs', 'node', 'quotas', 'work']);
  expect(of('stop_ordered')).toContain('work');
  expect(of('finding_opened')).toEqual(['causes', 'health', 'node']);
  expect(of('breaker_set')).toEqual(['causes', 'health', 'node', 'nodes']);
  expect(of('remediation_chosen')).toEqual(['causes', 'health', 'node', 'nodes']);
  expect(of('reservation_set')).toEqual(['reservations']);
  expect(of('policy_set')).toEqual(['policy', 'quotas']);
  expect(of('project_created')).toEqual(['projects', 'quotas']);
  expect(of('token_created')).toEqual(['tokens']);
  expect(of('secret_set')).toEqual([]);
});

test('too much at once makes everything stale', () => {
  expect(touched({ all: true, kinds: [] }).size).toBeGreaterThan(5);
});

test('what only reports that work goes on makes nothing of the on-call page stale', () => {
  for (const kind of ['checkpoint_done', 'attempt_progressed', 'slot_started', 'counts_reported']) {
    const keys = of(kind);
    for (const key of ['causes', 'health', 'oncall', 'slo', 'work']) expect(keys).not.toContain(key);
  }
});

test('what was read lately waits for its turn, and the rest does not wait for it', () => {
  const before = new Map([['causes', 1000]]);
  expect(due(['causes', 'node'], before, 4000)).toEqual({ keys: ['node'], next: 7000 });
  expect(due(['causes'], before, 11_000)).toEqual({ keys: ['causes'], next: null });
  expect(due(['causes'], new Map(), 0)).toEqual({ keys: ['causes'], next: null });
});
