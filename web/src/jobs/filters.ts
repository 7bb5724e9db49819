// Which jobs are listed, and the same as a file. No React here.
import type { Schemas } from '../api/client';
import { csvText } from '../csv';

type Job = Schemas['Job'];

/** What the address of the list says. No state: those that have not ended; `all`: every one. */
export interface JobSearch {
  state?: string;
  prefix?: string;
  project?: string;
  user?: string;
  sku?: string;
  tag?: string;
  /** The order, as the API takes it: a field, with `-` before it the largest first. None: newest first. */
  sort?: string;
  /** Bars in time in place of rows. */
  view?: 'timeline';
  /** Moments between which the bars are shown; none: what holds all of them. */
  from?: string;
  to?: string;
}

/** What is typed or picked. */
export type Field = Exclude<keyof JobSearch, 'view' | 'sort' | 'from' | 'to'>;

export const STATES: [string, string][] = [
  ['active', 'active'],
  ['all', 'all'],
  ['queued', 'queued'],
  ['running', 'running'],
  ['ended', 'ended'],
  ['failed', 'failed'],
  ['succeeded', 'succeeded'],
  ['cancelled', 'cancelled'],
];

/** The states that are offered, with that of the address where it is another: several, such as `starting,running`. */
export function statesWith(state: string): [string, string][] {
  if (STATES.some(([s]) => s === state)) return STATES;
  return [...STATES, [state, state.replaceAll(',', ', ')]];
}

/** The same as the server takes it. */
export function jobQuery({ state = 'active', view: _view, from: _from, to: _to, ...rest }: JobSearch) {
  return { ...rest, state: state === 'all' ? undefined : state };
}

/** How many fields narrow the list; the state and how it is shown are not counted. */
export function narrowedBy({ project, user, prefix, sku, tag }: JobSearch): number {
  return [project, user, prefix, sku, tag].filter(Boolean).length;
}

/** The order after a click on a column: by it, the other way round, and then newest first again. */
export function nextSort(sort: string | undefined, field: string): string | undefined {
  if (sort === field) return `-${field}`;
  return sort === `-${field}` ? undefined : field;
}

/** Are the same jobs listed, maybe in another order? */
export function sameJobs(a: JobSearch, b: JobSearch): boolean {
  const plain = (s: JobSearch) => JSON.stringify({ ...s, sort: undefined });
  return plain(a) === plain(b);
}

/** How a column is sorted. */
export function sortOf(sort: string | undefined, field: string): 'ascending' | 'descending' | 'none' {
  if (sort === field) return 'ascending';
  return sort === `-${field}` ? 'descending' : 'none';
}

/** The search with one field changed; an empty one is not in the address. */
export function withField(search: JobSearch, field: Field, value: string): JobSearch {
  return { ...search, [field]: value.trim() === '' ? undefined : value.trim() };
}

/** `2 x 8 GPUs`. */
export function gang(job: Pick<Job, 'groups'>): string {
  return job.groups
    .map((g) => {
      const what = g.gpus > 0 ? `${g.gpus} GPU${g.gpus === 1 ? '' : 's'}` : `${g.cpus} CPUs`;
      return g.nodes > 1 ? `${g.nodes} x ${what}` : what;
    })
    .join(' + ');
}

/** Columns that may be left out, with their words. */
export const COLUMNS = [
  ['project', 'Project', 'minmax(80px, 0.5fr)'],
  ['user', 'User', 'minmax(80px, 0.5fr)'],
  ['gang', 'Gang', 'minmax(100px, 0.5fr)'],
  ['submitted', 'Submitted', '90px'],
  ['where', 'Where, or why not', 'minmax(220px, 4.5fr)'],
] as const;

export type Column = (typeof COLUMNS)[number][0];

/** What the server sorts by for a column. Where a job is, or why it is not, has no order. */
export const SORTED_BY: Record<Column, string | null> = {
  project: 'project',
  user: 'user',
  gang: 'gpus',
  submitted: 'submitted',
  where: null,
};

const FIRST: Column[] = ['project', 'gang', 'submitted', 'where'];

/** The columns that were chosen in this browser; what it does not know is passed over. */
export function columnsOf(kept: string | null): Column[] {
  if (kept === null) return FIRST;
  const names = kept.split(',');
  return COLUMNS.map(([name]) => name).filter((name) => names.includes(name));
}

const HEAD = [
  ...['id', 'name', 'state', 'held', 'project', 'user', 'gang', 'priority', 'submitted_at'],
  ...['started_at', 'ended_at', 'exit_code', 'attempts', 'nodes', 'reason', 'tags'],
];

/** Jobs as a table for spreadsheets. */
export function csv(jobs: readonly Job[]): string {
  const rows = jobs.map((j) => [
    j.id,
    j.name,
    j.state,
    j.held ?? '',
    j.project,
    j.user,
    gang(j),
    j.spec.priority ?? 'normal',
    j.submitted_at,
    j.started_at,
    j.ended_at,
    j.exit_code,
    j.attempts,
    [...new Set(j.attempt?.slots.map((s) => s.node) ?? [])].join(' '),
    j.waiting ?? j.reason,
    Object.entries(j.spec.tags ?? {})
      .map(([key, value]) => `${key}=${value}`)
      .join(' '),
  ]);
  return csvText([HEAD, ...rows]);
}
