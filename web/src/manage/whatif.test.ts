import { expect, test } from 'vitest';
import {
  amount,
  type ChangeKind,
  changeText,
  commandOf,
  difference,
  EMPTY,
  type Figure,
  type Kept,
  MOST_KEPT,
  meanOf,
  pathsOf,
  signed,
  startDifference,
  titleOf,
  unlike,
  whatIfBody,
  withAnswer,
} from './whatif';

const text = (kind: ChangeKind, value: string, extra = '') => {
  const read = changeText({ kind, value, extra });
  return 'text' in read ? read.text : null;
};

test('changes are written as the CLI takes them', () => {
  expect(text('more', '64')).toBe('nodes=+64');
  expect(text('more', ' 64 ', 'h200-sxm')).toBe('nodes=+64:h200-sxm');
  expect(text('fewer', '8')).toBe('nodes=-8');
  expect(text('spares', '0')).toBe('spares=0');
  expect(text('policy', 'aggressive', 'backfill.mode')).toBe('policy.backfill.mode=aggressive');
  expect(text('policy', '700', 'power.gpu_watts.h100-sxm')).toBe('policy.power.gpu_watts.h100-sxm=700');
  expect(text('checkpoint', '1h30m')).toBe('checkpoint=1h30m');
  expect(text('failure_rate', '0.5')).toBe('failure_rate=x0.5');
  expect(text('sku', 'gb200')).toBe('sku=gb200');
});

test('what makes no sense is not asked', () => {
  for (const value of ['', '0', '-3', 'many', '1.5']) expect(text('more', value)).toBeNull();
  expect(text('spares', 'all')).toBeNull();
  expect(text('policy', 'easy')).toBeNull();
  expect(text('policy', '', 'backfill.mode')).toBeNull();
  for (const field of ['', 'backfill mode', 'backfill.mode=easy'])
    expect(changeText({ kind: 'policy', value: 'x', extra: field })).toMatchObject({ at: 'extra' });
  expect(text('checkpoint', 'often')).toBeNull();
  for (const value of ['-1', '1001', 'twice']) expect(text('failure_rate', value)).toBeNull();
  expect(text('sku', '')).toBeNull();
});

test('what is wrong is said at its field, by the name that the server has for it', () => {
  const field = (more: object) => {
    const got = whatIfBody({ ...EMPTY, ...more });
    return 'problem' in got ? got.problem.field : null;
  };
  const [first] = EMPTY.rows;
  expect(field({})).toBeNull();
  expect(field({ rows: [first, { ...first, id: 1, value: '' }] })).toBe('changes[1]');
  for (const seeds of ['', '0', '65', '2.5']) expect(field({ seeds })).toBe('seeds');
  expect(field({ horizon: 'long' })).toBe('horizon');
  expect(whatIfBody({ ...EMPTY, horizon: ' 24h ' })).toEqual({
    body: { changes: ['nodes=+8'], seeds: 8, horizon: '24h', budget: '10s' },
  });
});

test('the command asks the same', () => {
  const body = { changes: ['nodes=+8'], seeds: 8, horizon: null, budget: '10s' };
  expect(commandOf(body)).toBe('muster whatif --from server --change nodes=+8 --seeds 8 --budget 10s');
  const changes = ['spares=2', "policy.a=b c'd"];
  const command = commandOf({ changes, seeds: 4, horizon: '24h', budget: '20s' });
  expect(command).toContain(`--change spares=2 --change 'policy.a=b c'\\''d' --seeds 4`);
  expect(command).toMatch(/ --horizon 24h --budget 20s$/);
});

test('fields of a document are named by their paths', () => {
  const policy = { backfill: { mode: 'easy', reserved_starts: 5 }, limits: {}, classes: [1], off: null };
  expect(pathsOf(policy)).toEqual(['backfill.mode', 'backfill.reserved_starts', 'classes', 'off']);
  expect(pathsOf(undefined)).toEqual([]);
});

const figure = (name: string, unit: Figure['unit'], change: number, certain = true): Figure => {
  const of = (mean: number) => ({ mean, interval: [mean, mean] });
  return { name, unit, base: of(1), changed: of(1 + change), change: of(change), certain };
};

