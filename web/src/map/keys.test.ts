import { expect, test } from 'vitest';
import { inSight, nearest, neighbour } from './keys';
import type { Plan } from './layout';

/** Two racks of two nodes of four GPUs, side by side. */
const plan: Plan = {
  w: 9,
  h: 3,
  x: new Float32Array([0, 1, 2, 3, 0, 1, 2, 3, 5, 6, 7, 8, 5, 6, 7, 8]),
  y: new Float32Array([0, 0, 0, 0, 1.4, 1.4, 1.4, 1.4, 0, 0, 0, 0, 1.4, 1.4, 1.4, 1.4]),
  groups: [],
  rowHead: 0.4,
};

test('arrows walk a row, then the rack next to it, and stop at the edge', () => {
  expect(neighbour(plan, 0, 'right')).toBe(1);
  expect(neighbour(plan, 3, 'right')).toBe(8);
  expect(neighbour(plan, 11, 'right')).toBe(11);
  expect(neighbour(plan, 8, 'left')).toBe(3);
  expect(neighbour(plan, 0, 'left')).toBe(0);
});

test('up and down stay in their column', () => {
  expect(neighbour(plan, 2, 'down')).toBe(6);
  expect(neighbour(plan, 6, 'up')).toBe(2);
  expect(neighbour(plan, 2, 'up')).toBe(2);
});

test('a walk begins at what is nearest to the centre of the window', () => {
  expect(nearest(plan, 5.4, 0.4)).toBe(8);
  expect(nearest({ ...plan, x: new Float32Array(0) }, 0, 0)).toBeNull();
});

test('what is chosen comes into sight, and nothing moves where it is already', () => {
  const view = { scale: 20, dx: 100, dy: 100 };
  expect(inSight(view, plan, 5, 600, 400)).toEqual(view);
  const moved = inSight({ scale: 20, dx: -150, dy: 100 }, plan, 0, 600, 400);
  expect(plan.x[0] * 20 + moved.dx).toBeGreaterThan(0);
  expect(moved.dy).toBe(100);
});
