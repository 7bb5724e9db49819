import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import type { Schemas } from '../api/client';
import { useAlertActions } from '../oncall/actions';
import { alerts, slos } from '../queries';
import { useRights } from '../rights';
import { NodeLink } from '../ui/links';
import { Ago, brief, count, Empty, Loaded, Panel, type Tone, Word } from '../ui/parts';

type Slo = Schemas['Slo'];
type Alert = Schemas['Alert'];

const STATES: Record<string, [Tone, string]> = {
  met: ['ok', 'met'],
  below_target: ['warn', 'not met'],
  burning: ['bad', 'burning'],
  exhausted: ['worst', 'exhausted'],
  no_data: ['plain', 'no data'],
};

/** The state of an SLO, in a word. */
export function sloTone(s: Slo) {
  const [tone, word] = STATES[s.state] ?? ['plain', s.state];
  return <Word tone={tone}>{word}</Word>;
}

/** Why one that is not met has budget left; empty for others. */
export function belowWords(s: Pick<Slo, 'state' | 'counted_for' | 'window' | 'budget_left'>): string {
  if (s.state !== 'below_target' || !s.budget_left) return '';
  return ` Not met by what was counted for ${brief(s.counted_for)} of ${s.window}; the rest counts as good, so that budget is left.`;
}

/** What was reached, and what is asked for. */
export const reached = (s: Slo) => `${s.good_text ?? 'no data'} (target ${s.target}) over ${s.window}`;

/** What is left of a budget, as the CLI writes it: never more than is left, all of it only where nothing was used. */
export const leftWords = (share: number) => `${Math.floor(share * 100 + 1e-9)} %`;

/** What is left of a budget; `word` says so where no head of a column does. */
export function Budget({ of: s, word }: { of: Slo; word?: boolean }) {
  if (s.budget_left === null || s.budget_left === undefined)
    return word ? null : <span className="dim">no data</span>;
  const low = s.budget_left < 0.25;
  return (
    <span className="nowrap budget" title="error budget left">
      <span className="bar limit" aria-hidden="true">
        <i className={low ? 'warn' : ''} style={{ width: `${s.budget_left * 100}%` }} />
      </span>
      <span className="share">{leftWords(s.budget_left)}</span>
      {word && <span className="dim"> of budget left</span>}
    </span>
  );
}

/** Alerts that somebody has to act on, pages first. */
export function Alerts() {
  const query = useQuery(alerts());
  const { project } = useRights();
  // What is silenced or can wait is no main thing to do, and a page has one.
  const first = query.data?.items.find((a) => a.urgency === 'page' && !a.silenced && !a.acknowledged);
  return (
    <Loaded query={query}>
      {(page) => (
        <Panel
          title="Alerts"
          note={page.items.length ? `${page.items.length}${page.cursor ? ' or more' : ''} open` : ''}
        >
          {page.items.length === 0 ? (
            <Empty title={project ? `No alert is open about ${project} alone` : 'No alert is open'}>
              <p>
                {project
                  ? 'Alerts of the site and of other projects are not shown to this token.'
                  : 'An SLO with a high burn rate, an incident, a critical finding: one alert for each cause, however much it affects.'}
              </p>
            </Empty>
          ) : (
            page.items.map((a) => <AlertItem key={a.id} alert={a} first={a === first} />)
          )}
        </Panel>
      )}
    </Loaded>
  );
}

const node = (cause: string) => /^(?:node|gpu|port):([^/]+)/.exec(cause)?.[1];

/** `first`: of all alerts on the page it is to be acknowledged first. */
function AlertItem({ alert: a, first }: { alert: Alert; first: boolean }) {
  const { acknowledge, silence, busy } = useAlertActions();
  const { operates, whole } = useRights();
  const name = node(a.cause);
  return (
    <div className="item">
      <h3>
        <Word tone={a.silenced ? 'plain' : a.urgency === 'page' ? 'worst' : 'warn'}>{a.urgency}</Word>
        <span>{a.summary}</span>
        {name ? <NodeLink name={name} /> : <span className="dim">{a.cause}</span>}
        <span className="dim">
          began <Ago at={a.since} />
          {a.count > 1 && `, ${a.count} conditions`}
        </span>
      </h3>
      <p className="dim">
        {[
          a.kind,
          a.jobs > 0 && `affects ${count(a.jobs, 'job')} with ${count(a.gpus, 'GPU')}`,
          a.owner && `owner ${a.owner}`,
          a.silenced && `silenced by ${a.silenced}`,
          a.level > 0 && `escalation step ${a.level}`,
          // Who is notified is not shown to tokens bound to a project.
          whole && `notifications: ${a.notifications.map((t) => t.receiver).join(', ') || 'none'}`,
        ]
          .filter(Boolean)
          .join('; ')}
      </p>
      {a.acknowledged && (
        <p>
          Acknowledged by {a.acknowledged.by.replace(/^user:/, '')} <Ago at={a.acknowledged.at} />
          {a.acknowledged.note && `: ${a.acknowledged.note}`}
        </p>
      )}
      <div className="actions">
        {operates && !a.acknowledged && (
          <button
            type="button"
            className={first ? 'main' : undefined}
            disabled={busy}
            onClick={() => void acknowledge(a)}
          >
            Acknowledge
          </button>
        )}
        {operates && !a.silenced && (
          <button type="button" disabled={busy} onClick={() => void silence(a)}>
            Silence
          </button>
        )}
      </div>
    </div>
  );
}

/** No objective is shown, and why: those of the site are hidden from a token that is bound to a project. */
export function NoObjectives({ children }: { children?: ReactNode }) {
  const { whole, project } = useRights();
  if (whole === null) return null;
  return whole ? (
    <Empty title="No objectives are set">{children}</Empty>
  ) : (
    <Empty title={`No objective is about ${project} alone`}>
      <p>Objectives of the site and of other projects are not shown to this token.</p>
    </Empty>
  );
}

/** SLOs whose error budget burns too fast, or is exhausted. */
export function Burning() {
  const query = useQuery(slos());
  const bad = (query.data?.items ?? []).filter((s) => s.state === 'burning' || s.state === 'exhausted');
  if (bad.length === 0) return null;
  return (
    <Panel title="SLOs at risk" note={`${bad.length}`}>
      {bad.map((s) => (
        <div className="item" key={s.name}>
          <h3>
            {sloTone(s)}
            <Link to="/slos" search={{ name: s.name }}>
              {s.name}
            </Link>
            <span className="dim">
              {reached(s)}
              {s.exhausted_in && s.state !== 'exhausted' && `; budget exhausted in ${brief(s.exhausted_in)}`}
            </span>
            <Budget of={s} word />
          </h3>
        </div>
      ))}
    </Panel>
  );
}
