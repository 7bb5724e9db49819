import type { QueryClient } from '@tanstack/react-query';

/** Which lists an event makes stale, by the beginning of its kind. */
const ABOUT: [RegExp, string[]][] = [
  [
    /^(job|attempt|preflight|slot|stop|start_reserved|reserved_start|notice|checkpoint|idle)/,
    ['jobs', 'node', 'quotas'],
  ],
  [/^(node|drain|qualification|gpus|probation|orphan|fault)/, ['node', 'health', 'nodes']],
  [/^(finding|incident|breaker|remediation|act|automation)/, ['health', 'node']],
  // What keeps new work away from a node.
  [/^(breaker|remediation)/, ['nodes']],
  [/^(runbook)/, ['runbooks', 'runbook-runs', 'health']],
  [/^(reservation)/, ['reservations']],
  [/^(quotas|policy|project)/, ['quotas']],
  [/^(policy)/, ['policy']],
  [/^(project)/, ['projects']],
  [/^(token)/, ['tokens']],
  [/^(topology)/, ['topology']],
  [/^(alert|silence|objective|routing|receiver|slo_|budget)/, ['slo']],
  [/^(alert|silence|routing|receiver|condition|certificate)/, ['alerts', 'receivers', 'silences']],
  [/^(objectives|counts)/, ['slos']],
  [/^(finding|incident|breaker|remediation|act|automation|alert|silence|runbook|node|drain)/, ['causes']],
  // What the on-call page lists beside its causes: work that came, waits or ended.
  [/^(job_|start_reserved|remediation_ended)/, ['oncall']],
  // The page of one's own work, which does not follow each rank and step.
  [
    /^(job_|attempt_(started|ended|attributed)|preflight|stop_ordered|start_reserved|reserved_start|idle)/,
    ['work'],
  ],
  // Nothing is well while somebody is paged.
  [/^(alert|silence)/, ['health']],
];

/**
 * So long these are not read again after they were, in milliseconds. On a busy site something is written all the time,
 * and a page that nobody acts on must not ask for all of it.
 */
const GAP: Record<string, number> = {
  causes: 10_000,
  health: 10_000,
  oncall: 60_000,
  slo: 10_000,
  work: 5_000,
};

const waiting = new Set<string>();
let timer: ReturnType<typeof setTimeout> | null = null;
/** When each was last made stale. */
const last = new Map<string, number>();

/** Those of the keys that are due now, and when the next of the others is (in so many milliseconds). */
export function due(
  keys: Iterable<string>,
  before: ReadonlyMap<string, number>,
  now: number,
): { keys: string[]; next: number | null } {
  const out: { keys: string[]; next: number | null } = { keys: [], next: null };
  for (const key of keys) {
    const left = (before.get(key) ?? Number.NEGATIVE_INFINITY) + (GAP[key] ?? 0) - now;
    if (left <= 0) out.keys.push(key);
    else out.next = Math.min(out.next ?? left, left);
  }
  return out;
}

/** The names of the queries that these events make stale. */
export function touched(hints: { all: boolean; kinds: string[] }): Set<string> {
  const out = new Set<string>();
  for (const [kinds, keys] of ABOUT) {
    if (hints.all || hints.kinds.some((k) => kinds.test(k))) for (const k of keys) out.add(k);
  }
  return out;
}

/** Reads again what is shown and stale, each as often as its gap allows. */
export function stale(queries: QueryClient, hints: { all: boolean; kinds: string[] }) {
  for (const key of touched(hints)) waiting.add(key);
  const { keys, next } = due(waiting, last, Date.now());
  // What is due now must not wait for what is due later.
  if (keys.length > 0) plan(queries, 250);
  else if (next !== null) plan(queries, next);
}

let planned = Number.POSITIVE_INFINITY;

function plan(queries: QueryClient, ms: number) {
  const at = Date.now() + ms;
  if (timer) {
    if (at >= planned) return;
    clearTimeout(timer);
  }
  planned = at;
  timer = setTimeout(() => {
    timer = null;
    planned = Number.POSITIVE_INFINITY;
    const now = Date.now();
    const { keys } = due(waiting, last, now);
    for (const key of keys) {
      waiting.delete(key);
      last.set(key, now);
    }
    const ready = new Set(keys);
    void queries.invalidateQueries({ predicate: (q) => ready.has(String(q.queryKey[0])) });
    const { next } = due(waiting, last, now);
    if (next !== null) plan(queries, next);
  }, ms);
}
