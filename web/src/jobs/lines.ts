// Output of many ranks as lines. No React here.
import type { Schemas } from '../api/client';
import { timeZone, wall } from '../ui/zone';

export interface Line {
  /** Counts the lines as they came. */
  no: number;
  attempt: number;
  rank: number;
  /** It went to stderr. */
  err: boolean;
  /** The server says it, not the rank. */
  note: boolean;
  /** When its node saw its first byte; null where that is not known. */
  at: string | null;
  text: string;
}

/** So many lines a page has at most: the newest ones first, and more when somebody scrolls up. */
export const DEPTHS = [2000, 5000, 10_000] as const;
/** So long all of them are together at most, in letters. */
export const CHARS = 8 << 20;

/** How many lines are read next; null where there are as many as a page can have. */
export function deeper(depth: number): (typeof DEPTHS)[number] | null {
  return DEPTHS.find((d) => d > depth) ?? null;
}

/** Puts pieces together to lines, each stream for itself. Only the newest `most` lines are kept, `chars` long in all. */
export class Lines {
  /** Lines before the first one are not here any more. */
  dropped = false;
  private size = 0;
  private lines: Line[] = [];
  /** The last line of each stream, while its end has not come. */
  private open = new Map<string, Line>();
  private next = 0;

  constructor(
    private readonly most = Number.POSITIVE_INFINITY,
    private readonly chars = Number.POSITIVE_INFINITY,
  ) {}

  /** `text` is what of the piece was not read before. */
  add(piece: Pick<Schemas['LogLine'], 'attempt' | 'rank' | 'stream' | 'note' | 'at'>, text: string) {
    if (text === '') return;
    const { attempt, rank, stream } = piece;
    const note = !!piece.note;
    const of = `${attempt}/${rank}/${stream}`;
    const parts = text.split('\n');
    const rest = parts.pop() ?? '';
    const begin = (): Line => {
      const at = piece.at ?? null;
      const line = { no: this.next++, attempt, rank, err: stream === 'stderr', note, at, text: '' };
      this.lines.push(line);
      return line;
    };
    for (const part of parts) {
      // A note stands by itself, also where it cuts a line.
      const line = note ? begin() : (this.open.get(of) ?? begin());
      line.text += part;
      if (!note) this.open.delete(of);
    }
    if (rest !== '') {
      const line = this.open.get(of) ?? begin();
      line.text += rest;
      this.open.set(of, line);
    }
    // Without the ends of lines, of which there are as many as parts.
    this.size += text.length - parts.length;
    this.drop();
  }

  /** Leaves out the oldest lines where there are too many; never the last one. */
  private drop() {
    let from = Math.max(0, this.lines.length - this.most);
    for (const line of this.lines.slice(0, from)) this.size -= line.text.length;
    for (; this.size > this.chars && from < this.lines.length - 1; from++)
      this.size -= this.lines[from]?.text.length ?? 0;
    if (from === 0) return;
    this.lines = this.lines.slice(from);
    this.dropped = true;
  }

  get count(): number {
    return this.lines.length;
  }

  /** The lines as they are now. */
  all(): Line[] {
    return this.lines.map((line) => ({ ...line }));
  }
}

/** A line with a time, and those without one that follow it. */
interface Run {
  attempt: number;
  at: number;
  lines: Line[];
}

const NEVER = Number.NEGATIVE_INFINITY;

/**
 * The lines in the order of their times: streams are read one after the other. A line without a time stays after the
 * one before it in its stream, or before all others where there is none. No stream is reordered, also where the clock
 * of its node was set back.
 */
export function byTime(lines: readonly Line[]): Line[] {
  const runs: Run[] = [];
  const ends = new Map<string, Run>();
  for (const line of lines) {
    const of = `${line.attempt}/${line.rank}/${line.err}`;
    const last = ends.get(of);
    const at = line.note || line.at === null ? NEVER : Date.parse(line.at);
    if (last && at === NEVER && last.at !== NEVER) {
      last.lines.push(line);
      continue;
    }
    const run = { attempt: line.attempt, at: Math.max(at, last?.at ?? NEVER), lines: [line] };
    runs.push(run);
    ends.set(of, run);
  }
  // The order of equals is kept.
  const order = (a: Run, b: Run) => (a.at === b.at ? 0 : a.at < b.at ? -1 : 1);
  runs.sort((a, b) => a.attempt - b.attempt || order(a, b));
  return runs.flatMap((r) => r.lines);
}

/** The lines with this text in them, in capital or small letters. */
export function found(lines: readonly Line[], text: string): readonly Line[] {
  const wanted = text.trim().toLowerCase();
  return wanted === '' ? lines : lines.filter((l) => l.text.toLowerCase().includes(wanted));
}

/** A line cut where the text is: every second part is the text. */
export function cut(line: string, text: string): string[] {
  const wanted = text.trim().toLowerCase();
  if (wanted === '') return [line];
  const parts: string[] = [];
  const small = line.toLowerCase();
  // Letters that are longer in small ones would be cut in the wrong place.
  if (small.length !== line.length) return [line];
  let from = 0;
  for (let at = small.indexOf(wanted); at >= 0; at = small.indexOf(wanted, from)) {
    parts.push(line.slice(from, at), line.slice(at, at + wanted.length));
    from = at + wanted.length;
  }
  return [...parts, line.slice(from)];
}

/** Who said a line, as it is written before it. */
export function saidBy(line: Line): string {
  if (line.note) return 'muster';
  return line.err ? `${line.rank} err` : String(line.rank);
}

/** When a line came, as clocks of the page's zone show it, to a tenth of a second. */
export function cameAt(line: Line, zone: string | undefined = timeZone()): string {
  if (line.note) return '';
  if (line.at === null) return 'no time';
  const { date, time } = wall(line.at, zone);
  const tenth = Math.floor((Date.parse(line.at) % 1000) / 100);
  return `${date} ${time}.${tenth}`;
}

/** The lines as a file; with their times in UTC, as `muster logs -t` has them. */
export function fileOf(lines: readonly Line[], times = false): string {
  const when = (l: Line) => (times && !l.note ? `${l.at ?? 'no-time'} ` : '');
  return lines.map((l) => `${when(l)}${l.attempt} ${saidBy(l)}: ${l.text}\n`).join('');
}

/** How many lines of each rank are read first, so that those of all of them fit. */
export function tailOf(ranks: number, rank: number | null, most: number): number {
  return rank === null ? Math.max(5, Math.floor(most / Math.max(1, ranks))) : most;
}

/** Is the first line in sight, or nearly? */
export function atBegin(box: { scrollTop: number }): boolean {
  return box.scrollTop < 40;
}

/** Is the end in sight? A line more or less does not matter. */
export function atEnd(box: { scrollTop: number; scrollHeight: number; clientHeight: number }): boolean {
  return box.scrollHeight - box.scrollTop - box.clientHeight < 30;
}
