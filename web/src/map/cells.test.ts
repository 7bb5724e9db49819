import { expect, test } from 'vitest';
import type { Picture } from '../live/fleet';
import { Flag, NO_VALUE, OTHERS_JOB } from '../live/frame';
import { cellWords } from './cells';

const fleet = {
  layout: {
    states: ['ready', 'missing'],
    nodes: [
      { name: 'n1', gpus: 7 },
      { name: 'cpu', gpus: 0 },
    ],
  },
  nodeOf: new Uint32Array([0, 0, 0, 0, 0, 0, 0, 1]),
  columns: {
    state: new Uint8Array([0, 0, 1, 0, 0, 0, 0, 0]),
    flags: new Uint8Array([
      Flag.allocated,
      0,
      0,
      Flag.allocated,
      Flag.spare,
      Flag.breaker,
      Flag.allocated,
      0,
    ]),
    job: new Uint32Array([42, 0, 0, OTHERS_JOB, 0, 0, 0, 0]),
    util: new Uint8Array([97, 0, NO_VALUE, NO_VALUE, 0, 0, 3, NO_VALUE]),
    temp: new Uint8Array([61, NO_VALUE, NO_VALUE, NO_VALUE, 30, 30, 30, NO_VALUE]),
  },
} as unknown as Picture;

test('a square says its job, utilisation and temperature, and nothing that is not known', () => {
  expect(cellWords(fleet, 0)).toEqual(['#42', '97 %', '61 °C']);
  expect(cellWords(fleet, 1)).toEqual(['free', '0 %']);
  expect(cellWords(fleet, 2)).toEqual(['missing']);
});

test("others' work has no number, and what is not open for new work is not called free", () => {
  expect(cellWords(fleet, 3)).toEqual(['other']);
  expect(cellWords(fleet, 4)[0]).toBe('spare');
  expect(cellWords(fleet, 5)[0]).toBe('breaker');
  expect(cellWords(fleet, 6)[0]).toBe('in use');
});

test('a node without GPUs has no words in its square', () => {
  expect(cellWords(fleet, 7)).toEqual([]);
});
