// What may be done with a node, as the server says, and what each means for the jobs on it. No React here.
import type { Schemas } from '../api/client';
import { count } from '../ui/parts';

type Node = Schemas['Node'];
type NodeJob = Pick<Schemas['NodeJob'], 'id' | 'name' | 'project'>;

export type NodeOffer = Schemas['NodeAction'];

/** What a button and a command are called. */
export const OFFER_WORDS: Record<NodeOffer, string> = {
  uncordon: 'Uncordon',
  cordon: 'Cordon',
  undrain: 'Undrain',
  drain: 'Drain',
  cancel_qualification: 'End test',
  qualify: 'Qualify',
  repaired: 'Repaired',
  return: 'Return to service',
  exclude: 'Exclude GPU',
  include: 'Include GPU',
  retire: 'Retire',
};

type Offered = Pick<Node, 'actions'>;

/** What an operator may do with a node now, in the order of the buttons: the server says it. */
export const nodeOffers = (n: Offered): NodeOffer[] =>
  (n.actions ?? []).filter((a) => !a.refused).map((a) => a.action);

/** Why the server would refuse it now; null when it would not. */
export const whyNot = (n: Offered, action: NodeOffer): string | null =>
  n.actions?.find((a) => a.action === action)?.refused ?? null;

/** GPUs that may be excluded or included now, one at a time. */
export const gpusFor = (n: Offered, action: 'exclude' | 'include'): number[] =>
  n.actions?.find((a) => a.action === action)?.gpus ?? [];

/** All GPUs that get no work once some are excluded, or included again. */
export function excludedAfter(before: readonly number[], gpu: number, out: boolean): number[] {
  const rest = before.filter((g) => g !== gpu);
  return (out ? [...rest, gpu] : rest).sort((a, b) => a - b);
}

/** Jobs of a node that are named; the rest is counted. */
const NAMED = 8;

/** Jobs by their number, name and project; many are counted. */
function jobsWords(jobs: readonly NodeJob[]): string {
  const named = jobs.slice(0, NAMED).map((j) => `${j.id} ${j.name} (${j.project})`);
  const rest = jobs.length - named.length;
  return `${named.join(', ')}${rest > 0 ? ` and ${count(rest, 'more job')}` : ''}`;
}

/** The jobs that an action affects; null where they could not be read. */
export function affectedWords(jobs: readonly NodeJob[] | null, none = 'No job is affected.'): string {
  if (jobs === null) return 'The affected jobs could not be read: look at the node first.';
  return jobs.length === 0 ? none : `Affected jobs: ${jobsWords(jobs)}.`;
}

/** What draining a node means for the jobs on it. */
export function drainWords(jobs: readonly NodeJob[]): string {
  return jobs.length === 1
    ? `Job ${jobsWords(jobs)} is allocated here. It may finish; nothing new comes.`
    : `Jobs ${jobsWords(jobs)} are allocated here. They may finish; nothing new comes.`;
}

/** What returning a node without a test means. */
export function returnWords(n: Pick<Node, 'findings' | 'remediation_detail'>): string {
  const open = n.findings ?? [];
  const named = open
    .slice(0, NAMED)
    .map((f) => `${f.title || f.kind}${f.gpu === null || f.gpu === undefined ? '' : ` on GPU ${f.gpu}`}`);
  const rest = open.length - named.length;
  const closed =
    open.length === 0
      ? ''
      : ` ${count(open.length, 'open finding is', 'open findings are')} closed: ${named.join('; ')}${
          rest > 0 ? `; and ${rest.toLocaleString('en')} more` : ''
        }.`;
  const r = n.remediation_detail;
  const ends = r && r.step !== 'ended' ? ` Its remediation (${r.action_text}) ends.` : '';
  return `It gets work again at once, without a test, and is on probation.${closed}${ends} A cordon of an operator stays.`;
}

type Closed = Pick<Schemas['Finding'], 'severity' | 'node'>;

/** What closing a finding means. */
export function closeWords(f: Closed): string {
  const node =
    f.node && f.severity === 'critical'
      ? ` ${f.node} gets work again where nothing else keeps it out of service.`
      : '';
  return `It is closed without a test: for a false alarm, or what was repaired. New evidence opens another finding.${node}`;
}
