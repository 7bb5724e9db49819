// One action on many nodes: on which it is done, on which not and why, and which jobs it affects. No React here.
import type { Schemas } from '../api/client';
import { drainable, isCordoned } from '../words';

export type Node = Pick<Schemas['Node'], 'name' | 'stage' | 'state' | 'cordon' | 'qualifying' | 'jobs'>;
export type Job = Schemas['Node']['jobs'][number];

export const ACTIONS = ['cordon', 'uncordon', 'drain', 'undrain', 'qualify'] as const;
export type Action = (typeof ACTIONS)[number];

export const ACTION_WORDS: Record<Action, { verb: string; done: string; effect: string }> = {
  cordon: {
    verb: 'Cordon',
    done: 'cordoned',
    effect: 'New work is not placed there. What runs there continues.',
  },
  uncordon: { verb: 'Uncordon', done: 'uncordoned', effect: 'New work is placed there again.' },
  drain: {
    verb: 'Drain',
    done: 'being drained',
    effect: 'New work is not placed there, and what runs there leaves.',
  },
  undrain: { verb: 'Undrain', done: 'undrained', effect: 'New work is placed there again.' },
  qualify: {
    verb: 'Qualify',
    done: 'being tested',
    effect: 'No work is placed there while it is tested (seconds to minutes).',
  },
};

const drained = (n: Node) => n.stage === 'draining' || n.stage === 'drained';

/** Why an action has nothing to do on a node, or would be refused; null where it is done. */
export function whyNot(action: Action, n: Node): string | null {
  if (action === 'cordon') return isCordoned(n) ? 'cordoned already' : drained(n) ? n.stage : null;
  if (action === 'uncordon') return isCordoned(n) ? null : 'not cordoned';
  if (action === 'undrain') return drained(n) ? null : 'not drained';
  if (action === 'drain') return drained(n) ? n.stage : drainable(n) ? null : n.stage;
  if (n.qualifying) return 'being tested already';
  return n.jobs.length > 0 ? 'jobs are allocated there: drain it first' : null;
}

export interface Plan {
  /** Nodes on which it is done. */
  on: string[];
  /** Nodes on which it is not, and why. */
  skipped: { name: string; why: string }[];
  /** Jobs allocated to nodes where it is done, each once. */
  jobs: Job[];
}

export function planOf(action: Action, nodes: readonly Node[]): Plan {
  const plan: Plan = { on: [], skipped: [], jobs: [] };
  const known = new Set<string>();
  for (const n of nodes) {
    const why = whyNot(action, n);
    if (why !== null) {
      plan.skipped.push({ name: n.name, why });
      continue;
    }
    plan.on.push(n.name);
    for (const j of n.jobs) {
      if (known.has(j.id)) continue;
      known.add(j.id);
      plan.jobs.push(j);
    }
  }
  return plan;
}

/** Jobs are affected where work leaves. */
export const movesWork = (action: Action) => action === 'drain';

export interface Outcome {
  name: string;
  /** Why it was refused; null when it was done. */
  refused: string | null;
}

interface Tried {
  name: string;
  error?: Error;
}

/** How it went: with those on which it was done, the ones that could not be read before. */
export function outcomesOf(read: readonly Tried[], done: readonly Tried[]): Outcome[] {
  const tried = [...done, ...read.filter((r) => r.error)];
  return tried.map(({ name, error }) => ({ name, refused: error ? error.message : null }));
}

/** Does something for each, a few at a time. What is refused for one does not keep the others from it. */
export async function forEach<T>(
  names: readonly string[],
  atOnce: number,
  work: (name: string) => Promise<T>,
): Promise<{ name: string; answer?: T; error?: Error }[]> {
  const out: { name: string; answer?: T; error?: Error }[] = names.map((name) => ({ name }));
  let next = 0;
  const worker = async () => {
    while (next < out.length) {
      const mine = out[next++];
      try {
        mine.answer = await work(mine.name);
      } catch (e) {
        mine.error = e as Error;
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(atOnce, names.length) }, worker));
  return out;
}

export interface RackGroup {
  /** `region/cluster/spine/leaf/rack`: racks of two leaves may have one name. */
  path: string;
  rack: string;
  nodes: string[];
}

type Layout = Pick<Schemas['ConsoleLayout'], 'nodes' | 'racks'>;

/** The racks with those of their nodes that fit the words; all where the rack itself fits. */
export function racksOf(layout: Layout, words: string): RackGroup[] {
  const w = words.trim().toLowerCase();
  // A rack with several power feeds is there once for each.
  const groups = new Map<string, RackGroup>();
  const places = layout.racks.map((r) => {
    const path = [r.region, r.cluster, r.spine, r.leaf, r.rack].join('/');
    const group = groups.get(path) ?? { path, rack: r.rack, nodes: [] };
    groups.set(path, group);
    return group;
  });
  for (const n of layout.nodes) {
    const group = places[n.rack];
    if (!group) continue;
    if (w === '' || n.name.toLowerCase().includes(w) || group.path.toLowerCase().includes(w))
      group.nodes.push(n.name);
  }
  return [...groups.values()].filter((g) => g.nodes.length > 0);
}
