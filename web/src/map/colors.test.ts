import { expect, test, vi } from 'vitest';
import type { Picture } from '../live/fleet';
import { Flag } from '../live/frame';
import {
  allocatedOrFree,
  CLASSES,
  classColor,
  classOf,
  css,
  hazardWords,
  painter,
  ramp,
  type Theme,
  usage,
} from './colors';
import { contrast, lightness } from './hues';

vi.stubGlobal('sessionStorage', { getItem: () => null });
const { avoidedNodes } = await import('../live/avoided');

const THEMES: Theme[] = ['dark', 'light'];

test('what was found outweighs that a GPU works', () => {
  expect(classOf('ready', 0)).toBe('free');
  expect(classOf('ready', 128)).toBe('allocated');
  expect(classOf('ready', 128 | 1)).toBe('allocated');
  expect(classOf('ready', 128 | 2)).toBe('suspect');
  expect(classOf('ready', 3)).toBe('out');
  expect(classOf('lost', 3)).toBe('lost');
  expect(classOf('lost', Flag.breaker)).toBe('lost');
  expect(classOf('something new', 0)).toBe('unknown');
});

test('a GPU blocked by an open breaker gets no new work: it is not called free', () => {
  expect(classOf('ready', Flag.breaker)).toBe('away');
  expect(classOf('ready', Flag.breaker | Flag.allocated)).toBe(classOf('cordoned', Flag.allocated));
  expect(classOf('ready', Flag.breaker | 3)).toBe('out');
});

test('a GPU of a node in maintenance or with old ranks is as one of a cordoned node', () => {
  for (const state of ['maintenance', 'stopping'])
    for (const flags of [0, Flag.allocated, 2, 3])
      expect(classOf(state, flags)).toBe(classOf('cordoned', flags));
});

const remediation = (node: string, step: 'proposed' | 'approval') => ({
  node,
  step,
  finding: '12',
  kind: 'xid',
  action: 'reboot' as const,
});
const avoided = avoidedNodes([remediation('n1', 'proposed'), remediation('n2', 'approval')]);

/** Two nodes of two GPUs each; the first GPU of each is allocated. */
const fleet = {
  layout: { states: ['ready', 'missing'], nodes: [{ name: 'n1' }, { name: 'n2' }] },
  first: new Uint32Array([0, 2, 4]),
  nodeOf: new Uint32Array([0, 0, 1, 1]),
  columns: {
    state: new Uint8Array([0, 0, 0, 1]),
    flags: new Uint8Array([Flag.allocated, 0, Flag.allocated, 0]),
    hazard: new Uint16Array([10, 10, 10, 0]),
  },
} as unknown as Picture;

test('free GPUs of a node that new work avoids are not counted as free', () => {
  expect([...avoided]).toEqual([['n1', 'finding 12 (xid)']]);
  expect(classOf('ready', 0, true)).toBe('avoided');
  expect(classOf('ready', Flag.spare)).toBe('avoided');
  expect(classOf('ready', Flag.spare | Flag.allocated)).toBe('allocated');
  expect(classOf('ready', Flag.allocated, true)).toBe('allocated');
  expect(classOf('ready', 3, true)).toBe('out');
  expect(classOf('cordoned', 0, true)).toBe('away');
  const counts = (names: typeof avoided) =>
    Object.fromEntries(painter(fleet, 'state', 'dark', names)?.legend.map((l) => [l.label, l.count]) ?? []);
  expect(counts(avoided)).toMatchObject({
    'free, healthy': 0,
    'spare, or avoided by new work': 1,
    'allocated, healthy': 2,
  });
  expect(counts(new Map())).toMatchObject({ 'free, healthy': 1, 'allocated, healthy': 2 });
});

test('the square of a node without GPUs is not counted as one', () => {
  const layout = fleet.layout as NonNullable<Picture['layout']>;
  const nodes = layout.nodes.map((n, i) => ({ ...n, gpus: i === 0 ? 0 : 2 }));
  const without = { ...fleet, layout: { ...layout, nodes } } as Picture;
  const legend = painter(without, 'state', 'dark', new Map())?.legend ?? [];
  expect(legend.reduce((sum, l) => sum + (l.count ?? 0), 0)).toBe(2);
});

