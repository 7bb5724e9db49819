import type { UseQueryResult } from '@tanstack/react-query';
import { type ReactNode, useEffect, useState } from 'react';
import { ApiError, type Schemas } from '../api/client';
import { standing } from '../words';
import { Skeleton } from './skeleton';
import { momentWord, timeZone, wall } from './zone';

/** What went wrong, and what to do about it. What a token may not see or do is no failure. */
export function Problem({ error, again }: { error: unknown; again?: () => void }) {
  const e = error as Error;
  const hint = e instanceof ApiError ? e.hint : null;
  if (e instanceof ApiError && e.status === 403)
    return (
      <p className="state" role="status">
        Not for this token: {e.message}
        {hint && ` (${hint})`}
      </p>
    );
  return (
    <div className="error" role="alert">
      {e.message} {hint && <span>({hint})</span>}{' '}
      {again && (
        <button type="button" onClick={again}>
          Try again
        </button>
      )}
    </div>
  );
}

/** The data of a query, or why there is none. What is known stays while it is read again. */
export function Loaded<T>({
  query,
  children,
}: {
  query: UseQueryResult<T>;
  children: (data: T) => ReactNode;
}) {
  if (query.data !== undefined) return <>{children(query.data)}</>;
  if (query.isError) return <Problem error={query.error} again={() => void query.refetch()} />;
  // Nobody should wait for a server that is away.
  const failed = query.failureReason?.message;
  if (!failed) return <Skeleton />;
  return (
    <p className="state" role="status">
      Nothing read yet: {failed}. It is tried again.
    </p>
  );
}

/** Nothing to show, and what would make something appear. */
export function Empty({ title, children }: { title: string; children?: ReactNode }) {
  return (
    <div className="state">
      <h2>{title}</h2>
      {children}
    </div>
  );
}

/** Says once what a token that is bound to a project is not shown, so that nobody takes it for absent. */
export function NotShown({ project, what }: { project: string | null; what: string }) {
  return (
    <p className="state" role="note">
      Not shown to this token, which is bound to project {project}: {what}.
    </p>
  );
}

/** `primary`: what the page is about, one on a page. `quiet`: what is only looked up. */
export type Weight = 'primary' | 'plain' | 'quiet';

export function Panel({
  title,
  note,
  actions,
  weight = 'plain',
  children,
}: {
  title: ReactNode;
  note?: ReactNode;
  actions?: ReactNode;
  weight?: Weight;
  children: ReactNode;
}) {
  return (
    <section className={weight === 'plain' ? 'panel' : `panel ${weight}`}>
      <header>
        <h2>{title}</h2>
        <span className="grow cut">{note}</span>
        {actions}
      </header>
      {children}
    </section>
  );
}

/** One line of a list of facts. */
export function Fact({ word, title, children }: { word: string; title?: string; children: ReactNode }) {
  return (
    <>
      <dt title={title}>{word}</dt>
      <dd>{children}</dd>
    </>
  );
}

export type Tone = 'ok' | 'run' | 'warn' | 'bad' | 'worst' | 'note' | 'plain';

export function Word({ tone, title, children }: { tone: Tone; title?: string; children: ReactNode }) {
  return (
    <span className={`word ${tone}`} title={title}>
      {children}
    </span>
  );
}

const TONES: Record<string, Tone> = {
  ready: 'ok',
  running: 'run',
  succeeded: 'ok',
  starting: 'run',
  stopping: 'warn',
  queued: 'plain',
  failed: 'bad',
  cancelled: 'plain',
  maintenance: 'warn',
  cordoned: 'warn',
  draining: 'warn',
  drained: 'warn',
  protected: 'warn',
  enrolled: 'note',
  qualifying: 'note',
  repairing: 'note',
  suspect: 'bad',
  quarantined: 'bad',
  excluded: 'bad',
  lost: 'worst',
  missing: 'worst',
  critical: 'worst',
  degraded: 'bad',
  warning: 'warn',
  info: 'plain',
  open: 'bad',
  half_open: 'warn',
  closed: 'ok',
  passed: 'ok',
};

export function State({ word }: { word: string }) {
  return <Word tone={TONES[word] ?? 'plain'}>{word.replaceAll('_', ' ')}</Word>;
}

/** A node's state: no plain `ready` where new work stays away; why, when pointed at. */
export function NodeState({ of: n }: { of: Pick<Schemas['Node'], 'state' | 'avoided' | 'no_new_work'> }) {
  const { word, why } = standing(n);
  if (why === undefined) return <State word={word} />;
  return (
    <Word tone="warn" title={why}>
      {word}
    </Word>
  );
}

