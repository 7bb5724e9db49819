import { expect, test, vi } from 'vitest';

vi.stubGlobal('sessionStorage', { getItem: () => null });
const { ApiError } = await import('../api/client');
const { isAt, isConflict, isPassing, ofDocument, placeOf, refusalWords } = await import('./errors');

const refused = (field: string | null, status = 422) =>
  new ApiError(status, 'invalid', 'it is wrong', 'write it right', field);

test('a refusal stands at the field that it names, or that holds it', () => {
  expect(isAt(refused('start'), 'start')).toBe(true);
  expect(isAt(refused('over.gpus.count'), 'over')).toBe(true);
  expect(isAt(refused('tree[0].name'), 'tree')).toBe(true);
  expect(isAt(refused('starts'), 'start')).toBe(false);
  expect(isAt(refused(null), 'start')).toBe(false);
  expect(isAt(new Error('x'), 'start')).toBe(false);
});

test('a refusal is said with its hint, and a conflict is known as one', () => {
  expect(refusalWords(refused(null))).toBe('it is wrong (write it right)');
  expect(refusalWords(new Error('odd'))).toBe('odd');
  expect(isConflict(refused(null, 409))).toBe(true);
  expect(isConflict(refused(null))).toBe(false);
});

test('an error of the way or of the server passes, a refusal does not', () => {
  for (const status of [0, 429, 500, 503]) expect(isPassing(refused(null, status))).toBe(true);
  for (const status of [400, 403, 409, 412, 422]) expect(isPassing(refused(null, status))).toBe(false);
  expect(isPassing(new Error('the form is not filled yet'))).toBe(false);
});

test('a refusal of a document is said without the place in the request', () => {
  const read = new ApiError(
    400,
    'invalid',
    '`x` is no time at line 1 column 45',
    null,
    'policy.idle.end_after',
  );
  expect(ofDocument(read, 'policy')).toMatchObject({ message: '`x` is no time', field: 'idle.end_after' });
  const checked = refused('idle.end_after');
  expect(ofDocument(checked, 'policy')).toBe(checked);
  expect(ofDocument(null, 'policy')).toBe(null);
  expect(ofDocument(new Error('odd'), 'policy')?.message).toBe('odd');
});

test('a refusal stands in one place: the nearest field that holds it, else the first of what it names', () => {
  const fields = ['limits', 'limits.fleet', 'limits.pool', 'rules'];
  expect(placeOf(refused('limits.fleet.total'), fields)).toBe('limits.fleet');
  expect(placeOf(refused('limits.storm'), fields)).toBe('limits');
  expect(placeOf(refused('limits'), ['limits.fleet', 'limits.pool'])).toBe('limits.fleet');
  expect(placeOf(refused('rules[3].kind'), fields)).toBe('rules');
  expect(placeOf(refused('other'), fields)).toBe(null);
  expect(placeOf(refused(null), fields)).toBe(null);
});
