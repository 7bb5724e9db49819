import { expect, test } from 'vitest';
import { assignHues, contrast, inkOn } from './hues';

test('no two of ten have the same colour, whatever their numbers', () => {
  for (const ids of [
    [10, 20, 30, 40, 50, 60, 70, 80, 90, 100],
    [1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
    [3, 13, 23],
  ])
    expect(new Set(assignHues(ids, 10).values()).size).toBe(ids.length);
});

test('a colour stays while larger numbers come and go, and in whatever order they are given', () => {
  const few = assignHues([4, 9], 10);
  const more = assignHues([19, 9, 4, 14], 10);
  for (const id of [4, 9]) expect(more.get(id)).toBe(few.get(id));
});

test('with more than there are colours each is used again, none is missing', () => {
  const ids = Array.from({ length: 23 }, (_, i) => i);
  const all = assignHues(ids, 10);
  expect(all.size).toBe(23);
  expect(Math.max(...all.values())).toBeLessThan(10);
});

test('contrast is that of the WCAG, and words can be read on any colour', () => {
  expect(contrast('#000000', '#ffffff')).toBeCloseTo(21);
  expect(contrast('#000', '#FFF')).toBeCloseTo(21);
  expect(contrast('#777777', '#ffffff')).toBeCloseTo(4.48, 1);
  for (let v = 0; v < 256; v++) {
    const grey = `#${v.toString(16).padStart(2, '0').repeat(3)}`;
    expect(contrast(inkOn(grey), grey)).toBeGreaterThanOrEqual(4.5);
  }
});
