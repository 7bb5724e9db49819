// Where each GPU is drawn. Sizes are in cells: one GPU is one cell wide and high.

export interface Box {
  x: number;
  y: number;
  w: number;
  h: number;
}

export interface Group extends Box {
  level: 'region' | 'spine' | 'leaf' | 'rack';
  name: string;
  /** Its nodes, from and up to. */
  from: number;
  to: number;
}

export interface Plan {
  w: number;
  h: number;
  /** Top left corner of each GPU, by index. */
  x: Float32Array;
  y: Float32Array;
  groups: Group[];
}

export interface PlannedNode {
  rack: number;
  gpus: number;
}

export interface PlannedRack {
  region: string;
  cluster: string;
  spine: string;
  leaf: string;
  rack: string;
}

/** Room above a node's row for its name. */
export const ROW_HEAD = 0.42;
const ROW = 1 + ROW_HEAD;
const RACK_HEAD = 0.5;
const RACK_GAP = 0.9;
const LEAF_HEAD = 1.1;
const LEAF_GAP = 1.6;
const SPINE_HEAD = 1.6;
const SPINE_GAP = 2.4;
const REGION_HEAD = 2;

/** Nodes with many GPUs are wrapped: nobody reads a row of 64. */
const WIDEST = 16;

interface Item extends Box {
  place(x: number, y: number): void;
}

/** Lays items in rows no wider than `width`. */
function shelves(
  items: Item[],
  width: number,
  gapX: number,
  gapY: number,
): { w: number; h: number; put: () => void } {
  const at: [Item, number, number][] = [];
  let [x, y, high, w] = [0, 0, 0, 0];
  for (const item of items) {
    if (x > 0 && x + item.w > width) {
      x = 0;
      y += high + gapY;
      high = 0;
    }
    at.push([item, x, y]);
    x += item.w + gapX;
    high = Math.max(high, item.h);
    w = Math.max(w, x - gapX);
  }
  return {
    w,
    h: y + high,
    put: () => {
      for (const [item, dx, dy] of at) item.place(dx, dy);
    },
  };
}

/** A group of items under a heading. */
function grouped(
  groups: Group[],
  items: Item[],
  meta: Pick<Group, 'level' | 'name' | 'from' | 'to'>,
  head: number,
  width: number,
  gapX: number,
  gapY: number,
): Item {
  const rows = shelves(items, width, gapX, gapY);
  return {
    x: 0,
    y: 0,
    w: rows.w,
    h: rows.h + head,
    place(x, y) {
      groups.push({ ...meta, x, y, w: rows.w, h: rows.h + head });
      for (const item of items) {
        const inner = item.place;
        item.place = (dx, dy) => inner.call(item, x + dx, y + head + dy);
      }
      rows.put();
    },
  };
}

/** Runs of elements with the same key, as [from, to) of the original order. */
function runs(n: number, key: (i: number) => string): [number, number][] {
  const out: [number, number][] = [];
  for (let i = 0, from = 0; i < n; i++) {
    if (i + 1 === n || key(i + 1) !== key(i)) {
      out.push([from, i + 1]);
      from = i + 1;
    }
  }
  return out;
}

function lay(nodes: PlannedNode[], racks: PlannedRack[], first: Uint32Array, width: number): Plan {
  const cells = first[nodes.length] ?? 0;
  const plan: Plan = { w: 0, h: 0, x: new Float32Array(cells), y: new Float32Array(cells), groups: [] };
  const path = (n: number, depth: number) => {
    const r = racks[nodes[n].rack];
    return [r.region, r.cluster, r.spine, r.leaf, `${nodes[n].rack}`].slice(0, depth).join('\0');
  };
  const within = ([a, b]: [number, number], depth: number): [number, number][] =>
    runs(b - a, (i) => path(a + i, depth)).map(([f, t]) => [a + f, a + t]);

  const rackItem = ([from, to]: [number, number]): Item => {
    let [w, h] = [1, RACK_HEAD];
    const rows: number[] = [];
    for (let n = from; n < to; n++) {
      const gpus = Math.max(1, nodes[n].gpus);
      w = Math.max(w, Math.min(gpus, WIDEST));
      rows.push(h);
      h += ROW_HEAD + Math.ceil(gpus / WIDEST);
    }
    return {
      x: 0,
      y: 0,
      w,
      h,
      place(x, y) {
        plan.groups.push({ level: 'rack', name: racks[nodes[from].rack].rack, from, to, x, y, w, h });
        for (let n = from; n < to; n++) {
          for (let g = first[n]; g < first[n + 1]; g++) {
            const i = g - first[n];
            plan.x[g] = x + (i % WIDEST);
            plan.y[g] = y + rows[n - from] + ROW_HEAD + Math.floor(i / WIDEST);
          }
        }
      },
    };
  };
  const leafItem = (leaf: [number, number]): Item => {
    const items = within(leaf, 5).map(rackItem);
    // About as wide as high, so that a leaf is seen as one thing.
    const area = items.reduce((sum, r) => sum + (r.w + RACK_GAP) * (r.h + RACK_GAP), 0);
    const wide = Math.max(...items.map((r) => r.w), Math.sqrt(area * 2.2));
    const meta = {
      level: 'leaf' as const,
      name: racks[nodes[leaf[0]].rack].leaf,
      from: leaf[0],
      to: leaf[1],
    };
    return grouped(plan.groups, items, meta, LEAF_HEAD, Math.min(wide, width), RACK_GAP, RACK_GAP);
  };
  const spineItem = (spine: [number, number]): Item => {
    const r = racks[nodes[spine[0]].rack];
    const name = r.cluster === r.region || r.cluster === 'default' ? r.spine : `${r.cluster} / ${r.spine}`;
    const meta = { level: 'spine' as const, name, from: spine[0], to: spine[1] };
    return grouped(plan.groups, within(spine, 4).map(leafItem), meta, SPINE_HEAD, width, LEAF_GAP, LEAF_GAP);
  };
  const regionItem = (region: [number, number]): Item => {
    const meta = {
      level: 'region' as const,
      name: racks[nodes[region[0]].rack].region,
      from: region[0],
      to: region[1],
    };
    return grouped(
      plan.groups,
      within(region, 3).map(spineItem),
      meta,
      REGION_HEAD,
      width,
      SPINE_GAP,
      SPINE_GAP,
    );
  };
  const items = within([0, nodes.length], 1).map(regionItem);
  const all = shelves(items, width, SPINE_GAP, SPINE_GAP);
  all.put();
  plan.w = all.w;
  plan.h = all.h;
  return plan;
}

/** A plan that fills a window of this shape as well as it can. */
export function plan(nodes: PlannedNode[], racks: PlannedRack[], first: Uint32Array, aspect: number): Plan {
  if (nodes.length === 0) return { w: 1, h: 1, x: new Float32Array(0), y: new Float32Array(0), groups: [] };
  const area = nodes.reduce((sum, n) => sum + Math.max(1, n.gpus) * ROW * 1.5, 0);
  let best: Plan | null = null;
  let bestSize = 0;
  for (const factor of [0.6, 0.75, 0.9, 1, 1.1, 1.25, 1.4, 1.6, 1.9, 2.4]) {
    const next = lay(nodes, racks, first, Math.sqrt(area * aspect) * factor);
    // The size of a cell when all of it is seen in a window of height one.
    const size = Math.min(aspect / next.w, 1 / next.h);
    if (size > bestSize) [best, bestSize] = [next, size];
  }
  return best as Plan;
}
