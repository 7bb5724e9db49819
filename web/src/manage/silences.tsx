import { useQuery } from '@tanstack/react-query';
import { api, must, once, type Schemas } from '../api/client';
import { silences } from '../queries';
import { useRights } from '../rights';
import { useAsk } from '../ui/ask';
import { useAsked } from '../ui/asked';
import { Ago, count, Empty, Loaded, Panel, Word } from '../ui/parts';
import { num, Table, unseen } from '../ui/table';
import { wall } from '../ui/zone';
import { TextField } from './field';
import { FormPanel, useForm } from './form';
import { ListPage, RowButton } from './frames';
import { MatcherFields } from './matcher-fields';
import { EMPTY, isEverything, matchWords, OFFERED, silenceBody } from './silence';

type Silence = Schemas['Silence'];

// Not `match` itself: what is said of the whole matcher has no field of its own.
const FIELDS = [
  'name',
  'match.topic',
  'match.kind',
  'match.entity',
  'match.under',
  'match.urgency',
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
  const { operates } = useRights();
  return (
    <ListPage
      title="Silences"
      about={
        <span className="dim">
          Silenced alerts are still shown. What lasts longer than the silence notifies when it ends.
        </span>
      }
      may={operates}
      word="New silence"
      form={(close) => <NewSilence close={close} />}
    >
      <Loaded query={query}>{(page) => <All items={page.items} />}</Loaded>
    </ListPage>
  );
}

function All({ items }: { items: Silence[] }) {
  const { operates } = useRights();
  const { asked, busy } = useAsked();
  const open = items.filter((s) => s.state !== 'over');
  const end = (s: Silence) =>
    asked(
      {
        title: `End ${s.name}`,
        text:
          s.silences > 0
            ? `${count(s.silences, 'open alert')} that it mutes now notify at once.`
            : 'It mutes no open alert now.',
        act: 'End the silence',
        risky: s.silences > 0,
      },
      () => api.DELETE('/v1/silences/{name}', { params: { path: { name: s.name }, header: once() } }),
      `${s.name} is over`,
    );
  if (open.length === 0)
    return (
      <div className="panel">
        <Empty title="No silence is active or scheduled" />
      </div>
    );
  return (
    <Panel title="Active and scheduled">
      <Table
        label="Silences"
        cards
        heads={[
          'Name',
          'State',
          'Alerts',
          'Begins',
          'Ends',
          'Every',
          num('Mutes now'),
          'By',
          'Why',
          operates && unseen('Actions'),
        ]}
      >
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
                <RowButton
                  word="End"
                  of={s.name}
                  className="risky"
                  disabled={busy}
                  onClick={() => void end(s)}
                />
              </td>
            )}
          </tr>
        ))}
      </Table>
    </Panel>
  );
}

function NewSilence({ close }: { close: () => void }) {
  const { form, typed, filled, send, busy, error } = useForm(EMPTY, silenceBody);
  const all = useQuery(silences());
  const ask = useAsk();
  const name = form.name.trim();
  const save = async () => {
    const body = filled();
    if (!body) return;
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
  const length = typed('length');
  return (
    <FormPanel
      title="New silence"
      note={`times in ${wall(Date.now()).zone}`}
      noValidate
      error={error}
      fields={FIELDS}
      word="Silence"
      off={busy}
      save={save}
      close={close}
    >
      <TextField label="Name" {...typed('name')} maxLength={128} autoComplete="off" />
      <TextField label="Why" {...typed('why')} maxLength={1000} />
      <MatcherFields typed={(key) => typed(key, `match.${key}`)} />
      <fieldset className="choices whole">
        <legend>Length</legend>
        {OFFERED.map(([value, words]) => (
          <label key={value}>
            <input
              type="radio"
              name="length"
              value={value}
              checked={form.length === value}
              onChange={length.onChange}
            />{' '}
            {words}
          </label>
        ))}
        <TextField label="Or another length" hint="such as 45m, 6h or 1h30m" {...length} />
      </fieldset>
      <TextField label="Begins" hint="empty: now" type="datetime-local" {...typed('start')} />
      <TextField label="Begins again after" hint="such as 24h; empty: once" {...typed('every')} />
    </FormPanel>
  );
}
