// The queue in time: what runs, what has a reserved start, what waits. No React here.
import type { Schemas } from '../api/client';
import { LONGEST, momentOf, zoomed } from '../history/range';
import { gang, type JobSearch } from './filters';

type Job = Schemas['Job'];

const HOUR = 36e5;
const UNITS: Record<string, number> = { ms: 1, s: 1e3, m: 6e4, h: HOUR, d: 864e5, w: 6048e5 };

/** A length of time as the API writes it (`1d12h`), in milliseconds; null where it is none. */
export function lengthMs(text: string | null | undefined): number | null {
  if (!text || !/^(\d+(ms|[smhdw]))+$/.test(text)) return null;
  let sum = 0;
  for (const [, n, unit] of text.matchAll(/(\d+)(ms|[smhdw])/g)) sum += Number(n) * (UNITS[unit] ?? 0);
  return sum;
}

/** The groups of the timeline, in their order. */
export const GROUPS = ['running', 'reserved', 'waiting', 'held'] as const;
export type Group = (typeof GROUPS)[number];

/** What the timeline knows of a job. It has thousands of them: nothing else of a job is stored. */
export interface Row {
  id: string;
  name: string;
  project: string;
  user: string;
  state: string;
  gang: string;
  group: Group;
  /** When it was started or has a reserved start; null while neither is so. */
  from: number | null;
  /** When its time limit ends it; null where it has none, or no start. */
  to: number | null;
  submitted: number;
  /** Why it waits, or why it is stopped, as the server writes it. */
  why: string;
}

/** A row of what is active; null for a job that has ended. */
export function rowOf(j: Job): Row | null {
  const limit = lengthMs(j.spec.time_limit);
  const row = {
    id: j.id,
    name: j.name,
    project: j.project,
    user: j.user,
    state: j.state,
    gang: gang(j),
    submitted: Date.parse(j.submitted_at),
  };
  if (j.state === 'queued') {
    const why = j.held || j.waiting || j.reason || '';
    if (j.held) return { ...row, group: 'held', from: null, to: null, why };
    if (!j.reserved_start) return { ...row, group: 'waiting', from: null, to: null, why };
    const from = Date.parse(j.reserved_start.at);
    return { ...row, group: 'reserved', from, to: limit === null ? null : from + limit, why };
  }
  if (!j.attempt) return null;
  const from = Date.parse(j.attempt.started_at ?? j.attempt.placed_at);
  const to = j.attempt.deadline ? Date.parse(j.attempt.deadline) : limit === null ? null : from + limit;
  return { ...row, group: 'running', from, to, why: j.attempt.stop?.message ?? '' };
}

/** Rows group by group, each by its start; what has none by its submission. Each job once. */
export function rowsOf(jobs: readonly Job[]): Row[] {
  const rows = new Map<string, Row>();
  for (const j of jobs) {
    const row = rowOf(j);
    if (row) rows.set(j.id, row);
  }
  const at = (r: Row) => r.from ?? r.submitted;
  return [...rows.values()].sort(
    (a, b) => GROUPS.indexOf(a.group) - GROUPS.indexOf(b.group) || at(a) - at(b),
  );
}

/** A line of the list: the head of a group, or a job. */
export type Entry = { head: Group; count: number } | { row: Row };

/** The rows with the head of each group before them. */
export function entriesOf(rows: readonly Row[]): Entry[] {
  const out: Entry[] = [];
  for (const head of GROUPS) {
    const of = rows.filter((row) => row.group === head);
    if (of.length > 0) out.push({ head, count: of.length });
    for (const row of of) out.push({ row });
  }
  return out;
}

/** When a job starts, as `explain` has it. Null: there is no estimate; absent: it is not known yet. */
export type Estimate = Pick<Schemas['Estimate'], 'earliest' | 'at' | 'basis'> | null | undefined;

export interface Bar {
  kind: 'runs' | 'reserved' | 'estimate';
  from: number;
  /** Null: it has no end that is known. */
  to: number | null;
}

/** The bars of a row: first between when and when it starts, then from its start to its time limit. */
export function barsOf(row: Row, estimate: Estimate, now: number): Bar[] {
  if (row.group === 'running' && row.from !== null) {
    // What is over its time limit is being stopped.
    const to = row.to === null ? null : Math.max(row.to, now);
    return [{ kind: 'runs', from: row.from, to }];
  }
  const bars: Bar[] = [];
  const latest = row.from ?? (estimate ? Date.parse(estimate.at) : null);
  if (latest === null) return bars;
  const earliest = estimate?.earliest ? Date.parse(estimate.earliest) : null;
  // Without an early end it is known only that it does not start later.
  if (row.from === null) bars.push({ kind: 'estimate', from: Math.min(earliest ?? now, latest), to: latest });
  else if (earliest !== null && earliest < latest)
    bars.push({ kind: 'estimate', from: earliest, to: latest });
  if (row.from !== null) bars.push({ kind: 'reserved', from: row.from, to: row.to });
  return bars;
}

