import { expect, test } from 'vitest';
import { changesOnly, diff, factsOf, sideOf, WORK, workOf } from './differ';

test('jobs, tasks and attempts are named as they are written elsewhere', () => {
  expect(sideOf(' 42 ')).toEqual({ id: '42', attempt: null });
  expect(sideOf('42_3.2')).toEqual({ id: '42_3', attempt: 2 });
  for (const bad of ['', 'train', '42.', '42.0', '4 2', '42_']) expect(sideOf(bad)).toBeNull();
});

test('lines of both sides stand once', () => {
  const lines = diff(
    'name: a\ngang:\n  nodes: 2\ntags: []\n',
    'name: a\ngang:\n  nodes: 4\n  sku: x\ntags: []\n',
  );
  expect(lines?.map((l) => `${l.side}${l.text}`)).toEqual([
    ' name: a',
    ' gang:',
    '-  nodes: 2',
    '+  nodes: 4',
    '+  sku: x',
    ' tags: []',
  ]);
  expect(diff('a\n', 'a\n')?.every((l) => l.side === ' ')).toBe(true);
  expect(diff('x\n'.repeat(3000), 'x\n')).toBeNull();
});

test('an attempt has facts of its own', () => {
  const at = (s: number) => new Date(s * 1000).toISOString();
  const job = {
    state: 'running',
    user: 'ann',
    submitted_at: at(0),
    started_at: at(10),
    attempts: 2,
    reason: 'node n1 was lost',
    attempt: { no: 2, state: 'running', started_at: at(100), slots: [{ node: 'n2' }, { node: 'n2' }] },
    past: [
      {
        no: 1,
        started_at: at(10),
        ended_at: at(70),
        attributed_to: 'infrastructure',
        reason: 'node n1 was lost',
        nodes: ['n1'],
      },
    ],
  } as never;
  const now = 130_000;
  expect(factsOf(job, 1, now)).toMatchObject({
    ran: 60_000,
    nodes: ['n1'],
    cause: 'infrastructure: node n1 was lost',
  });
  expect(factsOf(job, 2, now)).toMatchObject({ ran: 30_000, nodes: ['n2'], attempts: '2 of 2' });
  expect(factsOf(job, null, now)).toMatchObject({ ran: 120_000, nodes: ['n2'], state: 'running' });
  expect(factsOf(job, 3, now)).toBeNull();
});

test('goodput and steps are those of the attempt that is compared', () => {
  const attempt = (no: number, goodput: number | null, lost: number) => ({
    no,
    goodput,
    checkpoints: no,
    time_ms: { productive: 60_000 * no, lost },
  });
  const report = {
    goodput: 0.75,
    time_ms: { productive: 180_000, lost: 30_000 },
    attempts: [attempt(1, 0.5, 30_000), attempt(2, null, 0)],
    steps: { attempt: 2, step: 1_200, step_ms: 1_500 },
  } as never;
  const words = (no: number | null) => {
    const work = workOf(report, no, no === null ? ({ step: 1_300 } as never) : null);
    return Object.fromEntries(WORK.map(([word, text]) => [word, text(work)]));
  };
  expect(words(1)).toMatchObject({
    goodput: '50.0 %',
    checkpoints: '1',
    'newest step': 'none reported',
    'length of a step': 'none reported',
  });
  expect(words(2)).toMatchObject({
    goodput: 'not known',
    'newest step': '1,200',
    'length of a step': '1.50 s',
  });
  expect(words(null)).toMatchObject({ goodput: '75.0 %', checkpoints: '3', 'newest step': '1,300' });
  expect(words(3)).toMatchObject({ goodput: 'not known', checkpoints: 'not known' });
});

test('far from a change lines are only counted', () => {
  const many = Array.from({ length: 30 }, (_, i) => `k${i}: 1`);
  const lines = diff(many.join('\n'), many.join('\n').replace('k20: 1', 'k20: 2')) ?? [];
  const shown = changesOnly(lines, 2).map((l) => (l.side === '…' ? l.count : `${l.side}${l.text}`));
  expect(shown).toEqual([18, ' k18: 1', ' k19: 1', '-k20: 1', '+k20: 2', ' k21: 1', ' k22: 1', 7]);
});
