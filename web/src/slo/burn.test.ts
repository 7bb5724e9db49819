import { expect, test } from 'vitest';
import { left } from './burn';

const points = (...all: [number, number][]) => all.map(([good, total]) => ({ at: '', good, total }));

test('what is left is counted back from now', () => {
  const got = left(points([0, 0], [98, 100], [100, 100], [99, 100]), 0.3, 10);
  expect(got[0]).toBeNull();
  expect(got.slice(1)).toEqual([expect.closeTo(0.8), expect.closeTo(0.8), expect.closeTo(0.7)]);
  expect(left(points([1, 2]), null, 10)).toEqual([null]);
  expect(left(points([1, 2]), 0.5, 0)).toEqual([null]);
});