test('a difference says which way it goes, and whether that is better', () => {
  const of = (...given: Parameters<typeof figure>) => {
    const { text, good } = difference(figure(...given));
    return [text, good];
  };
  expect(of('wait_mean_s', 'seconds', -7200)).toEqual(['−2.0 h, better', true]);
  expect(of('wait_p95_s', 'seconds', 30)).toEqual(['+30 s, worse', false]);
  expect(of('goodput', 'share', 0.013)).toEqual(['+1.3 points, better', true]);
  expect(of('gpu_allocation_ratio', 'share', -0.1)).toEqual(['−10.0 points', null]);
  expect(of('interruptions', 'count', 0.4, false)).toEqual(['no certain difference (+0.4)', null]);
  expect(of('goodput', 'share', 0.0001, false)).toEqual(['same', null]);
});

test('numbers have their units', () => {
  expect(amount(5400, 'seconds')).toBe('90.0 min');
  expect(amount(0.966, 'share')).toBe('96.6 %');
  expect(amount(0.33, 'count')).toBe('0.3');
  expect(amount(1234.5, 'count')).toBe('1,235');
  expect(signed(0, 'seconds')).toBe('0 s');
});

test('a job that could never start with the change is not called later', () => {
  const of = (more: object) => startDifference({ job: '7', name: 'big', ...more });
  expect(of({ base_s: 60, changed_s: null, never: true })).toBe('never');
  expect(of({ base_s: 60, changed_s: null })).toBe('later');
  expect(of({ base_s: null, changed_s: 60 })).toBe('earlier');
  expect(of({ base_s: 7260, changed_s: 60 })).toBe('2.0 h earlier');
});

test('some answers stay to be compared, the newest last', () => {
  const next = { at: 0, body: { changes: [], seeds: 8, horizon: null, budget: '10s' }, answer: {} as never };
  let kept: Kept[] = [];
  for (let i = 0; i < MOST_KEPT + 2; i++) kept = withAnswer(kept, next);
  expect(kept.map((k) => k.id)).toEqual([3, 4, 5, 6]);
  expect(withAnswer([kept[3], kept[0]], next).map((k) => k.id)).toEqual([6, 3, 7]);
});

test('what is not over at the end is a lower bound, and no difference is reported', () => {
  const f = figure('queue_makespan_s', 'seconds', 0);
  const base = { mean: 115_200, interval: null, at_least: true };
  expect(meanOf(base, 'seconds')).toBe('> 32.0 h');
  expect(difference({ ...f, base, changed: base })).toEqual({ text: 'not over in either', good: null });
  expect(difference({ ...f, base })).toEqual({ text: 'over in one only', good: null });
});

const asked = (id: number, more: object = {}, answer: object = {}) =>
  ({
    id,
    at: 0,
    body: { changes: ['nodes=+3'], seeds: 8, horizon: null, budget: '10s', ...more },
    answer: {
      changes: ['3 more nodes'],
      seeds: 8,
      horizon_s: 3600,
      new_work: true,
      base_size: [2, 16],
      running: 1,
      waiting: 0,
      ...answer,
    },
  }) as unknown as Kept;

test('no two answers have the same title', () => {
  const kept = [asked(1), asked(2, { horizon: '6h' }), asked(3, { seeds: 4 }), asked(4)];
  expect(titleOf(kept[0], kept.slice(0, 1))).toBe('3 more nodes');
  expect(titleOf(kept[1], kept)).toBe('3 more nodes (6h ahead, 8 pairs asked, 10s)');
  expect(new Set(kept.map((k) => titleOf(k, kept))).size).toBe(4);
});

test('answers over another time, or of another site, are marked', () => {
  expect(unlike([asked(1), asked(2)])).toBeNull();
  expect(unlike([asked(1), asked(2, {}, { horizon_s: 7200 })])).toContain('how far ahead');
  expect(unlike([asked(1), asked(2, {}, { seeds: 3 })])).toContain('pairs of runs');
  expect(unlike([asked(1), asked(2, {}, { waiting: 5 })])).toContain('the site when it was asked');
});
