import { expect, test } from 'vitest';
import { DAY, dragged, HOUR, momentAt, nudged, placeOf, STEP, windowsOf } from './calendar';

const seen = { start: 0, end: 10 * DAY };
const at = (ms: number) => new Date(ms).toISOString();

test('a point is a moment on a quarter of an hour, and never outside', () => {
  expect(momentAt(500, 1000, seen)).toBe(5 * DAY);
  expect(momentAt(1, 1000, seen) % STEP).toBe(0);
  expect(momentAt(-20, 1000, seen)).toBe(0);
  expect(momentAt(2000, 1000, seen)).toBe(10 * DAY);
  expect(momentAt(5, 0, seen)).toBe(0);
});

test('a window is drawn as far as it is in sight', () => {
  expect(placeOf({ start: DAY, end: 2 * DAY }, seen)).toEqual({ left: 10, width: 10 });
  expect(placeOf({ start: -DAY, end: DAY }, seen)).toEqual({ left: 0, width: 10 });
  expect(placeOf({ start: -DAY, end: 0 }, seen)).toBeNull();
  expect(placeOf({ start: 10 * DAY, end: 11 * DAY }, seen)).toBeNull();
});

test('a new window goes either way and has a length', () => {
  expect(dragged('new', seen, DAY, 2 * DAY)).toEqual({ start: DAY, end: 2 * DAY });
  expect(dragged('new', seen, 2 * DAY, DAY)).toEqual({ start: DAY, end: 2 * DAY });
  expect(dragged('new', seen, DAY, DAY)).toEqual({ start: DAY, end: DAY + STEP });
});

test('a window is moved whole, and by its ends', () => {
  const of = { start: 2 * HOUR, end: 4 * HOUR };
  expect(dragged('whole', of, 3 * HOUR, 5 * HOUR)).toEqual({ start: 4 * HOUR, end: 6 * HOUR });
  expect(dragged('start', of, 2 * HOUR, HOUR)).toEqual({ start: HOUR, end: 4 * HOUR });
  expect(dragged('start', of, 2 * HOUR, 9 * HOUR)).toEqual({ start: 4 * HOUR - STEP, end: 4 * HOUR });
  expect(dragged('end', of, 4 * HOUR, 0)).toEqual({ start: 2 * HOUR, end: 2 * HOUR + STEP });
});

test('arrows move a window, with Shift its end; other keys do nothing', () => {
  const of = { start: 2 * HOUR, end: 4 * HOUR };
  expect(nudged(of, 'ArrowRight', false)).toEqual({ start: 3 * HOUR, end: 5 * HOUR });
  expect(nudged(of, 'ArrowDown', false)).toEqual({ start: 2 * HOUR - STEP, end: 4 * HOUR - STEP });
  expect(nudged(of, 'ArrowLeft', true)).toEqual({ start: 2 * HOUR, end: 3 * HOUR });
  expect(nudged(of, 'Enter', false)).toBeNull();
});

test('a reservation that recurs is drawn each time, from when it first begins', () => {
  const nightly = { start: at(DAY), length: '2h', every: '24h' };
  const all = windowsOf(nightly, seen);
  expect(all).toHaveLength(9);
  expect(all[0]).toEqual({ start: DAY, end: DAY + 2 * HOUR });
  expect(windowsOf(nightly, { start: 100 * DAY + HOUR, end: 101 * DAY })[0]).toEqual({
    start: 100 * DAY,
    end: 100 * DAY + 2 * HOUR,
  });
  expect(windowsOf({ start: at(DAY), length: '2h' }, seen)).toHaveLength(1);
  expect(windowsOf({ start: at(DAY), length: 'soon' }, seen)).toEqual([]);
  expect(windowsOf({ start: at(-DAY), length: '2h' }, seen)).toEqual([]);
  // Without an end it would be drawn for ever.
  expect(windowsOf({ start: at(0), length: '1ms', every: '1ms' }, seen).length).toBeLessThanOrEqual(200);
});
