import { useQuery } from '@tanstack/react-query';
import { Link, useNavigate, useParams, useSearch } from '@tanstack/react-router';
import { type FormEvent, useEffect, useRef, useState } from 'react';
import { api, must, once, type Schemas } from '../api/client';
import { runbook, runbookRun, runbookRuns, runbooks, whoami } from '../queries';
import { useRights } from '../rights';
import { useAct } from '../ui/act';
import { useAsk } from '../ui/ask';
import { NodeLink } from '../ui/links';
import { Page } from '../ui/page';
import { Ago, count, Empty, Loaded, NotShown, Panel, type Tone, Word } from '../ui/parts';
import { Prose } from '../ui/prose';
import { Table } from '../ui/table';
import { answerWords, follows, leadsTo, lookWords, sawWords } from './runbook-words';

type Step = Schemas['RunbookStep'];
type Run = Schemas['RunbookRun'];

const TONES: Record<string, Tone> = {
  page: 'bad',
  today: 'warn',
  ticket: 'plain',
  running: 'run',
  waiting: 'warn',
  resolved: 'ok',
  unresolved: 'bad',
  stopped: 'plain',
  check: 'note',
  act: 'run',
  ask: 'warn',
  wait: 'plain',
  holds: 'ok',
  done: 'ok',
  answered: 'ok',
  holds_not: 'bad',
  refused: 'bad',
  skipped: 'plain',
  assumed: 'plain',
};

/** What the API's words are called here. */
const WORDS: Record<string, string> = {
  waiting: 'pending',
  holds: 'pass',
  holds_not: 'fail',
  assumed: 'cannot know yet',
};

function Tag({ word }: { word: string }) {
  return <Word tone={TONES[word] ?? 'plain'}>{WORDS[word] ?? word.replaceAll('_', ' ')}</Word>;
}

const about = (vars: Record<string, string>) =>
  Object.entries(vars)
    .map(([k, v]) => `${k} ${v}`)
    .join(', ');

/** Which run, about what if about anything, and whose. */
const runWords = (r: Pick<Run, 'id' | 'vars' | 'auto' | 'by'>) =>
  [`run ${r.id}`, about(r.vars), r.auto ? `automatic, for ${r.by}` : r.by].filter(Boolean).join(', ');

/** All runbooks, and runs of them. */
export function RunbooksPage() {
  const { whole, project } = useRights();
  const books = useQuery({ ...runbooks(), enabled: whole === true });
  const { mode, node, finding } = useSearch({ from: '/runbooks' });
  if (whole === false)
    return (
      <Page title="Runbooks">
        <NotShown project={project} what="runbooks and their runs" />
      </Page>
    );
  return (
    <Page
      title="Runbooks"
      about={
        mode && (
          <span className="dim">
            for {mode}
            {node && ` on ${node}`}; <Link to="/runbooks">show all</Link>
          </span>
        )
      }
    >
      {whole && <Runs />}
      <Loaded query={books}>
        {(list) => {
          const shown = list.items
            .filter((b) => !mode || b.modes.includes(mode) || b.topics.includes(mode))
            .sort((a, b) => a.title.localeCompare(b.title));
          return (
            <Panel title="Runbooks" note={count(shown.length, 'runbook')}>
              <Table label="Runbooks" cards heads={['Title', 'Urgency', 'Steps', 'For', 'Owner']}>
                {shown.map((b) => (
                  <tr key={b.name}>
                    <td className="whole">
                      <Link to="/runbooks/$name" params={{ name: b.name }} search={{ node, finding }}>
                        {b.title}
                      </Link>
                      {b.version && <span className="dim"> custom</span>}
                    </td>
                    <td>
                      <Tag word={b.urgency} />
                    </td>
                    <td data-l="steps">{b.length}</td>
                    <td className="dim whole">{[...b.modes, ...b.topics].join(', ')}</td>
                    <td className="nowrap" data-l="owner">
                      {b.owner}
                    </td>
                  </tr>
                ))}
              </Table>
            </Panel>
          );
        }}
      </Loaded>
    </Page>
  );
}

function Runs() {
  const query = useQuery(runbookRuns());
  return (
    <Loaded query={query}>
      {(list) =>
        list.items.length === 0 ? null : (
          <Panel title="Runs">
            <Table label="Runs" cards heads={['Run', 'State', 'Runbook', 'About', 'Step', 'By', 'Began']}>
              {list.items.slice(0, 20).map((r) => (
                <tr key={r.id}>
                  <td>
                    <Link to="/runbook-runs/$id" params={{ id: r.id }}>
                      {r.id}
                    </Link>
                  </td>
                  <td>
                    <Tag word={r.state} />
                  </td>
                  <td className="whole">{r.title || r.runbook}</td>
                  <td className="whole">{about(r.vars)}</td>
                  <td data-l="step">{r.step}</td>
                  <td className="dim" data-l="by">
                    {r.auto ? `automatic, for ${r.by}` : r.by}
                  </td>
                  <td className="nowrap" data-l="began">
                    <Ago at={r.started_at} />
                  </td>
                </tr>
              ))}
            </Table>
          </Panel>
        )
      }
    </Loaded>
  );
}

