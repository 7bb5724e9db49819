import { expect, test } from 'vitest';
import { datesIn, margin, path, ticks, widthIn } from './plot';

test('scales have round steps', () => {
  expect(ticks(100)).toEqual([0, 25, 50, 75, 100]);
  expect(ticks(1).length).toBeGreaterThan(2);
  expect(ticks(0)).toEqual([0]);
  expect(ticks(Number.NaN)).toEqual([0]);
});

test('what is not known is a gap, not a zero', () => {
  const d = path(
    [1, 2, null, 3],
    (i) => i,
    (v) => v,
  );
  expect(d).toBe('M0.0 1.0L1.0 2.0M3.0 3.0h0.1');
  expect(
    path(
      [null, null],
      (i) => i,
      (v) => v,
    ),
  ).toBe('');
});

test('a scale has space for its longest number', () => {
  expect(margin(['0', '25 %'])).toBe(52);
  expect(margin(['0', '1,000,000'])).toBeGreaterThanOrEqual(9 * 6.5);
});

test('words of a plot stay as large as those of the page, also on a phone', () => {
  expect(widthIn(350)).toBe(350);
  expect(widthIn(1200)).toBe(640);
  expect(widthIn(0)).toBe(640);
  expect(datesIn(640)).toBe(8);
  expect(datesIn(350) * 56).toBeLessThanOrEqual(350 - 52);
});
