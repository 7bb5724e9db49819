import { expect, test } from 'vitest';
import { tripped } from './tripped';

const racks = [
  { name: 'r1', nodes: [0, 1] },
  { name: 'r2', nodes: [2, 3] },
];
const of = (...open: number[]) => tripped(racks, (n) => open.includes(n));

test('only what a breaker concerns is framed', () => {
  expect(of()).toMatchObject({ count: 0, whole: false });
  expect(of(0, 1, 2, 3)).toEqual({ count: 4, whole: true, racks: new Set(), nodes: new Set() });
  expect(of(2, 3)).toEqual({ count: 2, whole: false, racks: new Set(['r2']), nodes: new Set() });
  expect(of(1, 2)).toEqual({ count: 2, whole: false, racks: new Set(), nodes: new Set([1, 2]) });
});
