import { useEffect, useRef } from 'react';
import { api, must, once } from '../api/client';
import { useSend } from '../ui/act';
import { useAsk } from '../ui/ask';
import { count, Panel } from '../ui/parts';
import { wall } from '../ui/zone';
import { type Checked, useChecked } from './checked';
import { isPassing } from './errors';
import { problemAt, SelectField, TextField } from './field';
import { FormPanel } from './form';
import { bodyOf, type Reservation, type ReservationForm } from './reservation';
import { Over, Projects } from './reservation-fields';
import { ReservationPlan, StoppedJobs } from './reservation-plan';

const FIELDS = ['name', 'projects', 'over', 'start', 'length', 'every', 'reason'] as const;

/** Makes a reservation or a maintenance window, or changes one. What it would do is asked before it is saved. */
export function ReservationEditor({
  form,
  was,
  change,
  close,
}: {
  form: ReservationForm;
  was: Reservation | null;
  change: (form: ReservationForm) => void;
  close: () => void;
}) {
  const ask = useAsk();
  const { send, busy, error, clear } = useSend();
  const top = useRef<HTMLDivElement>(null);
  // In braces: newer browsers return a promise here, which is no clean-up.
  useEffect(() => {
    top.current?.scrollIntoView({ block: 'nearest' });
  }, []);
  const read = bodyOf(form, was);
  const body = 'body' in read ? read.body : null;
  const own = 'problem' in read ? read.problem : null;
  const name = form.name.trim();
  const put = async (dry_run: boolean, signal?: AbortSignal) => {
    if (!body) throw new Error('the form is not filled yet');
    const seen = was ? { 'If-Match': String(was.version) } : {};
    return must(
      await api.PUT('/v1/reservations/{name}', {
        params: {
          path: { name },
          query: { dry_run, create: was === null },
          header: dry_run ? seen : { ...once(), ...seen },
        },
        body,
        signal,
      }),
    );
  };
  const asked = body && JSON.stringify([name, body, was?.version ?? null]);
  const checked = useChecked(asked, (signal) => put(true, signal));
  // biome-ignore lint/correctness/useExhaustiveDependencies: what was refused is not what is asked for now
  useEffect(() => clear(), [asked, clear]);
  const refusal = error ?? (checked?.state === 'refused' ? checked.error : null);
  // What is not filled yet is said beside the form: nobody has done anything wrong.
  const wrong = own?.missing ? null : own;
  const at = (field: (typeof FIELDS)[number]) => problemAt(field, wrong, refusal);
  const save = async () => {
    // Jobs come and go while a form is open: those that are named are those of now.
    const fresh = await send(() => put(true), '');
    if (!fresh) return;
    const stops = fresh.stops ?? [];
    if (stops.length > 0) {
      const yes = await ask({
        title: `Save ${name}`,
        text: (
          <>
            <p>{count(stops.length, 'job')} of others are stopped and queued again when it begins:</p>
            <StoppedJobs of={stops} />
          </>
        ),
        act: 'Save',
        risky: true,
      });
      if (yes === null) return;
    }
    const done = await send(() => put(false), was ? `${name} is changed` : `${name} is created`);
    if (done) close();
  };
  const kind = form.maintenance ? 'maintenance window' : 'reservation';
  /** What the input of a key needs. */
  const typed = (key: 'name' | 'start' | 'length' | 'every' | 'reason') => ({
    value: form[key],
    onChange: (e: { target: { value: string } }) => change({ ...form, [key]: e.target.value }),
    problem: at(key),
  });
  return (
    <div className="columns" ref={top}>
      <FormPanel
        title={was ? `Edit ${was.name}` : `New ${kind}`}
        note={`times in ${wall(Date.now()).zone}`}
        error={refusal}
        fields={FIELDS}
        word="Save"
        off={busy || checked?.state !== 'ok'}
        save={save}
        close={close}
      >
        <TextField
          label="Name"
          {...typed('name')}
          disabled={was !== null}
          maxLength={128}
          autoComplete="off"
        />
        <SelectField
          label="For"
          value={form.maintenance ? 'maintenance' : 'projects'}
          onChange={(e) => change({ ...form, maintenance: e.target.value === 'maintenance' })}
        >
          <option value="projects">projects</option>
          <option value="maintenance">maintenance: nobody's work</option>
        </SelectField>
        {!form.maintenance && <Projects form={form} change={change} problem={at('projects')} />}
        <Over form={form} change={change} problem={at('over')} />
        <TextField label="Begins" type="datetime-local" {...typed('start')} />
        <TextField label="Length" hint="such as 90m, 4h or 1d12h" {...typed('length')} />
        <TextField label="Begins again after" hint="such as 24h; empty: once" {...typed('every')} />
        <SelectField
          label="Work of others that still runs when it begins"
          value={form.overrun}
          onChange={(e) => change({ ...form, overrun: e.target.value === 'finish' ? 'finish' : 'stop' })}
        >
          <option value="stop">is stopped and queued again</option>
          <option value="finish">runs to its end</option>
        </SelectField>
        {!form.maintenance && (
          <label className="check whole">
            <input
              type="checkbox"
              checked={form.lend}
              onChange={(e) => change({ ...form, lend: e.target.checked })}
            />{' '}
            Spot work of others may use what stays idle in it
          </label>
        )}
        <TextField label="Reason" whole maxLength={1000} {...typed('reason')} />
      </FormPanel>
      <Panel title="Dry run" note="asked anew with every change; nothing is saved yet">
        <DryRun checked={checked} missing={own?.text ?? null} />
      </Panel>
    </div>
  );
}

function DryRun({ checked, missing }: { checked: Checked<Reservation> | null; missing: string | null }) {
  if (!checked) return <p className="state">{missing ?? 'Nothing to ask yet.'}</p>;
  if (checked.state === 'asking') return <p className="state">Asking…</p>;
  if (checked.state === 'refused' && isPassing(checked.error))
    return <p className="state">No answer yet: the server is asked again.</p>;
  if (checked.state === 'refused')
    return <p className="state">It would be refused: the form shows what is wrong.</p>;
  return <ReservationPlan of={checked.answer} />;
}
