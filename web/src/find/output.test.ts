import { expect, test } from 'vitest';
import { cleanedOutput, outputEntry, outputQuery, placeOf, rangeOf } from './output';

test('the address of the page is what the server is asked for', () => {
  const now = Date.parse('2030-01-31T12:00:00Z');
  expect(outputQuery({ q: 'NCCL', range: '1d' }, now)).toEqual({
    q: 'NCCL',
    project: undefined,
    job: undefined,
    since: '2030-01-30T12:00:00.000Z',
  });
  expect(outputQuery({ q: 'x' }, now).since).toBeUndefined();
  expect(rangeOf('7d')).toBe('7d');
  expect(rangeOf('forever')).toBeUndefined();
  expect(cleanedOutput({ q: ' x ', job: '  ', range: '1h' })).toEqual({
    q: 'x',
    project: undefined,
    job: undefined,
    range: '1h',
  });
});

test('a line says where it is, as far as that is known', () => {
  expect(placeOf({ attempt: 1, rank: 3, stream: 'stderr', line: 1200 })).toBe(
    'attempt 1, rank 3, stderr, line 1,200',
  );
  expect(placeOf({ attempt: 2, rank: 0, stream: 'stdout', line: null })).toBe('attempt 2, rank 0');
});

test('the palette offers to search the output once enough is typed, with the words as they are', () => {
  expect(outputEntry('ab')).toEqual([]);
  const [entry] = outputEntry(' "out of memory" ');
  expect(entry?.label).toBe('Search job output for “"out of memory"”');
  const q = new URL(entry?.href ?? '', 'http://x').searchParams.get('q');
  expect(JSON.parse(q ?? '')).toBe('"out of memory"');
});
