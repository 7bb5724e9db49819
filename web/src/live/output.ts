import type { Schemas } from '../api/client';

type Line = Schemas['LogLine'];

/** Output as it is read, without repeats: after a lost connection the newest pieces come again. */
export class Output {
  /** How far each stream of bytes was read. */
  private ends = new Map<string, number>();
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
    const known = Math.max(0, (this.ends.get(of) ?? 0) - line.offset);
    if (known >= bytes.length) return '';
    this.ends.set(of, line.offset + bytes.length);
    return known === 0 && !line.data ? (line.text ?? '') : new TextDecoder().decode(bytes.slice(known));
  }
}
