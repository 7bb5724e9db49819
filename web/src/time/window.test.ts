import { expect, test } from 'vitest';
import { stepOf, windowFor } from './window';

const HOUR = 3_600_000;
const log = { begin: 0, now: 100 * HOUR };

test('without a length the slider spans the whole log', () => {
  expect(windowFor(null, log, undefined)).toEqual({ from: 0, to: 100 * HOUR });
  expect(windowFor(50 * HOUR, log, '7d')).toEqual({ from: 0, to: 100 * HOUR });
});

test('live it ends now, in the past the moment is in its centre, and it never leaves the log', () => {
  expect(windowFor(null, log, '6h')).toEqual({ from: 94 * HOUR, to: 100 * HOUR });
  expect(windowFor(50 * HOUR, log, '6h')).toEqual({ from: 47 * HOUR, to: 53 * HOUR });
  expect(windowFor(HOUR, log, '6h')).toEqual({ from: 0, to: 6 * HOUR });
  expect(windowFor(99 * HOUR, log, '6h')).toEqual({ from: 94 * HOUR, to: 100 * HOUR });
});

test('it stays while the moment is inside, and moves on at its end', () => {
  const old = { from: 47 * HOUR, to: 53 * HOUR };
  expect(windowFor(48 * HOUR, log, '6h', old)).toBe(old);
  expect(windowFor(53 * HOUR, log, '6h', old)).toEqual({ from: 50 * HOUR, to: 56 * HOUR });
  expect(windowFor(40 * HOUR, log, '6h', old)).toEqual({ from: 37 * HOUR, to: 43 * HOUR });
  // Another length is another window.
  expect(windowFor(48 * HOUR, log, '1h', old)).toEqual({ from: 47.5 * HOUR, to: 48.5 * HOUR });
});

test('any minute is reached by keys', () => {
  for (const span of ['1h', '6h', '1d', undefined] as const)
    expect(stepOf(windowFor(50 * HOUR, log, span))).toBeLessThanOrEqual(60);
});

test('a log of no length has a slider all the same', () => {
  const { from, to } = windowFor(null, { begin: 5000, now: 5000 }, '1h');
  expect(to - from).toBe(1000);
});
