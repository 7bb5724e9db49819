import { expect, test } from 'vitest';
import { NotAReport } from './outcome';
import { EMPTY_RUN, offeredLength, reportOf, runName, scenarioBody } from './scenario';

const form = { ...EMPTY_RUN, name: 'quota-war' };

test('a scenario is run as it is, or with another seed and only its beginning', () => {
  expect(scenarioBody(form)).toEqual({
    body: { name: 'quota-war', asked: { seed: null, length: null } },
  });
  expect(scenarioBody({ ...form, seed: ' 7 ', length: '24h' })).toEqual({
    body: { name: 'quota-war', asked: { seed: 7, length: '24h' } },
  });
  const field = (more: object) => {
    const got = scenarioBody({ ...form, ...more });
    return 'problem' in got ? got.problem.field : null;
  };
  expect(field({ name: '' })).toBe('name');
  expect(field({ seed: '-1' })).toBe('seed');
  expect(field({ length: 'a day' })).toBe('length');
});

test('of a long scenario a week is offered', () => {
  expect(offeredLength({ length: '365d' })).toBe('7d');
  expect(offeredLength({ length: '1w' })).toBe('7d');
  expect(offeredLength({ length: '2d' })).toBe('2d');
});

test('runs of one scenario are distinguished by what was asked for', () => {
  expect(runName({ name: 'spares', seed: 2, length: '1w' })).toBe('spares, 7d, seed 2');
});

test('a report that cannot be read is an error of the run', () => {
  const run = { name: 'spares', seed: 2, length: '1w' };
  const read = reportOf({ ...run, report: { jobs_completed: 3, log_digest: 'a1' } as never });
  expect([read.name, read.outcome.jobs_completed]).toEqual(['spares, 7d, seed 2', 3]);
  for (const bad of [null, [], {}, { jobs_completed: 3 }])
    expect(() => reportOf({ ...run, report: bad as never })).toThrow(NotAReport);
});
