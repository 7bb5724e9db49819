import { expect, test } from 'vitest';
import { plan } from './layout';
import { Finder, fit } from './render';

function fleet(nodes: number, gpus: number, perRack: number, perLeaf: number) {
  const racks: { region: string; cluster: string; spine: string; leaf: string; rack: string }[] = [];
  const all = Array.from({ length: nodes }, (_, n) => {
    if (n % perRack === 0) {
      racks.push({
        region: 'r',
        cluster: 'c',
        spine: `s${Math.floor(n / 512)}`,
        leaf: `l${Math.floor(n / perLeaf)}`,
        rack: `k${n}`,
      });
    }
    return { rack: racks.length - 1, gpus };
  });
  const first = new Uint32Array(nodes + 1);
  all.forEach((n, i) => {
    first[i + 1] = first[i] + Math.max(1, n.gpus);
  });
  return { all, racks, first };
}

for (const [nodes, gpus] of [
  [1, 8],
  [33, 8],
  [18, 4],
  [40, 0],
  [3, 64],
  [1500, 8],
] as const) {
  test(`${nodes} nodes of ${gpus} GPUs: no two cells overlap, all are inside, each is found`, () => {
    const { all, racks, first } = fleet(nodes, gpus, 4, 32);
    const p = plan(all, racks, first, 1.8);
    const seen = new Set<string>();
    const finder = new Finder(p);
    for (let i = 0; i < p.x.length; i++) {
      expect(p.x[i]).toBeGreaterThanOrEqual(0);
      expect(p.x[i] + 1).toBeLessThanOrEqual(p.w + 1e-3);
      expect(p.y[i] + 1).toBeLessThanOrEqual(p.h + 1e-3);
      seen.add(`${p.x[i].toFixed(2)} ${p.y[i].toFixed(2)}`);
      expect(finder.at(p.x[i] + 0.5, p.y[i] + 0.5)).toBe(i);
    }
    expect(seen.size).toBe(first[nodes]);
    expect(p.groups.filter((g) => g.level === 'rack')).toHaveLength(racks.length);
  });
}

test('a hundred thousand GPUs fit a laptop with cells that can be seen', () => {
  const { all, racks, first } = fleet(12_500, 8, 4, 32);
  const p = plan(all, racks, first, 2);
  expect(fit(p, 1366, 656).scale).toBeGreaterThan(1.2);
});

test('no nodes are no plan', () => {
  expect(plan([], [], new Uint32Array(1), 2).groups).toEqual([]);
});

test('a fleet of 64 nodes takes the width of a wide window, with cells no smaller than before', () => {
  const { all, racks, first } = fleet(64, 8, 4, 16);
  for (const [w, h] of [
    [1366, 620],
    [1920, 900],
  ] as const) {
    const p = plan(all, racks, first, w / h);
    const { scale } = fit(p, w, h);
    expect((p.w * scale) / w).toBeGreaterThan(0.85);
    expect(scale).toBeGreaterThan(w / 76);
  }
});
