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

test('it is known whether something was printed before, and when a reading came as far as another one', () => {
  const first = new Output();
  first.take(piece(100, 'newest\n'));
  first.take(piece(0, 'err\n', { stream: 'stderr' }));
  expect(first.cut()).toBe(true);
  const second = new Output();
  second.take(piece(40, 'x'.repeat(60)));
  expect(second.reached(first)).toBe(false);
  second.take(piece(100, 'newest\n'));
  expect(second.reached(first)).toBe(false);
  second.take(piece(0, 'err\n', { stream: 'stderr' }));
  expect(second.reached(first)).toBe(true);
  expect(second.cut()).toBe(true);
  const whole = new Output();
  whole.take(piece(0, 'all of it\n'));
  expect(whole.cut()).toBe(false);
  // A reading that followed into the next attempt: only that one is read again.
  first.take(piece(0, 'next\n', { attempt: 2 }));
  const third = new Output();
  third.take(piece(0, 'next\n', { attempt: 2 }));
  expect(third.reached(first)).toBe(true);
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
