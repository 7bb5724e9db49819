// Events as marks on charts of time. No React here.
import type { Schemas } from '../api/client';
import { about, entityOf, kindWords } from '../pages/event-words';

type LogEvent = Schemas['LogEvent'];
export type Tone = 'bad' | 'note' | 'plain';

export interface EventMark {
  cursor: string;
  /** Milliseconds since 1970. */
  at: number;
  tone: Tone;
  /** `node lost` */
  kind: string;
  /** The rest of it in a few words. */
  text: string;
}

/** The GPU that an event is about; null where it is about none or all of them. */
export function gpuOf(e: LogEvent): number | null {
  // biome-ignore lint/suspicious/noExplicitAny: the log's own shape, which the API does not describe
  const d = (e.data ?? {}) as any;
  const named = entityOf(d)?.match(/^gpu:[^/]+\/(\d+)$/)?.[1];
  const gpu = named === undefined ? (d.gpu ?? d.act?.act?.gpu) : Number(named);
  return typeof gpu === 'number' ? gpu : null;
}

function toneOf(e: LogEvent): Tone {
  if (/lost|fault|failed|quarantin|suspect|missing|finding_opened|incident_opened/.test(e.kind)) return 'bad';
  return e.actor.startsWith('user:') ? 'note' : 'plain';
}

/** Marks, oldest first. With `gpu`, without events about other GPUs. */
export function marksOf(events: readonly LogEvent[], gpu?: number): EventMark[] {
  return events
    .filter((e) => gpu === undefined || gpuOf(e) === null || gpuOf(e) === gpu)
    .map((e) => ({
      cursor: e.cursor,
      at: Date.parse(e.at),
      tone: toneOf(e),
      kind: kindWords(e.kind),
      text: about(e).text,
    }))
    .filter((m) => Number.isFinite(m.at))
    .sort((a, b) => a.at - b.at);
}

/** Marks that would be one line on the screen. */
export interface MarkGroup {
  at: number;
  tone: Tone;
  word: string;
}

const WORST: Record<Tone, number> = { bad: 0, note: 1, plain: 2 };

/** Marks closer than `within` milliseconds are one, with the tone of the worst. */
export function groupsOf(marks: readonly EventMark[], within: number): MarkGroup[] {
  const groups: EventMark[][] = [];
  for (const m of marks) {
    const open = groups.at(-1);
    if (open && m.at - open[0].at < within) open.push(m);
    else groups.push([m]);
  }
  return groups.map((g) => {
    const worst = g.reduce((a, b) => (WORST[b.tone] < WORST[a.tone] ? b : a));
    const kinds = new Set(g.map((m) => m.kind));
    const more = g.length === 1 ? '' : kinds.size === 1 ? ` x${g.length}` : ` +${g.length - 1}`;
    return { at: worst.at, tone: worst.tone, word: `${worst.kind}${more}` };
  });
}

/** Which words can be written without touching another one or the right edge: bad ones get their place first. */
export function fitting(
  words: readonly { x: number; width: number; tone: Tone }[],
  right: number,
): boolean[] {
  const out = words.map(() => false);
  const order = words.map((_, i) => i).sort((a, b) => WORST[words[a].tone] - WORST[words[b].tone] || a - b);
  for (const i of order) {
    const w = words[i];
    const free = words.every((o, k) => !out[k] || w.x + w.width <= o.x || o.x + o.width <= w.x);
    out[i] = free && w.x + w.width <= right;
  }
  return out;
}

/** What happened near a moment, the nearest first. */
export function nearby(marks: readonly EventMark[], at: number, within: number): EventMark[] {
  return marks
    .filter((m) => Math.abs(m.at - at) <= within)
    .sort((a, b) => Math.abs(a.at - at) - Math.abs(b.at - at));
}
