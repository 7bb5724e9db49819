import { expect, test } from 'vitest';
import type { Schemas } from '../api/client';
import { type Asked, askedFor, eventBeside, type Page, steppedWords } from './step';

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
  expect(await eventBeside(AT, 'previous', 'faults', log.read)).toBe(found);
  expect(log.asked.map((q) => q.before)).toEqual([undefined, 'c1', 'c2']);
});

test('where there is none that is said, and nothing is searched without end', async () => {
  expect(await eventBeside(AT, 'next', 'all', answers({ items: [], cursor: null }).read)).toBeNull();
  const endless = answers({ items: [], cursor: 'c' });
  expect(await eventBeside(AT, 'next', 'all', endless.read)).toBe('far');
  expect(endless.asked.length).toBeLessThan(20);
  expect(endless.asked[1].after).toBe('c');
});

test('what was stepped to is said', () => {
  const words = steppedWords(event(AT, 'node_lost', { node: 'n1', reason: 'heartbeat lost' }));
  expect(words).toBe('node lost, n1, heartbeat lost');
  expect(steppedWords(event(AT, 'job_placed', { job: 4 }))).toBe('job placed, job 4');
  // The words of the Events page, not the names of the log.
  expect(steppedWords(event(AT, 'node_staged', { node: 'n1' }))).toBe('node state changed, n1');
});
