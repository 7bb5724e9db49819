import { expect, test } from 'vitest';
import type { Schemas } from '../api/client';
import { links, pairWords, tally } from './links';

const leafOf = (n: string) => (n.startsWith('a') ? 'r/c/s/l1' : n.startsWith('b') ? 'r/c/s/l2' : null);
const pair = (a: string, b: string, mbps: number, verdict: string) =>
  ({ a, b, mbps, baseline_mbps: 1000, verdict }) as unknown as Schemas['FabricPair'];
const finding = (kind: string, node: string | null, entity: string) =>
  ({ kind, node, entity, title: '', evidence: ['seen'] }) as unknown as Schemas['Finding'];

test('a node is as good as its test, and as bad as its findings', () => {
  const fabric = {
    nodes: [
      { name: 'a1', health: 'good' },
      { name: 'a2', health: 'slow', why: ['slow with b1'] },
      { name: 'b1', health: 'skipped' },
    ],
    pairs: [],
    paths: [],
  } as unknown as Schemas['FabricTest'];
  const found = [
    finding('link-down', 'a1', 'port:a1/mlx5_0'),
    finding('nvlink-errors', 'b1', 'gpu:b1/3'),
    finding('thermal', 'b1', 'gpu:b1/3'),
    finding('leaf-loss', null, 'leaf:r/c/s/l2'),
  ];
  const l = links(leafOf, found, fabric);
  expect(l.nodes.get('a1')).toEqual({ standing: 'down', why: ['link-down: seen'] });
  expect(l.nodes.get('a2')?.standing).toBe('slow');
  expect(l.nodes.has('b1')).toBe(false);
  expect(l.inside.get('b1')?.standing).toBe('slow');
  expect(l.leaves.get('r/c/s/l2')?.standing).toBe('down');
  expect(tally(l.nodes.values(), 5)).toEqual([
    ['down', 1],
    ['slow', 1],
    ['unknown', 3],
  ]);
});

test('what lies between leaves is judged by pairs of good nodes', () => {
  const fabric = {
    nodes: [],
    pairs: [pair('a1', 'b1', 400, 'slow'), pair('a2', 'a3', 1000, 'ok'), pair('a2', 'b2', 990, 'ok')],
    paths: [['b1', 'a1']],
  } as unknown as Schemas['FabricTest'];
  const l = links(leafOf, [], fabric);
  expect(l.paths.map((p) => p.a)).toEqual(['a1']);
  expect(l.leaves.get('r/c/s/l1')?.standing).toBe('slow');
  expect(l.leaves.get('r/c/s/l1')?.why).toEqual(['a1 to b1: 400 Mbit/s instead of 1.0 Gbit/s']);
  expect(links(leafOf, [], null).leaves.size).toBe(0);
});

test('a pair without a figure says why', () => {
  const none = { a: 'x', b: 'y', mbps: null, error: 'no route' } as unknown as Schemas['FabricPair'];
  expect(pairWords(none)).toBe('no route');
});
