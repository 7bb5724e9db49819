import { expect, test, vi } from 'vitest';

vi.stubGlobal('sessionStorage', { getItem: () => null });
const { ApiError } = await import('../api/client');
const { keepReading, Output } = await import('./output');

const piece = (offset: number, text: string, more = {}) => ({
  attempt: 1,
  rank: 0,
  stream: 'stdout' as const,
  offset,
  text,
  ...more,
});

test('what comes again after a lost connection is shown once', () => {
  const out = new Output();
  expect(out.take(piece(0, 'one\n'))).toBe('one\n');
  expect(out.take(piece(4, 'tw'))).toBe('tw');
  // The server answers again, and sends the newest lines in other pieces.
  expect(out.take(piece(0, 'one\n'))).toBe('');
  expect(out.take(piece(4, 'two\nthree\n'))).toBe('o\nthree\n');
  expect(out.take(piece(14, 'four\n'))).toBe('four\n');
});

test('streams and attempts are counted apart, bytes rather than letters', () => {
  const out = new Output();
  expect(out.take(piece(0, 'é\n'))).toBe('é\n');
  expect(out.take(piece(3, 'x\n'))).toBe('x\n');
  expect(out.take(piece(0, 'err\n', { stream: 'stderr' }))).toBe('err\n');
  expect(out.take(piece(0, 'next\n', { attempt: 2 }))).toBe('next\n');
  expect(out.take(piece(0, '', { text: null, note: 'dropped' }))).toBe('[dropped]\n');
  expect(out.take(piece(0, '', { text: null, note: 'dropped' }))).toBe('');
});

test('a lost connection is tried again until the server answers; a refusal is not', async () => {
  const stop = new AbortController();
  const answers = [
    new TypeError('network error'),
    new ApiError(503, 'unavailable', 'not ready', null),
    null,
    new ApiError(404, 'not_found', 'there is no job 7', null),
  ];
  const reads: boolean[] = [];
  let [lost, pauses] = [0, 0];
  const read = async (again: boolean) => {
    reads.push(again);
    const error = answers.shift();
    if (error) throw error;
  };
  const how = {
    over: false,
    signal: stop.signal,
    lost: () => lost++,
    pause: async () => {
      pauses++;
    },
  };
  await expect(keepReading(read, how)).rejects.toThrow('there is no job 7');
  expect(reads).toEqual([false, true, true, true]);
  expect([lost, pauses]).toEqual([2, 3]);
});

test('the output of a job that is over is read once', async () => {
  let reads = 0;
  const read = async () => {
    reads++;
  };
  const never = () => Promise.reject(new Error('it waits'));
  await keepReading(read, { over: true, signal: new AbortController().signal, lost: never, pause: never });
  expect(reads).toBe(1);
});
