import { expect, test } from 'vitest';
import { ahead, momentWords, senseless, typedMoment } from './moment';

const NOW = Date.parse('2030-01-31T12:07:00Z');

test('a moment that has not come yet is known, also where clocks differ a little', () => {
  const now = Date.now();
  const after = (ms: number) => new Date(now + ms).toISOString();
  expect(ahead(after(3_600_000), 0)).toBe(true);
  expect(ahead(after(1000), 0)).toBe(false);
  expect(ahead(after(-1000), 0)).toBe(false);
  // The server's clock may be ahead of the browser's.
  expect(ahead(after(3_600_000), now + 3_600_000)).toBe(false);
});

test('what is no moment is known', () => {
  expect(senseless('nonsense')).toBe(true);
  expect(senseless('2026-11-10T09:00Z')).toBe(false);
  expect(senseless(undefined)).toBe(false);
});

test('words of a moment are never negative', () => {
  expect(momentWords(NOW - 90_000, NOW)).toMatch(/^\d\d:\d\d:\d\d, 90 s ago$/);
  expect(momentWords(NOW + 30_217_498_000, NOW)).toMatch(/^\d+ Jan 2031 \d\d:\d\d:\d\d, in 350 d$/);
});

const typed = (text: string, more: object = {}, zone = 'UTC') => {
  const got = typedMoment(text, { now: NOW, ...more }, zone);
  return got.kind === 'at' ? new Date(got.at).toISOString().replace('.000Z', 'Z') : got;
};

test('a time is of the day that is shown, or of yesterday where it has not come today', () => {
  expect(typed('03:12')).toBe('2030-01-31T03:12:00Z');
  expect(typed(' 3:12:30 ')).toBe('2030-01-31T03:12:30Z');
  expect(typed('23:00')).toBe('2030-01-30T23:00:00Z');
  expect(typed('03:12', { base: Date.parse('2030-01-20T18:00:00Z') })).toBe('2030-01-20T03:12:00Z');
  expect(typed('03:12', {}, 'Asia/Kolkata')).toBe('2030-01-30T21:42:00Z');
});

test('dates are taken as logs and people write them', () => {
  expect(typed('2030-01-29 03:12')).toBe('2030-01-29T03:12:00Z');
  expect(typed('2030-01-29T03:12:05')).toBe('2030-01-29T03:12:05Z');
  expect(typed('2030-01-29')).toBe('2030-01-29T00:00:00Z');
  expect(typed('29 Jan 03:12')).toBe('2030-01-29T03:12:00Z');
  expect(typed('29 January 2030, 3:12')).toBe('2030-01-29T03:12:00Z');
  expect(typed('24 Dec 18:00')).toBe('2029-12-24T18:00:00Z');
});

test('a month is not taken for a unit that begins as it does', () => {
  expect(typed('31 dec')).toBe('2029-12-31T00:00:00Z');
  expect(typed('5 May')).toBe('2029-05-05T00:00:00Z');
  expect(typed('12 march')).toBe('2029-03-12T00:00:00Z');
  expect(typed('3 sep')).toBe('2029-09-03T00:00:00Z');
});

test('a zone that is written goes before that of the page', () => {
  for (const text of ['2030-01-29T03:12:00Z', '2030-01-29 03:12 UTC', '2030-01-29T04:12:00+01:00'])
    expect(typed(text, {}, 'America/Los_Angeles')).toBe('2030-01-29T03:12:00Z');
});

test('how long ago is a moment too', () => {
  for (const text of ['20 min ago', '20m', '-20m', '20 minutes ago'])
    expect(typed(text)).toBe('2030-01-31T11:47:00Z');
  expect(typed('1.5 h ago')).toBe('2030-01-31T10:37:00Z');
  expect(typed('2d')).toBe('2030-01-29T12:07:00Z');
  for (const text of ['60s', '60 sec ago', '60 seconds']) expect(typed(text)).toBe('2030-01-31T12:06:00Z');
  for (const text of ['2h', '2 hr', '2 hrs ago', '2 hours']) expect(typed(text)).toBe('2030-01-31T10:07:00Z');
  for (const text of ['14 days ago', '2w', '2 weeks']) expect(typed(text)).toBe('2030-01-17T12:07:00Z');
});

test('now is the live map', () => {
  expect(typed('now')).toEqual({ kind: 'live' });
});

test('what cannot be shown says why and what to write', () => {
  const why = (text: string, more: object = {}) => {
    const got = typedMoment(text, { now: NOW, ...more }, 'UTC');
    return got.kind === 'bad' ? got.why : '';
  };
  for (const text of [
    '',
    'soon',
    '25:00',
    '2030-02-31',
    '2030-13-01 03:12',
    '31 Foo',
    '12:60',
    '2 months ago',
    '3 dogs',
  ])
    expect(why(text), text).toContain('is no time: write 03:12');
  expect(why('2031-01-01')).toContain('has not come yet');
  expect(why('2d', { begin: NOW - 3_600_000 })).toContain('is before the log begins, at 2030-01-31 11:07:00');
});
