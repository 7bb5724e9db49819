// Moments as people type them and as pages say them. No React here.
import { age, exact } from '../ui/parts';
import { atWall, dayWord, timeZone, wall } from '../ui/zone';

/** Clocks differ a little: what is so close to now is now. */
const NEAR = 60_000;

/** Has this moment not come yet? `now`: by the server's clock, where that is known. */
export function ahead(at: string, now: number): boolean {
  return Date.parse(at) > Math.max(now, Date.now()) + NEAR;
}

/** Is this no moment at all? */
export function senseless(at: string | undefined): at is string {
  return at !== undefined && Number.isNaN(Date.parse(at));
}

/** The moment in words: never `now` when nothing comes, nor `ago` when it is ahead. */
export function momentWords(wanted: number, now: number): string {
  const { date, time } = wall(wanted);
  const day = date === wall(now).date ? '' : `${dayWord(wanted, true)} `;
  const far = wanted > now + NEAR ? `in ${age(wanted - now)}` : `${age(now - wanted)} ago`;
  return `${day}${time}, ${far}`;
}

export type Typed =
  | { kind: 'at'; at: number }
  /** The live map. */
  | { kind: 'live' }
  | { kind: 'bad'; why: string };

const UNITS: Record<string, number> = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 };
/** `20 min ago`. Units are written out, so that `5 may`, `31 dec` and `2 months ago` are none. */
const BACK =
  /^-?\s*(\d+(?:\.\d+)?)\s*(?:(s)(?:ec(?:ond)?s?)?|(m)(?:in(?:ute)?s?)?|(h)(?:(?:ou)?rs?)?|(d)(?:ays?)?|(w)(?:eeks?)?)(?:\s+ago)?$/;
const MONTHS = ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec'];
export const HOW = 'write 03:12, 2030-01-31 03:12, 31 Jan 03:12 or 20 min ago';

const two = (n: string | number) => String(n).padStart(2, '0');

/** `3:12` as `03:12:00`; null where no clock shows it. */
function clock(text: string | undefined): string | null {
  if (text === undefined) return '00:00:00';
  const [h, m, s = '00'] = text.split(':');
  return Number(h) < 24 && Number(m) < 60 && Number(s) < 60 ? `${two(h)}:${m}:${s}` : null;
}

/** The moment that is meant, before anybody asks whether it can be shown; null where it is none. */
function meant(text: string, base: number, now: number, zone: string | undefined): number | null {
  const back = BACK.exec(text);
  if (back) return now - Number(back[1]) * UNITS[back.slice(2).find(Boolean) ?? ''];
  const zoned = /^\d{4}-\d\d-\d\d[t ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?\s*(?:z|utc|[+-]\d\d:?\d\d)$/.test(text);
  if (zoned) {
    const iso = text
      .toUpperCase()
      .replace(' UTC', 'Z')
      .replace('UTC', 'Z')
      .replace(' ', 'T')
      .replace(' ', '');
    const at = Date.parse(iso);
    return Number.isNaN(at) ? null : at;
  }
  const dated = /^(\d{4}-\d\d-\d\d)(?:[t ]+(\d{1,2}:\d\d(?::\d\d)?))?$/.exec(text);
  const named = /^(\d{1,2})\.? ([a-z]{3})[a-z]*\.?(?: (\d{4}))?(?:,? (\d{1,2}:\d\d(?::\d\d)?))?$/.exec(text);
  const timed = /^(\d{1,2}:\d\d(?::\d\d)?)$/.exec(text);
  const time = clock(dated?.[2] ?? named?.[4] ?? timed?.[1]);
  if (time === null) return null;
  if (dated) return atWall(dated[1], time, zone);
  const today = wall(base, zone).date;
  if (named) {
    const month = MONTHS.indexOf(named[2]) + 1;
    if (month === 0) return null;
    const on = (year: number) => atWall(`${year}-${two(month)}-${two(named[1])}`, time, zone);
    if (named[3]) return on(Number(named[3]));
    const year = Number(today.slice(0, 4));
    const at = on(year);
    // In January, 31 Dec is that of the year before.
    return at !== null && at > now + NEAR ? on(year - 1) : at;
  }
  if (!timed) return null;
  const at = atWall(today, time, zone);
  // At one in the morning, 23:00 is that of yesterday.
  return at !== null && at > now + NEAR ? atWall(wall(at - 86_400_000, zone).date, time, zone) : at;
}

/**
 * What somebody typed. A time without a date is of the day that is shown. `begin`: the oldest moment that the log has,
 * where that is known.
 */
export function typedMoment(
  text: string,
  { now, base = now, begin }: { now: number; base?: number; begin?: number | null },
  zone: string | undefined = timeZone(),
): Typed {
  const words = text.trim().toLowerCase();
  if (words === 'now' || words === 'live') return { kind: 'live' };
  const at = words === '' ? null : meant(words, base, now, zone);
  if (at === null) return { kind: 'bad', why: `“${text.trim()}” is no time: ${HOW}.` };
  if (at > now + NEAR) return { kind: 'bad', why: `${exact(at, zone)} has not come yet.` };
  if (begin !== undefined && begin !== null && at < begin)
    return { kind: 'bad', why: `${exact(at, zone)} is before the log begins, at ${exact(begin, zone)}.` };
  return { kind: 'at', at };
}
