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
  /** Height of its heading. */
  head: number;
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
  /** Room above a node's row for its name; none where there are many. */
  rowHead: number;
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

/** Heights of headings and widths of gaps. */
interface Sizes {
  row: number;
  rack: number;
  rackGap: number;
  leaf: number;
  leafGap: number;
  spine: number;
  spineGap: number;
  region: number;
}

/** Names have room of their own. */
const WIDE: Sizes = {
  row: 0.42,
  rack: 0.5,
  rackGap: 0.9,
  leaf: 0.9,
  leafGap: 1.6,
  spine: 1,
  spineGap: 2.2,
  region: 1.1,
};
/** Whole numbers: a cell of two or three pixels shows no false pattern, and nothing is given away. */
const DENSE: Sizes = { row: 0, rack: 0, rackGap: 1, leaf: 1, leafGap: 2, spine: 3, spineGap: 2, region: 6 };
/** From so many GPUs on, names of nodes are only read from near. */
const MANY = 4000;
/** Headings of nearly empty groups can be read too. */
const NARROWEST = 6;

/** Shapes of a leaf that are tried. */
const SHAPES = [1, 2, 4, 8];

/** Nodes with many GPUs are wrapped: nobody reads a row of 64. */
const WIDEST = 16;

interface Item extends Box {
  place(x: number, y: number): void;
}

