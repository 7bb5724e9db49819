// What `muster sim run … -o json` and `muster sim replay … -o json` print, as far as the page shows it.

export interface Spread {
  mean: number;
  p50: number;
  p95: number;
  p99: number;
}

export interface Outcome {
  scenario: string;
  seed: number | null;
  nodes: number | null;
  gpus: number | null;
  jobs: number | null;
  jobs_completed: number;
  makespan_s: number | null;
  gpu_allocation_ratio: number | null;
  gpu_utilization: number | null;
  fragmentation: number | null;
  wait_s: Spread | null;
  jct_s: Spread | null;
  goodput: number | null;
  ettr: number | null;
  mtbi_s: number | null;
  lost_gpu_seconds: number | null;
  preemptions: number;
  migrations: number;
  failures: Record<string, number>;
  decisions: number;
  wall_s: number;
  /** Null where the server simulated: it does not measure the part of its memory. */
  peak_rss_bytes: number | null;
  log_digest: string;
  waterfall: Record<string, number> | null;
  by_size: SizeClass[];
}

export interface SizeClass {
  gpus_from: number;
  gpus_to: number;
  jobs: number;
  ettr: number;
  interruptions: number;
  mtbi_s: number | null;
  wait_s: Spread;
}

/** Says what is wrong with a file in words that help. */
export class NotAReport extends Error {}

type Loose = Record<string, unknown>;
const number = (v: unknown): number | null => (typeof v === 'number' && Number.isFinite(v) ? v : null);
const object = (v: unknown): Loose | null =>
  typeof v === 'object' && v !== null && !Array.isArray(v) ? (v as Loose) : null;

function spread(v: unknown): Spread | null {
  const o = object(v);
  const [mean, p50, p95, p99] = ['mean', 'p50', 'p95', 'p99'].map((k) => number(o?.[k]));
  return mean === null || p50 === null || p95 === null || p99 === null ? null : { mean, p50, p95, p99 };
}

function counts(v: unknown): Record<string, number> {
  const out: Record<string, number> = {};
  for (const [k, n] of Object.entries(object(v) ?? {})) {
    const value = number(n);
    if (value !== null) out[k] = value;
  }
  return out;
}

/** Reads a report; anything else is refused. */
export function read(text: string): Outcome {
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch {
    throw new NotAReport('this is not JSON: the report is what `muster sim run … -o json` prints');
  }
  const o = object(parsed);
  if (!o) throw new NotAReport('this is JSON, but not the report of one run');
  if (Array.isArray(o.runs) && o.log_digest === undefined)
    throw new NotAReport('this is a sweep or a comparison; load the report of a single run');
  const digest = o.log_digest;
  const done = number(o.jobs_completed);
  if (typeof digest !== 'string' || done === null)
    throw new NotAReport('this has no `jobs_completed` and `log_digest`, which every report of a run has');
  const water = object(o.waterfall) ? counts(o.waterfall) : null;
  return {
    scenario: typeof o.scenario === 'string' ? o.scenario : 'without a name',
    seed: number(o.seed),
    nodes: number(o.nodes),
    gpus: number(o.gpus),
    jobs: number(o.jobs),
    jobs_completed: done,
    makespan_s: number(o.makespan_s),
    gpu_allocation_ratio: number(o.gpu_allocation_ratio),
    gpu_utilization: number(o.gpu_utilization),
    fragmentation: number(o.fragmentation),
    wait_s: spread(o.wait_s),
    jct_s: spread(o.jct_s),
    goodput: number(o.goodput),
    ettr: number(o.ettr),
    mtbi_s: number(o.mtbi_s),
    lost_gpu_seconds: number(o.lost_gpu_seconds),
    preemptions: number(o.preemptions) ?? 0,
    migrations: number(o.migrations) ?? 0,
    failures: counts(o.failures),
    decisions: number(o.decisions) ?? 0,
    wall_s: number(o.wall_s) ?? 0,
    peak_rss_bytes: number(o.peak_rss_bytes) || null,
    log_digest: digest,
    waterfall: water && Object.keys(water).length > 0 ? water : null,
    by_size: (Array.isArray(o.by_size) ? o.by_size : []).flatMap((s): SizeClass[] => {
      const row = object(s);
      const wait = spread(row?.wait_s);
      const [from, to, jobs, ettr, hit] = ['gpus_from', 'gpus_to', 'jobs', 'ettr', 'interruptions'].map((k) =>
        number(row?.[k]),
      );
      if (wait === null || from === null || to === null || jobs === null) return [];
      return [
        {
          gpus_from: from,
          gpus_to: to,
          jobs,
          ettr: ettr ?? 0,
          interruptions: hit ?? 0,
          mtbi_s: number(row?.mtbi_s),
          wait_s: wait,
        },
      ];
    }),
  };
}

