import { expect, test } from 'vitest';
import type { Hit } from './entries';
import { commanded, namedCommands, typedCommands } from './object-commands';

const hit = (kind: Hit['kind'], id: string, state: string | null = null, title = id): Hit => ({
  kind,
  id,
  title,
  detail: '',
  state,
  entity: null,
});
const viewer = { submits: false, operates: false };
const user = { submits: true, operates: false };
const operator = { submits: true, operates: true };
const labels = (entries: { label: string }[]) => entries.map((e) => e.label);

test('words that begin with a command name what it is about', () => {
  expect(commanded('drain hgx-1')).toEqual({ typed: 'drain', about: 'hgx-1' });
  expect(commanded('  Return to service   hgx-1 ')).toEqual({ typed: 'return to service', about: 'hgx-1' });
  expect(commanded('cancel job 42')).toEqual({ typed: 'cancel', about: 'job 42' });
  expect(commanded('drain')).toBeNull();
  expect(commanded('drainage n1')).toBeNull();
});

test('a command that was typed opens the page of each fit with its dialog', () => {
  const all = typedCommands('drain', [hit('node', 'n 1', 'ready'), hit('job', '7', 'running')], operator);
  expect(all).toEqual([
    { key: 'do/node/n 1/drain', kind: 'command', label: 'Drain n 1', href: '/nodes/n%201?do=drain' },
  ]);
  const gpu = typedCommands('exclude', [hit('gpu', 'n1/3', null, 'GPU 3 of n1')], operator);
  expect(gpu.map((e) => e.href)).toEqual(['/nodes/n1/gpus/3?do=exclude']);
});

test('what a role may not do is not there', () => {
  const node = hit('node', 'n1', 'ready');
  const job = hit('job', '7', 'running', 'train');
  for (const rights of [viewer, user]) {
    expect(namedCommands('n1', [node], rights)).toEqual([]);
    expect(typedCommands('drain', [node], rights)).toEqual([]);
  }
  expect(namedCommands('7', [job], viewer)).toEqual([]);
  expect(labels(namedCommands('train', [job], user))).toEqual(['Clone job 7 train', 'Cancel job 7 train']);
  expect(labels(namedCommands('7', [job], operator))).toContain('Time limit of job 7 train');
});

test('what the state rules out is not offered', () => {
  const of = (state: string) => labels(namedCommands('n1', [hit('node', 'n1', state)], operator));
  expect(of('ready')).toEqual(['Cordon n1', 'Drain n1', 'Qualify n1', 'Exclude GPU of n1']);
  expect(of('repairing')).toEqual([
    'Cordon n1',
    'Qualify n1',
    'Repaired: n1',
    'Return n1 to service',
    'Exclude GPU of n1',
    'Retire n1',
  ]);
  expect(of('retired')).toEqual([]);
  expect(typedCommands('requeue', [hit('job', '7', 'running')], operator)).toEqual([]);
});

test('a job that is cloned opens the form', () => {
  const [clone] = typedCommands('clone', [hit('job', '42_3', 'failed')], user);
  expect(clone.href).toBe('/jobs/new?from=42_3');
});

test('commands are listed for what is named in full', () => {
  expect(namedCommands('n', [hit('node', 'n1', 'ready')], operator)).toEqual([]);
  const gpu = { ...hit('gpu', 'n1/3', null, 'GPU 3 of n1'), detail: 'GPU-ab12, serial 1654' };
  for (const words of ['1654', 'gpu-AB12', 'GPU 3 of n1'])
    expect(labels(namedCommands(words, [gpu], operator))).toEqual(['Exclude GPU 3 of n1']);
  expect(namedCommands('165', [gpu], operator)).toEqual([]);
});
