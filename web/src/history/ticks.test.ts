import { expect, test } from 'vitest';
import { ticksIn, timeTicks } from './ticks';

const at = (text: string) => Date.parse(text);
const words = (from: string, to: string, most: number, zone: string) =>
  timeTicks(at(from), at(to), most, zone).map((t) => t.word);

test('an hour has round minutes, and never more than asked for by much', () => {
  expect(words('2026-11-17T11:03:00Z', '2026-11-17T12:03:00Z', 6, 'UTC')).toEqual([
    '11:10',
    '11:20',
    '11:30',
    '11:40',
    '11:50',
    '12:00',
  ]);
  expect(words('2026-11-17T11:00:05Z', '2026-11-17T11:01:05Z', 4, 'UTC')).toEqual([
    '11:00:15',
    '11:00:30',
    '11:00:45',
    '11:01:00',
  ]);
});

test('a day begins at midnight of the zone, which has its date as its word', () => {
  const day = words('2026-11-16T20:00:00Z', '2026-11-17T20:00:00Z', 5, 'America/Los_Angeles');
  expect(day).toEqual(['12:00', '18:00', '17 Nov', '06:00', '12:00']);
  expect(words('2026-11-16T18:00:00Z', '2026-11-16T20:00:00Z', 4, 'Asia/Kolkata')).toEqual([
    '23:30',
    '17 Nov',
    '00:30',
    '01:00',
    '01:30',
  ]);
});

test('days are marked at local midnights, also where the clocks are changed', () => {
  const week = timeTicks(at('2026-10-30T12:00:00Z'), at('2026-11-04T12:00:00Z'), 8, 'America/Los_Angeles');
  const midnights = week.filter((t) => t.word.endsWith('Nov') || t.word.endsWith('Oct'));
  expect(midnights.map((t) => new Date(t.at).toISOString().slice(5, 16))).toEqual([
    '10-31T07:00',
    '11-01T07:00',
    '11-02T08:00',
    '11-03T08:00',
    '11-04T08:00',
  ]);
});

test('90 days have some of their midnights', () => {
  const ticks = timeTicks(at('2026-08-19T12:00:00Z'), at('2026-11-17T12:00:00Z'), 6, 'UTC');
  expect(ticks.length).toBeLessThanOrEqual(6);
  expect(ticks.every((t) => t.at % 86_400_000 === 0)).toBe(true);
  expect(ticks[0].word).toBe('20 Aug');
});

test('no time has no marks, and a narrow chart has few', () => {
  expect(timeTicks(5, 5, 4, 'UTC')).toEqual([]);
  expect([ticksIn(10), ticksIn(320), ticksIn(5000)]).toEqual([2, 5, 10]);
});
