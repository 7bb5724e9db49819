// Which events are shown, and the same as a file. No React here.
import type { Schemas } from '../api/client';
import { csvText } from '../csv';
import { about } from '../pages/event-words';
import { timeZone, wall } from '../ui/zone';

export type LogEvent = Schemas['LogEvent'];

/** What the address of the page says. */
export interface EventSearch {
  find?: string;
  from?: string;
  to?: string;
  kind?: string;
  actor?: string;
  object?: string;
}

/** The same as the server takes it. */
export function eventQuery({ find, ...rest }: EventSearch) {
  return { ...rest, text: find };
}

/** Is anything chosen? */
export function isChosen(s: EventSearch): boolean {
  return Object.values(s).some(Boolean);
}

/** The query string of a stream of these events. */
export function streamQuery(s: EventSearch): string {
  const given = Object.entries(eventQuery(s)).filter((e): e is [string, string] => Boolean(e[1]));
  const text = new URLSearchParams(given).toString();
  return text ? `?${text}` : '';
}

/** Fields as they are typed, without those that are empty. */
export function cleaned(draft: EventSearch): EventSearch {
  const given = Object.entries(draft).map(([k, v]) => [k, typeof v === 'string' ? v.trim() : '']);
  return Object.fromEntries(given.filter(([, v]) => v !== ''));
}

/** Each event once, newest first: those that came since, then those of the pages. */
export function together(fresh: readonly LogEvent[], pages: readonly LogEvent[]): LogEvent[] {
  const all = new Map<string, LogEvent>();
  for (const e of fresh) all.set(e.cursor, e);
  for (const e of pages) all.set(e.cursor, e);
  return [...all.values()];
}

/** A moment as a field for date and time holds it, in the zone that the page shows. */
export function toField(at: string | undefined): string {
  if (!at || Number.isNaN(Date.parse(at))) return '';
  const { date, time } = wall(at);
  return `${date}T${time.slice(0, 5)}`;
}

/** What such a field holds as a moment. */
export function fromField(text: string): string | undefined {
  const at = new Date(timeZone() === 'UTC' ? `${text}Z` : text);
  return Number.isNaN(at.getTime()) ? undefined : at.toISOString();
}

const HEAD = ['at', 'event', 'job', 'node', 'about', 'actor', 'project', 'details'];

/** The events as a table for spreadsheets. */
export function csv(events: readonly LogEvent[]): string {
  const rows = events.map((e) => {
    const a = about(e);
    const details = JSON.stringify(e.data ?? {});
    return [e.at, e.kind, a.job ?? '', a.node ?? '', a.text, e.actor, e.project ?? '', details];
  });
  return csvText([HEAD, ...rows]);
}
