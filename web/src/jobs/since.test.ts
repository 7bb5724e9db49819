import { expect, test } from 'vitest';
import {
  lengthRan,
  lengthWord,
  noSamplesWords,
  pointAt,
  pointsFor,
  ranOf,
  sinceStart,
  sinceTicks,
  topOf,
} from './since';

const at = (s: number) => new Date(s * 1000).toISOString();
const SECOND = 1000;

test('a job and each of its attempts have a time of their own', () => {
  const job = {
    started_at: at(10),
    ended_at: null,
    attempt: { no: 2, started_at: at(100), freed_at: null },
    past: [
      { no: 1, started_at: at(10), ended_at: at(70) },
      { no: 3, started_at: null, ended_at: at(80) },
    ],
  } as never;
  expect(ranOf(job, null)).toEqual({ from: 10_000, to: null });
  expect(ranOf(job, 1)).toEqual({ from: 10_000, to: 70_000 });
  expect(ranOf(job, 2)).toEqual({ from: 100_000, to: null });
  expect(ranOf(job, 3), 'it never started').toBeNull();
  expect(ranOf(job, 4)).toBeNull();
  expect(lengthRan(ranOf(job, 2), 130_000)).toBe(30_000);
  expect(lengthRan(null, 130_000)).toBe(0);
});

test('both begin at 0, whenever that was', () => {
  const answer = (from: number) => ({
    from,
    to: from + 30_000,
    step_ms: 10_000,
    source: 'builtin',
    series: [{ metric: 'util', unit: '%', gpus: 1, points: [null, null, null] }],
  });
  expect(sinceStart(answer(500_000) as never, 500_000)).toEqual([5, 15, 25]);
  expect(sinceStart(answer(900_000) as never, 903_000)).toEqual([2, 12, 22]);
});

test('points of both are about equally long', () => {
  expect(pointsFor(3600 * SECOND, 3600 * SECOND, 300)).toBe(300);
  expect(pointsFor(600 * SECOND, 3600 * SECOND, 300)).toBe(50);
  expect(pointsFor(0, 0, 300)).toBe(2);
});

test('the crosshair says nothing of the side that had ended by then', () => {
  const x = [5, 15, 25];
  expect(pointAt(x, 5, 10_000)).toBe(0);
  expect(pointAt(x, 17, 10_000)).toBe(1);
  expect(pointAt(x, 29, 10_000)).toBe(2);
  expect(pointAt(x, 60, 10_000)).toBeNull();
  expect(pointAt([], 5, 10_000)).toBeNull();
});

test('equal values are equally high on both sides', () => {
  const lines = (unit: string, max: (number | null)[]) => ({ unit, gpus: 1, min: max, mean: max, max });
  expect(topOf([lines('W', [100, null]), lines('W', [700])])).toBeCloseTo(756);
  expect(topOf([lines('%', [40]), null])).toBe(100);
  expect(topOf([null, null])).toBeUndefined();
});

test('the axis has round lengths of time since the start', () => {
  expect(sinceTicks(0, 120_000, 5).map((t) => t.word)).toEqual([
    'start',
    '30 s',
    '1 min',
    '1 min 30 s',
    '2 min',
  ]);
  expect(sinceTicks(0, 4 * 3_600_000, 4).map((t) => t.word)).toEqual(['start', '1 h', '2 h', '3 h', '4 h']);
  expect(sinceTicks(0, 90 * 86_400_000, 5).map((t) => t.word)).toEqual([
    'start',
    '20 d',
    '40 d',
    '60 d',
    '80 d',
  ]);
  expect(sinceTicks(5, 5, 5)).toEqual([]);
  expect([0, 59_000, 61_000, 5_400_000, 90_000_000].map(lengthWord)).toEqual([
    '0 s',
    '59 s',
    '1 min 1 s',
    '1 h 30 min',
    '1 d 1 h',
  ]);
});

test('the side without samples has a reason', () => {
  expect(noSamplesWords('43', null, null)).toBe('43 has no samples: it has not started.');
  expect(noSamplesWords('43', { from: 0, to: 10 }, 20)).toContain('before the oldest that are stored');
  expect(noSamplesWords('43', { from: 0, to: null }, 20)).toContain('no samples yet');
  expect(noSamplesWords('43.1', { from: 30, to: 40 }, 20)).toContain('none was stored while it ran');
});
