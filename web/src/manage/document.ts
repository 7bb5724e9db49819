// Whole documents (policy, routing, quotas) as the files that the CLI applies. No React here.
import { CORE_SCHEMA, load, YAMLException } from 'js-yaml';
import { yaml } from '../yaml';

export type Document = Record<string, unknown>;

/** A document as its file, headed by what it is. */
export function documentText(kind: string, of: object): string {
  return `kind: ${kind}\n${yaml(of as never)}`;
}

export type Read = { document: Document } | { problem: string };

/**
 * What was typed as a document. Like the CLI it takes the bare document, and what `GET` gave: with its version, and
 * under its own name.
 */
export function readDocument(kind: string, key: string, text: string): Read {
  let read: unknown;
  try {
    // Without dates: times are written as text.
    read = load(text, { schema: CORE_SCHEMA });
  } catch (e) {
    return { problem: e instanceof YAMLException ? yamlProblem(e) : (e as Error).message };
  }
  if (typeof read !== 'object' || read === null || Array.isArray(read))
    return { problem: `This is not a document: write keys with values, headed by kind: ${kind}` };
  const { kind: said, version: _, ...rest } = read as Document;
  if (said !== undefined && said !== kind)
    return { problem: `This is a document of kind ${String(said)}; here it must be ${kind}` };
  const inner = rest[key];
  if (inner === undefined) return { document: rest };
  if (typeof inner !== 'object' || inner === null || Array.isArray(inner))
    return { problem: `${key} must have keys with values` };
  return { document: inner as Document };
}

function yamlProblem(e: YAMLException): string {
  const at = e.mark ? `line ${e.mark.line + 1}, column ${e.mark.column + 1}: ` : '';
  return `${at}${e.reason}`;
}

/** The value at a dotted path. */
export function valueAt(document: Document, path: string): unknown {
  let here: unknown = document;
  for (const key of path.split('.')) {
    if (typeof here !== 'object' || here === null) return undefined;
    here = (here as Document)[key];
  }
  return here;
}

/** The document with another value at a dotted path; without the key when the value is undefined. */
export function withValue(document: Document, path: string, value: unknown): Document {
  const [key, ...rest] = path.split('.');
  const out = { ...document };
  if (rest.length > 0) {
    const inner = document[key];
    const below = typeof inner === 'object' && inner !== null && !Array.isArray(inner) ? inner : {};
    out[key] = withValue(below as Document, rest.join('.'), value);
  } else if (value === undefined) delete out[key];
  else out[key] = value;
  return out;
}
