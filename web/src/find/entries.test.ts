import { expect, test } from 'vitest';
import { arrange, type Entry, entriesOf, fit, type Hit, hrefOf, moved } from './entries';

const hit = (kind: Hit['kind'], id: string, entity?: string): Hit => ({
  kind,
  id,
  title: id,
  detail: '',
  state: null,
  entity: entity ?? null,
});

const page = (label: string, also = ''): Entry => ({ key: label, kind: 'page', label, also, href: '/' });

test('an exact match goes before a beginning, a word and a part', () => {
  expect(fit('On-call', 'on-CALL')).toBe(0);
  expect(fit('On-call', 'on')).toBe(1);
  expect(fit('On-call', 'call')).toBe(2);
  expect(fit('On-call', 'all')).toBe(3);
  expect(fit('recall on-call', 'call')).toBe(2);
  expect(fit('On-call', 'calls')).toBeNull();
  expect(fit('On-call', '  ')).toBeNull();
});

test('every hit has a page', () => {
  expect(hrefOf(hit('job', '42_3'))).toBe('/jobs/42_3');
  expect(hrefOf(hit('node', 'hgx-1'))).toBe('/nodes/hgx-1');
  expect(hrefOf(hit('gpu', 'hgx-1/3'))).toBe('/nodes/hgx-1/gpus/3');
  expect(hrefOf(hit('user', 'user:ann'))).toBe('/jobs?user=ann');
  expect(hrefOf(hit('project', 'team-a'))).toBe('/jobs?project=team-a');
  // What is no text in an address would be lost there.
  expect(hrefOf(hit('project', '2030'))).toBe('/jobs?project=%222030%22');
  expect(hrefOf(hit('incident', '7'))).toBe('/incidents/7');
  expect(hrefOf(hit('runbook', 'gpu-off-bus'))).toBe('/runbooks/gpu-off-bus');
  for (const entity of ['gpu:hgx-1/3', 'job:42', 'leaf:eu/c1/s1/l2'])
    expect(hrefOf(hit('finding', '9', entity))).toBe('/findings/9');
});

test('a user and a project open their jobs first, and what else is looked for comes second', () => {
  const hrefs = (one: Hit) => entriesOf(one).map((e) => e.href);
  expect(hrefs(hit('user', 'user:ann'))).toEqual(['/jobs?user=ann', '/events?actor=user%3Aann']);
  expect(hrefs(hit('project', 'team-a'))).toEqual(['/jobs?project=team-a', '/quotas']);
  expect(hrefs(hit('node', 'n1'))).toEqual(['/nodes/n1']);
});

test('pages that begin with the words go before what was found, others after it', () => {
  const own = [page('Reservations'), page('Jobs', 'queue'), page('Submit a job'), page('Quotas')];
  const labels = (words: string, hits: Hit[]) => arrange(words, own, hits).map((e) => e.label);
  expect(labels('job', [hit('job', '7')])).toEqual(['Jobs', '7', 'Submit a job']);
  expect(labels('queue', [])).toEqual(['Jobs']);
  expect(labels('q', [])).toEqual(['Quotas']);
  expect(labels('', [])).toEqual(own.map((e) => e.label));
  expect(labels('nothing', [])).toEqual([]);
});

test('the list is a ring', () => {
  expect(moved(0, 3, 'ArrowDown')).toBe(1);
  expect(moved(2, 3, 'ArrowDown')).toBe(0);
  expect(moved(0, 3, 'ArrowUp')).toBe(2);
  expect(moved(9, 3, 'ArrowUp')).toBe(1);
  expect(moved(1, 3, 'x')).toBe(1);
  expect(moved(4, 0, 'ArrowDown')).toBe(0);
});
