import { expect, test } from 'vitest';
import {
  below,
  type Quota,
  quotaOf,
  remarks,
  rowsOf,
  shortened,
  sumsOf,
  usedBy,
  withoutQuota,
  withQuota,
} from './quota-tree';

const node = (
  name: string,
  parent: string | null,
  nominal: number | null,
  projects: string[] = [],
): Quota => ({
  name,
  parent,
  projects,
  gpus: nominal === null ? [] : [{ nominal, sku: null, tier: null, borrow: null, lend: null }],
});
const tree = [
  node('vision', 'lab', 32, ['cv']),
  node('lab', null, 64),
  node('nlp', 'lab', 48, ['chat', 'search']),
  node('guests', null, null, ['demo']),
];
const used = new Map([
  ['cv', 8000],
  ['chat', 40_000],
  ['search', 20_500],
]);

test('the quota of a project is that on which it hangs, whether it uses anything or not', () => {
  expect(quotaOf(tree, 'search')).toBe('nlp');
  expect(quotaOf(tree, 'demo')).toBe('guests');
  expect(quotaOf(tree, 'lab')).toBeNull();
});

test('the tree is listed from its roots', () => {
  const words = rowsOf(tree).map((r) => `${'-'.repeat(r.depth)}${r.quota.name}`);
  expect(words).toEqual(['lab', '-vision', '-nlp', 'guests']);
  // What is wrong with it is for the server to say; it is listed all the same.
  const circle = [node('a', 'b', 1), node('b', 'a', 1), node('c', 'gone', 1)];
  expect(rowsOf(circle).map((r) => r.quota.name)).toEqual(['a', 'b', 'c']);
  expect(below(circle, 'a').map((q) => q.name)).toEqual(['a', 'b']);
});

test('each node counts its own, those below it, and what they use', () => {
  const sums = sumsOf(tree, used);
  // A quota owns what those below it own besides its own: the scheduler adds them up.
  expect(sums.get('lab')).toEqual({ owns: 144, children: 80, usedMilli: 68_500 });
  expect(sums.get('nlp')).toEqual({ owns: 48, children: 0, usedMilli: 60_500 });
  expect(sums.get('guests')).toEqual({ owns: null, children: 0, usedMilli: 0 });
});

test('a limit for all GPUs is not counted again for some of them', () => {
  const limit = { borrow: null, lend: null, tier: null };
  const of = (gpus: Quota['gpus']) => sumsOf([{ name: 'a', gpus }], new Map()).get('a')?.owns;
  expect(
    of([
      { ...limit, sku: null, nominal: 64 },
      { ...limit, sku: 'h100', nominal: 32 },
    ]),
  ).toBe(64);
  expect(
    of([
      { ...limit, sku: 'h200', nominal: 16 },
      { ...limit, sku: 'h100', nominal: 32 },
    ]),
  ).toBe(48);
});

test('what is borrowed is said, and what a root has too much of is not', () => {
  const said = remarks(tree, sumsOf(tree, used));
  expect(said).toHaveLength(1);
  expect(said[0]).toContain('nlp uses 60.5 GPUs now, more than the 48 GPUs');
  expect(said[0]).toContain('borrowed');
  const alone = [node('lab', null, 64, ['chat', 'cv', 'search'])];
  const [root] = remarks(alone, sumsOf(alone, used));
  expect(root).toContain('lab uses 68.5 GPUs now, more than the 64 GPUs');
  expect(root).not.toContain('borrowed');
});

test('a node is renamed, added and removed with those below it', () => {
  const renamed = withQuota(tree, 'lab', { ...tree[1], name: 'research' });
  expect(renamed.filter((q) => q.parent === 'research').map((q) => q.name)).toEqual(['vision', 'nlp']);
  expect(withQuota(tree, null, node('new', 'lab', 1))).toHaveLength(5);
  const without = withoutQuota(tree, 'lab');
  expect(without.map((q) => [q.name, q.parent])).toEqual([
    ['vision', null],
    ['nlp', null],
    ['guests', null],
  ]);
});

test('a quota that would own less than it uses is named with its projects', () => {
  const used = new Map([['cv', 38_000]]);
  const tree = (nominal: number | null) => [
    node('site', null, null, []),
    node('elm', 'site', nominal, ['cv', 'av']),
  ];
  expect(shortened(tree(64), tree(24), used)).toEqual([
    { name: 'elm', owned: 64, owns: 24, usedMilli: 38_000, projects: ['cv'] },
  ]);
  expect(shortened(tree(null), tree(24), used)).toMatchObject([{ owned: null }]);
  // What was too little before, or is still enough, asks nobody.
  expect(shortened(tree(24), tree(30), used)).toEqual([]);
  expect(shortened(tree(64), tree(40), used)).toEqual([]);
});

test('GPUs of the users of a project are not counted twice', () => {
  const row = { project: 'cv', used_milli: 8000 };
  const accounts = [
    { ...row, user: null },
    { ...row, user: 'user:ann' },
  ] as never;
  expect([...usedBy(accounts)]).toEqual([['cv', 8000]]);
});
