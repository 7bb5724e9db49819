// The event before or after a moment. No React here.
import type { Schemas } from '../api/client';
import { about, kindWords } from '../pages/event-words';

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

/** The event next to a moment; null where the log has none, `far` where none is near enough to be found. */
export async function eventBeside(
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

/** What was stepped to, in a few words. */
export function steppedWords(e: LogEvent): string {
  const { job, node, text } = about(e);
  const where = [job && `job ${job}`, node].filter(Boolean).join(' on ');
  return [kindWords(e.kind), where, text].filter(Boolean).join(', ');
}
