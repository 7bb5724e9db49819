import type { Schemas } from '../api/client';

type Finding = Schemas['Finding'];
type Test = Schemas['FabricTest'];
type Pair = Schemas['FabricPair'];

/** How a link stands. Worse ones come later. */
export const STANDINGS = ['unknown', 'good', 'undecided', 'slow', 'down'] as const;
export type Standing = (typeof STANDINGS)[number];

export const STANDING_WORDS: Record<Standing, string> = {
  unknown: 'not tested',
  good: 'test passed',
  undecided: 'slow, cause unknown',
  slow: 'slow, or with errors',
  down: 'down',
};

export interface Link {
  standing: Standing;
  /** Why, in words. */
  why: string[];
}

/** Kinds of findings that are about links of the network. */
const NETWORK: Record<string, Standing> = {
  'nic-missing': 'down',
  'link-down': 'down',
  'link-flap': 'slow',
  'symbol-errors': 'slow',
  'link-slow': 'slow',
  'leaf-loss': 'down',
};
/** And about links between GPUs. */
const INSIDE: Record<string, Standing> = { 'nvlink-errors': 'slow', 'nvswitch-fault': 'down' };

export interface Links {
  /** A node's way into the network, by its name. */
  nodes: Map<string, Link>;
  /** Links between the GPUs of a node, where something is wrong with them. */
  inside: Map<string, Link>;
  /** A leaf's way to the others, by its path. */
  leaves: Map<string, Link>;
  /** Pairs that are slow though both nodes are good with others. */
  paths: Pair[];
}

function worse(map: Map<string, Link>, key: string, standing: Standing, why?: string) {
  const at = map.get(key) ?? { standing: 'unknown', why: [] };
  if (STANDINGS.indexOf(standing) > STANDINGS.indexOf(at.standing)) at.standing = standing;
  if (why && !at.why.includes(why)) at.why.push(why);
  map.set(key, at);
}

const figure = (v: number) => (v >= 1000 ? `${(v / 1000).toFixed(1)} Gbit/s` : `${v.toFixed(0)} Mbit/s`);

/** What a pair did beside what it is held to. */
export function pairWords(p: Pair): string {
  if (p.mbps === null || p.mbps === undefined) return p.error ?? 'nothing came through';
  const held = p.baseline_mbps ? ` instead of ${figure(p.baseline_mbps)}` : '';
  return `${figure(p.mbps)}${held}`;
}

/** What is known of every link: the newest test of the network, and open findings. */
export function links(
  leafOf: (node: string) => string | null,
  findings: Finding[],
  test: Test | null,
): Links {
  const out: Links = { nodes: new Map(), inside: new Map(), leaves: new Map(), paths: [] };
  for (const n of test?.nodes ?? []) {
    if (n.health === 'good') worse(out.nodes, n.name, 'good');
    if (n.health === 'slow' || n.health === 'undecided')
      worse(out.nodes, n.name, n.health, n.why?.join('; ') || 'slow in the last test');
  }
  const named = new Set((test?.paths ?? []).map(([a, b]) => `${a} ${b}`));
  for (const p of test?.pairs ?? []) {
    const [a, b] = [leafOf(p.a), leafOf(p.b)];
    const slow = named.has(`${p.a} ${p.b}`) || named.has(`${p.b} ${p.a}`);
    if (slow) out.paths.push(p);
    if (a === null || b === null || a === b) continue;
    for (const leaf of [a, b]) {
      if (slow) worse(out.leaves, leaf, 'slow', `${p.a} to ${p.b}: ${pairWords(p)}`);
      else if (p.verdict === 'ok') worse(out.leaves, leaf, 'good');
    }
  }
  for (const f of findings) {
    const why = `${f.title || f.kind}${f.evidence?.[0] ? `: ${f.evidence[0]}` : ''}`;
    const [inside, network] = [INSIDE[f.kind], NETWORK[f.kind]];
    if (inside && f.node) worse(out.inside, f.node, inside, why);
    if (!network) continue;
    if (f.node) worse(out.nodes, f.node, network, why);
    else if (f.entity.startsWith('leaf:')) worse(out.leaves, f.entity.slice(5), network, why);
  }
  return out;
}

/** How many stand how, worst first. */
export function tally(links: Iterable<Link>, all: number): [Standing, number][] {
  const counts = new Map<Standing, number>();
  let reported = 0;
  for (const l of links) {
    counts.set(l.standing, (counts.get(l.standing) ?? 0) + 1);
    reported++;
  }
  if (all > reported) counts.set('unknown', (counts.get('unknown') ?? 0) + all - reported);
  return [...STANDINGS]
    .reverse()
    .flatMap((s): [Standing, number][] => (counts.get(s) ? [[s, counts.get(s) ?? 0]] : []));
}
