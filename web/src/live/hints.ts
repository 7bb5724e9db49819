import type { QueryClient } from '@tanstack/react-query';

/** Which lists an event makes stale, by the beginning of its kind. */
const ABOUT: [RegExp, string[]][] = [
  [/^(job|attempt|preflight|slot|stop|promise|notice|checkpoint|idle)/, ['jobs', 'node', 'quotas']],
  [/^(node|drain|qualification|gpus|probation|orphan|fault)/, ['node', 'health', 'nodes']],
  [/^(finding|incident|breaker|remedy|act|automation)/, ['health', 'node']],
  // What keeps new work away from a node.
  [/^(breaker|remedy)/, ['nodes']],
  [/^(runbook)/, ['runbooks', 'runbook-runs', 'health']],
  [/^(reservation)/, ['reservations']],
  [/^(quotas|policy|project)/, ['quotas']],
  [/^(topology)/, ['topology']],
  [/^(alert|silence|objective|routing|receiver|slo|budget)/, ['slo']],
  [/^(alert|silence|routing|receiver|condition|certificate)/, ['alerts', 'receivers', 'silences']],
  [/^(objectives|counts)/, ['slos']],
];

const waiting = new Set<string>();
let timer: ReturnType<typeof setTimeout> | null = null;

/** The names of the queries that these events make stale. */
export function touched(hints: { all: boolean; kinds: string[] }): Set<string> {
  const out = new Set<string>();
  for (const [kinds, keys] of ABOUT) {
    if (hints.all || hints.kinds.some((k) => kinds.test(k))) for (const k of keys) out.add(k);
  }
  return out;
}

/** Reads again what is shown and stale, once in a second and a half at most. */
export function stale(queries: QueryClient, hints: { all: boolean; kinds: string[] }) {
  for (const key of touched(hints)) waiting.add(key);
  if (timer || waiting.size === 0) return;
  timer = setTimeout(() => {
    timer = null;
    const keys = new Set(waiting);
    waiting.clear();
    void queries.invalidateQueries({ predicate: (q) => keys.has(String(q.queryKey[0])) });
  }, 250);
}
