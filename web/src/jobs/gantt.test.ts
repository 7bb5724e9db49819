import { expect, test } from 'vitest';
import {
  barsOf,
  chosenStretch,
  entriesOf,
  lengthMs,
  momentsOf,
  moved,
  outside,
  placeOf,
  rowOf,
  rowsOf,
  statesOf,
  stretchOf,
  timesOf,
  toAddress,
  zoomBy,
} from './gantt';

const NOW = Date.parse('2030-01-31T12:00:00Z');
const HOUR = 3_600_000;
const at = (hours: number) => new Date(NOW + hours * HOUR).toISOString();
const clock = (ms: number) => new Date(ms).toISOString().slice(11, 16);

const job = (id: string, state: string, more: object = {}) =>
  ({
    id,
    name: `job-${id}`,
    project: 'research',
    user: 'ann',
    state,
    submitted_at: at(-Number(id)),
    groups: [{ nodes: 2, gpus: 8, cpus: 0 }],
    spec: {},
    ...more,
  }) as never;

const running = job('1', 'running', {
  attempt: { placed_at: at(-1), started_at: at(-1), deadline: at(2) },
});
const endless = job('2', 'running', { attempt: { placed_at: at(-3), started_at: at(-2) } });
const reserved = job('3', 'queued', {
  reserved_start: { at: at(2) },
  spec: { time_limit: '3h' },
  waiting: 'waits for free capacity',
});
const waits = job('4', 'queued', { waiting: 'the quota is used up' });
const held = job('5', 'queued', { held: 'user:ann', reserved_start: { at: at(1) } });

const row = (of: never) => rowOf(of) as NonNullable<ReturnType<typeof rowOf>>;

test('lengths of time are read as the server writes them', () => {
  expect(lengthMs('1d12h')).toBe(36 * HOUR);
  expect(lengthMs('90m')).toBe(1.5 * HOUR);
  expect(lengthMs('250ms')).toBe(250);
  for (const none of [null, undefined, '', '4', 'h', '4h!']) expect(lengthMs(none)).toBeNull();
});

test('every active job has a row, group by group, each by its start, once', () => {
  const ended = job('6', 'failed');
  const rows = rowsOf([held, waits, job('9', 'queued'), reserved, running, ended, endless, waits]);
  expect(rows.map((r) => [r.id, r.group])).toEqual([
    ['2', 'running'],
    ['1', 'running'],
    ['3', 'reserved'],
    ['9', 'waiting'],
    ['4', 'waiting'],
    ['5', 'held'],
  ]);
  expect(rows[2]).toMatchObject({
    ...{ project: 'research', gang: '2 x 8 GPUs', from: NOW + 2 * HOUR, to: NOW + 5 * HOUR },
    why: 'waits for free capacity',
  });
  expect(entriesOf(rows).map((e) => ('head' in e ? `${e.head} ${e.count}` : e.row.id))).toEqual([
    ...['running 2', '2', '1', 'reserved 1', '3', 'waiting 2', '9', '4', 'held 1', '5'],
  ]);
});

test('thousands of rows are ordered and grouped', () => {
  const jobs = Array.from({ length: 5000 }, (_, i) => (i % 2 ? job(String(10 + i), 'queued') : reserved));
  const rows = rowsOf(jobs);
  expect(rows).toHaveLength(2501);
  expect(entriesOf(rows)).toHaveLength(2503);
});

test('a running job has a bar to its time limit, and one over it up to now', () => {
  expect(barsOf(row(running), undefined, NOW)).toEqual([
    { kind: 'runs', from: NOW - HOUR, to: NOW + 2 * HOUR },
  ]);
  expect(barsOf(row(running), undefined, NOW + 3 * HOUR)[0]?.to).toBe(NOW + 3 * HOUR);
  expect(barsOf(row(endless), undefined, NOW)).toEqual([{ kind: 'runs', from: NOW - 2 * HOUR, to: null }]);
  expect(timesOf(row(running), undefined, clock)).toBe('started 11:00, time limit at 14:00');
  expect(timesOf(row(endless), undefined, clock)).toBe('started 10:00, no time limit');
});

test('a reserved start has its bar, and before it the range in which it may start', () => {
  const bar = { kind: 'reserved', from: NOW + 2 * HOUR, to: NOW + 5 * HOUR };
  expect(barsOf(row(reserved), undefined, NOW)).toEqual([bar]);
  const estimate = { earliest: at(1), at: at(2), basis: 'time limits' };
  expect(barsOf(row(reserved), estimate, NOW)).toEqual([
    { kind: 'estimate', from: NOW + HOUR, to: NOW + 2 * HOUR },
    bar,
  ]);
  expect(timesOf(row(reserved), estimate, clock)).toBe(
    'reserved start 14:00, 13:00 at the earliest, time limit at 17:00',
  );
});

