// Lists of things in a document, changed one by one. No React here.
import { type Document, valueAt } from './document';

/** The list at a path; null where the text has something else there. */
export function listAt(document: Document, path: string): Document[] | null {
  const found = valueAt(document, path) ?? [];
  const isThing = (v: unknown) => typeof v === 'object' && v !== null && !Array.isArray(v);
  return Array.isArray(found) && found.every(isThing) ? (found as Document[]) : null;
}

export const replaced = <T>(list: readonly T[], at: number, by: T): T[] =>
  list.map((v, i) => (i === at ? by : v));

export const without = <T>(list: readonly T[], at: number): T[] => list.filter((_, i) => i !== at);

/** The list with one thing moved; it stays where it is at the ends. */
export function moved<T>(list: readonly T[], from: number, to: number): T[] {
  const out = [...list];
  const [one] = out.splice(from, 1);
  if (one === undefined || to < 0 || to > out.length) return [...list];
  out.splice(to, 0, one);
  return out;
}

/** A list of words, whatever the text has there. */
export const words = (v: unknown): string[] =>
  Array.isArray(v) ? v.map(String) : v === undefined || v === null ? [] : [String(v)];
