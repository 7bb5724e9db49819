import { ApiError, type Schemas } from '../api/client';

type Line = Schemas['LogLine'];

/** Output as it is read, without repeats: after a lost connection the newest pieces come again. */
export class Output {
  /** How far each stream of bytes was read. */
  private ends = new Map<string, number>();
  /** Where each begins that was read. */
  private begins = new Map<string, number>();
  private notes = new Set<string>();

  /** What of a piece was not read before. */
  take(line: Line): string {
    const of = `${line.attempt}/${line.rank}/${line.stream}`;
    if (line.note) {
      const note = `${of}/${line.offset}/${line.note}`;
      if (this.notes.has(note)) return '';
      this.notes.add(note);
      return `[${line.note}]\n`;
    }
    const bytes = line.data
      ? Uint8Array.from(atob(line.data), (c) => c.charCodeAt(0))
      : new TextEncoder().encode(line.text ?? '');
    this.begins.set(of, Math.min(line.offset, this.begins.get(of) ?? line.offset));
    const known = Math.max(0, (this.ends.get(of) ?? 0) - line.offset);
    if (known >= bytes.length) return '';
    this.ends.set(of, line.offset + bytes.length);
    return known === 0 && !line.data ? (line.text ?? '') : new TextDecoder().decode(bytes.slice(known));
  }

  /** Was something printed before what was read? */
  cut(): boolean {
    return [...this.begins.values()].some((at) => at > 0);
  }

  /** Was read as far as in another reading, of the newest attempt of that one? */
  reached(other: Output): boolean {
    const attempt = (of: string) => Number(of.split('/')[0]);
    const newest = Math.max(0, ...[...other.ends.keys()].map(attempt));
    return [...other.ends].every(([of, at]) => attempt(of) !== newest || (this.ends.get(of) ?? 0) >= at);
  }
}

/** The connection broke, or the server is away: that passes. What it refused it refuses again. */
const passes = (e: unknown) => !(e instanceof ApiError) || e.status === 0 || e.status >= 500;

/** Reads until the job is over, again and again when the connection is lost; throws what was refused. */
export async function keepReading(
  read: (again: boolean) => Promise<void>,
  how: { over: boolean; signal: AbortSignal; lost: () => void; pause: () => Promise<void> },
): Promise<void> {
  for (let again = false; !how.signal.aborted; again = true) {
    try {
      await read(again);
      if (how.over) return;
    } catch (e) {
      if (how.signal.aborted) return;
      if (!passes(e)) throw e;
      how.lost();
    }
    await how.pause();
  }
}
