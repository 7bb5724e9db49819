import { expect, test } from 'vitest';
import type { Schemas } from '../api/client';
import { type Asked, askedFor, besideWords, eventBeside, type Page, steppedWords } from './step';

const AT = Date.parse('2030-01-31T12:00:00Z');
const event = (at: number, kind: string, data: object = {}): Schemas['LogEvent'] => ({
  at: new Date(at).toISOString(),
  cursor: `${at}`,
  kind,
  actor: 'system',
  origin: 'decision',
  data: data as Record<string, never>,
});

test('the event of the moment itself is stepped from, not to', () => {
  expect(askedFor(AT, 'previous', 'all')).toMatchObject({ to: '2030-01-31T12:00:00.000Z', order: 'newest' });
  expect(askedFor(AT, 'next', 'all')).toMatchObject({ from: '2030-01-31T12:00:00.001Z', order: 'oldest' });
  expect(askedFor(AT, 'next', 'jobs').kind).toBe('job_*');
  expect(askedFor(AT, 'next', 'all').kind).toBeUndefined();
});

/** Answers in turn, and what was asked. */
function answers(...pages: Page[]) {
  const asked: Asked[] = [];
  return {
    asked,
    read: async (q: Asked) => {
      asked.push(q);
      return pages[Math.min(asked.length, pages.length) - 1];
    },
  };
}

test('a page without events is not the end of the log while it has a cursor', async () => {
  const found = event(AT - 5000, 'node_lost');
  const log = answers(
    { items: [], cursor: 'c1' },
    { items: [], cursor: 'c2' },
    { items: [found], cursor: null },
  );
  expect((await eventBeside(AT, 'previous', 'faults', log.read)).found).toBe(found);
  expect(log.asked.map((q) => q.before)).toEqual([undefined, 'c1', 'c2']);
});

test('where there is none that is said, and nothing is searched without end', async () => {
  const none = await eventBeside(AT, 'next', 'all', answers({ items: [], cursor: null }).read);
  expect(none.found).toBeNull();
  expect(besideWords(none, 'next')).toBe('no next event in the log');
  const endless = answers({ items: [], cursor: 'c' });
  const far = await eventBeside(AT, 'next', 'all', endless.read);
  expect(far.found).toBe('far');
  expect(besideWords(far, 'next')).toBe('no next event found nearby: type a time');
  expect(endless.asked.length).toBeLessThan(20);
  expect(endless.asked[1].after).toBe('c');
});

/** A log whose events before one with this place are archived: the server passes over them. */
function stored(...events: Schemas['LogEvent'][]) {
  return async (q: Asked): Promise<Page> => {
    const from = q.from ? Date.parse(q.from) : Number.NEGATIVE_INFINITY;
    const to = q.to ? Date.parse(q.to) : Number.POSITIVE_INFINITY;
    const some = events.filter((e) => Date.parse(e.at) >= from && Date.parse(e.at) < to);
    return { items: (q.order === 'newest' ? some.toReversed() : some).slice(0, 1), cursor: null };
  };
}

test('a step that comes to what is archived says so', async () => {
  const first = { ...event(AT, 'node_lost', { node: 'n1' }), seq: 50_001 };
  const second = { ...event(AT + 9000, 'job_placed', { job: 4 }), seq: 50_002 };
  const log = stored(first, second);
  const day = 86_400_000;
  const over = await eventBeside(AT - day, 'next', 'all', log);
  expect(over).toEqual({ found: first, archivedBefore: AT });
  expect(besideWords(over, 'next')).toMatch(
    /^oldest stored event \(those before .* are archived\): node lost/,
  );
  for (const from of [AT, AT - day]) {
    const back = await eventBeside(from, 'previous', 'all', log);
    expect(back).toEqual({ found: null, archivedBefore: AT });
    expect(besideWords(back, 'previous')).toMatch(
      /^no previous event is stored: those before .* are archived/,
    );
  }
  // Between stored events nothing is passed over.
  expect(await eventBeside(AT, 'next', 'all', log)).toEqual({ found: second, archivedBefore: null });
  expect(await eventBeside(AT + 9000, 'previous', 'all', log)).toEqual({
    found: first,
    archivedBefore: null,
  });
});

test('where nothing is archived, or that is not known, nothing is said of it', async () => {
  const whole = stored({ ...event(AT, 'node_lost'), seq: 1 });
  expect((await eventBeside(AT - 5000, 'next', 'all', whole)).archivedBefore).toBeNull();
  expect((await eventBeside(AT, 'previous', 'all', whole)).archivedBefore).toBeNull();
  // A token that is bound to a project is given no places.
  const bound = await eventBeside(AT, 'previous', 'all', stored(event(AT, 'job_placed')));
  expect(besideWords(bound, 'previous')).toBe('no previous event is stored');
});

test('what was stepped to is said', () => {
  const words = steppedWords(event(AT, 'node_lost', { node: 'n1', reason: 'heartbeat lost' }));
  expect(words).toBe('node lost, n1, heartbeat lost');
  expect(steppedWords(event(AT, 'job_placed', { job: 4 }))).toBe('job placed, job 4');
  // The words of the Events page, not the names of the log.
  expect(steppedWords(event(AT, 'node_staged', { node: 'n1' }))).toBe('node state changed, n1');
});
