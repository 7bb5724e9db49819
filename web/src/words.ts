import type { Schemas } from './api/client';
import { momentWord } from './ui/zone';

/** Which remediations do what by themselves: [mode, actions]. */
export function automation(modes: Record<string, unknown>): [string, string][] {
  const by = new Map<string, string[]>();
  for (const [action, mode] of Object.entries(modes)) {
    const word = String(mode).replaceAll('_', ' ');
    by.set(word, [...(by.get(word) ?? []), action.replaceAll('_', ' ')]);
  }
  return [...by].map(([mode, actions]) => [mode, actions.join(', ')]);
}

/** A node's state and, where new work stays away although the state does not say so, why. */
export function standing(n: Pick<Schemas['Node'], 'state' | 'avoided' | 'no_new_work'>): {
  word: string;
  why?: string;
  line?: string;
} {
  if (n.avoided)
    return {
      word: `${n.state}, avoided`,
      why: n.avoided,
      line: `Avoided: ${n.avoided}; new work goes elsewhere while other nodes fit`,
    };
  if (n.no_new_work && n.state === 'ready')
    return {
      word: 'ready, no new work',
      why: n.no_new_work,
      line: `No new work: ${n.no_new_work}`,
    };
  return { word: n.state };
}

/** Why a node is in its state. A state that is no stage has a reason of its own. */
export function stateWhy(
  n: Pick<Schemas['Node'], 'state' | 'cordon' | 'stage_why'>,
): string | null | undefined {
  switch (n.state) {
    case 'cordoned':
      return n.cordon;
    case 'lost':
      return 'heartbeat lost';
    case 'qualifying':
      return 'a test was requested';
    default:
      return n.stage_why ?? n.cordon;
  }
}

/** Until when a node is watched after its return; null where it is not. */
export const probationWords = (n: Pick<Schemas['Node'], 'probation'>) =>
  n.probation ? `probation until ${momentWord(n.probation)}` : null;

type Staged = Pick<Schemas['Node'], 'name' | 'stage' | 'qualifying'>;

/** What is said once a node is uncordoned or undrained: that it takes work again, or what is still in the way. */
export function servesWords(n: Staged, end = 'no longer cordoned'): string {
  const still = n.qualifying ? 'being tested' : n.stage === 'ready' ? null : n.stage;
  return still ? `${n.name} is ${end}; it is still ${still} and gets no work` : `${n.name} takes work again`;
}

/** GPUs of a node, of all that it is to have where some are missing: `7 of 8`. */
export function gpusWords(n: Pick<Schemas['Node'], 'gpus_total' | 'gpus_missing'>): string {
  const missing = n.gpus_missing?.length ?? 0;
  return missing === 0 ? `${n.gpus_total}` : `${n.gpus_total} of ${n.gpus_total + missing}`;
}

/** Is a node cordoned? The reason may be empty. */
export const isCordoned = (n: Pick<Schemas['Node'], 'cordon'>) => typeof n.cordon === 'string';

/** May a node be drained? The server refuses what is out of service already. */
export function drainable(n: Pick<Staged, 'stage'>): boolean {
  return n.stage !== 'quarantined' && n.stage !== 'repairing' && n.stage !== 'retired';
}

/** What comes before the moments of a start. Only a reserved one is a bound: jobs that go first move any other. */
export function startLead(range: boolean, reserved: boolean): string {
  const verb = reserved ? 'Starts' : 'Expected to start';
  // The moments are written as `in 58 s`.
  return range ? `${verb} between ` : `${verb} at the latest `;
}

/** What a reserved start rests on. A job does not say whether somebody is being stopped for it. */
export const BASIS_TEXT: Record<Schemas['Basis'], string> = {
  limits: 'by the time limits of what runs there',
  preemption: 'capacity is being freed for it',
  swap: 'healthy nodes it had, and replacements for those that failed',
  resize: 'it is being resized',
  move: 'it is being moved',
};

/** Where something is, as a path; a node that is its own NVLink domain is named once. */
export const domainWords = (path: string) =>
  path
    .split('/')
    .filter((part, i, all) => part !== all[i - 1])
    .join('/');
