import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { api, once, type Schemas } from '../api/client';
import { receivers } from '../queries';
import { useRights } from '../rights';
import { useAsked } from '../ui/asked';
import { NodeLink } from '../ui/links';
import { Ago, count, For, State } from '../ui/parts';
import { useApprove } from './actions';
import { type Pending, type Remediation, where } from './causes';
import { useCloseFinding } from './close-finding';

const STEPS: Record<string, string> = {
  moving: 'work is leaving',
  approval: 'pending approval',
  acting: 'in progress',
  repairing: 'in repair',
  testing: 'being tested',
  probation: 'on probation',
};

/** Of what was approved by nobody yet nothing was done: it is withdrawn, and the node serves again. */
export const undoWord = (r: Remediation) => (isPending(r) ? 'Withdraw' : 'Undo');

/** What the buttons do, when pointed at. */
export const DENY_TITLE = 'It is not done. Its finding stays open, and the node stays as it is.';
export const undoTitle = (r: Remediation) =>
  isPending(r)
    ? 'It ends before anything was done. The node returns unless something else keeps it out.'
    : 'What it did is undone. The node returns unless something else keeps it out.';

/** What happens at the end of a step's time. Approval stays pending however long it takes. */
const ENDS: Partial<Record<Remediation['step'], [ahead: string, past: string]>> = {
  approval: [
    'It stays pending until somebody decides; a page is raised',
    'Undecided for too long, a page was raised; it stays pending. The limit was',
  ],
  moving: ['What still runs there is moved', 'Work was to have left'],
  probation: ['Probation ends', 'Probation was to end'],
};

/** A remediation that only watches needs nobody. */
const watches = (r: Remediation) => r.action === 'watch' && r.step === 'proposed';

/** The step of a remediation in words: the same two, wherever one is shown that was not begun. */
export function stepWords(r: Remediation): string {
  if (watches(r)) return 'watched';
  if (r.delayed) return 'delayed';
  return isPending(r) ? 'pending approval' : (STEPS[r.step] ?? r.step);
}

/** Why it is at this step; nothing where that says again that it is pending approval, and of what. */
export function whyWords(r: Pick<Remediation, 'step' | 'why'>): string {
  return r.step === 'approval' ? r.why.replace(/^approval to .*$|(; |^)pending approval$/, '') : r.why;
}

/** Findings and incidents by how bad they are, the worst first. */
export const WORST: Record<string, number> = { critical: 0, degraded: 1, warning: 2, info: 3 };

/** Critical findings that are open on a node; null when that could not be read. */
async function critical(name: string): Promise<Schemas['Finding'][] | null> {
  try {
    const { data } = await api.GET('/v1/nodes/{name}', { params: { path: { name } } });
    return (data?.findings ?? []).filter((f) => f.severity === 'critical');
  } catch {
    return null;
  }
}

/** A remediation with the jobs on its node, as the node says them. */
async function pendingOn(remediation: Remediation): Promise<Pending> {
  try {
    const { data } = await api.GET('/v1/nodes/{name}', { params: { path: { name: remediation.node } } });
    const jobs = (data?.jobs ?? []).map((j) => ({ ...j, gpus: j.gpus.length, nodes: [remediation.node] }));
    return { remediation, jobs, unnamed: 0 };
  } catch {
    return { remediation, jobs: [], unnamed: 1 };
  }
}

/** What undoing a remediation means, given the critical findings that are open on its node. */
export function undoWords(open: Pick<Schemas['Finding'], 'id' | 'kind' | 'title' | 'gpu'>[] | null): string {
  const back = 'The node serves as before; after its test, where a reset or reboot has begun.';
  if (open === null)
    return `${back} Its open findings could not be read: they stay open, and work is placed there at once.`;
  if (open.length === 0) return back;
  const named = open.map(
    (f) =>
      `${f.title || f.kind}${f.gpu === null || f.gpu === undefined ? '' : ` on GPU ${f.gpu}`} (finding ${f.id})`,
  );
  return `${back} ${count(open.length, 'critical finding stays', 'critical findings stay')} open: ${named.join('; ')}. Work is placed there at once all the same.`;
}

/** Deny or undo a remediation. */
export function useRemediationActions() {
  const { asked, busy } = useAsked();
  const path = (r: Remediation) => ({ params: { path: { id: r.id }, header: once() } });
  const deny = (r: Remediation) =>
    asked(
      {
        title: `Deny: ${r.action_text} on ${where(r)}`,
        text: 'The remediation ends without its act. Its finding stays open, and a node that gets no new work gets none until it passes a test or is returned.',
        act: 'Deny',
        reason: 'needed',
      },
      (reason) => api.POST('/v1/remediations/{id}/deny', { ...path(r), body: { reason } }),
      `Denied on ${where(r)}`,
    );
  const undo = async (r: Remediation) =>
    asked(
      {
        title: `${undoWord(r)}: ${r.action_text} on ${where(r)}`,
        text: undoWords(await critical(r.node)),
        act: undoWord(r),
        risky: true,
        reason: 'needed',
      },
      (reason) => api.POST('/v1/remediations/{id}/undo', { ...path(r), body: { reason } }),
      `${isPending(r) ? 'Withdrawn' : 'Undone'} on ${where(r)}`,
    );
  return { deny, undo, busy };
}

