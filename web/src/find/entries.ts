// What the palette lists: pages, commands, and what the server finds. No React here.
import type { Schemas } from '../api/client';

export type Hit = Schemas['SearchHit'];

/** One line of the palette. */
export interface Entry {
  /** Unique in the list. */
  key: string;
  /** What it is: `page`, `command`, `job`, … */
  kind: string;
  label: string;
  detail?: string;
  state?: string;
  /** Words that it is found by too. */
  also?: string;
  /** The address that it opens. */
  href?: string;
  /** What it does instead. */
  run?: () => void;
}

/** How well a text matches, as the server ranks it: 0 exact, 1 beginning, 2 beginning of a word, 3 somewhere. */
export function fit(text: string, words: string): number | null {
  const hay = text.toLowerCase();
  const wanted = words.trim().toLowerCase();
  if (!wanted) return null;
  if (hay === wanted) return 0;
  let best: number | null = null;
  for (let at = hay.indexOf(wanted); at >= 0; at = hay.indexOf(wanted, at + 1)) {
    if (at === 0) return 1;
    if (!/[\p{L}\p{N}]/u.test(hay.charAt(at - 1))) return 2;
    best = 3;
  }
  return best;
}

/** How well a page or a command matches: by its label, or by other words for it, which count less. */
function fitOf(e: Entry, words: string): number | null {
  const own = fit(e.label, words);
  // A letter or two would match half of all words.
  const other = words.trim().length > 2 ? fit(e.also ?? '', words) : null;
  if (own === null) return other === null || other === 3 ? null : 2;
  return own;
}

/** Where a hit is shown. */
export function hrefOf(hit: Hit): string {
  const id = encodeURIComponent(hit.id);
  switch (hit.kind) {
    case 'job':
      return `/jobs/${id}`;
    case 'node':
      return `/nodes/${id}`;
    case 'gpu': {
      const at = hit.id.lastIndexOf('/');
      return `/nodes/${encodeURIComponent(hit.id.slice(0, at))}/gpus/${hit.id.slice(at + 1)}`;
    }
    case 'user':
      return `/jobs?user=${param(userOf(hit))}`;
    case 'project':
      return `/jobs?project=${param(hit.id)}`;
    case 'incident':
      return `/incidents/${id}`;
    case 'runbook':
      return `/runbooks/${id}`;
    case 'finding':
      return `/findings/${id}`;
  }
}

/** The name of a user, as the list of jobs has it. */
const userOf = (hit: Hit) => hit.id.replace(/^user:/, '');

/** A word of an address: one that would be read as a number or a truth is quoted. */
function param(word: string): string {
  try {
    JSON.parse(word);
    return encodeURIComponent(JSON.stringify(word));
  } catch {
    return encodeURIComponent(word);
  }
}

/** A hit, and what else it may be looked for. */
export function entriesOf(hit: Hit): Entry[] {
  const one = entryOf(hit);
  if (hit.kind === 'user')
    return [
      { ...one, detail: 'jobs' },
      {
        key: `events/${hit.id}`,
        kind: 'events',
        label: `Events of ${hit.title}`,
        href: `/events?actor=${encodeURIComponent(hit.id)}`,
      },
    ];
  if (hit.kind === 'project')
    return [
      { ...one, detail: ['jobs', hit.detail].filter(Boolean).join(', ') },
      { key: `quota/${hit.id}`, kind: 'quota', label: `Quota of ${hit.title}`, href: '/quotas' },
    ];
  return [one];
}

export function entryOf(hit: Hit): Entry {
  return {
    key: `${hit.kind}/${hit.id}`,
    kind: hit.kind,
    label: hit.title,
    // The id says more than the title where people give names.
    detail: [hit.kind === 'job' && hit.id, hit.detail].filter(Boolean).join(', '),
    state: hit.state ?? undefined,
    href: hrefOf(hit),
  };
}

/** What is listed for these words: pages and commands that begin with them, what was found, then the rest. */
export function arrange(words: string, own: Entry[], hits: readonly Hit[]): Entry[] {
  if (!words.trim()) return own;
  const ranked = own
    .map((e) => ({ e, f: fitOf(e, words) }))
    .filter((r): r is { e: Entry; f: number } => r.f !== null)
    .sort((a, b) => a.f - b.f);
  const of = (from: number, to: number) => ranked.filter((r) => r.f >= from && r.f <= to).map((r) => r.e);
  return [...of(0, 1), ...hits.flatMap(entriesOf), ...of(2, 3)];
}

/** Which line is chosen after a key; the list is a ring. */
export function moved(at: number, count: number, key: string): number {
  if (count === 0) return 0;
  const here = Math.min(at, count - 1);
  if (key === 'ArrowDown') return (here + 1) % count;
  if (key === 'ArrowUp') return (here + count - 1) % count;
  return here;
}
