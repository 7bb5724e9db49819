import { expect, test } from 'vitest';
import { chooseUtc } from '../ui/zone';
import { bodyOf, formOf, moved, newForm, type Reservation, stretchOf, withWindow } from './reservation';

chooseUtc(true);
const start = Date.parse('2030-01-31T12:00:00Z');
const HOUR = 3_600_000;
const night: Reservation = {
  id: 'night',
  kind: 'Reservation',
  name: 'night',
  state: 'scheduled',
  version: 7,
  projects: ['nlp'],
  maintenance: false,
  reason: 'demo',
  over: { gpus: { count: 64, sku: 'h100' } },
  start: '2030-01-31T12:00:17.250Z',
  length: '10h',
  every: '24h',
  overrun: 'finish',
  lend: true,
  nodes: ['n1'],
  not_serving: [],
  stops: [],
};

test('what is there goes through the form unchanged, its seconds too', () => {
  const got = bodyOf(formOf(night), night);
  const { over, length, every, projects, overrun, lend, reason } = night;
  expect(got).toEqual({ body: { over, start: night.start, length, every, projects, overrun, lend, reason } });
});

test('a new one asks for what is missing, at the field of the server', () => {
  const form = { ...newForm({ start, end: start + 2 * HOUR }), name: 'a', projects: ['nlp'] };
  const field = (more: object) => {
    const got = bodyOf({ ...form, ...more }, null);
    return 'problem' in got ? got.problem.field : null;
  };
  expect(field({})).toBeNull();
  expect(field({ name: ' ' })).toBe('name');
  expect(field({ projects: [] })).toBe('projects');
  expect(field({ projects: [], maintenance: true })).toBeNull();
  expect(field({ gpus: '0' })).toBe('over');
  expect(field({ over: 'nodes', nodes: '' })).toBe('over');
  expect(field({ over: 'nodes', nodes: 'n[2-1]' })).toBe('over');
  expect(field({ over: 'domain', path: '' })).toBe('over');
  expect(field({ start: '' })).toBe('start');
  expect(field({ length: 'soon' })).toBe('length');
  expect(field({ every: 'daily' })).toBe('every');
});

test('nodes are sent by their names, and a maintenance window is for nobody', () => {
  const form = {
    ...newForm({ start, end: start + HOUR }, true),
    name: 'fans',
    projects: ['nlp'],
    lend: true,
  };
  const got = bodyOf({ ...form, over: 'nodes', nodes: 'n[1-2]' }, null);
  expect(got).toMatchObject({ body: { over: { nodes: ['n1', 'n2'] }, projects: [], lend: false } });
  expect(got).toMatchObject({ body: { start: '2030-01-31T12:00:00.000Z', length: '1h', every: null } });
});

test('moved on the calendar, all its windows move by as much', () => {
  const third = { start: start + 48 * HOUR, end: start + 58 * HOUR };
  const later = { start: third.start + 2 * HOUR, end: third.end + 3 * HOUR };
  const form = moved(formOf(night), third, later);
  expect(form).toMatchObject({ start: '2030-01-31T14:00', length: '11h', every: '24h' });
  expect(stretchOf(form)).toEqual({ start: start + 2 * HOUR, end: start + 13 * HOUR });
  expect(stretchOf({ ...form, length: 'x' })).toBeNull();
});

test('a window that is chosen for a form keeps the rest of it', () => {
  const form = { ...formOf(night), name: 'typed', reason: 'why' };
  const got = withWindow(form, { start, end: start + 3 * HOUR });
  expect(got).toEqual({ ...form, start: '2030-01-31T12:00', length: '3h' });
});
