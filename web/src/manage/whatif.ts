// What a change would do: the form as `muster whatif` writes it, and how answers are compared. No React here.
import type { Schemas } from '../api/client';
import { seconds } from '../sim/outcome';
import type { Problem } from './reservation';

export type Answer = Schemas['WhatIfAnswer'];
export type Figure = Schemas['WhatIfMetric'];

/** What the server can change before it simulates, with the words of the form. */
export const CHANGES = [
  { kind: 'more', word: 'More nodes', value: 'How many more', hint: 'such as 64' },
  { kind: 'fewer', word: 'Fewer nodes', value: 'How many fewer', hint: 'free nodes first' },
  { kind: 'spares', word: 'Spare nodes', value: 'Spare nodes in all', hint: 'such as 4' },
  { kind: 'policy', word: 'A field of the policy', value: 'Value', hint: 'as the policy file has it' },
  { kind: 'checkpoint', word: 'Checkpoint interval', value: 'Interval', hint: 'such as 10m' },
  { kind: 'failure_rate', word: 'Failures of nodes', value: 'Times as often', hint: 'such as 2 or 0.5' },
  { kind: 'sku', word: 'Kind of all GPUs', value: 'Kind of GPU', hint: '' },
] as const;

export type ChangeKind = (typeof CHANGES)[number]['kind'];

/** Kinds of GPU that can be simulated. */
export const SKUS = ['h100-sxm', 'h200-sxm', 'b200-sxm', 'gb200'] as const;

/** One change of the form. `extra`: the kind of GPU of more nodes, or the field of the policy. */
export interface ChangeRow {
  id: number;
  kind: ChangeKind;
  value: string;
  extra: string;
}

export interface WhatIfForm {
  rows: ChangeRow[];
  seeds: string;
  horizon: string;
  budget: string;
}

export const EMPTY: WhatIfForm = {
  rows: [{ id: 0, kind: 'more', value: '8', extra: '' }],
  seeds: '8',
  horizon: '',
  budget: '10s',
};

/** As long as a what-if may take on the server. */
export const BUDGETS = ['5s', '10s', '20s'] as const;

const SPAN = /^(\d{1,9}(\.\d{1,3})?(ms|s|m|h|d|w))+$/;

/** `at`: what is wrong is the field of the policy, not its value. */
type Written = { text: string } | { why: string; at?: 'extra' };

/** A change as the CLI and the API take it, or what is wrong with it. */
export function changeText({ kind, value, extra }: Omit<ChangeRow, 'id'>): Written {
  const v = value.trim();
  const field = extra.trim();
  const some = /^[1-9]\d{0,5}$/.test(v);
  switch (kind) {
    case 'more':
      return some
        ? { text: `nodes=+${v}${field && `:${field}`}` }
        : { why: 'Give how many nodes, such as 64.' };
    case 'fewer':
      return some ? { text: `nodes=-${v}` } : { why: 'Give how many nodes, such as 8.' };
    case 'spares':
      return some || v === '0'
        ? { text: `spares=${v}` }
        : { why: 'Give how many nodes are spares in all, such as 4.' };
    case 'policy':
      // Names in it may have hyphens, slashes and colons, such as those of classes and kinds of GPU.
      if (!/^[^\s=]+$/.test(field))
        return { why: 'Name a field of the policy, such as backfill.mode.', at: 'extra' };
      return v ? { text: `policy.${field}=${v}` } : { why: 'Give its value.' };
    case 'checkpoint':
      return SPAN.test(v) ? { text: `checkpoint=${v}` } : { why: 'Give how often, such as 10m.' };
    case 'failure_rate':
      return /^\d{1,4}(\.\d{1,3})?$/.test(v) && Number(v) <= 1000
        ? { text: `failure_rate=x${v}` }
        : { why: 'Give how many times as often, from 0 to 1000.' };
    default:
      return v ? { text: `sku=${v}` } : { why: 'Choose a kind of GPU.' };
  }
}

export interface WhatIfBody {
  changes: string[];
  seeds: number;
  horizon: string | null;
  budget: string;
}

/** What is asked of the server, or the first field that is wrong. */
export function whatIfBody(form: WhatIfForm): { body: WhatIfBody } | { problem: Problem } {
  const changes: string[] = [];
  for (const [i, row] of form.rows.entries()) {
    const read = changeText(row);
    if ('why' in read) return { problem: { field: `changes[${i}]`, text: read.why } };
    changes.push(read.text);
  }
  const seeds = form.seeds.trim();
  if (!/^[1-9]\d?$/.test(seeds) || Number(seeds) > 64)
    return { problem: { field: 'seeds', text: 'Give a number from 1 to 64.' } };
  const horizon = form.horizon.trim();
  if (horizon && !SPAN.test(horizon))
    return { problem: { field: 'horizon', text: 'Give a length of time, such as 24h or 7d.' } };
  return { body: { changes, seeds: Number(seeds), horizon: horizon || null, budget: form.budget } };
}

