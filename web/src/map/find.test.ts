import { expect, test } from 'vitest';
import type { Picture } from '../live/fleet';
import { find } from './find';

const fleet = {
  layout: {
    states: ['ready', 'lost'],
    skus: ['h100'],
    racks: [{ region: 'eu', cluster: 'c', spine: 's1', leaf: 'leaf7', rack: 'rack1', feed: 'A' }],
    nodes: [
      { name: 'n1', rack: 0, gpus: 2, sku: 0 },
      { name: 'n2', rack: 0, gpus: 2, sku: 0 },
    ],
  },
  first: new Uint32Array([0, 2, 4]),
  tenants: ['alpha', ''],
  columns: {
    state: new Uint8Array([0, 0, 1, 1]),
    job: new Uint32Array([42, 0, 0, 4]),
    tenant: new Uint16Array([0, 65535, 65535, 1]),
  },
} as unknown as Picture;

const hits = (text: string) => [...(find(fleet, text)?.match ?? [])];

test('every word must match: node, place, project, job, state', () => {
  expect(hits('n1')).toEqual([1, 1, 0, 0]);
  expect(hits('LEAF7')).toEqual([1, 1, 1, 1]);
  expect(hits('alpha')).toEqual([1, 0, 0, 0]);
  expect(hits('job 4')).toEqual([0, 0, 0, 1]);
  expect(hits('job 42 n1')).toEqual([1, 0, 0, 0]);
  expect(hits('lost n2')).toEqual([0, 0, 1, 1]);
  expect(hits('nothing')).toEqual([0, 0, 0, 0]);
  expect(find(fleet, 'n2')?.nodes).toEqual([1]);
});
