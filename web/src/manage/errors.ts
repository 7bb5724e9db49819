// Where a refusal of the server belongs in a form. No React here.
import { ApiError } from '../api/client';

/** Does this field hold what the server names? `over.gpus` holds `over.gpus.count`, `tree` holds `tree[0].name`. */
export function isAt(error: unknown, field: string): boolean {
  const named = error instanceof ApiError ? error.field : null;
  if (!named) return false;
  return named === field || named.startsWith(`${field}.`) || named.startsWith(`${field}[`);
}

/** The server's words, with what helps. */
export function refusalWords(error: unknown): string {
  const e = error as Error;
  return e instanceof ApiError && e.hint ? `${e.message} (${e.hint})` : e.message;
}

/** Nothing was said about what was asked: the same may be answered a moment later. */
export const isPassing = (error: unknown) =>
  error instanceof ApiError && (error.status === 0 || error.status === 429 || error.status >= 500);

/** Somebody else changed it, or has that name: what was typed is not to be tried again as it is. */
export const isConflict = (error: unknown) => error instanceof ApiError && error.status === 409;
