import { expect, test } from 'vitest';
import { Output } from './output';

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