/** Which way is better, for the comparison of two runs. */
export type Better = 'more' | 'less' | 'neither';

export interface Figure {
  name: string;
  of: (o: Outcome) => number | null;
  say: (v: number) => string;
  better: Better;
}

const whole = (v: number) => v.toLocaleString('en', { maximumFractionDigits: 0 });
const share = (v: number) => `${(v * 100).toFixed(1)} %`;

/** Seconds as people say them. */
export function seconds(v: number): string {
  if (v < 100) return `${v.toLocaleString('en', { maximumFractionDigits: 1 })} s`;
  if (v < 6000) return `${(v / 60).toFixed(1)} min`;
  if (v < 48 * 3600) return `${(v / 3600).toFixed(1)} h`;
  return `${(v / 86_400).toFixed(1)} d`;
}

export const FIGURES: Figure[] = [
  { name: 'jobs done', of: (o) => o.jobs_completed, say: whole, better: 'more' },
  { name: 'makespan', of: (o) => o.makespan_s, say: seconds, better: 'less' },
  { name: 'GPUs allocated', of: (o) => o.gpu_allocation_ratio, say: share, better: 'more' },
  { name: 'GPUs at work', of: (o) => o.gpu_utilization, say: share, better: 'more' },
  { name: 'fragmentation', of: (o) => o.fragmentation, say: share, better: 'less' },
  { name: 'wait, mean', of: (o) => o.wait_s?.mean ?? null, say: seconds, better: 'less' },
  { name: 'wait, median', of: (o) => o.wait_s?.p50 ?? null, say: seconds, better: 'less' },
  { name: 'wait, 95th percentile', of: (o) => o.wait_s?.p95 ?? null, say: seconds, better: 'less' },
  { name: 'wait, 99th percentile', of: (o) => o.wait_s?.p99 ?? null, say: seconds, better: 'less' },
  { name: 'time to completion, mean', of: (o) => o.jct_s?.mean ?? null, say: seconds, better: 'less' },
  { name: 'time to completion, median', of: (o) => o.jct_s?.p50 ?? null, say: seconds, better: 'less' },
  { name: 'time to completion, 95th', of: (o) => o.jct_s?.p95 ?? null, say: seconds, better: 'less' },
  { name: 'goodput', of: (o) => o.goodput, say: share, better: 'more' },
  { name: 'ETTR', of: (o) => o.ettr, say: share, better: 'more' },
  { name: 'time between interruptions', of: (o) => o.mtbi_s, say: seconds, better: 'more' },
  {
    name: 'lost GPU-hours',
    of: (o) => (o.lost_gpu_seconds === null ? null : o.lost_gpu_seconds / 3600),
    say: whole,
    better: 'less',
  },
  { name: 'preemptions', of: (o) => o.preemptions, say: whole, better: 'neither' },
  { name: 'migrations', of: (o) => o.migrations, say: whole, better: 'neither' },
  {
    name: 'interruptions',
    of: (o) => Object.values(o.failures).reduce((a, b) => a + b, 0),
    say: whole,
    better: 'less',
  },
  { name: 'plans made', of: (o) => o.decisions, say: whole, better: 'neither' },
  { name: 'real time it took', of: (o) => o.wall_s, say: seconds, better: 'neither' },
  {
    name: 'memory it took',
    of: (o) => (o.peak_rss_bytes === null ? null : o.peak_rss_bytes / (1 << 20)),
    say: (v) => `${whole(v)} MiB`,
    better: 'neither',
  },
];

/** The seed of a report, unless its name says it. */
export const seedWords = (name: string, o: Pick<Outcome, 'seed'>): string =>
  o.seed === null || name.endsWith(`, seed ${o.seed}`) ? '' : `seed ${o.seed}`;

/** How the second stands beside the first: in words, and whether that is better. */
export function difference(f: Figure, a: Outcome, b: Outcome): { text: string; good: boolean | null } | null {
  const [x, y] = [f.of(a), f.of(b)];
  if (x === null || y === null) return null;
  if (x === y) return { text: 'same', good: null };
  const text = x === 0 ? 'new' : `${y > x ? '+' : ''}${(((y - x) / Math.abs(x)) * 100).toFixed(1)} %`;
  return { text, good: f.better === 'neither' ? null : y > x === (f.better === 'more') };
}

/** Parts of the fleet's GPU time, in the order in which they are drawn. */
export const PARTS: [string, string][] = [
  ['productive', 'productive'],
  ['checkpoint', 'checkpoints'],
  ['restart', 'restarts'],
  ['lost', 'lost'],
  ['degraded', 'degraded'],
  ['queued', 'free while jobs waited'],
  ['idle', 'free, nobody waited'],
  ['spare', 'spares'],
  ['broken', 'broken or drained'],
];
