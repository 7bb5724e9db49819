import { expect, test, vi } from 'vitest';
import type { Picture } from '../live/fleet';

vi.stubGlobal('sessionStorage', { getItem: () => null });
vi.mock('../ui/theme', () => ({ useTheme: () => 'dark' }));
const { ahead, mapOf, momentWords, senseless } = await import('./fleet');

const live = { tenants: ['live'] } as unknown as Picture;
const then = { tenants: ['then'] } as unknown as Picture;

test('a moment of which there is no map does not show the map of now', () => {
  const at = '2020-01-01T00:00:00Z';
  expect(mapOf(undefined, false, { isError: false }, live)).toBe(live);
  expect(mapOf(at, false, { data: then, isError: false }, live)).toBe(then);
  expect(mapOf(at, false, { isError: true }, live)).toBeUndefined();
  expect(mapOf(at, true, { isError: false }, live)).toBeUndefined();
});

test('a moment that has not come yet is known, also where clocks differ a little', () => {
  const now = Date.now();
  const after = (ms: number) => new Date(now + ms).toISOString();
  expect(ahead(after(3_600_000), 0)).toBe(true);
  expect(ahead(after(1000), 0)).toBe(false);
  expect(ahead(after(-1000), 0)).toBe(false);
  // The server's clock may be ahead of the browser's.
  expect(ahead(after(3_600_000), now + 3_600_000)).toBe(false);
});

test('what is no moment does not show the map of now', () => {
  expect(senseless('nonsense')).toBe(true);
  expect(senseless('2026-11-10T09:00Z')).toBe(false);
  expect(senseless(undefined)).toBe(false);
  expect(mapOf('nonsense', senseless('nonsense'), { isError: false }, live)).toBeUndefined();
});

test('words of a moment are never negative', () => {
  const now = Date.parse('2030-01-31T12:07:00Z');
  expect(momentWords(now - 90_000, now)).toMatch(/^\d\d:\d\d:\d\d, 90 s ago$/);
  expect(momentWords(now + 30_217_498_000, now)).toMatch(/^2031-01-\d\d \d\d:\d\d:\d\d, in 350 d$/);
});
