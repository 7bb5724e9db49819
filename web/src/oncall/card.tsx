import { Link } from '@tanstack/react-router';
import { useId } from 'react';
import { useNodeActions } from '../nodes/actions';
import { useRights } from '../rights';
import { JobLink, NodeLink } from '../ui/links';
import { Ago, count, For, State, type Tone, tidy, Word } from '../ui/parts';
import { assignments, useAlertActions, useApprove, useIncidentActions } from './actions';
import {
  type Alert,
  breakerWords,
  type Cause,
  endedWords,
  informs,
  type Pending,
  pageWords,
  pendingOf,
  primary,
  quieted,
  runbookSearch,
  where,
} from './causes';
import { useCloseFinding } from './close-finding';
import {
  DENY_TITLE,
  isPending,
  stepWords,
  Until,
  undoTitle,
  undoWord,
  useRemediationActions,
  whyWords,
} from './items';

/** So many of each are listed on a card; the rest is counted. */
const SHOWN = 4;
const JOBS = 8;

const nodeOf = (entity: string) => /^(?:node|gpu|port):([^/]+)/.exec(entity)?.[1];

/** How urgent a cause is, in one word: what wakes somebody before how bad it is. */
function Grade({ of: c }: { of: Cause }) {
  const { project } = useRights();
  const page = c.urgency === 'page' ? pageWords(c) : null;
  // What affects no job of a project now is no alarm to it.
  if (project !== null && c.jobs_affected === 0)
    return <Word tone="plain">{page?.word ?? c.severity ?? c.urgency ?? 'info'}</Word>;
  if (page) return <Word tone={page.paging ? 'worst' : 'warn'}>{page.word}</Word>;
  if (c.severity) return <State word={c.severity} />;
  const tone: Tone = quieted(c) ? 'plain' : 'warn';
  return <Word tone={tone}>{c.urgency ?? 'info'}</Word>;
}

/** What an entity is called, with a link where it has a page. */
function Where({ entity }: { entity: string }) {
  const name = nodeOf(entity);
  const job = /^job:(\d+)$/.exec(entity)?.[1];
  const gpu = /^gpu:[^/]+\/(\d+)$/.exec(entity)?.[1];
  if (name)
    return (
      <span>
        <NodeLink name={name} />
        {gpu !== undefined && <span className="dim"> GPU {gpu}</span>}
      </span>
    );
  if (job)
    return (
      <Link to="/jobs/$id" params={{ id: job }}>
        job {job}
      </Link>
    );
  return <span className="dim">{entity}</span>;
}

/** What is pending approval first: of many only some are listed. */
const pendingFirst = (all: Cause['remediations']) =>
  [...all].sort((a, b) => Number(isPending(b)) - Number(isPending(a)));

/** Remediations of a cause: the step each is at, and why. */
function Remediation({ of: c }: { of: Cause }) {
  const { whole } = useRights();
  // Whoever is not shown remediations does not read that there are none.
  if (c.remediations.length === 0)
    return whole && c.findings.length > 0 ? <p className="dim">No remediation.</p> : null;
  const all = pendingFirst(c.remediations);
  return (
    <ul className="plain">
      {all.slice(0, SHOWN).map((r) => (
        <li key={r.id}>
          <Word tone={isPending(r) ? 'warn' : 'run'}>{stepWords(r)}</Word>: {r.action_text} on{' '}
          <Link to="/nodes/$name" params={{ name: r.node }}>
            {where(r)}
          </Link>{' '}
          <span className="dim">
            (remediation step {r.step_index + 1}, <For at={r.since} />
            {r.approved && `, approved by ${r.approved.replace(/^user:/, '')}`})
          </span>
          {whyWords(r) && `: ${whyWords(r)}`}
          <Until remediation={r} brief paged={c.urgency === 'page'} />
        </li>
      ))}
      {all.length > SHOWN && <li className="dim">{count(all.length - SHOWN, 'more remediation')}</li>}
    </ul>
  );
}

