// Which time the charts of a history show, as the address says it. No React here.

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
/** The server refuses a longer time at once. */
export const LONGEST = 100 * DAY;
/** A drag shorter than this is widened: the finest steps that are kept for long are of 10 seconds. */
export const SHORTEST = 60_000;

/** What the address of the page says. */
export interface HistorySearch {
  range?: string;
  /** Moments; they go before `range`, which is what a reset goes back to. */
  from?: string;
  to?: string;
  /** Names of metrics, separated by commas. */
  metrics?: string;
}

export const PRESETS: readonly { range: string; label: string; ms: number }[] = [
  { range: '1h', label: '1 h', ms: HOUR },
  { range: '6h', label: '6 h', ms: 6 * HOUR },
  { range: '1d', label: '1 d', ms: DAY },
  { range: '7d', label: '7 d', ms: 7 * DAY },
  { range: '90d', label: '90 d', ms: 90 * DAY },
];

export type Range =
  /** Up to now, or up to the end of what is shown. */
  | { kind: 'last'; range: string; ms: number }
  | { kind: 'fixed'; from: number; to: number }
  /** All of a job's time: the server knows it. */
  | { kind: 'whole' }
  | { kind: 'bad'; why: string };

/** A moment as people and programs write it: `2030-01-31T03:12:00Z`, or milliseconds since 1970. */
export function momentOf(text: string): number | null {
  const at = /^\d{11,}$/.test(text) ? Number(text) : /^\d{4}-/.test(text) ? Date.parse(text) : Number.NaN;
  return Number.isFinite(at) && at >= 0 ? at : null;
}

const bad = (why: string): Range => ({ kind: 'bad', why });

/** The range of an address. `end`: where a range without an end ends. */
export function rangeOf(search: HistorySearch, usual: 'whole' | '1h', end: number): Range {
  if (search.from !== undefined || search.to !== undefined) {
    for (const field of ['from', 'to'] as const) {
      const text = search[field];
      if (text !== undefined && momentOf(text) === null)
        return bad(`\`${field}\` in the address is no moment: write it like 2030-01-31T03:12:00Z.`);
    }
    const to = search.to === undefined ? end : (momentOf(search.to) as number);
    const from = search.from === undefined ? to - HOUR : (momentOf(search.from) as number);
    if (from >= to) return bad('`from` is not before `to`: choose an earlier beginning or a later end.');
    if (to - from > LONGEST) return bad('More than 100 days cannot be shown at once: choose a shorter time.');
    return { kind: 'fixed', from, to };
  }
  if (search.range === undefined && usual === 'whole') return { kind: 'whole' };
  const word = search.range ?? '1h';
  const preset = PRESETS.find((p) => p.range === word);
  if (!preset)
    return bad(
      `\`${word}\` in the address is no range: there are ${PRESETS.map((p) => p.range).join(', ')}.`,
    );
  return { kind: 'last', range: preset.range, ms: preset.ms };
}

/** From when to when the server is asked; nothing where it knows better. */
export function askedTime(range: Range, end: number): { from?: number; to?: number } {
  if (range.kind === 'last') return { from: end - range.ms, to: end };
  return range.kind === 'fixed' ? { from: range.from, to: range.to } : {};
}

/**
 * How often a range without an end is read again, in milliseconds: about once for each of its points. `known`: the
 * length that was read last, of a job's whole time: that of one that just began grows fast.
 */
export function readEvery(range: Range, over: boolean, known = 0): number | false {
  if (over || range.kind === 'fixed' || range.kind === 'bad') return false;
  if (range.kind === 'whole') return Math.min(60_000, Math.max(5_000, known / 60));
  return Math.min(300_000, Math.max(30_000, range.ms / 480));
}

/** What a drag over a chart asks for: in order, whole seconds, and not too short. */
export function zoomed(a: number, b: number): { from: string; to: string } {
  let [from, to] = [Math.min(a, b), Math.max(a, b)];
  if (to - from < SHORTEST) {
    const centre = (from + to) / 2;
    [from, to] = [centre - SHORTEST / 2, centre + SHORTEST / 2];
  }
  const iso = (ms: number) => new Date(Math.round(Math.max(0, ms) / 1000) * 1000).toISOString();
  return { from: iso(from), to: iso(to) };
}

/** Charts that are shown when nobody chose. */
export const USUAL = ['util', 'mem_used', 'power', 'temp'];
/** How long steps of a job take, as its ranks report it. */
const STEP_TIME = 'step_time';
/** Those of a job: its steps first. */
const USUAL_OF_JOB = [STEP_TIME, ...USUAL];
/** So many charts at most: one answer of the server has at most 256 series. */
export const CHARTS_MAX = 8;

const usualOf = (job: boolean) => (job ? USUAL_OF_JOB : USUAL);

/** The metrics of an address, each once. */
export function metricsOf(text: string | undefined, job = false): string[] {
  const named = [...new Set((text ?? '').split(',').map((t) => t.trim()))].filter((t) => t !== '');
  return named.length ? named.slice(0, CHARTS_MAX) : usualOf(job);
}

/** The address after a metric is chosen or left; the usual ones need no word in it. */
export function withMetric(
  chosen: readonly string[],
  name: string,
  on: boolean,
  job = false,
): string | undefined {
  const next = on ? [...chosen.filter((m) => m !== name), name] : chosen.filter((m) => m !== name);
  const text = next.join(',');
  return text === '' || text === usualOf(job).join(',') ? undefined : text;
}

/** The charts to draw: one of steps that nobody chose only where ranks reported some. */
export function drawn(chosen: readonly string[], named: boolean, reported: readonly string[]): string[] {
  return chosen.filter((m) => named || m !== STEP_TIME || reported.includes(m));
}
