import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { api, once } from '../api/client';
import { reservations } from '../queries';
import { useRights } from '../rights';
import { useAsk } from '../ui/ask';
import { useAsked } from '../ui/asked';
import { Page } from '../ui/page';
import { Ago, count, DateAndTime, Empty, Loaded, Panel, State } from '../ui/parts';
import { Table, unseen } from '../ui/table';
import { dayBegins } from '../ui/zone';
import { DAY, HOUR, type Stretch, snap } from './calendar';
import { Calendar, CalendarPanel, type Line } from './calendar-view';
import { RowButton } from './frames';
import { formOf, moved, newForm, type Reservation, type ReservationForm, withWindow } from './reservation';
import { ReservationEditor } from './reservation-form';
import { some } from './reservation-plan';
import { fieldMoment } from './spans';

interface Draft {
  form: ReservationForm;
  /** The one that is changed; null for a new one. */
  was: Reservation | null;
  /** The form before anything was changed in it. */
  began: ReservationForm;
}

const fresh = (form: ReservationForm): Draft => ({ form, was: null, began: form });

const ofOne = (was: Reservation, form = formOf(was)): Draft => ({ form, was, began: formOf(was) });

/** A line for each reservation. That of the draft stands as the form has it. */
function linesOf(items: Reservation[], draft: Draft | null): Line[] {
  const at = draft && fieldMoment(draft.form.start);
  const line = (r: Reservation): Line => ({ ...r, id: r.name });
  if (!draft || at === null) return items.map(line);
  const { name, maintenance, length, every } = draft.form;
  const own = {
    name,
    maintenance,
    length,
    every: every || null,
    start: new Date(at).toISOString(),
    draft: true,
  };
  const was = draft.was?.name;
  // A name has no spaces: the new one stands for itself.
  if (was === undefined) return [{ ...own, id: ' new' }, ...items.map(line)];
  return items.map((r) => (r.name === was ? { ...own, id: was } : line(r)));
}

export function ReservationsPage() {
  const query = useQuery(reservations());
  const { project, operates } = useRights();
  const [draft, setDraft] = useState<Draft | null>(null);
  const [opened, setOpened] = useState(0);
  const [{ from, days }, setSeen] = useState({ from: dayBegins(Date.now()), days: 14 });
  const look = (at: number | null, n: number) =>
    setSeen({ from: dayBegins(at === null ? Date.now() : at + DAY / 2), days: n });
  const ask = useAsk();
  const start = async (next: Draft) => {
    if (draft && JSON.stringify(draft.form) !== JSON.stringify(draft.began)) {
      const yes = await ask({
        title: 'Discard what is not saved',
        text: `What is typed for ${draft.was?.name ?? 'the new one'} is not saved, and is lost.`,
        act: 'Discard',
        risky: true,
      });
      if (yes === null) return;
    }
    setOpened((n) => n + 1);
    setDraft(next);
  };
  const soon = (): Stretch => {
    const at = snap(Date.now() + 2 * HOUR, HOUR);
    return { start: at, end: at + 4 * HOUR };
  };
  const edit = (items: Reservation[]) => ({
    choose: (of: Stretch) => {
      if (draft?.was === null) setDraft({ ...draft, form: withWindow(draft.form, of) });
      else void start(fresh(newForm(of, draft?.form.maintenance)));
    },
    move: (line: Line, a: Stretch, b: Stretch) => {
      if (line.draft && draft) return setDraft({ ...draft, form: moved(draft.form, a, b) });
      const was = items.find((r) => r.name === line.name);
      if (was) void start(ofOne(was, moved(formOf(was), a, b)));
    },
    open: (line: Line) => {
      const was = items.find((r) => r.name === line.name);
      if (was && !line.draft) void start(ofOne(was));
    },
  });
  return (
    <Page
      title="Reservations and maintenance windows"
      actions={
        operates && (
          <>
            {/* While a form is open, saving it is what is to be done. */}
            <button
              type="button"
              className={draft ? undefined : 'main'}
              onClick={() => void start(fresh(newForm(soon())))}
            >
              New reservation
            </button>
            <button type="button" onClick={() => void start(fresh(newForm(soon(), true)))}>
              New maintenance window
            </button>
          </>
        )
      }
    >
      <Loaded query={query}>
        {(page) => (
          <>
            {(operates || page.items.length > 0) && (
              <CalendarPanel from={from} days={days} look={look}>
                {(seen) => (
                  <Calendar
                    lines={linesOf(page.items, draft)}
                    seen={seen}
                    edit={operates ? edit(page.items) : undefined}
                  />
                )}
              </CalendarPanel>
            )}
            {draft && operates && (
              <ReservationEditor
                key={opened}
                form={draft.form}
                was={draft.was}
                change={(form) => setDraft({ ...draft, form })}
                close={() => setDraft(null)}
              />
            )}
            {page.items.length === 0 ? (
              <div className="panel">
                <Empty title={project ? `Nothing is reserved for ${project}` : 'Nothing is reserved'}>
                  <p>
                    A reservation keeps nodes for projects at a time; a maintenance window keeps them empty:{' '}
                    <code>
                      muster reservation create NAME --gpus 64 --project PROJECT --start +2h --length 4h
                    </code>
                    .
                  </p>
                </Empty>
              </div>
            ) : (
              <All items={page.items} edit={(r) => void start(ofOne(r))} />
            )}
          </>
        )}
      </Loaded>
    </Page>
  );
}

