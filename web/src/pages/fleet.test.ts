import { expect, test, vi } from 'vitest';
import type { Picture } from '../live/fleet';

vi.stubGlobal('sessionStorage', { getItem: () => null });
vi.mock('../ui/theme', () => ({ useTheme: () => 'dark' }));
const { mapOf, pastNote } = await import('./fleet');
const { senseless } = await import('../time/moment');

const live = { tenants: ['live'] } as unknown as Picture;
const then = { tenants: ['then'] } as unknown as Picture;

test('a moment of which there is no map does not show the map of now', () => {
  const at = '2020-01-01T00:00:00Z';
  expect(mapOf(undefined, false, { isError: false }, live)).toBe(live);
  expect(mapOf(at, false, { data: then, isError: false }, live)).toBe(then);
  expect(mapOf(at, false, { isError: true }, live)).toBeUndefined();
  expect(mapOf(at, true, { isError: false }, live)).toBeUndefined();
});

test('what is no moment does not show the map of now', () => {
  expect(mapOf('nonsense', senseless('nonsense'), { isError: false }, live)).toBeUndefined();
});

test('the page says of when the map is while another is read, and whether it has metrics', () => {
  const at = '2030-01-31T03:12:00Z';
  const read = { data: then, isFetching: false, isPlaceholderData: false };
  const columns = (util: number[]) => ({ columns: { util: new Uint8Array(util) } }) as unknown as Picture;
  expect(pastNote(undefined, live, read)).toBe('');
  expect(pastNote(at, undefined, read)).toBe('');
  expect(pastNote(at, live, { isFetching: true, isPlaceholderData: false })).toContain('still shows now');
  expect(pastNote(at, then, { ...read, isFetching: true, isPlaceholderData: true })).toContain(
    'another moment',
  );
  expect(pastNote(at, columns([255, 255]), read)).toContain('no metrics are stored of this moment');
  expect(pastNote(at, columns([255, 40]), read)).toContain('metrics from the history');
});
