// What the on-call page makes of the causes that the server groups. Pure.
import type { Schemas } from '../api/client';
import { count, tidy } from '../ui/parts';

export type Cause = Schemas['OpenCause'];
export type Remediation = Schemas['Remediation'];
export type Alert = Schemas['Alert'];
type Job = Schemas['CauseJob'];

/** The alert that says that remediations are pending: the cards of those say the same. */
const APPROVALS = 'approvals-wait';

/** A remediation that is pending approval, and all jobs on its node, affected or not. */
export interface Pending {
  remediation: Remediation;
  jobs: Job[];
  /** Jobs on such nodes that the answer does not name. */
  unnamed: number;
}

/** Everything that is pending approval, in the order of the causes. */
export function pendingOf(
  causes: Pick<Cause, 'pending' | 'remediations' | 'pending_jobs' | 'pending_jobs_count'>[],
): Pending[] {
  return causes.flatMap((c) =>
    c.remediations
      .filter((r) => c.pending.includes(r.id))
      .map((remediation) => ({
        remediation,
        jobs: c.pending_jobs.filter((j) => j.nodes.includes(remediation.node)),
        unnamed: c.pending_jobs_count - c.pending_jobs.length,
      })),
  );
}

/** Where a remediation acts. */
export function where(r: Pick<Remediation, 'node' | 'gpu'>): string {
  return r.gpu === null || r.gpu === undefined ? r.node : `${r.node} GPU ${r.gpu}`;
}

/** Is an alert waking somebody: page-grade, not silenced, not acknowledged? */
export function pages(a: Pick<Alert, 'urgency' | 'silenced' | 'acknowledged'>): boolean {
  return a.urgency === 'page' && !a.silenced && !a.acknowledged;
}

/**
 * What a cause that has a page is called. `paging`: the strip counts it. A page that is acknowledged or silenced says so,
 * whatever else is open about the cause.
 */
export function pageWords(c: Pick<Cause, 'alerts'>): { word: string; paging: boolean } {
  const all = c.alerts.filter((a) => a.urgency === 'page');
  if (all.length === 0 || all.some(pages)) return { word: 'page', paging: true };
  return { word: all.every((a) => a.silenced) ? 'page, silenced' : 'page, acknowledged', paging: false };
}

/** The one thing to do next about a cause. */
export type Primary =
  | { does: 'approve' }
  | { does: 'review' }
  | { does: 'acknowledge'; alert: Alert }
  | { does: 'assign'; incident: string }
  | { does: 'runbook' }
  | { does: 'nothing' };

type Judged = Pick<Cause, 'kind' | 'pending' | 'alerts' | 'incidents' | 'runbook'>;

/** What to do next: approve, acknowledge, take over, follow the runbook; in this order. */
export function primary(c: Judged, operates: boolean): Primary {
  if (operates) {
    if (c.pending.length > 0) return { does: 'approve' };
    const alert = c.alerts.find(pages);
    if (alert) return { does: 'acknowledge', alert };
    if (c.kind === APPROVALS) return { does: 'review' };
    const incident = c.incidents.find((i) => !i.owner);
    if (incident) return { does: 'assign', incident: incident.id };
  }
  return c.runbook?.run || c.runbook?.step ? { does: 'runbook' } : { does: 'nothing' };
}

/** Is somebody at every alert of a cause, or is each silenced? */
export function quieted(c: Pick<Cause, 'alerts'>): boolean {
  return c.alerts.length > 0 && c.alerts.every((a) => a.silenced || a.acknowledged);
}

/**
 * The attempts that a cause has ended, and whether it affects a job now: `It ended attempt 1 of job 7. No job is affected
 * now.` Empty where it ended none. `own`: the jobs are the reader's.
 */
export function endedWords(
  c: Pick<Cause, 'ended_attempts' | 'ended_attempts_count' | 'jobs_affected'>,
  own: boolean,
  most: number,
): string {
  const all = c.ended_attempts ?? [];
  if (all.length === 0) return '';
  const named = all.slice(0, most).map((key) => {
    const dot = key.lastIndexOf('.');
    return `attempt ${key.slice(dot + 1)} of ${own ? 'your ' : ''}job ${key.slice(0, dot)}`;
  });
  const rest = Math.max(all.length, c.ended_attempts_count ?? 0) - named.length;
  const more = rest > 0 ? ` and ${count(rest, 'more attempt')}` : '';
  return `It ended ${named.join(', ')}${more}.${c.jobs_affected === 0 ? ' No job is affected now.' : ''}`;
}

/** Why a breaker is in its state, and who forced it there: the same words wherever it is shown. */
export function breakerWords(b: Pick<Schemas['Breaker'], 'pinned' | 'reason'>): string {
  if (!b.pinned) return tidy(b.reason);
  return `forced by ${b.pinned.replace(/^user:/, '')}${b.reason ? `: ${tidy(b.reason)}` : ''}`;
}

/** Does a cause only inform, so that nobody has to do anything about it? */
export function informs(c: Pick<Cause, 'urgency' | 'severity'>): boolean {
  return c.urgency !== 'page' && (c.severity ?? c.urgency ?? 'info') === 'info';
}

