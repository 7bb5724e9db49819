import { expect, test } from 'vitest';
import { columnsOf, csv, jobQuery, narrowedBy, nextSort, sameJobs, sortOf, withField } from './filters';

test('the address is what the server is asked', () => {
  expect(jobQuery({})).toEqual({ state: 'active' });
  expect(jobQuery({ view: 'timeline', from: 'a', to: 'b' })).toEqual({ state: 'active' });
  expect(narrowedBy({ view: 'timeline', from: 'a', to: 'b' })).toBe(0);
  expect(jobQuery({ state: 'all', project: 'nlp' })).toEqual({ state: undefined, project: 'nlp' });
  expect(jobQuery({ state: 'failed', tag: 'team=nlp' })).toEqual({ state: 'failed', tag: 'team=nlp' });
});

test('an empty field is not in the address', () => {
  expect(withField({ state: 'all', user: 'ann' }, 'user', ' ')).toEqual({ state: 'all', user: undefined });
  expect(withField({}, 'prefix', ' train ')).toEqual({ prefix: 'train' });
  expect(narrowedBy({ state: 'all', user: undefined, tag: 'a' })).toBe(1);
});

test('a column is sorted up, then down, then not any more, and does not narrow the list', () => {
  expect(nextSort(undefined, 'name')).toBe('name');
  expect(nextSort('name', 'name')).toBe('-name');
  expect(nextSort('-name', 'name')).toBeUndefined();
  expect(nextSort('-name', 'gpus')).toBe('gpus');
  expect([sortOf('name', 'name'), sortOf('-name', 'name'), sortOf('gpus', 'name')]).toEqual([
    'ascending',
    'descending',
    'none',
  ]);
  expect(jobQuery({ sort: '-gpus' })).toEqual({ state: 'active', sort: '-gpus' });
  expect(narrowedBy({ sort: 'name' })).toBe(0);
  expect(sameJobs({ user: 'ann' }, { user: 'ann', sort: 'name' })).toBe(true);
  expect(sameJobs({ user: 'ann' }, { sort: 'name' })).toBe(false);
});

test('columns that this browser kept are shown in their order, others are passed over', () => {
  expect(columnsOf(null)).toEqual(['project', 'gang', 'submitted', 'where']);
  expect(columnsOf('user,project,odd')).toEqual(['project', 'user']);
  expect(columnsOf('')).toEqual([]);
});

test('a table for spreadsheets has no formulas in it', () => {
  const job = {
    id: '7',
    name: '=1+1',
    state: 'failed',
    held: null,
    project: 'nlp',
    user: 'ann',
    groups: [{ nodes: 2, gpus: 8, cpus: 0 }],
    spec: { tags: { team: 'a,b' } },
    submitted_at: '2030-01-31T00:00:00Z',
    attempts: 1,
    reason: 'rank 3 said "no"',
  };
  const [head, row] = csv([job as never]).split('\r\n');
  expect(head).toContain('id,name,state,held,project,user,gang');
  expect(row).toBe(
    '7,\'=1+1,failed,,nlp,ann,2 x 8 GPUs,normal,2030-01-31T00:00:00Z,,,,1,,"rank 3 said ""no""","team=a,b"',
  );
});
