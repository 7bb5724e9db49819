import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { api, once, type Schemas } from '../api/client';
import { alerts, slos } from '../queries';
import { useRights } from '../rights';
import { useAct } from '../ui/act';
import { useAsk } from '../ui/ask';
import { Ago, brief, count, Empty, Loaded, Panel, type Tone, Word } from '../ui/parts';

type Slo = Schemas['Slo'];
type Alert = Schemas['Alert'];

const STATES: Record<string, [Tone, string]> = {
  kept: ['ok', 'kept'],
  burning: ['bad', 'burning'],
  spent: ['worst', 'spent'],
  no_data: ['plain', 'no data yet'],
};

/** How a promise stands, in a word. */
export function sloTone(s: Slo) {
  const [tone, word] = STATES[s.state] ?? ['plain', s.state];
  return <Word tone={tone}>{word}</Word>;
}

/** What is left of a budget. */
export function Budget({ of: s }: { of: Slo }) {
  if (s.budget_left === null || s.budget_left === undefined) return <span className="dim">no data yet</span>;
  const low = s.budget_left < 0.25;
  return (
    <span className="nowrap">
      <span className="bar limit" aria-hidden="true">
        <i className={low ? 'warn' : ''} style={{ width: `${s.budget_left * 100}%` }} />
      </span>
      {(s.budget_left * 100).toFixed(0)} %
    </span>
  );
}

/** Alerts that somebody has to look at, pages first. */
export function Alerts({ short }: { short?: boolean }) {
  const query = useQuery(alerts());
  const { whole, project } = useRights();
  return (
    <Loaded query={query}>
      {(page) => {
        const shown = short ? page.items.slice(0, 8) : page.items;
        return (
          <Panel
            title="Alerts"
            note={page.items.length ? `${page.items.length}${page.cursor ? ' or more' : ''} open` : ''}
            actions={short && whole && <Link to="/slos">Silences and receivers</Link>}
          >
            {page.items.length === 0 ? (
              <Empty title={project ? `No alert is open about ${project} alone` : 'No alert is open'}>
                <p>
                  {project
                    ? 'Alerts of the site and of other projects are not shown to this token.'
                    : 'A promise whose budget is spent too fast, an incident, a critical finding: one alert for each cause, however much suffers from it.'}
                </p>
              </Empty>
            ) : (
              shown.map((a) => <AlertItem key={a.id} alert={a} />)
            )}
            {shown.length < page.items.length && (
              <p className="item">
                <Link to="/slos">
                  {page.cursor ? 'at least ' : ''}
                  {count(page.items.length - shown.length, 'more alert')}
                </Link>
              </p>
            )}
          </Panel>
        );
      }}
    </Loaded>
  );
}

const node = (cause: string) => /^(?:node|gpu|port):([^/]+)/.exec(cause)?.[1];

function AlertItem({ alert: a }: { alert: Alert }) {
  const ask = useAsk();
  const { act, busy } = useAct();
  const { operates } = useRights();
  const name = node(a.cause);
  return (
    <div className="item">
      <h3>
        <Word tone={a.silenced ? 'plain' : a.urgency === 'page' ? 'worst' : 'warn'}>{a.urgency}</Word>
        <span>{a.summary}</span>
        {name ? (
          <Link to="/nodes/$name" params={{ name }}>
            {name}
          </Link>
        ) : (
          <span className="dim">{a.cause}</span>
        )}
        <span className="dim">
          began <Ago at={a.since} />
          {a.count > 1 && `, ${a.count} conditions`}
        </span>
      </h3>
      <p className="dim">
        {[
          a.kind,
          a.jobs > 0 && `affects ${count(a.jobs, 'job')} with ${count(a.gpus, 'GPU')}`,
          a.owner && `for ${a.owner}`,
          a.silenced && `silenced by ${a.silenced}`,
          a.level > 0 && `passed on ${a.level} times`,
          a.told.length > 0 && `told to ${a.told.map((t) => t.receiver).join(', ')}`,
        ]
          .filter(Boolean)
          .join('; ')}
      </p>
      {a.acknowledged && (
        <p>
          {a.acknowledged.by.replace(/^user:/, '')} looks after it since <Ago at={a.acknowledged.at} />
          {a.acknowledged.note && `: ${a.acknowledged.note}`}
        </p>
      )}
      <div className="actions">
        {operates && !a.acknowledged && (
          <button
            type="button"
            className="main"
            disabled={busy}
            onClick={async () => {
              const note = await ask({
                title: `Acknowledge: ${a.summary}`,
                text: 'You look after it: nobody else is woken for it.',
                act: 'Acknowledge',
                reason: 'offered',
              });
              if (note === null) return;
              const params = { path: { id: a.id }, header: once() };
              void act(
                () => api.POST('/v1/alerts/{id}/acknowledge', { params, body: { note } }),
                'You look after it',
              );
            }}
          >
            Acknowledge
          </button>
        )}
        {operates && !a.silenced && (
          <button
            type="button"
            disabled={busy}
            onClick={async () => {
              const why = await ask({
                title: `Silence: ${a.kind} of ${a.cause}`,
                text: 'For four hours nobody is told of it. It stays on this page.',
                act: 'Silence',
                reason: 'needed',
              });
              if (why === null) return;
              const name = `console-${Date.now().toString(36)}`;
              const params = { path: { name }, header: once() };
              const body = { match: { kind: a.kind, entity: a.cause }, length: '4h', why };
              void act(
                () => api.PUT('/v1/silences/{name}', { params, body: body as never }),
                `Silenced for four hours`,
              );
            }}
          >
            Silence 4 h
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
    <Empty title="Nothing is promised">{children}</Empty>
  ) : (
    <Empty title={`No objective is about ${project} alone`}>
      <p>Objectives of the site and of other projects are not shown to this token.</p>
    </Empty>
  );
}

/** Promises that are being broken. */
export function Burning() {
  const query = useQuery(slos());
  const bad = (query.data?.items ?? []).filter((s) => s.state === 'burning' || s.state === 'spent');
  if (bad.length === 0) return null;
  return (
    <Panel title="Promises at risk" note={`${bad.length}`}>
      {bad.map((s) => (
        <div className="item" key={s.name}>
          <h3>
            {sloTone(s)}
            <Link to="/slos" search={{ name: s.name }}>
              {s.name}
            </Link>
            <span className="dim">
              {s.good_text} of {s.target}
              {s.spent_in && s.state !== 'spent' && `, spent in ${brief(s.spent_in)}`}
            </span>
            <span className="grow" />
            <Budget of={s} />
          </h3>
        </div>
      ))}
    </Panel>
  );
}
