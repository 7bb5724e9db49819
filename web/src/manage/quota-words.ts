// Numbers of quotas as people say them. No React here.
import type { Schemas } from '../api/client';

/** Thousandths as people say them. */
export const gpus = (milli: number) => (milli / 1000).toLocaleString('en', { maximumFractionDigits: 1 });

/** What others use is not shown to those who see one project. */
export const usedWords = (milli: number | null | undefined) =>
  milli === null || milli === undefined ? '–' : gpus(milli);

/** What others received is not shown to those who see one project. */
export const percent = (milli: number | null | undefined) =>
  milli === null || milli === undefined ? '–' : `${(milli / 10).toFixed(1)} %`;

/** Projects in the order of their rank, each followed by its users. */
export function byRank(rows: Schemas['AccountRow'][]): Schemas['AccountRow'][] {
  const rank = new Map(rows.filter((r) => !r.user).map((r) => [r.project, r.rank]));
  const of = (r: Schemas['AccountRow']) => rank.get(r.project) ?? r.rank;
  return [...rows].sort(
    (a, b) =>
      of(a) - of(b) || a.project.localeCompare(b.project) || (a.user ?? '').localeCompare(b.user ?? ''),
  );
}