const quoted = (text: string) =>
  /^[\w.,:=+@%/-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;

/** The command that asks the same of the same server, with what bounds it also where that is usual. */
export function commandOf({ changes, seeds, horizon, budget }: WhatIfBody): string {
  const words = ['muster whatif --from server', ...changes.map((c) => `--change ${quoted(c)}`)];
  words.push(`--seeds ${seeds}`);
  if (horizon) words.push(`--horizon ${horizon}`);
  words.push(`--budget ${budget}`);
  return words.join(' ');
}

/** Fields of a document by their paths: those that hold no others. */
export function pathsOf(document: unknown, above = ''): string[] {
  if (typeof document !== 'object' || document === null || Array.isArray(document))
    return above ? [above] : [];
  return Object.entries(document).flatMap(([key, value]) => pathsOf(value, above ? `${above}.${key}` : key));
}

const NAMES: Record<string, { word: string; better: 'more' | 'less' | null }> = {
  wait_mean_s: { word: 'Mean wait', better: 'less' },
  wait_p95_s: { word: '95th percentile of waits', better: 'less' },
  queue_makespan_s: { word: 'Present queue over after', better: 'less' },
  goodput: { word: 'Goodput', better: 'more' },
  gpu_allocation_ratio: { word: 'GPUs allocated to jobs', better: null },
  jobs_completed: { word: 'Jobs completed', better: 'more' },
  interruptions: { word: 'Interruptions', better: 'less' },
};

export const wordOf = (name: string) => NAMES[name]?.word ?? name.replaceAll('_', ' ');

/** A number of a metric with its unit. */
export function amount(x: number, unit: Figure['unit']): string {
  if (unit === 'seconds') return seconds(x);
  if (unit === 'share') return `${(x * 100).toFixed(1)} %`;
  return x.toLocaleString('en', { maximumFractionDigits: x < 100 ? 1 : 0 });
}

/** A mean of a metric. One that is only known to be at least this much is marked. */
export const meanOf = (e: Figure['base'], unit: Figure['unit']) =>
  `${e.at_least ? '> ' : ''}${amount(e.mean, unit)}`;

/** A difference with its sign. */
export function signed(x: number, unit: Figure['unit']): string {
  const size = unit === 'share' ? `${(Math.abs(x) * 100).toFixed(1)} points` : amount(Math.abs(x), unit);
  // What is shown as nothing has no sign.
  if (!/[1-9]/.test(size)) return size;
  return `${x < 0 ? '−' : '+'}${size}`;
}

/** How a metric changes, and whether that is better; null where it is neither, or may be chance. */
export function difference(f: Figure): { text: string; good: boolean | null } {
  if (f.base.at_least && f.changed.at_least) return { text: 'not over in either', good: null };
  if (f.base.at_least || f.changed.at_least) return { text: 'over in one only', good: null };
  const by = signed(f.change.mean, f.unit);
  if (!/[1-9]/.test(by)) return { text: 'same', good: null };
  if (!f.certain) return { text: `no certain difference (${by})`, good: null };
  const better = NAMES[f.name]?.better ?? null;
  if (better === null) return { text: by, good: null };
  const good = f.change.mean > 0 === (better === 'more');
  return { text: `${by}, ${good ? 'better' : 'worse'}`, good };
}

/** How the start of a waiting job changes. */
export function startDifference({ base_s, changed_s, never }: Answer['starts'][number]): string {
  if (never) return 'never';
  if (typeof base_s !== 'number') return 'earlier';
  if (typeof changed_s !== 'number') return 'later';
  return `${seconds(Math.abs(changed_s - base_s))} ${changed_s < base_s ? 'earlier' : 'later'}`;
}

/** An answer that stays on the page, with what was sent and when: `at` is the moment of asking. */
export interface Kept {
  id: number;
  at: number;
  body: WhatIfBody;
  answer: Answer;
}

/** Answers that are compared. */
export const MOST_KEPT = 4;

/** With one more; the oldest leaves when there are too many. */
export function withAnswer(kept: readonly Kept[], next: Omit<Kept, 'id'>): Kept[] {
  const id = Math.max(0, ...kept.map((k) => k.id)) + 1;
  return [...kept, { id, ...next }].slice(-MOST_KEPT);
}

const changesOf = (k: Kept) => k.answer.changes.join(' and ');

/** What an answer is called: its changes, and where another has the same ones, also what else was asked. */
export function titleOf(k: Kept, kept: readonly Kept[]): string {
  const name = changesOf(k);
  const same = kept.filter((o) => o.id !== k.id && changesOf(o) === name);
  if (same.length === 0) return name;
  const asked = (b: WhatIfBody) =>
    `${b.horizon ? `${b.horizon} ahead` : 'usual time ahead'}, ${b.seeds} pairs asked, ${b.budget}`;
  const mine = asked(k.body);
  const twice = same.some((o) => asked(o.body) === mine);
  return `${name} (${mine}${twice ? `, no. ${k.id}` : ''})`;
}

/** What was run for an answer: pairs of runs, and how far ahead. */
export function runsOf(a: Answer): string {
  const pairs = `${a.seeds} ${a.seeds === 1 ? 'pair' : 'pairs'}`;
  return `${pairs}, ${a.new_work ? `${seconds(a.horizon_s)} ahead` : 'until the present jobs are over'}`;
}

/** Why the numbers of the site as it is differ between answers; null where they are the same. */
export function unlike(kept: readonly Kept[]): string | null {
  const differs = (of: (a: Answer) => unknown) =>
    new Set(kept.map((k) => JSON.stringify(of(k.answer)))).size > 1;
  const why = [
    differs((a) => [a.new_work, a.horizon_s]) && 'how far ahead',
    differs((a) => a.seeds) && 'pairs of runs',
    differs((a) => [a.base_size, a.running, a.waiting]) && 'the site when it was asked',
  ].filter(Boolean);
  return why.length === 0
    ? null
    : `Not the same in all: ${why.join('; ')}. Compare differences, not numbers.`;
}
