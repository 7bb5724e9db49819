// What may be done with a node in its state, and what each means for the jobs on it. No React here.
import type { Schemas } from '../api/client';
import { count } from '../ui/parts';
import { drainable, isCordoned } from '../words';

type Node = Schemas['Node'];
type Remediation = Schemas['Remediation'];
type NodeJob = Pick<Schemas['NodeJob'], 'id' | 'name' | 'project'>;

/** In the order of the buttons. */
const OFFERS = [
  'uncordon',
  'cordon',
  'undrain',
  'drain',
  'end-test',
  'qualify',
  'repaired',
  'return',
  'exclude',
  'include',
  'retire',
] as const;

export type NodeOffer = (typeof OFFERS)[number];

/** What a button and a command are called. */
export const OFFER_WORDS: Record<NodeOffer, string> = {
  uncordon: 'Uncordon',
  cordon: 'Cordon',
  undrain: 'Undrain',
  drain: 'Drain',
  'end-test': 'End test',
  qualify: 'Qualify',
  repaired: 'Repaired',
  return: 'Return to service',
  exclude: 'Exclude GPU',
  include: 'Include GPU',
  retire: 'Retire',
};

/** Remediations that take a node out of service, and the steps at which they have. */
const TAKES: readonly string[] = ['drain', 'reset_gpu', 'reboot', 'power_cycle', 'replace'];
const OUT: readonly string[] = ['moving', 'approval', 'acting', 'repairing', 'testing'];

/** Does this remediation keep its node out of service? */
const keepsOut = (r: Pick<Remediation, 'action' | 'step'> | null | undefined): boolean =>
  !!r && TAKES.includes(r.action) && OUT.includes(r.step);

/** A reset, a reboot or a power cycle that cannot be stopped: nothing may run there before it is over. */
const disrupted = (r: Pick<Remediation, 'act'> | null | undefined): boolean =>
  r?.act?.state === 'open' && ['reset_gpu', 'reboot', 'power_cycle'].includes(r.act.what);

/** May the node that this remediation keeps out be returned without a test? */
export const returnableFrom = (r: Pick<Remediation, 'action' | 'step' | 'act'>) =>
  keepsOut(r) && !disrupted(r);

/** May people report that they repaired it? It is out of service for that, and not tested already. */
export function repairable(n: Pick<Node, 'stage' | 'remediation_detail'>): boolean {
  const r = n.remediation_detail;
  const out = n.stage === 'quarantined' || n.stage === 'repairing';
  const taken = !!r && TAKES.includes(r.action) && !['testing', 'probation', 'ended'].includes(r.step);
  return out && taken && !disrupted(r);
}

type Returnable = Pick<
  Node,
  'stage' | 'remediation_detail' | 'cordon' | 'qualified' | 'breaker' | 'reachable'
>;

/**
 * May it be returned without a test? Only what was taken out of service may. `forced`: an operator forced its breaker, which
 * is released instead.
 */
export function returnable(n: Returnable, forced = false): boolean {
  if (n.stage === 'retired' || disrupted(n.remediation_detail)) return false;
  const taken = ['quarantined', 'repairing', 'suspect'].includes(n.stage) || keepsOut(n.remediation_detail);
  const failed = n.stage === 'ready' && isCordoned(n) && n.qualified?.outcome === 'failed';
  return taken || failed || (!!n.breaker && n.reachable && !forced);
}

/** May it be removed from the site? What is in service is drained first. */
export function retirable(n: Pick<Node, 'stage' | 'reachable'>): boolean {
  if (n.stage === 'retired') return false;
  return ['drained', 'enrolled', 'quarantined', 'repairing'].includes(n.stage) || !n.reachable;
}

/** GPUs of a node by index, also those that it does not report any more. */
export function gpusOf(n: Pick<Node, 'inventory' | 'gpus_missing' | 'gpus_excluded'>): number[] {
  const all = (n.inventory.gpus ?? []).map((g) => g.index);
  return [...new Set([...all, ...(n.gpus_missing ?? []), ...n.gpus_excluded])].sort((a, b) => a - b);
}

/** GPUs of a node that may get work. */
export const includedGpus = (n: Parameters<typeof gpusOf>[0]) =>
  gpusOf(n).filter((g) => !n.gpus_excluded.includes(g));

type Offered = Returnable &
  Pick<Node, 'qualifying' | 'inventory' | 'gpus_missing' | 'gpus_excluded' | 'reachable'>;

/** What an operator may do with a node. What the server would refuse is not among it, as far as that is known here. */
export function nodeOffers(n: Offered, forced = false): NodeOffer[] {
  if (n.stage === 'retired') return [];
  const drained = n.stage === 'draining' || n.stage === 'drained';
  const may: Record<NodeOffer, boolean> = {
    uncordon: isCordoned(n) && !drained,
    cordon: !isCordoned(n) && !drained,
    undrain: drained,
    drain: !drained && drainable(n),
    'end-test': !!n.qualifying,
    qualify: !n.qualifying,
    repaired: repairable(n),
    return: returnable(n, forced),
    exclude: includedGpus(n).length > 0,
    include: n.gpus_excluded.length > 0,
    retire: retirable(n),
  };
  return OFFERS.filter((o) => may[o]);
}

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
