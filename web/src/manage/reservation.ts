// The form of a reservation or a maintenance window: what it stands for, and one that is there as the form.
// No React here.
import type { Schemas } from '../api/client';
import type { Stretch } from './calendar';
import { expandNames } from './names';
import { fieldMoment, momentField, spanMs, spanText } from './spans';

export type Reservation = Schemas['Reservation'];

export const LEVELS = ['region', 'cluster', 'spine', 'leaf', 'rack', 'nvlink'] as const;

export interface ReservationForm {
  name: string;
  maintenance: boolean;
  projects: string[];
  over: 'gpus' | 'nodes' | 'domain';
  gpus: string;
  sku: string;
  nodes: string;
  level: string;
  path: string;
  start: string;
  length: string;
  every: string;
  overrun: 'stop' | 'finish';
  lend: boolean;
  reason: string;
}

/** A new one over this stretch of time. */
export function newForm(of: Stretch, maintenance = false): ReservationForm {
  return {
    name: '',
    maintenance,
    projects: [],
    over: maintenance ? 'domain' : 'gpus',
    gpus: '8',
    sku: '',
    nodes: '',
    level: 'rack',
    path: '',
    start: momentField(of.start),
    length: spanText(of.end - of.start),
    every: '',
    overrun: 'stop',
    lend: false,
    reason: '',
  };
}

export function formOf(r: Reservation): ReservationForm {
  const empty = newForm({ start: Date.parse(r.start), end: Date.parse(r.start) }, r.maintenance);
  const over = r.over;
  return {
    ...empty,
    ...('gpus' in over && {
      over: 'gpus' as const,
      gpus: String(over.gpus.count),
      sku: over.gpus.sku ?? '',
    }),
    ...('nodes' in over && { over: 'nodes' as const, nodes: over.nodes.join(', ') }),
    ...('domain' in over && { over: 'domain' as const, level: over.domain.level, path: over.domain.path }),
    name: r.name,
    projects: r.projects,
    length: r.length,
    every: r.every ?? '',
    overrun: r.overrun,
    lend: r.lend,
    reason: r.reason,
  };
}

/** The form after its window was moved or resized on the calendar. Of one that recurs all windows move. */
export function moved(form: ReservationForm, from: Stretch, to: Stretch): ReservationForm {
  const start = fieldMoment(form.start);
  if (start === null) return form;
  return {
    ...form,
    start: momentField(start + to.start - from.start),
    length: spanText(to.end - to.start),
  };
}

/** The form with a window that was chosen for it; the rest of it stays. */
export function withWindow(form: ReservationForm, of: Stretch): ReservationForm {
  return { ...form, start: momentField(of.start), length: spanText(of.end - of.start) };
}

/** The window that the form stands for, while it can be read. */
export function stretchOf(form: ReservationForm): Stretch | null {
  const [start, length] = [fieldMoment(form.start), spanMs(form.length)];
  return start === null || length === null ? null : { start, end: start + length };
}

export interface Problem {
  field: string;
  text: string;
  /** Nothing is wrong: something is not filled yet. */
  missing?: boolean;
}

/** What the server would be asked for, or what keeps the form from asking. Field names are the server's. */
export function bodyOf(
  form: ReservationForm,
  was: Reservation | null,
): { body: Schemas['SetReservation'] } | { problem: Problem } {
  const no = (field: string, text: string) => ({ problem: { field, text } });
  const missing = (field: string, text: string) => ({ problem: { field, text, missing: true } });
  if (form.name.trim() === '') return missing('name', 'Give it a name.');
  if (!form.maintenance && form.projects.length === 0)
    return missing('projects', 'Choose whose work may run in it, or make it a maintenance window.');
  let over: Schemas['ReservationTarget'];
  if (form.over === 'gpus') {
    const count = Number(form.gpus);
    if (!Number.isInteger(count) || count < 1) return no('over', 'Write how many GPUs, at least 1.');
    over = { gpus: { count, sku: form.sku || null } };
  } else if (form.over === 'nodes') {
    const read = expandNames(form.nodes);
    if ('problem' in read) return no('over', read.problem);
    if (read.names.length === 0) return missing('over', 'Name at least one node.');
    over = { nodes: read.names };
  } else {
    if (form.path.trim() === '') return missing('over', `Name the ${form.level}.`);
    over = { domain: { level: form.level as Schemas['Level'], path: form.path.trim() } };
  }
  const start = fieldMoment(form.start);
  if (start === null) return missing('start', 'Choose when it begins.');
  if (!spanMs(form.length)) return no('length', 'Write how long it lasts, such as 90m, 4h or 1d12h.');
  if (form.every.trim() && !spanMs(form.every))
    return no('every', 'Write after how long it begins again, such as 24h, or nothing.');
  // Fields hold minutes: what was not touched keeps its seconds.
  const same = was && momentField(Date.parse(was.start)) === form.start;
  return {
    body: {
      over,
      start: same ? was.start : new Date(start).toISOString(),
      length: form.length.trim(),
      every: form.every.trim() || null,
      projects: form.maintenance ? [] : form.projects,
      overrun: form.overrun,
      lend: form.lend && !form.maintenance,
      reason: form.reason,
    },
  };
}
