import { expect, test } from 'vitest';
import { touched } from './hints';

const of = (...kinds: string[]) => [...touched({ all: false, kinds })].sort();

test('events make stale what they are about, and no more', () => {
  expect(of('job_placed')).toEqual(['jobs', 'node', 'quotas']);
  expect(of('preflight_set')).toEqual(['jobs', 'node', 'quotas']);
  expect(of('finding_opened')).toEqual(['health', 'node']);
  expect(of('breaker_set')).toEqual(['health', 'node', 'nodes']);
  expect(of('remedy_chosen')).toEqual(['health', 'node', 'nodes']);
  expect(of('reservation_set')).toEqual(['reservations']);
  expect(of('secret_set')).toEqual([]);
});

test('too much at once makes everything stale', () => {
  expect(touched({ all: true, kinds: [] }).size).toBeGreaterThan(5);
});
