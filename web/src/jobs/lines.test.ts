import { expect, test } from 'vitest';
import { atBegin, atEnd, byTime, cameAt, cut, DEPTHS, deeper, fileOf, found, Lines, tailOf } from './lines';

const piece = (rank: number, stream: 'stdout' | 'stderr' = 'stdout', note: string | null = null) => ({
  attempt: 1,
  rank,
  stream,
  note,
});

test('pieces of many ranks become lines of one rank each', () => {
  const lines = new Lines();
  lines.add(piece(0), 'loss ');
  lines.add(piece(1), 'ready\nst');
  lines.add(piece(0), '0.5\n');
  lines.add(piece(0, 'stderr'), 'Traceback\n');
  lines.add(piece(1, 'stdout', '10 bytes were dropped here'), '[10 bytes were dropped here]\n');
  lines.add(piece(1), 'ep 1\n\n');
  expect(fileOf(lines.all())).toBe(
    '1 0: loss 0.5\n1 1: ready\n1 1: step 1\n1 0 err: Traceback\n1 muster: [10 bytes were dropped here]\n1 1: \n',
  );
});

test('a line has the time of the piece in which it begins, or none', () => {
  const lines = new Lines();
  const at = (time: string | null) => ({ ...piece(0), at: time });
  lines.add(at(null), 'old\n');
  lines.add(at('2026-01-31T12:00:00.500Z'), 'early\nbeg');
  lines.add(at('2026-01-31T13:00:00.000Z'), 'un\nlate\n');
  lines.add(piece(0, 'stdout', '10 bytes were dropped here'), '[10 bytes were dropped here]\n');
  const all = lines.all();
  expect(all.map((l) => cameAt(l, 'UTC'))).toEqual([
    'no time',
    '2026-01-31 12:00:00.5',
    '2026-01-31 12:00:00.5',
    '2026-01-31 13:00:00.0',
    '',
  ]);
  expect(cameAt(all[1], 'Asia/Kathmandu')).toBe('2026-01-31 17:45:00.5');
  expect(fileOf(all.slice(0, 3), true)).toBe(
    'no-time 1 0: old\n2026-01-31T12:00:00.500Z 1 0: early\n2026-01-31T12:00:00.500Z 1 0: begun\n',
  );
});

test('lines of streams that come one after the other are put in the order of their times', () => {
  const lines = new Lines();
  const at = (second: number | null, stream: 'stdout' | 'stderr' = 'stdout', attempt = 1) => ({
    ...piece(0, stream),
    attempt,
    at: second === null ? null : `2026-01-31T12:00:0${second}.000Z`,
  });
  lines.add(at(1), 'out 1\n');
  lines.add(at(5), 'out 5\n');
  lines.add(piece(0, 'stdout', '10 bytes were dropped here'), '[10 bytes were dropped here]\n');
  lines.add(at(null), 'out without a time\n');
  lines.add(at(2, 'stderr'), 'err 2\n');
  lines.add(at(5, 'stderr'), 'err 5\n');
  lines.add(at(0, 'stdout', 2), 'second attempt\n');
  const order = byTime(lines.all());
  expect(order.map((l) => l.text)).toEqual([
    'out 1',
    'err 2',
    'out 5',
    '[10 bytes were dropped here]',
    'out without a time',
    'err 5',
    'second attempt',
  ]);
  expect(order.filter((l) => l.err).map((l) => l.text)).toEqual(['err 2', 'err 5']);
});

test('lines without any time keep their places, and a clock that is set back reorders no stream', () => {
  const lines = new Lines();
  const at = (minute: string | null, stream: 'stdout' | 'stderr' = 'stdout') => ({
    ...piece(0, stream),
    at: minute && `2026-01-31T12:${minute}:00.000Z`,
  });
  lines.add(at(null), 'old\n');
  lines.add(at('30'), 'before\n');
  lines.add(at('10'), 'set back\n');
  lines.add(at(null, 'stderr'), 'err old\n');
  lines.add(at('20', 'stderr'), 'err\n');
  expect(byTime(lines.all()).map((l) => l.text)).toEqual(['old', 'err old', 'err', 'before', 'set back']);
  const none = new Lines();
  none.add(at(null), 'a\n');
  none.add(at(null, 'stderr'), 'b\n');
  none.add(at(null), 'c\n');
  expect(byTime(none.all()).map((l) => l.text)).toEqual(['a', 'b', 'c']);
});

test('only the newest lines are kept, and each keeps its number', () => {
  const lines = new Lines(2);
  lines.add(piece(0), 'a\nb\nc\n');
  expect(lines.all().map((l) => [l.no, l.text])).toEqual([
    [1, 'b'],
    [2, 'c'],
  ]);
});

test('a text is found in capital and small letters, and shown where it is', () => {
  const lines = new Lines();
  lines.add(piece(0), 'CUDA error\nfine\nno cuda here, Cuda\n');
  expect(found(lines.all(), ' cuda ').map((l) => l.text)).toEqual(['CUDA error', 'no cuda here, Cuda']);
  expect(found(lines.all(), ' ')).toHaveLength(3);
  expect(cut('no cuda here, Cuda', 'cuda')).toEqual(['no ', 'cuda', ' here, ', 'Cuda', '']);
  expect(cut('fine', 'cuda')).toEqual(['fine']);
});

test('of many ranks fewer lines each are read first', () => {
  expect([tailOf(8, null, 2000), tailOf(4000, null, 2000), tailOf(0, null, 2000)]).toEqual([250, 5, 2000]);
  expect(tailOf(4000, 3, 2000)).toBe(2000);
});

test('who has scrolled up is not at the end', () => {
  expect(atEnd({ scrollTop: 600, scrollHeight: 1000, clientHeight: 390 })).toBe(true);
  expect(atEnd({ scrollTop: 500, scrollHeight: 1000, clientHeight: 390 })).toBe(false);
});

test('lines are bounded by their number and by their length, and it is known that some were left out', () => {
  const few = new Lines(3, 100);
  few.add(piece(0), 'a\nb\nc\n');
  expect([few.all().length, few.dropped]).toEqual([3, false]);
  few.add(piece(0), 'd\n');
  expect([
    few
      .all()
      .map((l) => l.text)
      .join(''),
    few.dropped,
  ]).toEqual(['bcd', true]);
  const short = new Lines(1000, 100);
  for (let i = 0; i < 50; i++) short.add(piece(0), `${String(i).padEnd(29)}\n`);
  expect(short.all().map((l) => l.text.trim())).toEqual(['47', '48', '49']);
  // One line alone is shown, however long it is.
  short.add(piece(1), 'x'.repeat(500));
  expect(short.all().map((l) => l.text.length)).toEqual([500]);
});

test('more is read step by step, up to as much as a page can have', () => {
  expect(DEPTHS.map(deeper)).toEqual([5000, 10_000, null]);
  expect([atBegin({ scrollTop: 0 }), atBegin({ scrollTop: 400 })]).toEqual([true, false]);
});