function All({ items, edit }: { items: Reservation[]; edit: (r: Reservation) => void }) {
  const { operates } = useRights();
  const { asked, busy } = useAsked();
  const remove = (r: Reservation) => {
    const nodes = count(r.nodes.length, 'node');
    const words = r.maintenance
      ? `Work is placed on ${nodes} again.`
      : `Nothing of ${nodes} is reserved for ${r.projects.join(', ')} any longer. Jobs that run there continue.`;
    const text = (
      <>
        <p>{words}</p>
        <p className="dim">{some(r.nodes)}</p>
      </>
    );
    const header = { ...once(), 'If-Match': String(r.version) };
    return asked(
      { title: `Delete ${r.name}`, text, act: 'Delete', risky: true },
      () => api.DELETE('/v1/reservations/{name}', { params: { path: { name: r.name }, header } }),
      `${r.name} is deleted`,
    );
  };
  return (
    <Panel title="All">
      <Table
        label="Reservations"
        cards
        heads={[
          'Name',
          'State',
          'Begins',
          'Length',
          'Every',
          'Projects',
          'Nodes',
          'Reason',
          operates && unseen('Actions'),
        ]}
      >
        {items.map((r) => (
          <tr key={r.name}>
            <td>{r.name}</td>
            <td>
              <State word={r.state} />
            </td>
            <td className="nowrap" data-l="begins">
              <DateAndTime at={r.window?.start ?? r.start} />{' '}
              <span className="dim">
                (<Ago at={r.window?.start ?? r.start} />)
              </span>
            </td>
            <td data-l="length">{String(r.length)}</td>
            <td data-l="every">{r.every ? String(r.every) : 'once'}</td>
            <td data-l="projects">
              {r.maintenance ? <span className="dim">none: maintenance</span> : r.projects.join(', ')}
            </td>
            <td className="dim whole" data-l="nodes">
              {some(r.nodes, 4)}
            </td>
            <td className="whole">{r.reason}</td>
            {operates && (
              <td className="whole row-actions">
                <RowButton word="Edit" of={r.name} onClick={() => edit(r)} />
                <RowButton
                  word="Delete"
                  of={r.name}
                  className="risky"
                  disabled={busy}
                  onClick={() => void remove(r)}
                />
              </td>
            )}
          </tr>
        ))}
      </Table>
    </Panel>
  );
}