/** Jobs and projects that a cause affects, and attempts that it has ended. */
function Affected({ of: c }: { of: Cause }) {
  const { project } = useRights();
  const rest = c.jobs_affected - Math.min(c.jobs.length, JOBS);
  const ended = endedWords(c, project !== null, JOBS);
  return (
    <p>
      {c.jobs_affected === 0 ? (
        !ended && <span className="dim">No job is affected.</span>
      ) : (
        <>
          Affected jobs:{' '}
          {c.jobs.slice(0, JOBS).map((j, i) => (
            <span key={j.id}>
              {i > 0 && ', '}
              <JobLink id={j.id} name={j.name} />
            </span>
          ))}
          {rest > 0 && ` and ${count(rest, 'more job')}`}
          <span className="dim">
            {' '}
            of {c.projects.length === 1 ? 'project' : 'projects'} {c.projects.join(', ')}
          </span>
          {ended && '. '}
        </>
      )}
      {ended}
    </p>
  );
}

/** The command that leads back to a closed breaker. Forced closed, it would never open again by itself. */
const breakerCommand = (b: { entity: string; pinned?: string | null }) =>
  b.pinned ? `muster breakers release ${b.entity}` : `muster breakers force ${b.entity} half-open`;

/** Breakers of a cause: what they block, and for those who operate, how one is probed. */
function Breakers({ of: c }: { of: Cause }) {
  const { operates } = useRights();
  const open = c.breakers ?? [];
  if (open.length === 0) return null;
  return (
    <ul className="plain">
      {open.map((b) => (
        <li key={b.entity}>
          Breaker {b.entity} is {b.state === 'half_open' ? 'half-open' : b.state}:{' '}
          {count(b.nodes, 'node gets', 'nodes get')} no new work{' '}
          <span className="dim">
            ({breakerWords(b)}).
            {operates && (b.pinned || b.state === 'open') && (
              <>
                {' '}
                {b.pinned ? 'To have it follow its own rules again: ' : 'To have it probed now: '}
                <code>{breakerCommand(b)}</code>
              </>
            )}
          </span>
        </li>
      ))}
    </ul>
  );
}

/** Who knows of an alert, and who took it. */
function AlertLine({ alert: a }: { alert: Alert }) {
  const { whole } = useRights();
  return (
    <li>
      <span className="dim">Alert:</span> {a.summary}{' '}
      <span className="dim">
        {a.urgency}, began <Ago at={a.since} />
        {a.count > 1 && `, ${count(a.count, 'condition')}`}
        {a.level > 0 && `, escalation step ${a.level}`}
        {whole && `; notifications: ${a.notifications.map((t) => t.receiver).join(', ') || 'none'}`}
        {a.silenced && `; silenced by ${a.silenced}`}
      </span>
      {a.acknowledged && (
        <>
          <br />
          Acknowledged by {a.acknowledged.by.replace(/^user:/, '')} <Ago at={a.acknowledged.at} />
          {a.acknowledged.note && `: ${a.acknowledged.note}`}
        </>
      )}
    </li>
  );
}

function Evidence({ of: c }: { of: Cause }) {
  if (c.findings.length === 0) return null;
  return (
    <details className="more">
      <summary>Evidence: {count(c.findings_open, 'open finding')}</summary>
      <ul className="plain">
        {c.findings.map((f) => (
          <li key={f.id}>
            <State word={f.severity} /> {f.title || f.kind} <Where entity={f.entity} />{' '}
            <span className="dim">
              finding {f.id}, opened <Ago at={f.opened_at} />
              {f.count > 1 ? `, seen ${f.count} times, last ` : ', seen '}
              <Ago at={f.last_seen} />
            </span>
            <ul className="evidence">
              {(f.evidence ?? []).slice(0, SHOWN).map((line) => (
                <li key={line}>{line}</li>
              ))}
            </ul>
          </li>
        ))}
        {c.findings_open > c.findings.length && (
          <li className="dim">{count(c.findings_open - c.findings.length, 'more finding')}</li>
        )}
      </ul>
    </details>
  );
}

