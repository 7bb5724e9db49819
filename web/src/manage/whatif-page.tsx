import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useEffect, useId, useRef, useState } from 'react';
import { api, must } from '../api/client';
import { policy } from '../queries';
import { useRights } from '../rights';
import { Options } from '../ui/options';
import { Page } from '../ui/page';
import { count, Empty, Panel } from '../ui/parts';
import { FormError, problemAt, SelectField, TextField } from './field';
import { useForm } from './form';
import { RowButton } from './frames';
import type { Problem } from './reservation';
import {
  BUDGETS,
  CHANGES,
  type ChangeKind,
  type ChangeRow,
  changeText,
  commandOf,
  EMPTY,
  type Kept,
  MOST_KEPT,
  pathsOf,
  SKUS,
  whatIfBody,
  withAnswer,
} from './whatif';
import { Answers, Comparison } from './whatif-answers';
import { Command } from './whatif-command';

/** Most changes of one question, as the server has it. */
const MOST_CHANGES = 16;

/** Answers of this session, which stay while other pages are looked at. */
const KEPT = ['whatif', 'answers'];

function useKept() {
  const queries = useQueryClient();
  const kept = useQuery<Kept[]>({
    queryKey: KEPT,
    queryFn: () => [],
    enabled: false,
    initialData: [],
    gcTime: Number.POSITIVE_INFINITY,
  }).data;
  const change = (next: (old: Kept[]) => Kept[]) =>
    queries.setQueryData<Kept[]>(KEPT, (old) => next(old ?? []));
  return { kept, change };
}

/** What a change would do to the site: simulated by the server, and compared with the site as it is. */
export function WhatIfPage() {
  const { whole, operates } = useRights();
  const { kept, change } = useKept();
  return (
    <Page
      title="What-if"
      about={
        <span className="dim">
          The server simulates the site from its own log, as it is and with a change. Nothing is changed.
        </span>
      }
    >
      {whole !== null && !operates && (
        <p className="state" role="status">
          Not for this token: simulating a change takes an operator of the whole site.
        </p>
      )}
      {operates && <Question keep={(next) => change((old) => withAnswer(old, next))} />}
      {operates &&
        (kept.length === 0 ? (
          <section className="panel">
            <Empty title="No what-if yet">
              <p>
                Choose a change and simulate it. The answer says what would become of waiting times, goodput,
                allocated GPUs, and which waiting jobs would start earlier or later. Up to {MOST_KEPT} answers
                stay here side by side until you reload the page or log out.
              </p>
            </Empty>
          </section>
        ) : (
          <>
            <Comparison kept={kept} />
            <Answers kept={kept} remove={(id) => change((old) => old.filter((k) => k.id !== id))} />
          </>
        ))}
    </Page>
  );
}

function Question({ keep }: { keep: (next: Omit<Kept, 'id'>) => void }) {
  const { form, change, typed, filled, send, busy, error } = useForm(EMPTY, whatIfBody, false);
  const [running, setRunning] = useState<{ since: number; budget: string } | null>(null);
  const [said, setSaid] = useState('');
  const [tried, setTried] = useState(false);
  const stop = useRef<AbortController | null>(null);
  // Who leaves the page has no use for the answer, and the server can stop.
  useEffect(() => () => stop.current?.abort(), []);
  const now = whatIfBody(form);
  const own = tried && 'problem' in now ? now.problem : null;
  const simulate = async () => {
    setTried(true);
    const body = filled();
    if (!body || running) return;
    const run = new AbortController();
    stop.current = run;
    // The answer is about this moment, and its starts are counted from it.
    const at = Date.now();
    setRunning({ since: at, budget: body.budget });
    setSaid('Simulating');
    const answer = await send(async () => {
      try {
        return must(await api.POST('/v1/whatif', { body, signal: run.signal }));
      } catch (e) {
        if (run.signal.aborted) return null;
        throw e;
      }
    }, '');
    setRunning(null);
    if (run.signal.aborted) return setSaid('Cancelled');
    setSaid(answer ? 'Answer added' : '');
    if (answer) keep({ at, body, answer });
  };
  const rows = (next: ChangeRow[]) => change({ ...form, rows: next });
  const add = () => {
    const id = Math.max(...form.rows.map((r) => r.id)) + 1;
    rows([...form.rows, { id, kind: 'spares', value: '', extra: '' }]);
  };
  const fields = ['seeds', 'horizon', 'budget', ...form.rows.map((_, i) => `changes[${i}]`)];
  return (
    <Panel title="Change" weight="primary">
      <form
        className="body fields"
        noValidate
        onSubmit={(e) => {
          e.preventDefault();
          void simulate();
        }}
      >
        {form.rows.map((row, i) => (
          <Row
            key={row.id}
            no={i + 1}
            row={row}
            own={own}
            error={error}
            set={(next) => rows(form.rows.map((r) => (r.id === row.id ? next : r)))}
            remove={form.rows.length > 1 ? () => rows(form.rows.filter((r) => r.id !== row.id)) : undefined}
          />
        ))}
        <div className="actions whole">
          <button type="button" disabled={form.rows.length >= MOST_CHANGES} onClick={add}>
            Add another change
          </button>
        </div>
        <TextField
          label="Pairs of runs"
          hint="more of them separate a change from chance"
          inputMode="numeric"
          {...typed('seeds')}
        />
        <TextField
          label="How far ahead"
          hint="such as 24h; empty: 7 days, or until the queue is over"
          {...typed('horizon')}
        />
        <SelectField label="Time for it" hint="less time: fewer runs" {...typed('budget')}>
          <Options of={BUDGETS} />
        </SelectField>
        <FormError error={error} fields={fields} />
        <div className="actions whole">
          {/* One button for both, so that the focus stays on it. */}
          <button
            type={running ? 'button' : 'submit'}
            className={running ? undefined : 'main'}
            disabled={!running && busy}
            onClick={(e) => {
              if (!running) return;
              // By the time that the click is over it may be the other button again.
              e.preventDefault();
              stop.current?.abort();
            }}
          >
            {running ? 'Cancel' : 'Simulate'}
          </button>
          <span role="status">{said}</span>
          {running && <Running {...running} />}
        </div>
        {'body' in now && <Command text={commandOf(now.body)} />}
      </form>
    </Panel>
  );
}

