import { expect, test } from 'vitest';
import { barsOf, lengthMs, placeOf, stretchOf } from './gantt';

const NOW = Date.parse('2030-01-31T12:00:00Z');
const HOUR = 3_600_000;
const at = (hours: number) => new Date(NOW + hours * HOUR).toISOString();

test('lengths of time are read as the server writes them', () => {
  expect(lengthMs('1d12h')).toBe(36 * HOUR);
  expect(lengthMs('90m')).toBe(1.5 * HOUR);
  expect(lengthMs('250ms')).toBe(250);
  for (const none of [null, undefined, '', '4', 'h', '4h!']) expect(lengthMs(none)).toBeNull();
});

test('what runs comes first, then reserved starts; others have no bar', () => {
  const job = (id: string, state: string, more: object) => ({ id, name: id, state, spec: {}, ...more });
  const bars = barsOf([
    job('4', 'queued', { reserved_start: { at: at(2) }, spec: { time_limit: '3h' } }),
    job('3', 'queued', {}),
    job('2', 'running', { attempt: { placed_at: at(-3), started_at: at(-2) } }),
    job('1', 'running', { attempt: { placed_at: at(-1), started_at: at(-1), deadline: at(2) } }),
  ] as never);
  expect(bars.map((b) => [b.id, b.reserved])).toEqual([
    ['1', false],
    ['2', false],
    ['4', true],
  ]);
  expect(bars[1]).toMatchObject({ from: NOW - 2 * HOUR, to: null });
  expect(bars[2]).toMatchObject({ from: NOW + 2 * HOUR, to: NOW + 5 * HOUR });
  expect(stretchOf(bars, NOW)).toEqual({ from: NOW - 2 * HOUR, to: NOW + 5 * HOUR });
});

test('the stretch is bounded, and what is outside lies on its edge', () => {
  const bar = { id: '1', name: 'a', reserved: false, from: NOW - 900 * HOUR, to: NOW + 900 * HOUR };
  const stretch = stretchOf([bar], NOW);
  expect(stretch).toEqual({ from: NOW - 12 * HOUR, to: NOW + 48 * HOUR });
  expect([placeOf(bar.from, stretch), placeOf(NOW, stretch), placeOf(null, stretch)]).toEqual([0, 200, 1000]);
});