/** Lays items in rows no wider than `width`. */
function shelves(items: Item[], width: number, gap: number): { w: number; h: number; put: () => void } {
  const at: [Item, number, number][] = [];
  let [x, y, high, w] = [0, 0, 0, 0];
  for (const item of items) {
    if (x > 0 && x + item.w > width) {
      x = 0;
      y += high + gap;
      high = 0;
    }
    at.push([item, x, y]);
    x += item.w + gap;
    high = Math.max(high, item.h);
    w = Math.max(w, x - gap);
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
  meta: Omit<Group, keyof Box | 'head'>,
  head: number,
  width: number,
  gap: number,
): Item {
  const rows = shelves(items, width, gap);
  const [w, h] = [Math.max(rows.w, NARROWEST), rows.h + head];
  return {
    x: 0,
    y: 0,
    w,
    h,
    place(x, y) {
      groups.push({ ...meta, head, x, y, w, h });
      for (const item of items) {
        const inner = item.place;
        item.place = (dx, dy) => inner.call(item, x + dx, y + head + dy);
      }
      rows.put();
    },
  };
}

/**
 * At which level each node's place begins to differ from that of the node before it: 1 region, 2 cluster, 3 spine,
 * 4 leaf, 5 rack, 6 not at all.
 */
function breaks(nodes: PlannedNode[], racks: PlannedRack[]): Uint8Array {
  const out = new Uint8Array(nodes.length);
  for (let n = 1; n < nodes.length; n++) {
    if (nodes[n].rack === nodes[n - 1].rack) {
      out[n] = 6;
      continue;
    }
    const [a, b] = [racks[nodes[n - 1].rack], racks[nodes[n].rack]];
    if (a.region !== b.region) out[n] = 1;
    else if (a.cluster !== b.cluster) out[n] = 2;
    else if (a.spine !== b.spine) out[n] = 3;
    else out[n] = a.leaf !== b.leaf ? 4 : 5;
  }
  return out;
}

/** A plan that is measured, and not made yet. */
interface Draft {
  w: number;
  h: number;
  make: () => Plan;
}

/** `shape`: how many times as wide as high the racks of a leaf are laid. */
function lay(
  nodes: PlannedNode[],
  racks: PlannedRack[],
  first: Uint32Array,
  begins: Uint8Array,
  width: number,
  shape: number,
): Draft {
  const cells = first[nodes.length] ?? 0;
  const size = cells > MANY ? DENSE : WIDE;
  const plan: Plan = {
    w: 0,
    h: 0,
    x: new Float32Array(0),
    y: new Float32Array(0),
    groups: [],
    rowHead: size.row,
  };
  const within = ([a, b]: [number, number], depth: number): [number, number][] => {
    const out: [number, number][] = [];
    for (let n = a + 1, from = a; n <= b; n++) {
      if (n < b && begins[n] > depth) continue;
      out.push([from, n]);
      from = n;
    }
    return out;
  };

  const rackItem = ([from, to]: [number, number]): Item => {
    let [w, h] = [1, size.rack];
    const rows: number[] = [];
    for (let n = from; n < to; n++) {
      const gpus = Math.max(1, nodes[n].gpus);
      w = Math.max(w, Math.min(gpus, WIDEST));
      rows.push(h);
      h += size.row + Math.ceil(gpus / WIDEST);
    }
    return {
      x: 0,
      y: 0,
      w,
      h,
      place(x, y) {
        plan.groups.push({
          level: 'rack',
          head: size.rack,
          name: racks[nodes[from].rack].rack,
          from,
          to,
          x,
          y,
          w,
          h,
        });
        for (let n = from; n < to; n++) {
          for (let g = first[n]; g < first[n + 1]; g++) {
            const i = g - first[n];
            plan.x[g] = x + (i % WIDEST);
            plan.y[g] = y + rows[n - from] + size.row + Math.floor(i / WIDEST);
          }
        }
      },
    };
  };
  const leafItem = (leaf: [number, number]): Item => {
    const items = within(leaf, 5).map(rackItem);
    // In full rows where the racks are alike.
    const [w, h] = [Math.max(...items.map((r) => r.w)), Math.max(...items.map((r) => r.h))];
    let [wide, least] = [w, Number.POSITIVE_INFINITY];
    for (let across = 1; across <= items.length; across++) {
      const rows = Math.ceil(items.length / across);
      const span = across * (w + size.rackGap) - size.rackGap;
      if (across > 1 && span > width) break;
      const empty = (rows * across - items.length) / items.length;
      const off = Math.abs(Math.log(span / (rows * (h + size.rackGap)) / shape));
      if (off + 4 * empty < least) [wide, least] = [span, off + 4 * empty];
    }
    const meta = {
      level: 'leaf' as const,
      name: racks[nodes[leaf[0]].rack].leaf,
      from: leaf[0],
      to: leaf[1],
    };
    return grouped(plan.groups, items, meta, size.leaf, wide, size.rackGap);
  };
  const spineItem = (spine: [number, number]): Item => {
    const r = racks[nodes[spine[0]].rack];
    const name = r.cluster === r.region || r.cluster === 'default' ? r.spine : `${r.cluster} / ${r.spine}`;
    const meta = { level: 'spine' as const, name, from: spine[0], to: spine[1] };
    return grouped(plan.groups, within(spine, 4).map(leafItem), meta, size.spine, width, size.leafGap);
  };
  const regionItem = (region: [number, number]): Item => {
    const meta = {
      level: 'region' as const,
      name: racks[nodes[region[0]].rack].region,
      from: region[0],
      to: region[1],
    };
    return grouped(plan.groups, within(region, 3).map(spineItem), meta, size.region, width, size.spineGap);
  };
  const items = within([0, nodes.length], 1).map(regionItem);
  const all = shelves(items, width, size.spineGap);
  return {
    w: all.w,
    h: all.h,
    make: () => {
      Object.assign(plan, { w: all.w, h: all.h, x: new Float32Array(cells), y: new Float32Array(cells) });
      all.put();
      return plan;
    },
  };
}

/** A plan that fills a window of this shape as well as it can. */
export function plan(nodes: PlannedNode[], racks: PlannedRack[], first: Uint32Array, aspect: number): Plan {
  if (nodes.length === 0)
    return { w: 1, h: 1, x: new Float32Array(0), y: new Float32Array(0), groups: [], rowHead: 0 };
  const area = nodes.reduce((sum, n) => sum + Math.max(1, n.gpus) * 2, 0);
  const begins = breaks(nodes, racks);
  let best: Draft | null = null;
  let bestScore = 0;
  // A large fleet fills any window, and each try takes its time.
  for (const shape of area > 2 * MANY ? [2] : SHAPES) {
    for (const factor of [0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.1, 1.2, 1.35, 1.5, 1.75, 2, 2.4]) {
      const next = lay(nodes, racks, first, begins, Math.sqrt(area * aspect) * factor, shape);
      // The size of a cell when all of it is seen in a window of height one, and how much of the width it takes then:
      // of two about as large, the wider one.
      const size = Math.min(aspect / next.w, 1 / next.h);
      const score = size * (0.8 + 0.2 * ((size * next.w) / aspect));
      if (score > bestScore) [best, bestScore] = [next, score];
    }
  }
  return (best as Draft).make();
}