/** The runbook at the step that is left to do, with the node filled in; or the run that is active. */
function Runbook({ of: c, main }: { of: Cause; main: boolean }) {
  const book = c.runbook;
  if (!book) return null;
  const className = main ? 'button' : undefined;
  return (
    <p>
      <span className="dim">Runbook:</span>{' '}
      {book.run ? (
        <Link to="/runbook-runs/$id" params={{ id: book.run }} className={className}>
          {book.title}, active at step {book.step}: {book.step_title}
        </Link>
      ) : (
        <Link
          to="/runbooks/$name"
          params={{ name: book.name }}
          search={runbookSearch(c)}
          className={className}
        >
          {book.title}
          {book.step ? `, step ${book.step}` : ''}: {book.step_title}
        </Link>
      )}
    </p>
  );
}

/** The nodes of these, each once. */
const nodesOf = (all: Cause['remediations']) => [...new Set(all.map((r) => r.node))];

/** Everything else that can be done about a cause. */
function More({ of: c, alert }: { of: Cause; alert: Alert | undefined }) {
  const alerts = useAlertActions();
  const incidents = useIncidentActions();
  const remediations = useRemediationActions();
  const nodes = useNodeActions();
  const findings = useCloseFinding();
  const off = alerts.busy || incidents.busy || remediations.busy || nodes.busy || findings.busy;
  const listed = pendingFirst(c.remediations).slice(0, SHOWN);
  const open = c.findings.slice(0, SHOWN);
  if (!alert && c.incidents.length === 0 && listed.length === 0 && open.length === 0) return null;
  return (
    <details className="more">
      <summary>More actions</summary>
      <div className="actions">
        {alert && !alert.acknowledged && primary(c, true).does !== 'acknowledge' && (
          <button type="button" disabled={off} onClick={() => void alerts.acknowledge(alert)}>
            Acknowledge
          </button>
        )}
        {alert && (
          <button type="button" disabled={off} onClick={() => void alerts.escalate(alert)}>
            Escalate
          </button>
        )}
        {c.incidents.map((i) => (
          <span key={i.id} className="actions">
            <button type="button" disabled={off} onClick={() => void incidents.assign(i.id, i.owner)}>
              Assign incident {i.id}
            </button>
            {i.owner && assignments(i.owner, incidents.me).take && (
              <button type="button" disabled={off} onClick={() => void incidents.take(i.id)}>
                Assign incident {i.id} to me
              </button>
            )}
            {assignments(i.owner, incidents.me).release && (
              <button type="button" disabled={off} onClick={() => void incidents.release(i.id, i.owner)}>
                Unassign incident {i.id}
              </button>
            )}
            <button type="button" className="risky" disabled={off} onClick={() => void incidents.close(i.id)}>
              Close incident {i.id}
            </button>
          </span>
        ))}
        {listed.map((r) => (
          <span key={r.id} className="actions">
            {isPending(r) && (
              <button
                type="button"
                title={DENY_TITLE}
                disabled={off}
                onClick={() => void remediations.deny(r)}
              >
                Deny on {where(r)}
              </button>
            )}
            <button
              type="button"
              title={undoTitle(r)}
              disabled={off}
              onClick={() => void remediations.undo(r)}
            >
              {undoWord(r)} on {where(r)}
            </button>
          </span>
        ))}
        {nodesOf(listed.filter((r) => r.step === 'repairing')).map((name) => (
          <button
            key={`repaired ${name}`}
            type="button"
            disabled={off}
            onClick={() => void nodes.onNamed('repaired', name)}
          >
            Repaired: {name}
          </button>
        ))}
        {nodesOf(listed.filter((r) => r.returnable)).map((name) => (
          <button
            key={`return ${name}`}
            type="button"
            className="risky"
            disabled={off}
            onClick={() => void nodes.onNamed('return', name)}
          >
            Return {name} to service
          </button>
        ))}
        {open.map((f) => (
          <button key={f.id} type="button" disabled={off} onClick={() => void findings.close(f)}>
            Close finding {f.id}
          </button>
        ))}
      </div>
    </details>
  );
}

