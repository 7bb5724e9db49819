import { expect, test } from 'vitest';
import { meetsWords, projection } from './forecast';

const forecast = (more: object = {}) => ({
  capacity_gpus: 512,
  days: 14,
  demand_gpus: 400,
  growth_gpus_per_day: 2,
  spread_gpus: 30,
  summary: '',
  ...more,
});
const TO = Date.parse('2030-01-31T12:30:00Z');

test('the line goes on from the last whole day, with a band of one standard deviation', () => {
  const p = projection(forecast(), TO);
  expect(p?.at[0]).toBe(Date.parse('2030-01-31T00:00:00Z'));
  expect([p?.line[0], p?.low[0], p?.high[0]]).toEqual([400, 370, 430]);
  expect(p?.line[10]).toBe(420);
  expect(p?.at).toHaveLength(61);
});

test('it reaches past the latest day at which demand may meet capacity, and no further than a year', () => {
  const p = projection(
    forecast({ meets_at: '2030-03-28T00:00:00Z', meets_latest: '2030-05-11T00:00:00Z' }),
    TO,
  );
  expect(p?.at.at(-1)).toBeGreaterThan(Date.parse('2030-05-11T00:00:00Z'));
  const far = projection(forecast({ meets_at: '2031-01-30T00:00:00Z' }), TO);
  expect(far?.at).toHaveLength(366);
});

test('with too few days there is no line, and one that falls is not drawn to nothing', () => {
  expect(projection(forecast({ growth_gpus_per_day: null }), TO)).toBeNull();
  const falling = forecast({ growth_gpus_per_day: -20, days: 6 });
  expect(projection(falling, TO)).toBeNull();
  expect(meetsWords(falling)).toEqual({ value: 'no growth', note: 'the line falls' });
  const low = projection(forecast({ demand_gpus: 10 }), TO)?.low ?? [-1];
  expect(Math.min(...low)).toBe(0);
});

test('what is said of the line does not contradict what is measured', () => {
  const busy = { newest_demand_gpus: 504, newest_in_service_gpus: 486 };
  expect(meetsWords(forecast(busy)).note).toContain('demand is at what is in service now');
  expect(meetsWords(forecast({ ...busy, growth_gpus_per_day: -20 })).note).toBe(
    'the line falls; demand is at what is in service now',
  );
  const idle = { newest_demand_gpus: 0, newest_in_service_gpus: 0 };
  expect(meetsWords(forecast(idle)).note).not.toContain('now');
  expect(meetsWords(forecast({ days: 6 })).note).toBe('by a straight line through 6 days only');
});

test('a date comes with how sure it is', () => {
  expect(
    meetsWords(forecast({ meets_at: '2030-03-28T00:00:00Z', meets_earliest: '2030-03-10T00:00:00Z' })),
  ).toEqual({
    value: '28 Mar 2030',
    note: 'as early as 10 Mar 2030, maybe not within a year',
  });
  expect(
    meetsWords(
      forecast({
        meets_at: '2030-03-28T00:00:00Z',
        meets_earliest: '2030-03-10T00:00:00Z',
        meets_latest: '2030-05-01T00:00:00Z',
      }),
    ).note,
  ).toBe('between 10 Mar 2030 and 1 May 2030');
  expect(meetsWords(forecast()).value).toBe('not within a year');
  expect(meetsWords(forecast({ met: true })).value).toBe('met already');
  expect(meetsWords(forecast({ growth_gpus_per_day: null })).value).toBe('not known');
});
