// What is searched in job output. No React here.
import type { Schemas } from '../api/client';
import type { Entry } from './entries';

export type OutputHit = Schemas['OutputHit'];

/** How far back, as the address says it. */
export const RANGES = {
  '1h': 'last hour',
  '1d': 'last day',
  '7d': 'last week',
  '30d': 'last 30 days',
} as const;

export type Range = keyof typeof RANGES;

const HOUR = 3_600_000;
export const LENGTHS: Record<Range, number> = {
  '1h': HOUR,
  '1d': 24 * HOUR,
  '7d': 168 * HOUR,
  '30d': 720 * HOUR,
};

/** What the address of the page says. */
export interface OutputSearch {
  q?: string;
  project?: string;
  job?: string;
  range?: Range;
}

/** A word of an address as a range; none when it is not one. */
export function rangeOf(word: unknown): Range | undefined {
  return (Object.keys(RANGES) as Range[]).find((r) => r === word);
}

/** The same as the server takes it. */
export function outputQuery({ q, project, job, range }: OutputSearch, now: number) {
  const since = range && new Date(now - LENGTHS[range]).toISOString();
  return { q, project, job, since };
}

/** Fields as they are typed, without those that are empty. */
export function cleanedOutput(draft: OutputSearch): OutputSearch {
  const field = (text: string | undefined) => text?.trim() || undefined;
  return { q: field(draft.q), project: field(draft.project), job: field(draft.job), range: draft.range };
}

/** Where a line is, in words. */
export function placeOf(hit: Pick<OutputHit, 'attempt' | 'rank' | 'stream' | 'line'>): string {
  const line = hit.line === null || hit.line === undefined ? '' : `, line ${hit.line.toLocaleString('en')}`;
  return `attempt ${hit.attempt}, rank ${hit.rank}${hit.stream === 'stderr' ? ', stderr' : ''}${line}`;
}

/** Nobody means all of the output by a letter or two. */
const LEAST_TYPED = 3;

/** The palette's last line: the words may be in job output. */
export function outputEntry(words: string): Entry[] {
  const q = words.trim();
  if (q.length < LEAST_TYPED) return [];
  const href = `/output?${new URLSearchParams({ q: JSON.stringify(q) })}`;
  return [{ key: 'output', kind: 'output', label: `Search job output for “${q}”`, href }];
}