function Actions({ of: c, all }: { of: Cause; all: Pending[] }) {
  const { approve, busy: approving } = useApprove();
  const alerts = useAlertActions();
  const incidents = useIncidentActions();
  const next = primary(c, true);
  const off = approving || alerts.busy || incidents.busy;
  const alert = c.alerts[0];
  // What is delayed is approved one by one: all at once would overrule the limits.
  const owed = all.filter((p) => !p.remediation.delayed);
  return (
    <>
      <div className="actions">
        {next.does === 'approve' && (
          <button type="button" className="main" disabled={off} onClick={() => void approve(pendingOf([c]))}>
            {c.pending.length === 1 ? 'Approve' : `Approve ${c.pending.length}`}
          </button>
        )}
        {next.does === 'review' && owed.length > 0 && (
          // Many at once are weighed, not pressed in passing: no main button.
          <button type="button" disabled={off} onClick={() => void approve(owed)}>
            Approve all {owed.length} pending
          </button>
        )}
        {next.does === 'acknowledge' && (
          <button
            type="button"
            className="main"
            disabled={off}
            onClick={() => void alerts.acknowledge(next.alert)}
          >
            Acknowledge
          </button>
        )}
        {next.does === 'assign' && (
          <button
            type="button"
            className="main"
            disabled={off}
            onClick={() => void incidents.take(next.incident)}
          >
            Assign to me
          </button>
        )}
        {alert && !alert.silenced && (
          <button type="button" disabled={off} onClick={() => void alerts.silence(alert)}>
            Silence
          </button>
        )}
      </div>
      <More of={c} alert={alert} />
    </>
  );
}

/** One cause: what is wrong, what is done about it, whom it affects, and the one thing to do next. */
export function CauseCard({
  cause: c,
  chosen,
  choose,
  all,
}: {
  cause: Cause;
  /** Chosen for approval together with others. */
  chosen: boolean;
  choose: (yes: boolean) => void;
  /** What is pending approval on the whole page. */
  all: Pending[];
}) {
  const { operates } = useRights();
  const heading = useId();
  const title = c.title || tidy(c.summary);
  return (
    <article className={chosen ? 'item cause chosen' : 'item cause'} aria-labelledby={heading}>
      <h3 id={heading}>
        {operates && c.pending.length > 0 && (
          <input
            type="checkbox"
            aria-label={`Select for approval: ${title} ${c.entity}`}
            checked={chosen}
            onChange={(e) => choose(e.target.checked)}
          />
        )}
        <Grade of={c} />
        <span>{title}</span>
        <Where entity={c.entity} />
        <span className="dim">
          began <Ago at={c.since} />
        </span>
      </h3>
      {c.title && c.alerts.length === 0 && c.incidents.length > 0 && <p>{tidy(c.summary)}</p>}
      <Remediation of={c} />
      <Breakers of={c} />
      <Affected of={c} />
      {(c.alerts.length > 0 || c.incidents.length > 0) && (
        <ul className="plain">
          {c.incidents.map((i) => (
            <li key={i.id}>
              <Link to="/incidents/$id" params={{ id: i.id }}>
                Incident {i.id}
              </Link>{' '}
              <span className="dim">
                {i.cause}, {count(i.count, 'finding')}, began <Ago at={i.began_at} />, opened{' '}
                <Ago at={i.opened_at} />;{' '}
                {i.owner ? `assigned to ${i.owner.replace(/^user:/, '')}` : 'not assigned'}
              </span>
            </li>
          ))}
          {c.alerts.map((a) => (
            <AlertLine key={a.id} alert={a} />
          ))}
        </ul>
      )}
      <Evidence of={c} />
      <Runbook of={c} main={primary(c, operates).does === 'runbook' && !informs(c) && !quieted(c)} />
      {operates && <Actions of={c} all={all} />}
    </article>
  );
}
