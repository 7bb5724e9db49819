import { expect, test } from 'vitest';
import { along, apart, apartColours, beside, legend, range, slowShare } from './heat';

test('a step is coloured by how it stands beside the middle of its stretch', () => {
  const [faster, same, , , worst] = apartColours('dark');
  expect(apart(0.8, 'dark')).toBe(faster);
  expect(apart(1, 'dark')).toBe(same);
  expect(apart(2, 'dark')).toBe(worst);
  const paint = beside([400, 800, null], 'dark');
  expect(paint(800, 1)).toBe(same);
  expect(paint(800, 0)).toBe(worst);
  expect(paint(800, 2)).toBe(same);
});

test('a legend has each word once', () => {
  const words = (low: number, high: number) => legend([low, high], '%').map((e) => e.word);
  expect(words(96, 96)).toEqual(['96 %']);
  expect(words(96, 97)).toEqual(['96 %', '96.3 %', '96.5 %', '96.8 %', '97 %']);
  expect(words(96, 96.1)).toEqual(['96 %', '96.1 %']);
  expect(words(0, 100)).toEqual(['0 %', '25 %', '50 %', '75 %', '100 %']);
});

test('stretches without figures have no part in the range', () => {
  expect(range([[null, 3], [null, 7], []])).toEqual([3, 7]);
  expect(range([[null], []])).toBeNull();
  expect(along([5, 5], 'dark')(5, 0)).toMatch(/^#|rgb/);
});

test('a straggler is slow in most stretches that it reported', () => {
  const middle = [100, 100, 100, null];
  expect(slowShare([120, 130, null, 500], middle)).toBe(1);
  expect(slowShare([100, 130, 101, null], middle)).toBeCloseTo(1 / 3);
  expect(slowShare([null, null], middle)).toBe(0);
});
