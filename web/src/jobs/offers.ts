// What may be done with a job as it stands, by whoever looks at it. No React here.
import type { Schemas } from '../api/client';
import type { Rights } from '../rights';

type Job = Schemas['Job'];

export type Offer = 'release' | 'hold' | 'limit' | 'requeue' | 'again' | 'clone' | 'cancel';

export const ended = (j: Pick<Job, 'state'>) => ['succeeded', 'failed', 'cancelled'].includes(j.state);

/** The state of a job as people read it, the same word everywhere: one that is held does not queue. */
export const stateWord = (j: { state: string; held?: string | null }) =>
  j.state === 'queued' && j.held ? 'held' : j.state;

/** In the order of the buttons. What the server would refuse is not among them. */
export function offers(
  j: Pick<Job, 'state' | 'held'>,
  { submits, operates }: Pick<Rights, 'submits' | 'operates'>,
): Offer[] {
  if (!submits) return [];
  const queued = j.state === 'queued';
  const runs = j.state === 'starting' || j.state === 'running';
  const all: [Offer, boolean][] = [
    ['release', queued && !!j.held],
    ['hold', queued && !j.held],
    // Reserved starts of others rest on the limits of what runs.
    ['limit', queued || (runs && operates)],
    ['requeue', ended(j)],
    ['again', ended(j)],
    ['clone', true],
    ['cancel', !ended(j)],
  ];
  return all.filter(([, may]) => may).map(([offer]) => offer);
}

/** A length of time as the server takes it. */
export const LIMIT = '([1-9][0-9]{0,5}[smhdw])+';
