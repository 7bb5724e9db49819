import { expect, test } from 'vitest';
import { atWall, dayBegins, dayWord, midnights, momentWord, named, wall } from './zone';

const LATE = '2026-11-16T23:42:45Z';

test('date and time are of one zone, which is named', () => {
  expect(wall(LATE, 'America/Los_Angeles')).toEqual({ date: '2026-11-16', time: '15:42:45', zone: 'UTC-8' });
  expect(wall(LATE, 'Asia/Kolkata')).toEqual({ date: '2026-11-17', time: '05:12:45', zone: 'UTC+5:30' });
  expect(wall(LATE, 'UTC')).toEqual({ date: '2026-11-16', time: '23:42:45', zone: 'UTC' });
});

test('no offset at all is UTC, however the browser writes it', () => {
  for (const word of ['GMT', 'UTC', 'GMT+0', 'GMT-0', 'UTC+0', 'UTC-0', 'GMT+00:00'])
    expect(named(word)).toBe('UTC');
  expect(['GMT-8', 'GMT+5:30', 'GMT+0:30'].map(named)).toEqual(['UTC-8', 'UTC+5:30', 'UTC+0:30']);
});

test('words of a moment follow its zone, not UTC', () => {
  expect(dayWord('2026-11-17T03:00:00Z', true, 'America/Los_Angeles')).toBe('16 Nov 2026');
  expect(momentWord('2026-11-17T03:00:00Z', 'America/Los_Angeles')).toBe('16 Nov 19:00');
  expect(momentWord('2026-11-17T03:00:00Z', 'UTC')).toBe('17 Nov 03:00');
});

test('a day begins at midnight of the zone', () => {
  const at = Date.parse('2026-11-17T03:00:00.250Z');
  expect(new Date(dayBegins(at, 'UTC')).toISOString()).toBe('2026-11-17T00:00:00.000Z');
  expect(new Date(dayBegins(at, 'America/Los_Angeles')).toISOString()).toBe('2026-11-16T08:00:00.000Z');
});

test('marks of a scale of days are midnights of the zone, and none is left out', () => {
  const to = Date.parse('2026-11-17T10:00:00Z');
  const from = to - 7 * 86_400_000;
  for (const zone of ['America/Los_Angeles', 'Asia/Tokyo', 'UTC']) {
    const all = midnights(from, to, 8, zone);
    expect(all.map((m) => wall(m, zone).time)).toEqual(Array(7).fill('00:00:00'));
    expect(all.map((m) => dayWord(m, false, zone))).toEqual(
      [11, 12, 13, 14, 15, 16, 17].map((d) => `${d} Nov`),
    );
  }
  // Clocks go back on 1 November 2026 there.
  const autumn = midnights(
    Date.parse('2026-10-30T00:00Z'),
    Date.parse('2026-11-04T00:00Z'),
    8,
    'America/Los_Angeles',
  );
  expect(autumn.map((m) => wall(m, 'America/Los_Angeles').time)).toEqual(Array(5).fill('00:00:00'));
  const month = midnights(to - 30 * 86_400_000, to, 8, 'UTC');
  expect(month.length).toBeLessThanOrEqual(8);
  expect(new Set(month.slice(1).map((m, i) => (m - month[i]) / 86_400_000))).toEqual(new Set([4]));
});

test('what is no date is said, not thrown', () => {
  expect(wall('nonsense').date).toBe('not a date');
});

test('what a clock of the zone shows is a moment, also on the day the clocks are changed', () => {
  const of = (date: string, time: string, zone: string) => {
    const at = atWall(date, time, zone);
    return at === null ? null : new Date(at).toISOString();
  };
  expect(of('2026-11-17', '03:12:00', 'UTC')).toBe('2026-11-17T03:12:00.000Z');
  expect(of('2026-11-17', '03:12:00', 'Asia/Kolkata')).toBe('2026-11-16T21:42:00.000Z');
  expect(of('2026-11-01', '12:00:00', 'America/Los_Angeles')).toBe('2026-11-01T20:00:00.000Z');
  expect(of('2026-10-31', '12:00:00', 'America/Los_Angeles')).toBe('2026-10-31T19:00:00.000Z');
  expect(of('2026-02-31', '12:00:00', 'UTC')).toBeNull();
  expect(of('2026-02-30', 'x', 'UTC')).toBeNull();
});
