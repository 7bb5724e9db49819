// One zone for every time on every page: the browser's, or UTC by choice. The top of the page names it.
import { useSyncExternalStore } from 'react';

const KEY = 'muster.zone';
const listeners = new Set<() => void>();

function stored(): boolean {
  try {
    return localStorage.getItem(KEY) === 'utc';
  } catch {
    return false;
  }
}

let utc = stored();

/** The zone that times are shown in; undefined is the browser's. */
export function timeZone(): string | undefined {
  return utc ? 'UTC' : undefined;
}

export function chooseUtc(yes: boolean) {
  utc = yes;
  try {
    localStorage.setItem(KEY, yes ? 'utc' : 'browser');
  } catch {
    // It holds for this page only.
  }
  for (const l of listeners) l();
}

function subscribe(listener: () => void) {
  listeners.add(listener);
  return () => {
    listeners.delete(listener);
  };
}

/** Are times shown in UTC by choice? */
export function useUtc(): boolean {
  const chosen = () => utc;
  return useSyncExternalStore(subscribe, chosen, chosen);
}

const formats = new Map<string, Intl.DateTimeFormat>();

function format(zone: string | undefined): Intl.DateTimeFormat {
  const key = zone ?? '';
  let known = formats.get(key);
  if (!known) {
    known = new Intl.DateTimeFormat('en', {
      year: 'numeric',
      month: '2-digit',
      day: '2-digit',
      hour: '2-digit',
      minute: '2-digit',
      second: '2-digit',
      hourCycle: 'h23',
      timeZoneName: 'shortOffset',
      timeZone: zone,
    });
    formats.set(key, known);
  }
  return known;
}

/** A moment as clocks of the zone show it. */
export interface Wall {
  /** `2026-11-16` */
  date: string;
  /** `15:42:45` */
  time: string;
  /** `UTC-8` */
  zone: string;
}

/** `GMT-8` is `UTC-8`. Engines differ in how they name no offset at all. */
export function named(offset: string): string {
  return offset.replace('GMT', 'UTC').replace(/^UTC[+-]0+(:00)?$/, 'UTC');
}

export function wall(at: string | number, zone: string | undefined = timeZone()): Wall {
  const moment = new Date(at);
  if (Number.isNaN(moment.getTime())) return { date: 'not a date', time: '', zone: '' };
  const parts = format(zone).formatToParts(moment);
  const of = (type: string) => parts.find((p) => p.type === type)?.value ?? '';
  return {
    date: `${of('year')}-${of('month')}-${of('day')}`,
    time: `${of('hour')}:${of('minute')}:${of('second')}`,
    zone: named(of('timeZoneName')),
  };
}

const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];

/** `16 Nov`; with the year `16 Nov 2026`. */
export function dayWord(at: string | number, year = false, zone: string | undefined = timeZone()): string {
  const [y, m, d] = wall(at, zone).date.split('-');
  return `${Number(d)} ${MONTHS[Number(m) - 1] ?? '?'}${year ? ` ${y}` : ''}`;
}

/** `16 Nov 15:42`, with the year `16 Nov 2026 15:42`: without the zone, which the page names. */
export function momentWord(at: string | number, zone: string | undefined = timeZone(), year = false): string {
  return `${dayWord(at, year, zone)} ${wall(at, zone).time.slice(0, 5)}`;
}

/** When the day of a moment began, in milliseconds. */
export function dayBegins(at: number, zone: string | undefined = timeZone()): number {
  const { date } = wall(at, zone);
  const midnight = Date.parse(`${date}T00:00:00Z`);
  const back = (from: number) => {
    const w = wall(from, zone);
    return from - (Date.parse(`${w.date}T${w.time}Z`) - midnight);
  };
  // Twice: on a day on which the clocks are changed, the first comes out beside it.
  return back(back(Math.floor(at / 1000) * 1000));
}

/** The moment at which clocks of the zone show this date and time; null where no calendar has the date. */
export function atWall(date: string, time: string, zone: string | undefined = timeZone()): number | null {
  const wanted = Date.parse(`${date}T${time}Z`);
  if (Number.isNaN(wanted)) return null;
  const ahead = (at: number) => {
    const w = wall(at, zone);
    return Date.parse(`${w.date}T${w.time}Z`) - at;
  };
  // Twice, as above: the offset is that of the moment, not that of its neighbour.
  const at = wanted - ahead(wanted - ahead(wanted));
  return wall(at, zone).date === date ? at : null;
}

/** Midnights of the zone within a stretch of time: of every day, or of every so many days where there are more than `most`. */
export function midnights(
  from: number,
  to: number,
  most = 8,
  zone: string | undefined = timeZone(),
): number[] {
  const out: number[] = [];
  // From one midnight, 36 hours lead into the next day, also where the clocks are changed.
  for (let m = dayBegins(from, zone); m <= to; m = dayBegins(m + 36 * 3_600_000, zone))
    if (m >= from) out.push(m);
  const step = Math.max(1, Math.ceil(out.length / most));
  return out.filter((_, i) => i % step === 0);
}
