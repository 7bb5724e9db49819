import { useState } from 'react';
import { useRights } from '../rights';
import { count, Empty, Panel } from '../ui/parts';
import { useApprove } from './actions';
import { CauseCard } from './card';
import { type Cause, pendingOf, waitingCounts, waitingWords } from './causes';
import { UNREACHED, useReached } from './items';

/** Remediations of several causes, approved at once. */
function Bulk({
  causes,
  chosen,
  choose,
}: {
  causes: Cause[];
  chosen: ReadonlySet<string>;
  choose: (ids: Set<string>) => void;
}) {
  const { approve, busy } = useApprove();
  const can = causes.filter((c) => c.pending.length > 0);
  const all = pendingOf(can.filter((c) => chosen.has(c.id)));
  const waiting = pendingOf(can).map((p) => p.remediation);
  // What is delayed is selected one by one: all at once would overrule the limits.
  const owed = can.filter((c) => pendingOf([c]).some((p) => !p.remediation.delayed));
  if (can.length < 2) return null;
  return (
    <div className="bulk">
      <span>
        {count(all.length, 'remediation')} selected of {waitingWords(waitingCounts(waiting))}
      </span>
      <button
        type="button"
        disabled={all.length === 0 && owed.length === 0}
        onClick={() => choose(all.length > 0 ? new Set() : new Set(owed.map((c) => c.id)))}
      >
        {all.length > 0 ? 'Select none' : 'Select all to approve'}
      </button>
      <button
        type="button"
        disabled={busy || all.length === 0}
        onClick={async () => {
          if (await approve(all)) choose(new Set());
        }}
      >
        Approve selected
      </button>
    </div>
  );
}

/** Said once, above all that is pending. */
function Unreached() {
  if (useReached()) return null;
  return <div className="item dim">If nobody decides, a page is raised; {UNREACHED}.</div>;
}

/** One card for each cause: pages that nobody acknowledged, what is pending approval, then by urgency and severity. */
export function Causes({
  causes,
  total,
  order = 'most urgent first',
}: {
  causes: Cause[];
  total: number;
  order?: string;
}) {
  const { whole, project, operates } = useRights();
  const [chosen, choose] = useState<ReadonlySet<string>>(new Set());
  const one = (id: string, yes: boolean) => {
    const next = new Set(chosen);
    if (yes) next.add(id);
    else next.delete(id);
    choose(next);
  };
  const all = pendingOf(causes);
  if (whole === null) return null;
  return (
    <Panel title="Causes" note={total > 0 ? `${total} open, ${order}` : ''}>
      {all.length > 0 && <Unreached />}
      {operates && <Bulk causes={causes} chosen={chosen} choose={choose} />}
      {causes.length === 0 ? (
        <Empty title={project ? `Nothing is open about jobs of ${project}` : 'Nothing is open'}>
          <p>
            {project
              ? 'Alerts and findings of the site and of other projects are not shown to this token.'
              : 'Alerts, findings, incidents and remediations with one cause become one card here. To run a drill: muster gameday run.'}
          </p>
        </Empty>
      ) : (
        causes.map((c) => (
          <CauseCard
            key={c.id}
            cause={c}
            chosen={chosen.has(c.id) && c.pending.length > 0}
            choose={(yes) => one(c.id, yes)}
            all={all}
          />
        ))
      )}
      {total > causes.length && <p className="item dim">{count(total - causes.length, 'more cause')}</p>}
    </Panel>
  );
}
