import { expect, test } from 'vitest';
import type { Picture } from '../live/fleet';
import { Flag, NO_VALUE, NONE, OTHERS, OTHERS_JOB } from '../live/frame';
import { jobThen, jobWords, knownMetrics, nodeThen, openedOf, openText } from './then';

const fleet = {
  layout: {
    states: ['ready', 'quarantined'],
    skus: ['h100'],
    racks: [{ spine: 's1', leaf: 'l1', rack: 'r1' }],
    nodes: [
      { name: 'n1', gpus: 2, rack: 0, sku: 0 },
      { name: 'n2', gpus: 2, rack: 0, sku: 0 },
    ],
  },
  first: new Uint32Array([0, 2, 4]),
  nodeOf: new Uint32Array([0, 0, 1, 1]),
  tenants: ['alpha'],
  versions: [],
  columns: {
    job: new Uint32Array([42, 42, 42, OTHERS_JOB]),
    tenant: new Uint16Array([0, 0, 0, OTHERS]),
    power: new Uint16Array([700, NONE, NONE, NONE]),
    state: new Uint8Array([0, 0, 1, 1]),
    flags: new Uint8Array([Flag.allocated, Flag.allocated, Flag.allocated | 3, Flag.allocated]),
    util: new Uint8Array([97, NO_VALUE, NO_VALUE, NO_VALUE]),
    temp: new Uint8Array([61, NO_VALUE, NO_VALUE, NO_VALUE]),
  },
} as unknown as Picture;

test('what is open is in the address, and nonsense opens nothing', () => {
  for (const text of ['node:hgx-0003', 'gpu:hgx-0003/2', 'job:42']) {
    const opened = openedOf(text);
    expect(opened && openText(opened)).toBe(text);
  }
  for (const text of [undefined, '', 'node:', 'gpu:n1', 'gpu:n1/x', 'job:x', 'rack:1'])
    expect(openedOf(text)).toBeNull();
});

test('a node is shown as it was then, and one that was not there is not made up', () => {
  const n1 = nodeThen(fleet, 'n1');
  expect(n1).toMatchObject({ place: 's1 / l1 / r1', sku: 'h100' });
  expect(n1?.gpus[0]).toMatchObject({
    gpu: 0,
    state: 'ready',
    job: '42',
    project: 'alpha',
    util: 97,
    power: 700,
  });
  expect(n1?.gpus[1]).toMatchObject({ gpu: 1, util: null, temp: null, power: null });
  const n2 = nodeThen(fleet, 'n2');
  expect(n2?.gpus[0]).toMatchObject({ gpu: 0, state: 'quarantined', worst: 'critical' });
  expect(n2?.gpus[1]).toMatchObject({ job: 'other', project: null });
  expect(nodeThen(fleet, 'n3')).toBeNull();
});

test('a job is where it was then', () => {
  expect(jobThen(fleet, '42')).toEqual([
    { node: 'n1', gpus: [0, 1] },
    { node: 'n2', gpus: [0] },
  ]);
  expect(jobThen(fleet, '7')).toEqual([]);
  expect(knownMetrics(fleet)).toBe(1);
});

test('what a job was doing follows from its attempts, not from what it does now', () => {
  const at = (time: string) => Date.parse(`2030-01-31T${time}Z`);
  const job = {
    submitted_at: '2030-01-31T10:00:00Z',
    ended_at: '2030-01-31T14:00:00Z',
    attempt: null,
    past: [
      { no: 1, placed_at: '2030-01-31T10:05:00Z', ended_at: '2030-01-31T11:00:00Z', reason: 'node lost' },
      { no: 2, placed_at: '2030-01-31T11:10:00Z', ended_at: '2030-01-31T14:00:00Z', reason: 'succeeded' },
    ],
  };
  expect(jobWords(job, at('09:00:00'))).toBe('not submitted yet');
  expect(jobWords(job, at('10:01:00'))).toBe('queued');
  expect(jobWords(job, at('10:30:00'))).toBe('attempt 1, which ended later: node lost');
  expect(jobWords(job, at('11:05:00'))).toBe('queued again after an attempt');
  expect(jobWords(job, at('15:00:00'))).toBe('ended');
  const runs = { ...job, ended_at: null, attempt: { no: 3, placed_at: '2030-01-31T14:10:00Z' } };
  expect(jobWords(runs, at('15:00:00'))).toBe('attempt 3');
});