test('a job that waits has the range of its estimate, and no bar that nobody computed', () => {
  const both = { earliest: at(1), at: at(4), basis: '' };
  expect(barsOf(row(waits), both, NOW)).toEqual([{ kind: 'estimate', from: NOW + HOUR, to: NOW + 4 * HOUR }]);
  expect(timesOf(row(waits), both, clock)).toBe('estimated start between 13:00 and 16:00');
  const late = { earliest: null, at: at(4), basis: '' };
  expect(barsOf(row(waits), late, NOW)).toEqual([{ kind: 'estimate', from: NOW, to: NOW + 4 * HOUR }]);
  expect(timesOf(row(waits), late, clock)).toBe('estimated start 16:00 at the latest');
  for (const none of [null, undefined]) expect(barsOf(row(waits), none, NOW)).toEqual([]);
  expect(barsOf(row(held), undefined, NOW)).toEqual([]);
});

test('the stretch holds the bars, is bounded, and does not move with every estimate', () => {
  const rows = rowsOf([running, endless, reserved, waits]);
  const whole = stretchOf(momentsOf(rows, new Map()), NOW);
  expect(whole).toEqual({ from: NOW - 3 * HOUR, to: NOW + 8 * HOUR });
  const estimated = (hours: number) => ({ earliest: null, at: at(hours), basis: '' });
  expect(stretchOf(momentsOf(rows, new Map([['4', estimated(7)]])), NOW)).toEqual(whole);
  expect(stretchOf(momentsOf(rows, new Map([['4', estimated(9)]])), NOW).to).toBe(NOW + 12 * HOUR);
  // What was estimated of a job that runs meanwhile is over.
  expect(stretchOf(momentsOf(rows, new Map([['1', estimated(9)]])), NOW)).toEqual(whole);
  expect(stretchOf([NOW - 900 * HOUR, NOW + 900 * HOUR], NOW)).toEqual({
    from: NOW - 12 * HOUR,
    to: NOW + 48 * HOUR,
  });
  expect([placeOf(NOW - 4 * HOUR, whole), placeOf(NOW + 2.5 * HOUR, whole), placeOf(null, whole)]).toEqual([
    0, 50, 100,
  ]);
});

test('zooming in keeps now in its place, and the address has the time that is shown', () => {
  const stretch = { from: NOW - 2 * HOUR, to: NOW + 6 * HOUR };
  const near = zoomBy(stretch, 2, NOW);
  expect(near).toEqual({ from: NOW - HOUR, to: NOW + 3 * HOUR });
  expect(zoomBy(near, 0.5, NOW)).toEqual(stretch);
  expect(moved(stretch, 0.5)).toEqual({ from: NOW + 2 * HOUR, to: NOW + 10 * HOUR });
  // Now is not in it: the centre stays.
  expect(zoomBy({ from: NOW + HOUR, to: NOW + 3 * HOUR }, 2, NOW)).toEqual({
    from: NOW + 1.5 * HOUR,
    to: NOW + 2.5 * HOUR,
  });
  expect(toAddress(near)).toEqual({ from: '2030-01-31T11:00:00.000Z', to: '2030-01-31T15:00:00.000Z' });
  // A drag to the left is the same as one to the right.
  expect(toAddress({ from: near.to, to: near.from })).toEqual(toAddress(near));
  expect(chosenStretch(toAddress(near))).toEqual(near);
  const far = chosenStretch(toAddress({ from: NOW - 9000 * HOUR, to: NOW + 9000 * HOUR }));
  expect(far && far.to - far.from).toBe(2400 * HOUR);
  for (const bad of [{}, { from: at(1) }, { from: 'soon', to: at(1) }, { from: at(2), to: at(1) }])
    expect(chosenStretch(bad)).toBeNull();
});

test('bars outside the stretch are before it or after it', () => {
  const bars = barsOf(row(running), undefined, NOW);
  expect(outside(bars, { from: NOW, to: NOW + HOUR })).toBeNull();
  expect(outside(bars, { from: NOW + 3 * HOUR, to: NOW + 4 * HOUR })).toBe('before');
  expect(outside(bars, { from: NOW - 3 * HOUR, to: NOW - 2 * HOUR })).toBe('after');
  expect(outside([], { from: NOW, to: NOW + HOUR })).toBeNull();
});

test('the server is asked for active jobs only', () => {
  expect(statesOf()).toBe('active');
  expect(statesOf('all')).toBe('active');
  expect(statesOf('queued')).toBe('queued');
  expect(statesOf('running,succeeded')).toBe('running');
  expect(statesOf('failed')).toBeNull();
});
