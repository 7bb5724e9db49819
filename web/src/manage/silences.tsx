import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { api, must, once, type Schemas } from '../api/client';
import { projects, silences } from '../queries';
import { useRights } from '../rights';
import { useAct, useSend } from '../ui/act';
import { useAsk } from '../ui/ask';
import { Ago, count, Empty, Loaded, Panel, Scroll, Word } from '../ui/parts';
import { wall } from '../ui/zone';
import { Field, FormError, problemAt } from './field';
import { EMPTY, isEverything, matchWords, OFFERED, type SilenceForm, silenceBody } from './silence';

type Silence = Schemas['Silence'];

// Not `match` itself: what is said of the whole matcher has no field of its own.
const FIELDS = [
  'name',
  'match.kind',
  'match.entity',
  'match.under',
  'match.owner',
  'match.project',
  'length',
  'start',
  'every',
  'why',
] as const;

/** Times in which some alerts notify nobody. */
export function SilencesPage() {
  const query = useQuery(silences());
  const [making, setMaking] = useState(false);
  const { operates } = useRights();
  return (
    <main className="page" id="page">
      <div className="head">
        <h1>Silences</h1>
        <span className="dim">
          Silenced alerts are still shown. What lasts longer than the silence notifies when it ends.
        </span>
        {operates && !making && (
          <div className="actions">
            <button type="button" className="main" onClick={() => setMaking(true)}>
              New silence
            </button>
          </div>
        )}
      </div>
      {operates && making && <NewSilence close={() => setMaking(false)} />}
      <Loaded query={query}>{(page) => <All items={page.items} />}</Loaded>
    </main>
  );
}

function All({ items }: { items: Silence[] }) {
  const { operates } = useRights();
  const ask = useAsk();
  const { act, busy } = useAct();
  const open = items.filter((s) => s.state !== 'over');
  const end = async (s: Silence) => {
    const yes = await ask({
      title: `End ${s.name}`,
      text:
        s.silences > 0
          ? `${count(s.silences, 'open alert')} that it mutes now notify at once.`
          : 'It mutes no open alert now.',
      act: 'End the silence',
      risky: s.silences > 0,
    });
    if (yes === null) return;
    const params = { path: { name: s.name }, header: once() };
    void act(() => api.DELETE('/v1/silences/{name}', { params }), `${s.name} is over`);
  };
  if (open.length === 0)
    return (
      <div className="panel">
        <Empty title="No silence is active or scheduled" />
      </div>
    );
  return (
    <Panel title="Active and scheduled">
      <Scroll label="Silences">
        <table className="cards">
          <thead>
            <tr>
              <th>Name</th>
              <th>State</th>
              <th>Alerts</th>
              <th>Begins</th>
              <th>Ends</th>
              <th>Every</th>
              <th className="num">Mutes now</th>
              <th>By</th>
              <th>Why</th>
              {operates && <th>&nbsp;</th>}
            </tr>
          </thead>
          <tbody>
            {open.map((s) => (
              <tr key={s.name}>
                <td>{s.name}</td>
                <td>
                  <Word tone={s.state === 'active' ? 'warn' : 'plain'}>{s.state}</Word>
                </td>
                <td className="whole" data-l="alerts:">
                  {matchWords(s.match)}
                </td>
                <td data-l="begins">
                  <Ago at={s.window?.start ?? s.start} />
                </td>
                <td data-l="ends">{s.window ? <Ago at={s.window.end} /> : ''}</td>
                <td data-l="every">{s.every ?? 'once'}</td>
                <td className="num" data-l="mutes now">
                  {s.silences}
                </td>
                <td data-l="by">{s.by.replace(/^user:/, '')}</td>
                <td className="whole">{s.why}</td>
                {operates && (
                  <td className="whole row-actions">
                    <button
                      type="button"
                      className="risky"
                      aria-label={`End ${s.name}`}
                      disabled={busy}
                      onClick={() => void end(s)}
                    >
                      End
                    </button>
                  </td>
                )}
              </tr>
            ))}
          </tbody>
        </table>
      </Scroll>
    </Panel>
  );
}

