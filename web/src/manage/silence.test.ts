import { expect, test } from 'vitest';
import { chooseUtc } from '../ui/zone';
import { EMPTY, isEverything, matchWords, silenceBody } from './silence';

chooseUtc(true);
const form = { ...EMPTY, name: 'fans', under: 'rack:r7', why: 'fans are replaced' };

test('a form becomes a silence; what is empty is not asked for', () => {
  const match = {
    kind: null,
    entity: null,
    under: 'rack:r7',
    urgency: null,
    owner: null,
    project: null,
    topic: null,
  };
  const why = 'fans are replaced';
  expect(silenceBody(form)).toEqual({ body: { match, length: '2h', start: null, every: null, why } });
  expect(silenceBody({ ...form, start: '2030-01-31T02:00', every: '24h', urgency: 'page' })).toMatchObject({
    body: { start: '2030-01-31T02:00:00.000Z', every: '24h', match: { urgency: 'page' } },
  });
  expect(silenceBody({ ...form, under: '', topic: 'drift' })).toMatchObject({
    body: { match: { topic: 'drift', under: null, kind: null } },
  });
});

test('what is missing is said at its field', () => {
  const field = (more: object) => {
    const got = silenceBody({ ...form, ...more });
    return 'problem' in got ? got.problem.field : null;
  };
  expect(field({ name: '' })).toBe('name');
  expect(field({ length: 'long' })).toBe('length');
  expect(field({ length: '0s' })).toBe('length');
  expect(field({ every: 'nightly' })).toBe('every');
  expect(field({ start: 'tomorrow' })).toBe('start');
  expect(field({ why: ' ' })).toBe('why');
});

test('a silence of everything is known, and written as the server takes it', () => {
  const match = (more: object) => {
    const got = silenceBody({ ...form, under: '', ...more });
    return 'body' in got ? got.body.match : {};
  };
  for (const more of [{}, { kind: ' * ' }, { entity: '*' }, { under: '**', owner: '*' }]) {
    expect(match(more)).toMatchObject({ kind: '*' });
    expect(isEverything(match(more))).toBe(true);
  }
  for (const more of [{ urgency: 'page' }, { kind: '*', project: 'nlp' }, { kind: 'gpu-*' }])
    expect(isEverything(match(more))).toBe(false);
  expect(match({ urgency: 'page' })).toMatchObject({ kind: null });
});

test('a matcher is said in words', () => {
  expect(matchWords({ kind: 'gpu-*', urgency: 'page', owner: null })).toBe('kind gpu-*, urgency page');
  expect(matchWords({ topic: 'drift' })).toBe('topic drift (a version or setting that differs)');
  expect(matchWords({})).toBe('all');
});
