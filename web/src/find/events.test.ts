import { expect, test } from 'vitest';
import { chooseUtc } from '../ui/zone';
import {
  cleaned,
  csv,
  eventQuery,
  fromField,
  isChosen,
  type LogEvent,
  streamQuery,
  toField,
  together,
} from './events';

const event = (cursor: string, data: object = {}, kind = 'node_cordoned'): LogEvent => ({
  cursor,
  at: '2030-01-31T12:00:00.000Z',
  kind,
  origin: 'input',
  actor: 'user:ann',
  project: null,
  data: data as never,
});

test('the address of the page is what the server is asked for', () => {
  expect(eventQuery({ find: 'fan', actor: 'ann' })).toEqual({ text: 'fan', actor: 'ann' });
  expect(streamQuery({ find: 'a b', kind: 'node_*', to: undefined })).toBe('?kind=node_*&text=a+b');
  expect(streamQuery({})).toBe('');
  expect(isChosen({ find: undefined })).toBe(false);
  expect(isChosen({ kind: 'node_lost' })).toBe(true);
  expect(cleaned({ find: ' x ', kind: '  ', actor: undefined })).toEqual({ find: 'x' });
});

test('an event that came twice is shown once', () => {
  const all = together([event('3'), event('2')], [event('2'), event('1')]);
  expect(all.map((e) => e.cursor)).toEqual(['3', '2', '1']);
});

test('a field of date and time goes there and back in the zone of the page', () => {
  chooseUtc(true);
  expect(toField('2030-01-31T12:34:56Z')).toBe('2030-01-31T12:34');
  expect(fromField('2030-01-31T12:34')).toBe('2030-01-31T12:34:00.000Z');
  chooseUtc(false);
  const at = '2030-01-31T12:34:00.000Z';
  expect(fromField(toField(at))).toBe(at);
  expect(toField('nonsense')).toBe('');
  expect(fromField('')).toBeUndefined();
});

test('a table for spreadsheets keeps commas, quotes and lines, and is no formula', () => {
  const text = csv([event('1', { node: 'n1', reason: '=1+1, "loud"' }), event('2', { node: '=cmd' })]);
  const [head, first, second, end] = text.split('\r\n');
  expect(head).toBe('at,event,job,node,about,actor,project,details');
  expect(first).toContain('2030-01-31T12:00:00.000Z,node_cordoned,,n1,"\'=1+1, ""loud""",user:ann,,');
  expect(second).toContain(",'=cmd,");
  expect(end).toBe('');
});