/** Remediations of a list that somebody has to approve, and those that are delayed and need nobody now. */
export function waitingCounts(waiting: Pick<Remediation, 'delayed'>[]): { pending: number; delayed: number } {
  const delayed = waiting.filter((r) => r.delayed).length;
  return { pending: waiting.length - delayed, delayed };
}

/** The same in words: `2 to approve, 1 delayed`; empty where none waits. */
export function waitingWords({ pending, delayed }: { pending: number; delayed: number }): string {
  const some = (n: number, what: string) => (n > 0 ? [`${n.toLocaleString('en')} ${what}`] : []);
  return [...some(pending, 'to approve'), ...some(delayed, 'delayed')].join(', ');
}

/** What the strip at the top counts. */
export interface Counts {
  paging: number;
  /** Remediations that somebody has to approve. */
  pending: number;
  /** Those that a limit or stopped automation delays. */
  delayed: number;
  incidents: number;
  jobs: number;
  /** There are jobs that the answer does not name, so that some may be counted twice or not at all. */
  about: boolean;
}

export function counts(causes: Cause[]): Counts {
  const jobs = new Set<string>();
  let unnamed = 0;
  const out: Counts = { paging: 0, pending: 0, delayed: 0, incidents: 0, jobs: 0, about: false };
  for (const c of causes) {
    out.paging += c.alerts.filter(pages).length;
    const { delayed } = waitingCounts(c.remediations.filter((r) => c.pending.includes(r.id)));
    out.pending += c.pending.length - delayed;
    out.delayed += delayed;
    out.incidents += c.incidents.length;
    for (const j of c.jobs) jobs.add(j.id);
    unnamed = Math.max(unnamed, c.jobs_affected - c.jobs.length);
  }
  return { ...out, jobs: jobs.size + unnamed, about: unnamed > 0 };
}

/**
 * What a silence of an alert has to match. An alert of several conditions stays loud until all of them are
 * silenced, so that everything at and below its cause is meant. The whole site is never meant.
 */
export function silenceMatch(a: Pick<Alert, 'kind' | 'cause' | 'count'>): Schemas['SetSilence']['match'] {
  const match = a.count > 1 && a.cause !== 'site' ? { under: a.cause } : { kind: a.kind, entity: a.cause };
  // What is left out fits everything.
  return match as never;
}

/** The same for people. */
export function silenceWords(a: Pick<Alert, 'kind' | 'cause' | 'count'>): string {
  return a.count > 1 && a.cause !== 'site'
    ? `Every alert about ${a.cause} and what is part of it sends no notifications. They stay on this page.`
    : `Alerts of ${a.kind} about ${a.cause} send no notifications. They stay on this page.`;
}

/** What a silence that is made here is called: by what it is about, and when it was made, in UTC. */
export function silenceName(a: Pick<Alert, 'kind'>, now: number): string {
  const kind = a.kind.replace(/[^A-Za-z0-9]+/g, '-').slice(0, 30);
  const at = new Date(now).toISOString().slice(0, 19).replace(/[-:]/g, '').replace('T', '-');
  return ['console', ...kind.split('-').filter(Boolean), at].join('-');
}

/** Lengths of a silence that are offered: as the API writes them, and in words. */
export const LENGTHS: [length: string, words: string][] = [
  ['30m', '30 minutes'],
  ['2h', '2 hours'],
  ['8h', '8 hours'],
];

/** A length of one's own: `45m`, `6h`, `1h30m`, `3d`. */
export const OWN_LENGTH = '([1-9][0-9]{0,5}[mhd])+';

/** Page-grade alerts that were not there before. Nothing is new to somebody who has just come. */
export function newPages(known: ReadonlySet<string> | null, causes: Pick<Cause, 'alerts'>[]): Alert[] {
  if (known === null) return [];
  return causes.flatMap((c) => c.alerts.filter((a) => pages(a) && !known.has(a.id)));
}

/** Approves one after the other. What is refused does not keep the rest from being approved. */
export async function approveEach(
  remediations: Remediation[],
  approve: (id: string) => Promise<unknown>,
): Promise<number> {
  const refused: string[] = [];
  for (const r of remediations) {
    try {
      await approve(r.id);
    } catch (e) {
      refused.push(`${r.action_text} on ${where(r)}: ${(e as Error).message}`);
    }
  }
  const done = remediations.length - refused.length;
  if (refused.length > 0)
    throw new Error(`${count(done, 'remediation')} approved. Not approved: ${refused.join('; ')}`);
  return done;
}

/** What the page of a runbook reads from its address. */
export interface RunbookSearch {
  node?: string;
  gpu?: string;
  job?: string;
  finding?: string;
  incident?: string;
  breaker?: string;
  /** The step to begin with. */
  step?: number;
}

/** The link to a cause's runbook: the active run, or the book at its step with what it asks for filled in. */
export function runbookSearch(c: Pick<Cause, 'runbook' | 'findings'>): RunbookSearch {
  if (!c.runbook) return {};
  const { node, gpu, job, finding, incident, breaker } = c.runbook.vars;
  return {
    node,
    gpu,
    job,
    finding: finding ?? c.findings[0]?.id,
    incident,
    breaker,
    step: c.runbook.step ?? undefined,
  };
}
