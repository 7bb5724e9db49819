// What can be done with something that is found: commands that open its page with the dialog. No React here.
import { type Offer as JobOffer, offers } from '../jobs/offers';
import type { NodeOffer } from '../nodes/offers';
import type { Rights } from '../rights';
import { type Entry, type Hit, hrefOf } from './entries';

/** A command about one thing. `typed`: what it is typed as before the name of the thing. */
interface ObjectCommand {
  does: string;
  typed: string[];
  label: (name: string) => string;
  /** May it be done in this state, as far as the state alone says? The page knows more. */
  fits: (state: string) => boolean;
  /** It is listed only when it is typed. */
  asked?: boolean;
}

const among =
  (...states: string[]) =>
  (s: string) =>
    states.includes(s);
const except =
  (...states: string[]) =>
  (s: string) =>
    !states.includes(s);
const labelled = (word: string) => (name: string) => `${word} ${name}`;

const NODE: (ObjectCommand & { does: NodeOffer })[] = [
  { does: 'uncordon', typed: ['uncordon'], label: labelled('Uncordon'), fits: among('cordoned') },
  {
    does: 'cordon',
    typed: ['cordon'],
    label: labelled('Cordon'),
    fits: except('cordoned', 'draining', 'drained', 'retired'),
  },
  { does: 'undrain', typed: ['undrain'], label: labelled('Undrain'), fits: among('draining', 'drained') },
  {
    does: 'drain',
    typed: ['drain'],
    label: labelled('Drain'),
    fits: except('draining', 'drained', 'quarantined', 'repairing', 'retired'),
  },
  {
    does: 'cancel_qualification',
    typed: ['end test'],
    label: labelled('End test of'),
    fits: among('qualifying'),
  },
  {
    does: 'qualify',
    typed: ['qualify', 'test'],
    label: labelled('Qualify'),
    fits: except('qualifying', 'retired'),
  },
  {
    does: 'repaired',
    typed: ['repaired'],
    label: labelled('Repaired:'),
    fits: among('quarantined', 'repairing'),
  },
  {
    does: 'return',
    typed: ['return to service', 'return'],
    label: (name) => `Return ${name} to service`,
    fits: among('quarantined', 'repairing', 'suspect'),
  },
  {
    does: 'exclude',
    typed: ['exclude gpu', 'exclude'],
    label: labelled('Exclude GPU of'),
    fits: except('retired'),
  },
  {
    does: 'include',
    typed: ['include gpu', 'include'],
    label: labelled('Include GPU of'),
    fits: except('retired'),
    asked: true,
  },
  {
    does: 'retire',
    typed: ['retire'],
    label: labelled('Retire'),
    fits: among('drained', 'enrolled', 'quarantined', 'repairing', 'lost'),
  },
];

const GPU: (ObjectCommand & { does: NodeOffer })[] = [
  { does: 'exclude', typed: ['exclude gpu', 'exclude'], label: labelled('Exclude'), fits: () => true },
  {
    does: 'include',
    typed: ['include gpu', 'include'],
    label: labelled('Include'),
    fits: () => true,
    asked: true,
  },
];

const JOB: Record<JobOffer, Pick<ObjectCommand, 'typed' | 'label' | 'asked'>> = {
  // A hit does not say whether a job is held.
  release: { typed: ['release'], label: labelled('Release'), asked: true },
  hold: { typed: ['hold'], label: labelled('Hold') },
  limit: { typed: ['time limit', 'limit'], label: labelled('Time limit of') },
  requeue: { typed: ['requeue'], label: labelled('Requeue') },
  again: { typed: ['submit again', 'again'], label: (name) => `Submit ${name} again` },
  clone: { typed: ['clone'], label: labelled('Clone') },
  cancel: { typed: ['cancel'], label: labelled('Cancel') },
};

type May = Pick<Rights, 'submits' | 'operates'>;

/** What this token may do with a hit. */
function commandsOf(hit: Hit, rights: May): ObjectCommand[] {
  const state = hit.state ?? '';
  if (hit.kind === 'job') {
    const may = new Set([null, 'held'].flatMap((held) => offers({ state: state as never, held }, rights)));
    return [...may].map((does) => ({ does, fits: () => true, ...JOB[does] }));
  }
  if (!rights.operates) return [];
  if (hit.kind === 'node') return NODE.filter((c) => c.fits(state));
  return hit.kind === 'gpu' ? GPU : [];
}

function entryOf(hit: Hit, c: ObjectCommand): Entry {
  const name = hit.kind === 'job' ? `job ${hit.id} ${hit.title}` : hit.title;
  const clones = hit.kind === 'job' && c.does === 'clone';
  return {
    key: `do/${hit.kind}/${hit.id}/${c.does}`,
    kind: 'command',
    label: c.label(name),
    href: clones ? `/jobs/new?from=${encodeURIComponent(hit.id)}` : `${hrefOf(hit)}?do=${c.does}`,
  };
}

/** All phrases, the longest first: `return to service n1` is not about a node called `to service n1`. */
const PHRASES = [
  ...new Set([...NODE, ...GPU, ...Object.values(JOB)].flatMap((c: Pick<ObjectCommand, 'typed'>) => c.typed)),
].sort((a, b) => b.length - a.length);

/** Words that begin with a command, such as `drain hgx-0003`: the command, and what it is about. */
export function commanded(words: string): { typed: string; about: string } | null {
  const w = words.trim().replace(/\s+/g, ' ');
  const typed = PHRASES.find((p) => w.toLowerCase().startsWith(`${p} `));
  return typed ? { typed, about: w.slice(typed.length + 1) } : null;
}

/** The commands that were typed, for what was found by the rest of the words. */
export function typedCommands(typed: string, hits: readonly Hit[], rights: May): Entry[] {
  return hits.flatMap((h) =>
    commandsOf(h, rights)
      .filter((c) => c.typed.includes(typed))
      .map((c) => entryOf(h, c)),
  );
}

/** What can be done with the node, the GPU or the job that the words name in full. */
export function namedCommands(words: string, hits: readonly Hit[], rights: May): Entry[] {
  const w = words.trim().toLowerCase();
  // The numbers of a GPU are in what is said of it.
  const names = (h: Hit) => [h.title, h.id, ...(h.kind === 'gpu' ? h.detail.split(/,? /) : [])];
  const is = (h: Hit) => names(h).some((name) => name.toLowerCase() === w);
  const hit = hits.find((h) => (h.kind === 'node' || h.kind === 'gpu' || h.kind === 'job') && is(h));
  if (!hit) return [];
  return commandsOf(hit, rights)
    .filter((c) => !c.asked)
    .map((c) => entryOf(hit, c));
}
