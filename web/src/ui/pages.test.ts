import { expect, test } from 'vitest';
import { PAGES, pageNamed, pagesFor, title } from './pages';

test('every page has a letter of its own', () => {
  expect(new Set(PAGES.map((p) => p.key)).size).toBe(PAGES.length);
});

test('search finds pages by their names and by what is on them', () => {
  expect(pageNamed('slo')?.to).toBe('/slos');
  expect(pageNamed('silences')?.to).toBe('/slos');
  expect(pageNamed('Exec')?.to).toBe('/executive');
  expect(pageNamed('Topo')?.to).toBe('/topology');
  expect(pageNamed('twin')?.to).toBe('/simulator');
  expect(pageNamed('r')).toBeNull();
  expect(pageNamed('gpu-017')).toBeNull();
});

test('a token that is bound to a project is not offered pages of the whole site', () => {
  expect(pagesFor(true)).toEqual(PAGES);
  expect(pagesFor(false).map((p) => p.to)).not.toContain('/runbooks');
  expect(pagesFor(false).map((p) => p.to)).toContain('/oncall');
  expect(pageNamed('runbooks', pagesFor(false))).toBeNull();
});

test('each address has a title', () => {
  expect(title('/')).toBe('Fleet');
  expect(title('/jobs/42')).toBe('Job 42');
  expect(title('/jobs/new')).toBe('Submit a job');
  expect(title('/debug/jobs/42_3')).toBe('Debug job 42_3');
  expect(title('/nodes/a01/gpus/3')).toBe('a01 GPU 3');
  expect(title('/nonsense')).toBe('No such page');
});