/** May somebody approve or deny it now? */
export const isPending = (r: Remediation) =>
  !r.approved && !watches(r) && (r.step === 'approval' || r.step === 'proposed');

function RemediationButtons({ remediation }: { remediation: Remediation }) {
  const { approve, busy: approving } = useApprove();
  const { deny, undo, busy } = useRemediationActions();
  const off = approving || busy;
  return (
    <div className="actions">
      {isPending(remediation) && (
        <>
          <button
            type="button"
            className="main"
            disabled={off}
            onClick={async () => void approve([await pendingOn(remediation)])}
          >
            Approve
          </button>
          <button type="button" title={DENY_TITLE} disabled={off} onClick={() => void deny(remediation)}>
            Deny
          </button>
        </>
      )}
      <button
        type="button"
        title={undoTitle(remediation)}
        disabled={off}
        onClick={() => void undo(remediation)}
      >
        {undoWord(remediation)}
      </button>
    </div>
  );
}

export const UNREACHED =
  'no receiver is set up that works (muster routing): it reaches nobody, unless the server has a page webhook';

/** Does a page reach somebody, as far as is known? */
export function useReached(): boolean {
  const all = useQuery(receivers()).data?.items;
  return !all || all.some((r) => r.state !== 'failing');
}

/**
 * When the time of a step runs out, and what then. `brief`: the list around it says whom that reaches. `paged`: its cause
 * has paged already.
 */
export function Until({
  remediation: r,
  brief,
  paged,
}: {
  remediation: Remediation;
  brief?: boolean;
  paged?: boolean;
}) {
  const reached = useReached();
  const words = ENDS[r.step];
  if (!r.until || !words) return null;
  const said = words[Date.parse(r.until) > Date.now() ? 0 : 1];
  return (
    <p className="dim">
      {paged ? said.replace('a page', 'another page') : said} <Ago at={r.until} />
      {r.step === 'approval' && !reached && !brief && `; ${UNREACHED}`}
    </p>
  );
}

export function RemediationItem({
  remediation,
  children,
}: {
  remediation: Remediation;
  children?: ReactNode;
}) {
  const { operates } = useRights();
  return (
    <div className="item">
      <h3>
        <span>{remediation.action_text}</span>
        <NodeLink name={remediation.node} />
        {remediation.gpu !== null && remediation.gpu !== undefined && (
          <span className="dim">GPU {remediation.gpu}</span>
        )}
        <span className="dim">{stepWords(remediation)}</span>
        <span className="dim">
          <For at={remediation.since} />
        </span>
      </h3>
      <p>
        {whyWords(remediation)} <span className="dim">{remediation.kind}</span>
      </p>
      <Until remediation={remediation} />
      {children}
      {operates && remediation.step !== 'ended' && <RemediationButtons remediation={remediation} />}
    </div>
  );
}

export function FindingItem({ finding: f, hideNode }: { finding: Schemas['Finding']; hideNode?: boolean }) {
  const { whole, operates } = useRights();
  return (
    <div className="item">
      <h3>
        <State word={f.severity} />
        <span>{f.title || f.kind}</span>
        {f.node && !hideNode && <NodeLink name={f.node} />}
        {f.gpu !== null && f.gpu !== undefined && <span className="dim">GPU {f.gpu}</span>}
        {f.job && (
          <Link to="/jobs/$id" params={{ id: String(f.job) }}>
            job {f.job}
          </Link>
        )}
        {!f.node && !f.job && <span className="dim">{f.entity}</span>}
        <span className="dim">
          opened <Ago at={f.opened_at} />
          {f.count > 1 ? `, seen ${f.count} times, last ` : ', seen '}
          <Ago at={f.last_seen} />
        </span>
        {whole && (
          <Link to="/runbooks" search={{ mode: f.kind, node: f.node ?? undefined, finding: f.id }}>
            runbook
          </Link>
        )}
      </h3>
      <ul className="evidence">
        {(f.evidence ?? []).slice(0, 4).map((line) => (
          <li key={line}>{line}</li>
        ))}
      </ul>
      {operates && f.state === 'open' && <FindingButtons finding={f} />}
    </div>
  );
}

function FindingButtons({ finding }: { finding: Schemas['Finding'] }) {
  const { close, busy } = useCloseFinding();
  return (
    <div className="actions">
      <button type="button" disabled={busy} onClick={() => void close(finding)}>
        Close finding
      </button>
    </div>
  );
}