test('allocated and free are counted by one rule, whatever colour a GPU has', () => {
  expect(allocatedOrFree('ready', Flag.allocated)).toBe('allocated');
  expect(allocatedOrFree('ready', Flag.allocated | Flag.breaker)).toBe('allocated');
  expect(allocatedOrFree('cordoned', Flag.allocated | 3)).toBe('allocated');
  expect(allocatedOrFree('ready', 0)).toBe('free');
  expect(allocatedOrFree('ready', Flag.breaker)).toBe('neither');
  expect(allocatedOrFree('missing', 0)).toBe('neither');
  expect(allocatedOrFree('ready', Flag.spare)).toBe('spare');
  expect(allocatedOrFree('ready', Flag.spare | Flag.allocated)).toBe('allocated');
  expect(allocatedOrFree('cordoned', Flag.spare)).toBe('neither');
  expect(allocatedOrFree('maintenance', 0)).toBe('neither');
  expect(allocatedOrFree('stopping', 0)).toBe('neither');
  expect(usage(fleet)).toEqual({ allocated: 2, free: 1, spare: 0, neither: 1 });
  const broken = { ...fleet, columns: { ...fleet.columns, flags: new Uint8Array([132, 4, 128, 0]) } };
  expect(usage(broken as Picture)).toEqual({ allocated: 2, free: 0, spare: 0, neither: 2 });
});

test('what has a fault has no hazard', () => {
  expect(hazardWords('ready', 25, null)).toBe('2.5 % a month');
  expect(hazardWords('missing', 0, null)).toBe('out of service');
  expect(hazardWords('ready', 0, 'critical')).toBe('critical finding');
  expect(painter(fleet, 'hazard', 'dark')?.legend).toMatchObject([{ label: 'out of service', count: 1 }]);
  // The server writes down what is high: that nothing was written is no forecast of 0 %.
  expect(hazardWords('ready', 0, null)).toBe('not raised');
  const calm = { ...fleet, columns: { ...fleet.columns, hazard: new Uint16Array([10, 0, 0, 0]) } };
  expect(painter(calm as Picture, 'hazard', 'dark')?.legend).toMatchObject([
    { label: 'out of service', count: 1 },
    { label: 'not raised', count: 2 },
  ]);
});

test('ramps go one way in lightness, so that no hue needs to be seen', () => {
  for (const theme of THEMES) {
    const steps = Array.from({ length: 20 }, (_, i) => lightness(css(ramp(i / 19, theme))));
    const sorted = [...steps].sort((a, b) => (theme === 'dark' ? a - b : b - a));
    expect(steps).toEqual(sorted);
  }
});

test('what is wrong differs from what is well in lightness too', () => {
  for (const theme of THEMES) {
    const allocated = classColor('allocated', theme);
    for (const c of ['free', 'suspect', 'out', 'lost'] as const)
      expect(contrast(allocated, classColor(c, theme)), `${c} and allocated, ${theme}`).toBeGreaterThan(1.1);
    expect(new Set(CLASSES.map((c) => classColor(c, theme))).size).toBe(CLASSES.length);
  }
});

test('every class can be seen on the ground of the map', () => {
  const ground: Record<Theme, string> = { dark: '#0e1318', light: '#f3f5f7' };
  for (const theme of THEMES)
    for (const c of CLASSES.filter((c) => c !== 'unknown'))
      expect(contrast(classColor(c, theme), ground[theme]), `${c}, ${theme}`).toBeGreaterThanOrEqual(3);
});

test('jobs that are named have colours that no other job has; the rest is grey', () => {
  const job = new Uint32Array(24).map((_, i) => 10 * (1 + (i % 12)));
  const many = {
    layout: { states: ['ready'], nodes: [{ name: 'n1' }] },
    first: new Uint32Array([0, 24]),
    nodeOf: new Uint32Array(24),
    columns: { state: new Uint8Array(24), flags: new Uint8Array(24), job },
  } as unknown as Picture;
  for (const theme of THEMES) {
    const paint = painter(many, 'job', theme);
    const named = paint?.legend.slice(0, 10).map((l) => l.color) ?? [];
    expect(new Set(named).size).toBe(10);
    expect(paint?.legend[10]).toMatchObject({ label: '2 more, in two greys', count: 4 });
    const colors = new Uint32Array(24);
    paint?.paint(colors);
    const painted = [...colors].map(css);
    expect(new Set(painted).size).toBe(12);
    expect(painted[11]).not.toBe(painted[10]);
  }
});

test('the map of temperatures marks what is hot and counts it', () => {
  const temps = new Uint8Array([40, 79, 80, 91]);
  const hot = { ...fleet, columns: { ...fleet.columns, temp: temps } } as Picture;
  const paint = painter(hot, 'temp', 'dark');
  expect(paint?.legend).toMatchObject([{ label: 'hot: 80 °C or more', count: 2 }]);
  expect([...(paint?.strong ?? [])]).toEqual([0, 0, 1, 1]);
});