/** The times of a row in words; `clock` writes a moment. */
export function timesOf(row: Row, estimate: Estimate, clock: (at: number) => string): string {
  const limit = row.to === null ? 'no time limit' : `time limit at ${clock(row.to)}`;
  const earliest = estimate?.earliest ? Date.parse(estimate.earliest) : null;
  if (row.group === 'running') return `started ${clock(row.from ?? row.submitted)}, ${limit}`;
  if (row.group === 'held') return 'held: it has no start until it is released';
  if (row.from !== null) {
    const early = earliest !== null && earliest < row.from ? `, ${clock(earliest)} at the earliest` : '';
    return `reserved start ${clock(row.from)}${early}, ${limit}`;
  }
  if (estimate === undefined) return 'waits; its start is being estimated';
  if (estimate === null) return 'waits; no start is known';
  const at = Date.parse(estimate.at);
  return earliest !== null && earliest < at
    ? `estimated start between ${clock(earliest)} and ${clock(at)}`
    : `estimated start ${clock(at)} at the latest`;
}

export interface Stretch {
  from: number;
  to: number;
}

/** How far the timeline goes back and ahead: in steps, so that it does not move with every estimate. */
const BEFORE = [HOUR / 6, HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR];
const AFTER = [1, 2, 4, 8, 12, 24, 48].map((h) => h * HOUR);

function stepFor(length: number, steps: readonly number[]): number {
  return steps.find((s) => s >= length) ?? (steps[steps.length - 1] as number);
}

/** The stretch of time that holds the moments: at most half a day back and two days ahead. */
export function stretchOf(moments: Iterable<number>, now: number): Stretch {
  let [from, to] = [now, now];
  for (const at of moments) {
    from = Math.min(from, at);
    to = Math.max(to, at);
  }
  return { from: now - stepFor(now - from, BEFORE), to: now + stepFor(to - now, AFTER) };
}

/** The moments of rows, and of their estimates that are known. */
export function* momentsOf(
  rows: readonly Row[],
  estimates: ReadonlyMap<string, Estimate>,
): Generator<number, void> {
  for (const { id, group, from, to } of rows) {
    if (from !== null) yield from;
    if (to !== null) yield to;
    const estimate = group === 'waiting' && estimates.get(id);
    if (estimate) yield Date.parse(estimate.at);
  }
}

/** The stretch that the address names, if it names one. */
export function chosenStretch({ from, to }: Pick<JobSearch, 'from' | 'to'>): Stretch | null {
  const [a, b] = [from && momentOf(from), to && momentOf(to)];
  return typeof a === 'number' && typeof b === 'number' && a < b && b - a <= LONGEST
    ? { from: a, to: b }
    : null;
}

/** Another stretch for the address, at most as long as one may be. */
export function toAddress({ from, to }: Stretch): { from: string; to: string } {
  const over = Math.max(0, Math.abs(to - from) - LONGEST) / 2;
  return zoomed(Math.min(from, to) + over, Math.max(from, to) - over);
}

/** Zoomed in by a factor (out where it is below 1): now keeps its place, or else the centre does. */
export function zoomBy({ from, to }: Stretch, factor: number, now: number): Stretch {
  const fixed = now > from && now < to ? now : (from + to) / 2;
  return { from: fixed - (fixed - from) / factor, to: fixed + (to - fixed) / factor };
}

/** Moved by a share of its length. */
export function moved({ from, to }: Stretch, share: number): Stretch {
  const by = (to - from) * share;
  return { from: from + by, to: to + by };
}

/** Where a moment is, in hundredths of the stretch; what is outside lies on its edge. */
export function placeOf(at: number | null, { from, to }: Stretch): number {
  if (at === null) return 100;
  return Math.round(Math.min(1, Math.max(0, (at - from) / (to - from))) * 10_000) / 100;
}

/** On which side of the stretch all bars are; null where one is in it, or there is none. */
export function outside(bars: readonly Bar[], { from, to }: Stretch): 'before' | 'after' | null {
  if (bars.length === 0) return null;
  if (bars.every((b) => b.to !== null && b.to < from)) return 'before';
  return bars.every((b) => b.from > to) ? 'after' : null;
}

/** The states that the server is asked for; null where all of them are of jobs that have ended. */
export function statesOf(state = 'active'): string | null {
  if (state === 'all') return 'active';
  const ended = ['ended', 'succeeded', 'failed', 'cancelled'];
  const states = state.split(',').filter((s) => !ended.includes(s.trim()));
  return states.length ? states.join(',') : null;
}