/** A step with the node filled in where the runbook names its variable. */
export function withNode(step: Step, node: string | undefined): Step {
  if (!node) return step;
  const fill = (text: string) => text.replace(/\$node\b/g, () => node);
  return { ...step, title: fill(step.title), text: fill(step.text), says: fill(step.says) };
}

function StepText({ step }: { step: Step }) {
  return (
    <>
      <h3>
        <span>
          {step.no}. {step.title}
        </span>
        <Tag word={step.kind} />
      </h3>
      <Prose text={step.text} />
      <p title={step.says}>
        {lookWords(step.kind, step.says) ?? (step.kind === 'ask' ? step.says : <code>{step.says}</code>)}
      </p>
      {step.choices.length > 0 ? (
        <ul>
          {step.choices.map((c) => (
            <li key={c.text}>
              {c.text} <span className="dim">({leadsTo(c.goto)})</span>
            </li>
          ))}
        </ul>
      ) : (
        <p className="dim">{follows(step.kind, step.then, step.otherwise)}</p>
      )}
    </>
  );
}

/** A step of a runbook; the one to begin with is scrolled to, and the node is named in it. */
function StepItem({ step, current, node }: { step: Step; current: boolean; node?: string }) {
  const here = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (current) here.current?.scrollIntoView({ block: 'center' });
  }, [current]);
  return (
    <div className={current ? 'item chosen' : 'item'} ref={here} aria-current={current ? 'step' : undefined}>
      {current && <Word tone="run">current step</Word>}
      <StepText step={withNode(step, node)} />
    </div>
  );
}

/** One runbook, opened at the step that its address names, and what it takes to follow it. */
export function RunbookPage() {
  const { submits } = useRights();
  const { name } = useParams({ from: '/runbooks/$name' });
  const { step, node } = useSearch({ from: '/runbooks/$name' });
  const query = useQuery(runbook(name));
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls, and may be nothing but text
    <main className="page" id="page" tabIndex={0}>
      <Loaded query={query}>
        {(b) => (
          <>
            <div className="head">
              <h1>{b.title}</h1>
              <Tag word={b.urgency} />
              <span className="dim">
                owner {b.owner}; for {[...b.modes, ...b.topics].join(', ')}
              </span>
            </div>
            <div className="columns wide-left">
              <Panel title="Steps" note={count(b.steps.length, 'step')}>
                <div className="item">
                  <Prose text={b.intro} />
                </div>
                {b.steps.map((s) => (
                  <StepItem key={s.no} step={s} current={s.no === step} node={node} />
                ))}
              </Panel>
              {submits && <Start book={b} />}
            </div>
          </>
        )}
      </Loaded>
    </main>
  );
}

function Start({ book }: { book: Schemas['Runbook'] }) {
  const given = useSearch({ from: '/runbooks/$name' }) as Record<string, string | number | undefined>;
  const names = [...book.needs, ...book.takes];
  const [vars, setVars] = useState<Record<string, string>>(() =>
    Object.fromEntries(names.map((n) => [n, String(given[n] ?? '')])),
  );
  const [plan, setPlan] = useState<Schemas['RunbookDryRun'] | null>(null);
  const { operates } = useRights();
  const { act, busy } = useAct();
  const ask = useAsk();
  const navigate = useNavigate();
  const path = { name: book.name };
  const body = (auto: boolean) => ({
    vars: Object.fromEntries(Object.entries(vars).filter(([, v]) => v)),
    auto,
  });
  const start = (auto: boolean) =>
    act(async () => {
      const run = must(
        await api.POST('/v1/runbooks/{name}/run', { params: { path, header: once() }, body: body(auto) }),
      );
      await navigate({ to: '/runbook-runs/$id', params: { id: run.id } });
    }, `${book.title}: the run began`);
  return (
    <Panel title="Start a run">
      <form
        className="stack item"
        onSubmit={(e: FormEvent) => {
          e.preventDefault();
          void start(false);
        }}
      >
        {names.map((n) => (
          <label className="stack" key={n}>
            {n}
            {book.needs.includes(n) ? '' : ' (optional)'}
            <input
              value={vars[n] ?? ''}
              required={book.needs.includes(n)}
              maxLength={256}
              autoComplete="off"
              onChange={(e) => setVars({ ...vars, [n]: e.target.value })}
            />
          </label>
        ))}
        <div className="actions">
          <button type="submit" className="main" disabled={busy}>
            Step by step
          </button>
          {operates && (
            <button
              type="button"
              disabled={busy}
              onClick={() =>
                void act(
                  async () =>
                    setPlan(
                      must(
                        await api.POST('/v1/runbooks/{name}/dry-run', {
                          params: { path, header: once() },
                          body: body(false),
                        }),
                      ),
                    ),
                  'Dry run: nothing was changed',
                )
              }
            >
              Dry run
            </button>
          )}
          <button
            type="button"
            className="risky"
            disabled={busy}
            onClick={async () => {
              const yes = await ask({
                title: `Run automatically: ${book.title}`,
                text: 'It acts with your permissions and within the limits of automation. Steps that need a person stay pending.',
                act: 'Start',
                risky: true,
              });
              if (yes !== null) void start(true);
            }}
          >
            Run automatically
          </button>
        </div>
      </form>
      {plan && (
        <div className="item" role="status">
          <h3>
            <span>Outcome of a run</span> <Tag word={plan.outcome} />
          </h3>
          <ol>
            {plan.steps.map((s) => (
              <li key={s.step} value={s.step}>
                {s.title} <Tag word={s.outcome} />
                {s.would && (
                  <>
                    {' '}
                    <code>{s.would}</code>
                  </>
                )}{' '}
                <span className="dim">{sawWords(s.saw)}</span>
              </li>
            ))}
          </ol>
        </div>
      )}
    </Panel>
  );
}

