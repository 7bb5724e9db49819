// The event before or after a moment. No React here.
import type { Schemas } from '../api/client';
import { about, kindWords } from '../pages/event-words';
import { momentWord } from '../ui/zone';

type LogEvent = Schemas['LogEvent'];

/** Which events are stepped to; the first is what is stepped to where nobody chose. */
export const EVENT_SETS = [
  {
    set: 'changes',
    label: 'changes',
    kind: 'job_placed,job_succeeded,job_failed,job_cancelled,attempt_ended,node_*,drain_*,finding_*,incident_*',
  },
  { set: 'faults', label: 'faults', kind: 'node_lost,finding_opened,incident_opened,fault_*' },
  { set: 'jobs', label: 'jobs', kind: 'job_*' },
  { set: 'all', label: 'all events', kind: undefined },
] as const;
export type EventSet = (typeof EVENT_SETS)[number]['set'];
export type Way = 'previous' | 'next';

/** A page of the log looks at some thousand records: so many pages are read for one step. */
const PAGES_MAX = 12;

export interface Page {
  items: LogEvent[];
  cursor?: string | null;
}

export interface Asked {
  from?: string;
  to?: string;
  kind?: string;
  order: 'newest' | 'oldest';
  limit: number;
  before?: string;
  after?: string;
}

/** What the server is asked for. The map of a moment has all that had happened by then: it is left out on either side. */
export function askedFor(at: number, way: Way, set: EventSet): Asked {
  const kind = EVENT_SETS.find((s) => s.set === set)?.kind;
  return way === 'previous'
    ? { to: new Date(at).toISOString(), kind, order: 'newest', limit: 1 }
    : { from: new Date(at + 1).toISOString(), kind, order: 'oldest', limit: 1 };
}

/** What is next to a moment. */
export interface Beside {
  /** Null where no event is stored there, `far` where none is near enough to be found. */
  found: LogEvent | 'far' | null;
  /**
   * Where the step came to the beginning of what is stored: when the oldest event there was written, in milliseconds.
   * Those before it are archived, and the server lists no archived events.
   */
  archivedBefore: number | null;
}

/** The event next to a moment. */
export async function eventBeside(
  at: number,
  way: Way,
  set: EventSet,
  read: (asked: Asked) => Promise<Page>,
): Promise<Beside> {
  const found = await search(at, way, set, read);
  // A step back that found an event, or found none within reach, passed over nothing. Of a token that is bound to a
  // project events have no place in the log: what is archived is not known.
  if (found === 'far' || (way === 'previous' && found !== null)) return { found, archivedBefore: null };
  const oldest = (await read({ order: 'oldest', limit: 1 })).items[0];
  const begins = oldest?.seq && oldest.seq > 1 ? Date.parse(oldest.at) : null;
  const passed = begins !== null && (way === 'previous' || at < begins);
  return { found, archivedBefore: passed ? begins : null };
}

async function search(
  at: number,
  way: Way,
  set: EventSet,
  read: (asked: Asked) => Promise<Page>,
): Promise<LogEvent | 'far' | null> {
  const asked = askedFor(at, way, set);
  let cursor: string | null | undefined;
  for (let page = 0; page < PAGES_MAX; page++) {
    const more = cursor ? (way === 'previous' ? { before: cursor } : { after: cursor }) : {};
    const answer = await read({ ...asked, ...more });
    if (answer.items.length > 0) return answer.items[0];
    cursor = answer.cursor;
    if (!cursor) return null;
  }
  return 'far';
}

/** What a step led to, or why it led nowhere. */
export function besideWords({ found, archivedBefore }: Beside, way: Way): string {
  if (found === 'far') return `no ${way} event found nearby: type a time`;
  const archived = archivedBefore === null ? null : `those before ${momentWord(archivedBefore)} are archived`;
  if (found !== null)
    return archived ? `oldest stored event (${archived}): ${steppedWords(found)}` : steppedWords(found);
  if (archived === null)
    return way === 'previous' ? 'no previous event is stored' : 'no next event in the log';
  return way === 'previous'
    ? `no previous event is stored: ${archived}. Type a time or use the slider`
    : `no next event is stored: ${archived}`;
}

/** What was stepped to, in a few words. */
export function steppedWords(e: LogEvent): string {
  const { job, node, text } = about(e);
  const where = [job && `job ${job}`, node].filter(Boolean).join(' on ');
  return [kindWords(e.kind), where, text].filter(Boolean).join(', ');
}
