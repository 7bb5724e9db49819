import { describe, expect, test } from 'vitest';
import {
  askedTime,
  CHARTS_MAX,
  drawn,
  metricsOf,
  momentOf,
  PRESETS,
  rangeOf,
  readEvery,
  USUAL,
  withMetric,
  zoomed,
} from './range';

const NOW = Date.parse('2026-11-17T12:00:00Z');
const HOUR = 3_600_000;

describe('the range of an address', () => {
  test('without a word it is the last hour of a node, and all of a job', () => {
    expect(rangeOf({}, '1h', NOW)).toEqual({ kind: 'last', range: '1h', ms: HOUR });
    expect(rangeOf({}, 'whole', NOW)).toEqual({ kind: 'whole' });
  });

  test('every preset is found by its word', () => {
    for (const p of PRESETS)
      expect(rangeOf({ range: p.range }, 'whole', NOW)).toEqual({ kind: 'last', range: p.range, ms: p.ms });
  });

  test('moments go before a preset, and one that is missing follows from the other', () => {
    const from = '2026-11-17T01:00:00Z';
    const at = Date.parse(from);
    expect(rangeOf({ range: '7d', from }, '1h', NOW)).toEqual({ kind: 'fixed', from: at, to: NOW });
    expect(rangeOf({ to: from }, '1h', NOW)).toEqual({ kind: 'fixed', from: at - HOUR, to: at });
  });

  test('what is no range says what is wrong and what to write', () => {
    const why = (search: object) => {
      const range = rangeOf(search, '1h', NOW);
      return range.kind === 'bad' ? range.why : '';
    };
    expect(why({ range: '2h' })).toContain('there are 1h, 6h, 1d, 7d, 90d');
    expect(why({ from: 'yesterday' })).toContain('`from` in the address is no moment');
    expect(why({ from: '2026-11-17T00:00:00Z', to: 'x' })).toContain('`to` in the address');
    expect(why({ from: '2026-11-17T02:00:00Z', to: '2026-11-17T02:00:00Z' })).toContain('not before');
    expect(why({ from: '2020-01-01T00:00:00Z' })).toContain('100 days');
  });
});

test('moments are written as dates or as milliseconds', () => {
  expect(momentOf('1794902400000')).toBe(1_794_902_400_000);
  expect(momentOf('2026-11-17T12:00:00.000Z')).toBe(NOW);
  for (const text of ['', '5', '12', 'now', '2026-99-99', '-1794902400000'])
    expect(momentOf(text)).toBeNull();
});

test('the server is asked for a preset up to the end, and for nothing where it knows the time of a job', () => {
  expect(askedTime(rangeOf({ range: '6h' }, '1h', NOW), NOW)).toEqual({ from: NOW - 6 * HOUR, to: NOW });
  expect(askedTime({ kind: 'whole' }, NOW)).toEqual({});
});

test('only a range without an end is read again, a long one seldom', () => {
  const every = (range: string) => readEvery(rangeOf({ range }, '1h', NOW), false);
  expect([every('1h'), every('1d'), every('90d')]).toEqual([30_000, 180_000, 300_000]);
  expect(readEvery({ kind: 'whole' }, true)).toBe(false);
  // A job that just began: its end is the present.
  expect([0, 60_000, HOUR, 24 * HOUR].map((known) => readEvery({ kind: 'whole' }, false, known))).toEqual([
    5_000, 5_000, 60_000, 60_000,
  ]);
  expect(readEvery({ kind: 'fixed', from: 0, to: 1 }, false)).toBe(false);
});

test('a drag is a range in order, of at least a minute', () => {
  const [a, b] = [NOW + 400, NOW - HOUR];
  expect(zoomed(a, b)).toEqual({ from: '2026-11-17T11:00:00.000Z', to: '2026-11-17T12:00:00.000Z' });
  const short = zoomed(NOW, NOW + 2000);
  expect(Date.parse(short.to) - Date.parse(short.from)).toBe(60_000);
});

test('metrics are chosen in the address, the usual ones without a word', () => {
  expect(metricsOf(undefined)).toEqual(USUAL);
  expect(metricsOf(' , ')).toEqual(USUAL);
  expect(metricsOf('power, util,power')).toEqual(['power', 'util']);
  expect(metricsOf('a,b,c,d,e,f,g,h,i,j')).toHaveLength(CHARTS_MAX);
  expect(withMetric(USUAL, 'sm_clock', true)).toBe('util,mem_used,power,temp,sm_clock');
  expect(withMetric([...USUAL, 'sm_clock'], 'sm_clock', false)).toBeUndefined();
  expect(withMetric(['util'], 'util', false)).toBeUndefined();
  expect(metricsOf(undefined, true)).toEqual(['step_time', ...USUAL]);
  expect(metricsOf('power', true)).toEqual(['power']);
  expect(withMetric(['step_time', 'util', 'mem_used', 'power'], 'temp', true, true)).toBeUndefined();
  expect(withMetric(metricsOf(undefined, true), 'step_time', false, true)).toBe('util,mem_used,power,temp');
});

test('steps are drawn where ranks report them or somebody asked', () => {
  expect(drawn(['step_time', 'util'], false, ['util'])).toEqual(['util']);
  expect(drawn(['step_time', 'util'], false, ['step_time'])).toEqual(['step_time', 'util']);
  expect(drawn(['step_time'], true, [])).toEqual(['step_time']);
});