/** One run: completed steps, and the buttons of its current step. */
export function RunbookRunPage() {
  const { id } = useParams({ from: '/runbook-runs/$id' });
  const query = useQuery(runbookRun(id));
  return (
    <main className="page" id="page">
      <Loaded query={query}>
        {(r) => (
          <>
            <div className="head">
              <h1>{r.title || r.runbook}</h1>
              <Tag word={r.state} />
              <span className="dim">
                {runWords(r)}, <Ago at={r.started_at} />
              </span>
              {r.vars.node && <NodeLink name={r.vars.node} />}
            </div>
            {r.why && <p>{sawWords(r.why)}</p>}
            {r.now && <Now run={r} step={r.now} />}
            <Panel title="Completed" note={count(r.done.length, 'step')}>
              {r.done.length === 0 && <Empty title="No step is completed" />}
              {r.done.map((d) => (
                <div className="item" key={`${d.step} ${d.at}`}>
                  <h3>
                    <span>
                      {d.step}. {d.title}
                    </span>
                    <Tag word={d.outcome} />
                    <span className="dim">
                      {d.by} <Ago at={d.at} />
                    </span>
                  </h3>
                  {d.chose && <p>{d.chose}</p>}
                  {d.did && (
                    <p>
                      <code>{d.did}</code>
                    </p>
                  )}
                  {d.saw && <p className="dim">{sawWords(d.saw)}</p>}
                  {d.note && <p>{d.note}</p>}
                </div>
              ))}
            </Panel>
          </>
        )}
      </Loaded>
    </main>
  );
}

/**
 * What somebody who is no operator may answer at the current step of a run: an answer takes the permissions of what
 * it sets off, and an automatic run continues with what follows.
 */
function mayAnswer(own: boolean, run: Pick<Run, 'auto'>, step: Pick<Step, 'kind'>): boolean {
  return own || (!run.auto && step.kind !== 'act');
}

function Now({ run, step }: { run: Run; step: Step }) {
  const { submits, operates } = useRights();
  const own = useQuery(whoami()).data?.name === run.by;
  const answers = operates || (submits && mayAnswer(own, run, step));
  const { act, busy } = useAct();
  const params = { path: { id: run.id }, header: once() };
  const say = (answer: Schemas['RunbookAnswer'], choose?: string) =>
    void act(
      () =>
        api.POST('/v1/runbook-runs/{id}/answer', {
          params,
          body: { step: step.no, answer, choose, note: '' },
        }),
      `Step ${step.no}: ${answerWords(step.kind, answer, choose)}`,
    );
  const go = { check: 'Check now', act: 'Run now', wait: 'Check now', ask: '' }[step.kind] ?? 'Continue';
  return (
    <Panel title="Current step">
      <div className="item">
        <StepText step={step} />
        {run.sees && <p>{sawWords(run.sees)}</p>}
        {run.waits && (
          <p>
            <Word tone="warn">pending approval</Word> {run.waits}
          </p>
        )}
        {answers && (
          <div className="actions">
            {step.choices.length > 0 ? (
              step.choices.map((c) => (
                // None of the answers is the one that is wanted.
                <button type="button" key={c.text} disabled={busy} onClick={() => say('choose', c.text)}>
                  {c.text}
                </button>
              ))
            ) : (
              <>
                {(operates || step.kind !== 'act') && (
                  <button type="button" className="main" disabled={busy} onClick={() => say('go')}>
                    {go}
                  </button>
                )}
                <button type="button" disabled={busy} onClick={() => say('yes')}>
                  {step.kind === 'act' ? 'Done manually' : 'Pass'}
                </button>
                <button type="button" disabled={busy} onClick={() => say('no')}>
                  {step.kind === 'act' ? 'Not possible' : 'Fail'}
                </button>
              </>
            )}
            <button type="button" disabled={busy} onClick={() => say('skip')}>
              Skip
            </button>
            {(operates || own) && (
              <button
                type="button"
                className="risky"
                disabled={busy}
                onClick={() =>
                  void act(
                    () =>
                      api.POST('/v1/runbook-runs/{id}/stop', {
                        params,
                        body: { reason: 'from the console' },
                      }),
                    'The run is stopped',
                  )
                }
              >
                Stop the run
              </button>
            )}
          </div>
        )}
      </div>
    </Panel>
  );
}