/** How long something took: 90 s, 12 min, 3 h, 5 d, rounded. */
export function span(ms: number): string {
  const s = Math.max(0, ms) / 1000;
  if (s < 1) return `${Math.round(s * 1000)} ms`;
  if (s < 100) return `${Math.round(s)} s`;
  if (s < 100 * 60) return `${Math.round(s / 60)} min`;
  if (s < 48 * 3600) return `${Math.round(s / 3600)} h`;
  return `${Math.round(s / 86400)} d`;
}

/** How old something is: the same words as a length of time has, without parts of a second. */
export function age(ms: number): string {
  return span(Math.floor(Math.max(0, ms) / 1000) * 1000).replace(/^0 ms$/, '0 s');
}

/** A length of time as the API writes it, such as `14d16h22m29s790ms`, as far as people read it. */
export function brief(length: string): string {
  return (
    length
      .match(/\d+(?:ms|[wdhms])/g)
      ?.slice(0, 2)
      .join(' ') ?? length
  );
}

/** A moment with its date, second and time zone: `2026-11-16 15:42:45 UTC-8`. */
export function exact(at: string | number, zone?: string): string {
  const w = wall(at, zone);
  return `${w.date} ${w.time} ${w.zone}`;
}

/** Renders again every so many milliseconds. */
function useTicks(ms: number) {
  const [, tick] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => tick((n) => n + 1), ms);
    return () => clearInterval(timer);
  }, [ms]);
}

/** How often the distance to a moment is shown anew: while it is in seconds, as often as those that count. */
export function ticksOf(at: string | null | undefined, now = Date.now()): number {
  return at && Math.abs(now - Date.parse(at)) < 110_000 ? 1000 : 10_000;
}

/** How long something goes on, counted on while it is looked at. */
export function Since({ at }: { at: string }) {
  useTicks(1000);
  return <>{age(Date.now() - Date.parse(at))}</>;
}

/** How far a moment is from now, from its age. */
export function when(ms: number): string {
  if (ms < -1000) return `in ${age(-ms)}`;
  return ms < 5000 ? 'now' : `${age(ms)} ago`;
}

/** A moment as its distance from now; the exact time when pointed at. */
export function Ago({ at }: { at: string | null | undefined }) {
  useTicks(ticksOf(at));
  if (!at) return <span className="dim">never</span>;
  const ms = Date.now() - Date.parse(at);
  const text = when(ms);
  return (
    <time dateTime={at} title={exact(at)}>
      {text}
    </time>
  );
}

/** How long something has been so: `for 14 min`; the exact moment at which it began when pointed at. */
export function For({ at }: { at: string }) {
  useTicks(ticksOf(at));
  return (
    <time dateTime={at} title={exact(at)}>
      for {age(Date.now() - Date.parse(at))}
    </time>
  );
}

/** The time of day; the date when it is another day. */
export function Clock({ at }: { at: string }) {
  const { date, time } = wall(at);
  return (
    <time dateTime={at} title={exact(at)}>
      {date === wall(Date.now()).date ? time : momentWord(at)}
    </time>
  );
}

/** A moment for plans: its date and its minute, whichever day it is. */
export function DateAndTime({ at }: { at: string }) {
  return (
    <time dateTime={at} title={exact(at)}>
      {momentWord(at, timeZone(), true)}
    </time>
  );
}

/** A size as the API writes it, such as `2TiB`, with a space before its unit. */
export const spaced = (size: string) => size.replace(/^([\d.]+)([KMGTP]?i?B)$/, '$1 $2');

export function bytes(n: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
  let i = 0;
  let v = n;
  while (v >= 1024 && i < units.length - 1) {
    v /= 1024;
    i++;
  }
  return `${v >= 100 || i === 0 ? Math.round(v) : v.toFixed(1)} ${units[i]}`;
}

/** Times in a sentence of the server's, as people say them: `2030-01-31T12:00:00.000Z` is `31 Jan 12:00`. */
export function tidy(text: string): string {
  return text.replace(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z/g, (iso) => {
    const { date, time } = wall(iso);
    return date === wall(Date.now()).date ? time.slice(0, 5) : momentWord(iso);
  });
}

/** `1 node`, `2 nodes`; `1 leaf`, `2 leaves`. */
export function count(n: number, one: string, many = `${one}s`): string {
  return `${n.toLocaleString('en')} ${n === 1 ? one : many}`;
}

/** What may be larger than its place: it scrolls, also by the keyboard. */
export function Scroll({ label, tall, children }: { label: string; tall?: boolean; children: ReactNode }) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls
    <section className={tall ? 'scroll-x tall' : 'scroll-x'} tabIndex={0} aria-label={label}>
      {children}
    </section>
  );
}
