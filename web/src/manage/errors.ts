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

/**
 * A refusal of a whole document as its text is written: the server names what it could not read by its place in the
 * request, which holds the document under its name and in one line.
 */
export function ofDocument(error: unknown, name: string): Error | null {
  if (!(error instanceof ApiError)) return (error as Error | null) ?? null;
  const { field } = error;
  if (!field?.startsWith(`${name}.`)) return error;
  const message = error.message.replace(/ at line \d+ column \d+$/, '');
  return new ApiError(error.status, error.code, message, error.hint, field.slice(name.length + 1));
}

/** The one of some fields where a refusal stands: the one that holds what it names, else the first of what it names. */
export function placeOf(error: unknown, fields: readonly string[]): string | null {
  const named = error instanceof ApiError ? error.field : null;
  if (!named) return null;
  const holds = fields.filter((f) => isAt(error, f)).sort((a, b) => b.length - a.length);
  return holds[0] ?? fields.find((f) => f.startsWith(`${named}.`) || f.startsWith(`${named}[`)) ?? null;
}
