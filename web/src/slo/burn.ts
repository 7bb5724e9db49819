import type { Schemas } from '../api/client';

type Point = Schemas['ChartPoint'];

/**
 * What was left of the budget after each hour, by what is left now and what was spent since; the
 * budget is that of the whole window as it stands now.
 */
export function left(
  points: Point[],
  consumed: number | null | undefined,
  allowed: number,
): (number | null)[] {
  if (consumed === null || consumed === undefined || allowed <= 0) return points.map(() => null);
  const out: (number | null)[] = [];
  let later = 0;
  for (let i = points.length - 1; i >= 0; i--) {
    out[i] = 1 - consumed + later / allowed;
    later += points[i].total - points[i].good;
  }
  // Before anything was counted nothing is known.
  for (let i = 0; i < points.length && points[i].total === 0; i++) out[i] = null;
  return out;
}