function Row({
  no,
  row,
  own,
  error,
  set,
  remove,
}: {
  no: number;
  row: ChangeRow;
  own: Problem | null;
  error: unknown;
  set: (next: ChangeRow) => void;
  remove?: () => void;
}) {
  const list = useId();
  const paths = pathsOf(useQuery(policy()).data?.policy);
  const words = CHANGES.find((c) => c.kind === row.kind) ?? CHANGES[0];
  const problem = problemAt(`changes[${no - 1}]`, own, error);
  const read = changeText(row);
  // What the server refuses about a field of the policy is its name more often than its value.
  const atField = 'why' in read ? read.at === 'extra' : row.kind === 'policy';
  const value = (v: string) => set({ ...row, value: v });
  const extra = (v: string) => set({ ...row, extra: v });
  return (
    <fieldset className="group whole fields">
      <legend>Change {no}</legend>
      <SelectField
        label="What changes"
        value={row.kind}
        onChange={(e) => set({ ...row, kind: e.target.value as ChangeKind, value: '', extra: '' })}
      >
        {CHANGES.map((c) => (
          <option key={c.kind} value={c.kind}>
            {c.word}
          </option>
        ))}
      </SelectField>
      {row.kind === 'policy' && (
        <>
          <TextField
            label="Field"
            hint="such as backfill.mode"
            problem={atField ? problem : null}
            list={list}
            autoComplete="off"
            value={row.extra}
            onChange={(e) => extra(e.target.value)}
          />
          <datalist id={list}>
            {paths.map((p) => (
              <option key={p} value={p} />
            ))}
          </datalist>
        </>
      )}
      {row.kind === 'sku' ? (
        <SelectField
          label={words.value}
          problem={problem}
          value={row.value}
          onChange={(e) => value(e.target.value)}
        >
          <option value="">choose</option>
          <Options of={SKUS} />
        </SelectField>
      ) : (
        <TextField
          label={words.value}
          hint={words.hint}
          problem={atField ? null : problem}
          autoComplete="off"
          value={row.value}
          onChange={(e) => value(e.target.value)}
        />
      )}
      {row.kind === 'more' && (
        <SelectField label="Their GPUs" value={row.extra} onChange={(e) => extra(e.target.value)}>
          <option value="">like the others</option>
          <Options of={SKUS} />
        </SelectField>
      )}
      {remove && (
        <div className="actions whole">
          <RowButton word="Remove" of={`change ${no}`} onClick={remove} />
        </div>
      )}
    </fieldset>
  );
}

/** How much of its time a simulation has used. */
function Running({ since, budget }: { since: number; budget: string }) {
  const [now, setNow] = useState(since);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 250);
    return () => clearInterval(timer);
  }, []);
  const most = Number.parseInt(budget, 10);
  const passed = Math.floor((now - since) / 1000);
  return (
    <>
      <progress aria-label="Time used" max={most} value={Math.min(passed, most)} />
      <span className="dim" aria-hidden="true">
        {count(passed, 'second')} of about {most}
      </span>
    </>
  );
}
