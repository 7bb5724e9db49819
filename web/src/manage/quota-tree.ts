// The tree of quotas while it is edited: its order, its sums, and changes of one node. No React here.
import type { Schemas } from '../api/client';

export type Quota = Schemas['Quota'];
export type QuotaLimit = Schemas['QuotaLimit'];

export interface TreeRow {
  quota: Quota;
  depth: number;
}

/** Nodes below their parents, in the order in which they are written. What hangs on nothing comes last. */
export function rowsOf(tree: readonly Quota[]): TreeRow[] {
  const out: TreeRow[] = [];
  const seen = new Set<string>();
  const add = (quota: Quota, depth: number) => {
    // A circle would never end.
    if (seen.has(quota.name)) return;
    seen.add(quota.name);
    out.push({ quota, depth });
    for (const child of tree) if (child.parent === quota.name) add(child, depth + 1);
  };
  for (const quota of tree) if (!quota.parent) add(quota, 0);
  for (const quota of tree) add(quota, 0);
  return out;
}

/** A node and all below it. */
export function below(tree: readonly Quota[], name: string): Quota[] {
  const out: Quota[] = [];
  const open = [name];
  while (open.length > 0) {
    const here = open.pop();
    const quota = tree.find((q) => q.name === here);
    if (!quota || out.includes(quota)) continue;
    out.push(quota);
    for (const q of tree) if (q.parent === here) open.push(q.name);
  }
  return out;
}

export interface Sums {
  /** GPUs that it owns with those below it, of all SKUs and tiers; null where none of them has a limit. */
  owns: number | null;
  /** GPUs that those below it own together. */
  children: number;
  /** GPUs allocated to jobs of its projects and of those below, in thousandths. */
  usedMilli: number;
}

/** What a node owns: a limit for all GPUs covers those for some of them. */
function owned(gpus: readonly QuotaLimit[]): number | null {
  if (gpus.length === 0) return null;
  const all = gpus.filter((l) => !l.sku && !l.tier);
  const skus = gpus.filter((l) => l.sku && !l.tier);
  const counted = all.length > 0 ? all : skus.length > 0 ? skus : gpus;
  return counted.reduce((sum, l) => sum + (l.nominal ?? 0), 0);
}

/** The sums of each node of a tree, by its name. `used`: GPUs allocated to each project, in thousandths. */
export function sumsOf(tree: readonly Quota[], used: ReadonlyMap<string, number>): Map<string, Sums> {
  return new Map(
    tree.map((q) => {
      const all = below(tree, q.name);
      const projects = new Set(all.flatMap((b) => b.projects ?? []));
      const limits = all.map((b) => owned(b.gpus ?? [])).filter((n) => n !== null);
      const whole = limits.reduce((sum, n) => sum + n, 0);
      return [
        q.name,
        {
          owns: limits.length > 0 ? whole : null,
          children: whole - (owned(q.gpus ?? []) ?? 0),
          usedMilli: [...projects].reduce((sum, p) => sum + (used.get(p) ?? 0), 0),
        },
      ];
    }),
  );
}

/** The quota of a project, also of one that has not run anything yet; null without one. */
export function quotaOf(tree: readonly Quota[], project: string): string | null {
  return tree.find((q) => q.projects?.includes(project))?.name ?? null;
}

/** GPUs allocated to each project now. */
export function usedBy(accounts: readonly Schemas['AccountRow'][]): Map<string, number> {
  return new Map(accounts.filter((a) => !a.user).map((a) => [a.project, a.used_milli]));
}

/** What a person should know about a tree that the server would take. */
export function remarks(tree: readonly Quota[], sums: ReadonlyMap<string, Sums>): string[] {
  const gpus = (n: number) => `${n.toLocaleString('en')} GPU${n === 1 ? '' : 's'}`;
  return tree.flatMap((q) => {
    const s = sums.get(q.name);
    if (!s || s.owns === null || s.usedMilli <= s.owns * 1000) return [];
    const much = `${q.name} uses ${gpus(s.usedMilli / 1000)} now, more than the ${gpus(s.owns)} that it would own`;
    // Nobody lends to a root, so nobody reclaims anything from it.
    return q.parent
      ? [`${much}: the rest is borrowed and may be stopped.`]
      : [`${much}: nothing more of it starts until enough has ended.`];
  });
}

/** A quota that would own less than it uses, and less than it owned. */
export interface Shortened {
  name: string;
  /** What it owned; null where it had no limit, or was not there. */
  owned: number | null;
  owns: number;
  usedMilli: number;
  /** Those of its projects, and of those below, that use something now. */
  projects: string[];
}

/** What a change takes from quotas that use it now: work of theirs becomes borrowed. */
export function shortened(
  before: readonly Quota[],
  after: readonly Quota[],
  used: ReadonlyMap<string, number>,
): Shortened[] {
  const was = sumsOf(before, used);
  const is = sumsOf(after, used);
  return after.flatMap((q) => {
    const s = is.get(q.name);
    const owned = was.get(q.name)?.owns ?? null;
    // One without limits of its own is short where one below it is.
    if (!s || s.owns === null || !q.gpus?.length || s.usedMilli <= s.owns * 1000) return [];
    if (owned !== null && s.owns >= owned) return [];
    const projects = below(after, q.name)
      .flatMap((b) => b.projects ?? [])
      .filter((p) => (used.get(p) ?? 0) > 0);
    return [{ name: q.name, owned, owns: s.owns, usedMilli: s.usedMilli, projects }];
  });
}

/** The tree with one node changed or added. A new name is followed by those below it. */
export function withQuota(tree: readonly Quota[], was: string | null, quota: Quota): Quota[] {
  if (was === null) return [...tree, quota];
  return tree.map((q) =>
    q.name === was ? quota : q.parent === was && was !== quota.name ? { ...q, parent: quota.name } : q,
  );
}

/** The tree without a node; those below it hang on what was above it. */
export function withoutQuota(tree: readonly Quota[], name: string): Quota[] {
  const parent = tree.find((q) => q.name === name)?.parent ?? null;
  return tree.filter((q) => q.name !== name).map((q) => (q.parent === name ? { ...q, parent } : q));
}