function NewSilence({ close }: { close: () => void }) {
  const [form, setForm] = useState<SilenceForm>(EMPTY);
  const [tried, setTried] = useState(false);
  const known = useQuery(projects());
  const all = useQuery(silences());
  const ask = useAsk();
  const { send, busy, error, clear } = useSend();
  const read = silenceBody(form);
  const own = 'problem' in read ? read.problem : null;
  // Empty fields are not marked before the first try.
  const at = (field: string) => problemAt(field, tried ? own : null, error);
  const set = (key: keyof SilenceForm) => (e: { target: { value: string } }) => {
    clear();
    setForm({ ...form, [key]: e.target.value });
  };
  const name = form.name.trim();
  const save = async () => {
    setTried(true);
    if (!('body' in read)) return;
    const { body } = read;
    const other = all.data?.items.find((s) => s.name === name && s.state !== 'over');
    const everything = isEverything(body.match);
    if (everything || other) {
      const yes = await ask({
        title: other ? `Replace ${name}` : 'Silence all alerts',
        text: (
          <>
            {other && <p>There is a silence of this name ({matchWords(other.match)}). It is replaced.</p>}
            {everything && <p>No alert of the whole site notifies anybody for {body.length}.</p>}
          </>
        ),
        act: other ? 'Replace' : 'Silence all',
        risky: true,
      });
      if (yes === null) return;
    }
    const done = await send(
      async () =>
        must(await api.PUT('/v1/silences/{name}', { params: { path: { name }, header: once() }, body })),
      `${name} is set for ${body.length}`,
    );
    if (done) close();
  };
  return (
    <Panel title="New silence" note={`times in ${wall(Date.now()).zone}`}>
      <form
        className="body fields"
        noValidate
        onSubmit={(e) => {
          e.preventDefault();
          if (!busy) void save();
        }}
      >
        <Field label="Name" problem={at('name')}>
          {(a) => (
            <input {...a} value={form.name} onChange={set('name')} maxLength={128} autoComplete="off" />
          )}
        </Field>
        <Field label="Why" problem={at('why')}>
          {(a) => <input {...a} value={form.why} onChange={set('why')} maxLength={1000} />}
        </Field>
        <fieldset className="group whole fields">
          <legend>Which alerts: all that is given must fit; * matches anything</legend>
          <Field label="Kind" hint="such as gpu-fault or thermal*" problem={at('match.kind')}>
            {(a) => <input {...a} value={form.kind} onChange={set('kind')} />}
          </Field>
          <Field label="Entity" hint="such as node:hgx-0001" problem={at('match.entity')}>
            {(a) => <input {...a} value={form.entity} onChange={set('entity')} />}
          </Field>
          <Field
            label="Under"
            hint="the thing and what is part of it, such as rack:r07"
            problem={at('match.under')}
          >
            {(a) => <input {...a} value={form.under} onChange={set('under')} />}
          </Field>
          <Field label="Urgency">
            {(a) => (
              <select {...a} value={form.urgency} onChange={set('urgency')}>
                <option value="">any</option>
                <option value="page">page</option>
                <option value="ticket">ticket</option>
              </select>
            )}
          </Field>
          <Field label="Owner" problem={at('match.owner')}>
            {(a) => <input {...a} value={form.owner} onChange={set('owner')} />}
          </Field>
          <Field label="Project" problem={at('match.project')}>
            {(a) => (
              <select {...a} value={form.project} onChange={set('project')}>
                <option value="">any</option>
                {known.data?.items.map((p) => (
                  <option key={p.name}>{p.name}</option>
                ))}
              </select>
            )}
          </Field>
        </fieldset>
        <fieldset className="choices whole">
          <legend>Length</legend>
          {OFFERED.map(([length, words]) => (
            <label key={length}>
              <input
                type="radio"
                name="length"
                value={length}
                checked={form.length === length}
                onChange={set('length')}
              />{' '}
              {words}
            </label>
          ))}
          <Field label="Or another length" problem={at('length')} hint="such as 45m, 6h or 1h30m">
            {(a) => <input {...a} value={form.length} onChange={set('length')} />}
          </Field>
        </fieldset>
        <Field label="Begins" hint="empty: now" problem={at('start')}>
          {(a) => <input {...a} type="datetime-local" value={form.start} onChange={set('start')} />}
        </Field>
        <Field label="Begins again after" hint="such as 24h; empty: once" problem={at('every')}>
          {(a) => <input {...a} value={form.every} onChange={set('every')} />}
        </Field>
        <FormError error={error} fields={FIELDS} />
        <div className="actions whole">
          <button type="submit" className="main" disabled={busy}>
            Silence
          </button>
          <button type="button" onClick={close}>
            Cancel
          </button>
        </div>
      </form>
    </Panel>
  );
}
