import { expect, test } from 'vitest';
import type { Schemas } from '../api/client';
import {
  alone,
  firstSample,
  linesOf,
  midpoints,
  missingUntil,
  numberWord,
  pointWords,
  wholeWords,
} from './series';

type Points = (number[] | null)[];
const one = (metric: string, gpu: number | null, points: Points): Schemas['MetricSeries'] => ({
  metric,
  unit: '%',
  node: 'n1',
  gpu,
  gpus: gpu === null ? 0 : 1,
  points,
});
const answer = (...series: Schemas['MetricSeries'][]): Schemas['MetricsHistory'] => ({
  from: 60_000,
  to: 90_000,
  step_ms: 10_000,
  source: 'builtin',
  series,
});

test('GPUs are put together point by point, and where none has a sample there is a gap', () => {
  const lines = linesOf(
    answer(
      one('util', 0, [[1, 2, 3], null, null]),
      one('util', 1, [[5, 6, 9], null, [4, 4, 4]]),
      one('temp', 0, [[70, 71, 72], null, null]),
    ),
    'util',
  );
  expect(lines).toEqual({ unit: '%', gpus: 2, min: [1, null, 4], mean: [4, null, 4], max: [9, null, 4] });
});

test('GPUs that the server put together weigh as many as they are', () => {
  const many = { ...one('util', null, [[0, 10, 20]]), node: null, gpus: 24 };
  expect(linesOf(answer(many), 'util')).toMatchObject({ gpus: 24, mean: [10] });
  expect(linesOf(answer(one('load', null, [[1, 1, 1]])), 'load')).toMatchObject({ gpus: 0, mean: [1] });
  expect(linesOf(answer(many), 'power')).toBeNull();
});

test('points stand in the midpoints of their times', () => {
  expect(midpoints(answer(one('util', 0, [null, null, null])))).toEqual([65, 75, 85]);
  expect(midpoints(answer())).toEqual([]);
});

test('the first sample of any series counts', () => {
  expect(
    firstSample(answer(one('util', 0, [null, null, [1, 1, 1]]), one('temp', 0, [null, [2, 2, 2]]))),
  ).toBe(70_000);
  expect(firstSample(answer(one('util', 0, [null])))).toBeNull();
});

test('it is known until when nothing is stored', () => {
  expect(missingUntil(answer())).toBeNull();
  expect(missingUntil({ ...answer(), known_from: 65_000 }), 'within the first point').toBeNull();
  expect(missingUntil({ ...answer(), known_from: 80_000 })).toBe(80_000);
});

test('a value between gaps is drawn as a dot', () => {
  expect(alone([1, null, 2, null, 3, 4])).toEqual([0, 2]);
  expect(alone([null, 5])).toEqual([1]);
  expect(alone([])).toEqual([]);
});

test('values are said as long as they need to be, a gap as no data', () => {
  expect([1.234, 12.345, 123.45, 81_559].map(numberWord)).toEqual(['1.23', '12.3', '123', '81,559']);
  const lines = linesOf(answer(one('util', 0, [[1, 2, 3], null, [4, 4, 4]])), 'util');
  expect(lines && [0, 1, 2].map((i) => pointWords(lines, i))).toEqual([
    'mean 2 %, 1 to 3 %',
    'no data',
    '4 %',
  ]);
  expect(lines && pointWords(lines, 99)).toBe('no data');
  expect(lines && wholeWords(lines)).toBe('mean 3 %, 1 to 4 %');
});
