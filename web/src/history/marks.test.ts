import { expect, test } from 'vitest';
import type { Schemas } from '../api/client';
import { fitting, gpuOf, groupsOf, marksOf, nearby } from './marks';

const event = (at: number, kind: string, data: object = {}, actor = 'system'): Schemas['LogEvent'] => ({
  at: new Date(at).toISOString(),
  cursor: `${at}${kind}`,
  kind,
  actor,
  origin: 'decision',
  data: data as Record<string, never>,
});

test('events are marks, oldest first, with their words', () => {
  const marks = marksOf([
    event(3000, 'node_lost', { node: 'n1', reason: 'heartbeat lost' }),
    event(1000, 'node_drained', { node: 'n1' }, 'user:ann'),
    event(2000, 'job_placed', { job: 4 }),
  ]);
  expect(marks.map((m) => [m.at, m.tone, m.kind])).toEqual([
    [1000, 'note', 'node drained'],
    [2000, 'plain', 'job placed'],
    [3000, 'bad', 'node lost'],
  ]);
  expect(marks[2].text).toBe('heartbeat lost');
});

test('a GPU has events of its own and of its whole node, not of other GPUs', () => {
  const of = (gpu: number) => event(gpu, 'finding_opened', { finding: { entity: `gpu:n1/${gpu}` } });
  const all = [of(1), of(2), event(5, 'node_lost', { node: 'n1' }), event(6, 'fault_reported', { gpu: 2 })];
  expect(all.map(gpuOf)).toEqual([1, 2, null, 2]);
  expect(marksOf(all, 2).map((m) => m.at)).toEqual([2, 5, 6]);
  expect(marksOf(all)).toHaveLength(4);
});

test('marks that would be one line are one, as bad as the worst of them', () => {
  const marks = marksOf([
    event(0, 'job_placed'),
    event(5, 'node_lost'),
    event(100, 'slot_started'),
    event(101, 'slot_started'),
    event(500, 'job_ended'),
  ]);
  expect(groupsOf(marks, 10)).toEqual([
    { at: 5, tone: 'bad', word: 'node lost +1' },
    { at: 100, tone: 'plain', word: 'ranks started on a node x2' },
    { at: 500, tone: 'plain', word: 'job ended' },
  ]);
  expect(groupsOf([], 10)).toEqual([]);
});

test('words do not touch each other: bad ones have their place first', () => {
  const word = (x: number, tone: 'bad' | 'plain') => ({ x, width: 50, tone });
  expect(fitting([word(0, 'plain'), word(40, 'bad'), word(90, 'plain'), word(180, 'bad')], 200)).toEqual([
    false,
    true,
    true,
    false,
  ]);
});

test('what happened near a moment is found, the nearest first', () => {
  const marks = marksOf([event(0, 'a'), event(90, 'b'), event(105, 'c')]);
  expect(nearby(marks, 100, 20).map((m) => m.kind)).toEqual(['c', 'b']);
});
