// Lengths of time as the API writes them, and moments as fields of a form hold them. No React here.
import { fromField, toField } from '../find/events';

const UNITS: [string, number][] = [
  ['w', 604_800_000],
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['m', 60_000],
  ['s', 1000],
  ['ms', 1],
];

/** `1d12h` in milliseconds; null for what is no length of time. */
export function spanMs(text: string): number | null {
  const written = text.trim();
  if (!/^(\d{1,15}(\.\d{1,3})?(ms|[smhdw]))+$/.test(written)) return null;
  let sum = 0;
  for (const [, value, unit] of written.matchAll(/(\d+(?:\.\d+)?)(ms|[smhdw])/g))
    sum += Number(value) * (UNITS.find(([u]) => u === unit)?.[1] ?? 0);
  return Math.round(sum);
}

/** Milliseconds as the API writes them, in days and less: weeks are no use for a window. */
export function spanText(ms: number): string {
  let left = Math.max(0, Math.round(ms));
  let out = '';
  for (const [unit, size] of UNITS.slice(1)) {
    const n = Math.floor(left / size);
    if (n > 0) out += `${n}${unit}`;
    left -= n * size;
  }
  return out || '0s';
}

/** A moment as a field for date and time holds it, in the zone of the page. */
export const momentField = (ms: number) => toField(new Date(ms).toISOString());

/** What such a field holds, in milliseconds; null while it is not filled. */
export function fieldMoment(text: string): number | null {
  const at = /^\d{4}-\d\d-\d\dT\d\d:\d\d/.test(text) ? fromField(text) : undefined;
  return at === undefined ? null : Date.parse(at);
}
