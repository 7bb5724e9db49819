import { expect, test } from 'vitest';
import { groupsOf, homeOf, PAGES, pageNamed, pageOf, pagesFor, TENANT, title } from './pages';

test('every page has a letter of its own', () => {
  expect(new Set(PAGES.map((p) => p.key)).size).toBe(PAGES.length);
});

test('search finds pages by their names and by what is on them', () => {
  expect(pageNamed('slo')?.to).toBe('/slos');
  expect(pageNamed('silences')?.to).toBe('/silences');
  expect(pageNamed('burn')?.to).toBe('/slos');
  expect(pageNamed('Exec')?.to).toBe('/executive');
  expect(pageNamed('Topo')?.to).toBe('/topology');
  expect(pageNamed('what-if')?.to).toBe('/whatif');
  expect(pageNamed('r')).toBeNull();
  expect(pageNamed('gpu-017')).toBeNull();
});

const admin = { whole: true, operates: true, administers: true };
const operator = { whole: true, operates: true, administers: false };
const viewer = { whole: true, operates: false, administers: false };
const tenant = { whole: false, operates: false, administers: false };

test('a token that is bound to a project is not offered pages of the whole site', () => {
  const seen = pagesFor(tenant).map((p) => p.to);
  for (const to of ['/runbooks', '/policy', '/projects', '/tokens', '/bulk'] as const)
    expect(seen).not.toContain(to);
  for (const to of ['/oncall', '/executive'] as const) expect(seen).not.toContain(to);
  for (const to of ['/work', '/usage', '/status', '/jobs'] as const) expect(seen).toContain(to);
  expect(pageNamed('runbooks', pagesFor(tenant))).toBeNull();
});

test('who sees the whole site is not offered pages of one project, nor is who is not known yet', () => {
  const others = PAGES.filter((p) => !['/work', '/usage', '/status'].includes(p.to));
  expect(pagesFor(admin)).toEqual(others);
  const seen = pagesFor({ whole: null, operates: true, administers: true });
  expect(seen).toEqual(others);
});

test('pages on which a role may do nothing are not there', () => {
  const of = (rights: typeof admin) => pagesFor(rights).map((p) => p.to);
  expect(of(operator)).not.toContain('/tokens');
  for (const to of ['/bulk', '/silences', '/routing', '/policy', '/whatif'] as const)
    expect(of(operator)).toContain(to);
  for (const to of ['/bulk', '/silences', '/routing', '/whatif', '/tokens'] as const)
    expect(of(viewer)).not.toContain(to);
  // Who may not simulate here finds the page that compares reports.
  expect(pageNamed('what-if', pagesFor(viewer))?.to).toBe('/simulator');
  for (const to of ['/reservations', '/quotas', '/policy'] as const) expect(of(viewer)).toContain(to);
});

test('each address has a title', () => {
  expect(title('/')).toBe('Fleet');
  expect(title('/jobs/42')).toBe('Job 42');
  expect(title('/jobs/new')).toBe('Submit a job');
  expect(title('/jobs/compare')).toBe('Compare jobs');
  expect(title('/debug/jobs/42_3')).toBe('Debug job 42_3');
  expect(title('/nodes/a01/gpus/3')).toBe('a01 GPU 3');
  expect(title('/output')).toBe('Search in job output');
  expect(title('/nonsense')).toBe('No such page');
});

test('every page is in one group, and a group without pages is not there', () => {
  const all = groupsOf(PAGES).flatMap((g) => g.pages.map((p) => p.to));
  expect(all.toSorted()).toEqual(PAGES.map((p) => p.to).toSorted());
  expect(groupsOf(PAGES).map((g) => g.label)).toEqual(['Work', 'Fleet', 'Health', 'Manage']);
  expect(groupsOf(PAGES.filter((p) => p.to === '/jobs')).map((g) => g.label)).toEqual(['Work']);
  const health = groupsOf(pagesFor(tenant)).find((g) => g.label === 'Health');
  expect(health?.pages.map((p) => p.to)).not.toContain('/runbooks');
});

test('every address belongs to a page', () => {
  expect(pageOf('/')).toBe('/');
  expect(pageOf('/jobs/42')).toBe('/jobs');
  expect(pageOf('/debug/jobs/42')).toBe('/jobs');
  expect(pageOf('/output')).toBe('/jobs');
  expect(pageOf('/incidents/7')).toBe('/oncall');
  expect(pageOf('/findings/7')).toBe('/oncall');
  expect(pageOf('/runbook-runs/7')).toBe('/runbooks');
  expect(pageOf('/nonsense')).toBeNull();
});

test('everybody begins where there is something for them', () => {
  expect(homeOf(null, '/', true)).toBeNull();
  expect(homeOf(false, '/', true)).toBe('/work');
  expect(homeOf(false, '/', false)).toBeNull();
  expect(homeOf(true, '/', true)).toBeNull();
  for (const path of ['/work', '/usage', '/status']) expect(homeOf(true, path, false)).toBe('/');
  expect(homeOf(true, '/quotas', false)).toBeNull();
});

test('a tenant has four pages in the bar, all of which it may see', () => {
  expect(TENANT.map((t) => t.label)).toEqual(['My work', 'My quota', 'My usage', 'Status']);
  const seen = pagesFor(tenant).map((p) => p.to);
  for (const t of TENANT) expect(seen).toContain(t.to);
  expect(title('/work')).toBe('My work');
  // A job is part of one's work: its tab stays marked.
  expect(TENANT.find((t) => t.also === pageOf('/jobs/42'))?.label).toBe('My work');
});
