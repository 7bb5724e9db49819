import { expect, test } from 'vitest';
import { ALL, EMPTY_TOKEN, forJoin, lastUse, newestFirst, soon, tokenBody, tokenWords } from './token';

test('a token of the API has a role and a project, one for agents has uses', () => {
  const form = { ...EMPTY_TOKEN, name: ' ci ', project: 'nlp', uses: '4' };
  expect(tokenBody(form)).toEqual({
    body: { name: 'ci', join: false, role: 'user', project: 'nlp', ttl: '90d' },
  });
  expect(tokenBody({ ...form, join: true, ttl: '' })).toEqual({
    body: { name: 'ci', join: true, ttl: null, uses: 4 },
  });
});

test('a token to join with expires as the server says, unless somebody wrote when', () => {
  const join = forJoin({ ...EMPTY_TOKEN, name: 'rack' }, true);
  expect(tokenBody(join)).toEqual({ body: { name: 'rack', join: true, ttl: null, uses: null } });
  expect(forJoin(join, false).ttl).toBe('90d');
  const written = { ...EMPTY_TOKEN, ttl: '12h' };
  expect(forJoin(forJoin(written, true), false)).toEqual(written);
});

test('what is wrong is said at its field', () => {
  const field = (more: object) => {
    const got = tokenBody({ ...EMPTY_TOKEN, name: 'ci', project: 'nlp', ...more });
    return 'problem' in got ? got.problem.field : null;
  };
  expect(field({})).toBeNull();
  expect(field({ name: ' ' })).toBe('name');
  expect(field({ project: '' })).toBe('project');
  expect(field({ project: '', join: true })).toBeNull();
  expect(field({ ttl: 'long' })).toBe('ttl');
  expect(field({ join: true, uses: '0' })).toBe('uses');
  expect(field({ join: true, uses: '1.5' })).toBe('uses');
});

test('a token that expires within a week is known', () => {
  const now = Date.parse('2030-01-31T00:00:00Z');
  expect(soon('2030-02-06T00:00:00Z', now)).toBe(true);
  expect(soon('2030-02-08T00:00:00Z', now)).toBe(false);
  expect(soon(null, now)).toBe(false);
});

test('before a token is revoked it is named, with its role', () => {
  const token = { id: 'tok1', name: 'ci', role: 'admin' as const, project: null, join: false };
  expect(tokenWords(token)).toBe('Token ci (tok1; role admin, all projects)');
  expect(tokenWords({ ...token, role: 'user', project: 'nlp' })).toContain('role user, project nlp');
  expect(tokenWords({ ...token, role: null, join: true })).toContain('agents join with it');
});

test('all projects are chosen, never the default; the newest token comes first', () => {
  expect(tokenBody({ ...EMPTY_TOKEN, name: 'ci', project: ALL })).toMatchObject({ body: { project: null } });
  const at = (created_at: string) => ({ created_at });
  expect(newestFirst([at('2030-01-01T00:00:00Z'), at('2030-01-02T00:00:00Z')])[0].created_at).toContain(
    '02T',
  );
});

test('a token shows when it was last used, or since when it was not', () => {
  const [created_at, later] = ['2030-01-01T00:00:00Z', '2030-01-02T00:00:00Z'];
  expect(lastUse({ created_at, last_used: later })).toEqual({ words: '', at: later });
  expect(lastUse({ created_at, not_used_since: created_at })).toEqual({ words: 'never' });
  expect(lastUse({ created_at, not_used_since: later })).toEqual({ words: 'not since ', at: later });
  expect(lastUse({ created_at })).toEqual({ words: 'unknown' });
});
