import type { Picture } from '../live/fleet';

export interface Found {
  /** One for each GPU that matches. */
  match: Uint8Array;
  /** Nodes with at least one, by index. */
  nodes: number[];
  gpus: number;
}

/** Every word must be somewhere in what a GPU is: node, rack, leaf, project, `job 42`, state. */
export function find(fleet: Picture, text: string): Found | null {
  const { layout, columns, first } = fleet;
  if (!layout || !columns) return null;
  const match = new Uint8Array(columns.state.length);
  const job = /\bjob\s*#?(\d+)\b/i.exec(text);
  const number = job ? Number(job[1]) : null;
  const words = text
    .replace(job?.[0] ?? '', '')
    .toLowerCase()
    .split(/\s+/)
    .filter(Boolean);
  const tenant = fleet.tenants.map((t) => t.toLowerCase());
  const nodes: number[] = [];
  let gpus = 0;
  layout.nodes.forEach((node, n) => {
    const rack = layout.racks[node.rack];
    const sku = node.sku === undefined || node.sku === null ? '' : layout.skus[node.sku];
    const where = [
      node.name,
      rack.rack,
      rack.leaf,
      rack.spine,
      rack.region,
      rack.feed,
      node.nvlink ?? '',
      sku,
    ];
    const hay = where.map((w) => w.toLowerCase());
    let any = false;
    const open = words.filter((w) => !hay.some((h) => h.includes(w)));
    for (let i = first[n]; i < first[n + 1]; i++) {
      if (number !== null && columns.job[i] !== number) continue;
      const mine = tenant[columns.tenant[i]] ?? '';
      const state = layout.states[columns.state[i]] ?? '';
      if (open.every((w) => (mine !== '' && mine.includes(w)) || state === w)) {
        match[i] = 1;
        gpus++;
        any = true;
      }
    }
    if (any) nodes.push(n);
  });
  return { match, nodes, gpus };
}
