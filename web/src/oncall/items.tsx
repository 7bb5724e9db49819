import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { api, once, type Schemas } from '../api/client';
import { receivers } from '../queries';
import { useRights } from '../rights';
import { useAct } from '../ui/act';
import { useAsk } from '../ui/ask';
import { Ago, count, State } from '../ui/parts';
import { useApprove } from './actions';
import { type Pending, type Remedy, where } from './causes';

const STEPS: Record<string, string> = {
  proposed: 'on hold: a limit or the policy',
  moving: 'work is leaving',
  approval: 'pending approval',
  acting: 'in progress',
  repairing: 'in repair',
  testing: 'being tested',
  probation: 'on probation',
};

/** What happens at the end of a step's time. Approval stays pending however long it takes. */
const ENDS: Partial<Record<Remedy['step'], [ahead: string, past: string]>> = {
  approval: [
    'It stays pending until somebody decides; a page is raised',
    'Undecided for too long, a page was raised; it stays pending. The limit was',
  ],
  moving: ['What still runs there is moved', 'Work was to have left'],
  probation: ['Probation ends', 'Probation was to end'],
};

/** A remediation that only watches needs nobody. */
const watches = (r: Remedy) => r.action === 'watch' && r.step === 'proposed';

/** The step of a remediation in words. */
export function stepWords(r: Remedy): string {
  return watches(r) ? 'watched' : (STEPS[r.step] ?? r.step);
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
async function pendingOn(remedy: Remedy): Promise<Pending> {
  try {
    const { data } = await api.GET('/v1/nodes/{name}', { params: { path: { name: remedy.node } } });
    const jobs = (data?.jobs ?? []).map((j) => ({ ...j, gpus: j.gpus.length, nodes: [remedy.node] }));
    return { remedy, jobs, unnamed: 0 };
  } catch {
    return { remedy, jobs: [], unnamed: 1 };
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
export function useRemedyActions() {
  const ask = useAsk();
  const { act, busy } = useAct();
  const path = (r: Remedy) => ({ params: { path: { id: r.id }, header: once() } });
  const deny = async (r: Remedy) => {
    const reason = await ask({
      title: `Deny: ${r.action_words} on ${where(r)}`,
      text: 'The remediation ends without its act.',
      act: 'Deny',
      reason: 'needed',
    });
    if (reason !== null)
      await act(
        () => api.POST('/v1/remedies/{id}/deny', { ...path(r), body: { reason } }),
        `Denied on ${where(r)}`,
      );
  };
  const undo = async (r: Remedy) => {
    const reason = await ask({
      title: `Undo: ${r.action_words} on ${where(r)}`,
      text: undoWords(await critical(r.node)),
      act: 'Undo',
      risky: true,
      reason: 'needed',
    });
    if (reason !== null)
      await act(
        () => api.POST('/v1/remedies/{id}/undo', { ...path(r), body: { reason } }),
        `Undone on ${where(r)}`,
      );
  };
  return { deny, undo, busy };
}

/** May somebody approve or deny it now? */
export const isPending = (r: Remedy) =>
  !r.approved && !watches(r) && (r.step === 'approval' || r.step === 'proposed');

function RemedyButtons({ remedy }: { remedy: Remedy }) {
  const { approve, busy: approving } = useApprove();
  const { deny, undo, busy } = useRemedyActions();
  const off = approving || busy;
  return (
    <div className="actions">
      {isPending(remedy) && (
        <>
          <button
            type="button"
            className="main"
            disabled={off}
            onClick={async () => void approve([await pendingOn(remedy)])}
          >
            Approve
          </button>
          <button type="button" disabled={off} onClick={() => void deny(remedy)}>
            Deny
          </button>
        </>
      )}
      <button type="button" disabled={off} onClick={() => void undo(remedy)}>
        Undo
      </button>
    </div>
  );
}

/** When the time of a step runs out, and what then. */
export function Until({ remedy: r }: { remedy: Remedy }) {
  const reached = useQuery(receivers()).data?.items.length !== 0;
  const words = ENDS[r.step];
  if (!r.until || !words) return null;
  return (
    <p className="dim">
      {words[Date.parse(r.until) > Date.now() ? 0 : 1]} <Ago at={r.until} />
      {r.step === 'approval' &&
        !reached &&
        '; no receiver is set up (muster routing): it reaches nobody, unless the server has a page webhook'}
    </p>
  );
}

export function RemedyItem({ remedy, children }: { remedy: Remedy; children?: ReactNode }) {
  const { operates } = useRights();
  return (
    <div className="item">
      <h3>
        <span>{remedy.action_words}</span>
        <Link to="/nodes/$name" params={{ name: remedy.node }}>
          {remedy.node}
        </Link>
        {remedy.gpu !== null && remedy.gpu !== undefined && <span className="dim">GPU {remedy.gpu}</span>}
        <span className="dim">{stepWords(remedy)}</span>
        <span className="dim">
          since <Ago at={remedy.since} />
        </span>
      </h3>
      <p>
        {remedy.why} <span className="dim">{remedy.kind}</span>
      </p>
      <Until remedy={remedy} />
      {children}
      {operates && remedy.step !== 'ended' && <RemedyButtons remedy={remedy} />}
    </div>
  );
}

export function FindingItem({ finding: f, hideNode }: { finding: Schemas['Finding']; hideNode?: boolean }) {
  const { whole } = useRights();
  return (
    <div className="item">
      <h3>
        <State word={f.severity} />
        <span>{f.title || f.kind}</span>
        {f.node && !hideNode && (
          <Link to="/nodes/$name" params={{ name: f.node }}>
            {f.node}
          </Link>
        )}
        {f.gpu !== null && f.gpu !== undefined && <span className="dim">GPU {f.gpu}</span>}
        {f.job && (
          <Link to="/jobs/$id" params={{ id: String(f.job) }}>
            job {f.job}
          </Link>
        )}
        {!f.node && !f.job && <span className="dim">{f.entity}</span>}
        <span className="dim">
          opened <Ago at={f.opened_at} />
          {f.count > 1 && (
            <>
              , seen {f.count} times, last <Ago at={f.last_seen} />
            </>
          )}
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
    </div>
  );
}
