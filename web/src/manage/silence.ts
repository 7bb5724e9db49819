// The form of a silence: what it stands for, and which alerts it is about. No React here.
import type { Schemas } from '../api/client';
import { fieldMoment, spanMs } from './spans';

export type Matcher = Schemas['Matcher'];
type Topic = Schemas['Topic'];

/** What an alert can be concluded from, in words. */
export const TOPICS: Record<Topic, string> = {
  finding: 'a finding about hardware or a job',
  incident: 'an incident',
  objective: 'an SLO',
  capacity: 'capacity',
  budget: 'a budget or a quota',
  certificate: 'a certificate that expires',
  drift: 'a version or setting that differs',
  automation: 'automation that stopped or needs an approval',
  control_plane: 'the control plane itself',
};

export interface SilenceForm {
  name: string;
  topic: '' | Topic;
  kind: string;
  entity: string;
  under: string;
  urgency: '' | 'page' | 'ticket';
  owner: string;
  project: string;
  length: string;
  /** Empty: now. */
  start: string;
  every: string;
  why: string;
}

export const EMPTY: SilenceForm = {
  name: '',
  topic: '',
  kind: '',
  entity: '',
  under: '',
  urgency: '',
  owner: '',
  project: '',
  length: '2h',
  start: '',
  every: '',
  why: '',
};

/** Lengths that are offered; any other can be typed. */
export const OFFERED: [string, string][] = [
  ['30m', '30 minutes'],
  ['2h', '2 hours'],
  ['8h', '8 hours'],
  ['1d', '1 day'],
];

/** `kind gpu-*, under rack:r7`, or that it is all of them. */
export function matchWords(match: Partial<Matcher>, all = 'all'): string {
  const words = Object.entries(match).filter(([, v]) => v);
  const said = ([k, v]: [string, unknown]) =>
    k === 'topic' ? `${k} ${String(v)} (${TOPICS[v as Topic] ?? v})` : `${k} ${String(v)}`;
  return words.map(said).join(', ') || all;
}

/** Does every alert fit? Stars alone fit anything. */
export function isEverything(match: Partial<Matcher>): boolean {
  return Object.values(match).every((v) => !v || /^\*+$/.test(v));
}

/** What the server would be asked for, or what keeps the form from asking. Field names are the server's. */
export function silenceBody(
  form: SilenceForm,
): { body: Schemas['SetSilence'] } | { problem: { field: string; text: string } } {
  const no = (field: string, text: string) => ({ problem: { field, text } });
  const text = (v: string) => v.trim() || null;
  if (!text(form.name)) return no('name', 'Give it a name.');
  if (!spanMs(form.length)) return no('length', 'Write how long it lasts, such as 45m, 6h or 1h30m.');
  if (text(form.every) && !spanMs(form.every))
    return no('every', 'Write after how long it begins again, such as 24h, or nothing.');
  const start = form.start === '' ? null : fieldMoment(form.start);
  if (form.start !== '' && start === null) return no('start', 'Choose when it begins, or leave it empty.');
  if (!text(form.why)) return no('why', 'Write why, for those who wonder about the silence.');
  const match = {
    kind: text(form.kind),
    entity: text(form.entity),
    under: text(form.under),
    urgency: form.urgency || null,
    owner: text(form.owner),
    project: text(form.project),
    topic: form.topic || null,
  };
  return {
    body: {
      // The server takes a silence of everything only where it is written.
      match: isEverything(match) ? { ...match, kind: '*' } : match,
      length: form.length.trim(),
      start: start === null ? null : new Date(start).toISOString(),
      every: text(form.every),
      why: form.why.trim(),
    },
  };
}
