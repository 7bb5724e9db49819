import { expect, test, vi } from 'vitest';
import type { Schemas } from '../api/client';
import type { FleetMetrics } from '../exec/fleet-metrics';

vi.stubGlobal('sessionStorage', { getItem: () => null });
const {
  affectsWork,
  ending,
  expectedStart,
  firstCommands,
  lastEnded,
  lostWords,
  nodesWords,
  noQuotaWords,
  ownFirst,
  planned,
  quotaLines,
  ranSince,
  restartWords,
  serviceOf,
  usedParts,
} = await import('./words');

test('the first command names the project', () => {
  const lines = firstCommands('nlp', 'https://muster.example');
  expect(lines[0]).toContain('MUSTER_SERVER=https://muster.example');
  expect(lines.at(-1)).toMatch(/^muster run --project nlp --gpus 1 -- sh -c 'echo /);
});

const ended = (state: string, reason: string, more: object = {}, by = 'application') =>
  ending({
    state,
    reason,
    spec: {},
    past: [{ attributed_to: by, verdict: by, reason }],
    ...more,
  } as never);

test('an end says its cause once, and what to do next', () => {
  const crash = ended('failed', 'rank 0 exited with code 1 on n1', { exit_code: 1 });
  expect(crash.cause).toBe('rank 0 exited with code 1 on n1 (attributed to application)');
  expect(crash.next).toContain('last lines of its output');
  const killed = ended('failed', 'rank 3 was killed by signal 9 on n1', { exit_code: 137 });
  expect(killed.cause).toContain('(exit code 137, attributed to application)');
  expect(killed.next).toContain('memory');
  const oom = ended('failed', 'rank 3 was killed by signal 9 (out of memory: limit 8GiB) on n1');
  expect(oom.next).toContain('--memory');
  const missing = ended('failed', 'rank 0 exited with code 127 on n1', { exit_code: 127 });
  expect(missing.next).toContain('not found');
  expect(ended('succeeded', 'every rank ended with code 0', { exit_code: 0 }).cause).toBe(
    'every rank ended with code 0',
  );
  expect(ending({ state: 'failed', past: [], spec: {} } as never).cause).toBe('no reason was recorded');
});

test('what the site caused is not put on the program, and a checkpoint is used', () => {
  const lost = ended('failed', 'node n1 was lost; no retry is left', {}, 'infrastructure');
  expect(lost.next).toBe(
    'Not caused by your program. Requeue it: it begins anew, since it has no checkpoint directory.',
  );
  const spec = { checkpoint: { dir: '/ckpt' } };
  expect(ended('failed', 'node n1 was lost', { spec }, 'platform').next).toContain('its last checkpoint');
  expect(ended('failed', 'ran past its time limit of 2h', { spec }).next).toContain('longer time limit');
  expect(ended('cancelled', 'cancelled by user:ann', {}, 'user').next).toContain('Clone');
  expect(ended('cancelled', 'cancelled by user:ops', {}, 'operator').next).toContain('operator');
  // Cancelled while it waited: no attempt says by whom it was.
  expect(ended('cancelled', 'cancelled by user:ann', { past: [] }).next).toContain('Clone');
});

test('those that ended last come first, however old they are', () => {
  const at = (id: string, ended_at: string | null) => ({ id, ended_at });
  const all = [at('3', '2030-01-01T00:00:00Z'), at('2', null), at('1', '2030-01-02T00:00:00Z')];
  expect(lastEnded(all, 2).map((j) => j.id)).toEqual(['1', '3']);
});

test('a reserved start goes before an estimate, and nothing is made up', () => {
  const [early, late] = ['2030-01-01T00:00:00Z', '2030-01-01T06:00:00Z'];
  const estimated = { estimated_start: { at: late, earliest: early, basis: 'limits' } };
  expect(expectedStart({}, undefined)).toBeNull();
  expect(expectedStart({}, { estimated_start: null })).toBeNull();
  expect(expectedStart({}, estimated)).toEqual({ from: early, at: late, reserved: false, basis: 'limits' });
  expect(expectedStart({}, { estimated_start: { at: late, earliest: late, basis: '' } })?.from).toBeNull();
  const reserved_start = { at: early, since: early, nodes: [], basis: 'limits' as const };
  expect(expectedStart({ reserved_start }, estimated)).toEqual({
    from: null,
    at: early,
    reserved: true,
    basis: null,
  });
});

const used = (more: object = {}, all = 100) =>
  usedParts({
    allocated_gpu_seconds: all,
    restarting_waiting_gpu_seconds: 6,
    gpu_seconds: {
      productive: 60,
      lost: 10,
      restarting: 16,
      idle: 5,
      starting: 10,
      checkpointing: 5,
      queued: 900,
    },
    ...more,
  } as FleetMetrics);

test('the parts of what was allocated add up to it, and what does not is said', () => {
  const parts = used();
  expect(parts.map((p) => [p.word, p.seconds])).toEqual([
    ['useful', 60],
    ['lost to failures', 20],
    ['idle', 5],
    ['starting and checkpoints', 15],
  ]);
  expect(parts.reduce((n, p) => n + p.seconds, 0)).toBe(100);
  expect(used({}, 150).at(-1)).toMatchObject({ word: 'not accounted for', seconds: 50 });
  const nothing = used({ gpu_seconds: {}, restarting_waiting_gpu_seconds: 0 }, 0);
  expect(nothing.map((p) => p.seconds)).toEqual([0, 0, 0, 0]);
});

const limit = (more: Partial<Schemas['LimitRow']>): Schemas['LimitRow'] => ({
  sku: 'h100',
  nominal_milli: 16_000,
  owned_milli: 16_000,
  used_milli: 12_000,
  borrowed_milli: 0,
  borrow_milli: 0,
  left_milli: 4_000,
  ...more,
});
const row = (name: string, projects: string[], ...limits: Schemas['LimitRow'][]) =>
  ({ name, projects, limits }) as Schemas['QuotaRow'];

test('the own quota comes first, and what is above it is said to be shared', () => {
  const own = row('lab', ['nlp'], limit({}), limit({ sku: 'a100' }));
  const rows = [row('site', [], limit({ sku: null })), own];
  const lines = quotaLines(rows, 'nlp');
  expect(lines.map((l) => [l.quota, l.what, l.shared])).toEqual([
    ['lab', 'h100', false],
    ['lab', 'a100', false],
    ['site', 'any SKU', true],
  ]);
  expect(new Set(lines.map((l) => l.key)).size).toBe(3);
  expect(quotaLines([], 'nlp')).toEqual([]);
  expect(noQuotaWords([], 'nlp')).toBe('No quota applies to nlp');
  expect(noQuotaWords([row('site', []), row('lab', ['nlp'])], 'nlp')).toBe('Quota lab has no GPU limit');
});

test('a limit says what is used, allowed and borrowed', () => {
  const words = (more: Partial<Schemas['LimitRow']>) =>
    quotaLines([row('lab', ['nlp'], limit(more))], 'nlp')[0].words;
  expect(words({})).toBe('12 GPUs used, 16 owned; may not borrow; 4 more now');
  // What it may borrow by its limit is not what is there to borrow.
  expect(words({ borrow_milli: 8_000, left_milli: 5_000 })).toBe(
    '12 GPUs used, 16 owned; may borrow at most 8; 5 more now',
  );
  expect(words({ borrow_milli: null })).toContain('what others leave free');
  expect(words({ used_milli: 20_000, borrowed_milli: 4_000, left_milli: 0 })).toBe(
    '20 GPUs used, 16 owned; 4 of them borrowed: its owner may reclaim them; none more now',
  );
  expect(words({ left_milli: 0 })).toContain('none more now without reclaiming what others borrow');
  expect(words({ left_milli: 1_000 })).toContain('; 1 more now without reclaiming what others borrow');
  // A quota above it owns what those below it own, and its rest is not for this project alone.
  const above = row('site', [], limit({ nominal_milli: 0, owned_milli: 64_000, left_milli: 9_000 }));
  expect(quotaLines([above, row('lab', ['nlp'])], 'nlp')[0]).toMatchObject({
    owns: 64_000,
    words: '12 GPUs used, 64 owned; may not borrow',
  });
});

test('well is said of the project alone, and a reason is never left out', () => {
  const well = serviceOf({ state: 'well', reasons: [] }, 'nlp', 0);
  expect(well).toMatchObject({ tone: 'ok', word: 'no known problem' });
  expect(well.text).toContain('jobs of nlp');
  const reasons = ['1 critical finding', 'the operators of this site were paged'];
  const paged = serviceOf({ state: 'attention', reasons }, 'nlp', 1);
  expect(paged.tone).toBe('warn');
  expect(paged.text).toBe('1 critical finding; the operators of this site were paged.');
  expect(serviceOf({ state: 'bad', reasons: [] }, 'nlp', 0).tone).toBe('bad');
  // Tickets are open too, and what could not be read is not called well.
  const one = serviceOf({ state: 'well', reasons: [] }, 'nlp', 1);
  expect(one).toMatchObject({ tone: 'warn', text: '1 problem is open about jobs of nlp.' });
  expect(serviceOf({ state: 'well', reasons: [] }, 'nlp', 2).text).toContain('2 problems are open');
  const unknown = serviceOf({ state: 'well', reasons: [] }, 'nlp', undefined);
  expect(unknown.tone).toBe('plain');
  expect(unknown.text).not.toContain('No problem is open');
});

test('what affects no job of the project is no alarm', () => {
  const open = (jobs: number[], count = jobs.length) => ({
    items: jobs.map((jobs_affected) => ({ jobs_affected })),
    count,
  });
  expect(affectsWork(undefined)).toBeUndefined();
  expect([open([]), open([0, 0]), open([0, 2])].map(affectsWork)).toEqual([false, false, true]);
  expect(affectsWork(open([0], 300))).toBeUndefined();
  const reasons = ['the operators of this site were paged'];
  const site = serviceOf({ state: 'bad', reasons }, 'nlp', 1, false);
  expect(site).toEqual({
    tone: 'plain',
    word: 'no job affected',
    text: 'No job of nlp is affected now. The operators of this site were paged.',
  });
  expect(serviceOf({ state: 'bad', reasons }, 'nlp', 1, true).tone).toBe('bad');
  // Unless it is the service itself: its API, its scheduler or its store.
  const unwell = { reasons: ['changes are refused: the store does not answer'], service_affected: true };
  expect(serviceOf({ ...unwell, state: 'bad' }, 'nlp', 0, false)).toEqual({
    tone: 'bad',
    word: 'problem',
    text: 'No job of nlp is affected now. Changes are refused: the store does not answer.',
  });
  expect(serviceOf({ ...unwell, state: 'attention' }, 'nlp', 0, false).tone).toBe('warn');
  const past = serviceOf({ state: 'well', reasons: [] }, 'nlp', 1, false);
  expect(past).toMatchObject({ tone: 'plain', word: 'no job affected' });
  expect(past.text).toContain('1 problem is open about jobs of nlp');
  expect(serviceOf({ state: 'well', reasons: [] }, 'nlp', 0, false).tone).toBe('ok');
});

test('nodes are counted by their state', () => {
  expect(nodesWords({ ready: 14, drained: 2 })).toBe('14 of 16 ready; 2 drained');
  expect(nodesWords({ ready: 3 })).toBe('3 of 3 ready');
  expect(nodesWords({})).toBe('0 of 0 ready');
});

test('what is over is not planned, and the next comes first', () => {
  const at = (name: string, state: string, start: string) => ({ name, state, start });
  const all = [
    at('later', 'scheduled', '2030-02-02T00:00:00Z'),
    at('past', 'over', '2030-01-01T00:00:00Z'),
    at('now', 'active', '2030-01-31T00:00:00Z'),
  ];
  expect(planned(all).map((r) => r.name)).toEqual(['now', 'later']);
});

const interrupted = {
  id: '2081',
  past: [
    {
      no: 1,
      nodes: ['hgx-1', 'hgx-2'],
      reason: 'node hgx-1: XID 79',
      findings: ['7'],
      started_at: '2030-01-01T00:00:00Z',
      ended_at: '2030-01-01T03:36:00Z',
    },
  ],
} as never;

test('what affects own jobs comes first, then what has ended attempts of them', () => {
  const cause = (id: string, ended_attempts: string[], jobs_affected = 0) => ({
    id,
    ended_attempts,
    jobs_affected,
  });
  const [other, own, now] = [cause('a', []), cause('b', ['2081.1']), cause('c', [], 1)];
  expect(ownFirst([other, own, now]).map((c) => c.id)).toEqual(['c', 'b', 'a']);
});

test('a job that was restarted says how much work that cost, as the server counts it', () => {
  const of = (lost: number, checkpoints: number, lost_estimated = false) => {
    const other = { no: 7, checkpoints: 0, lost_estimated, time_ms: { lost: 99_000_000 } };
    const attempts = [other, { no: 1, checkpoints, lost_estimated, time_ms: { lost } }];
    return lostWords(interrupted, { attempts });
  };
  expect(of(24 * 60_000, 3)).toBe('lost 24 min of work since its last checkpoint');
  expect(of(24 * 60_000, 3, true)).toBe('lost about 24 min of work since its last checkpoint');
  expect(of(4 * 3_600_000, 0, true)).toBe('lost 4 h of work: that attempt reported no checkpoint');
  // What a service served counts: the server says that nothing is lost.
  expect(of(0, 0)).toBe('');
  expect(lostWords(interrupted, undefined)).toBe('');
  expect(lostWords(interrupted, { attempts: [] })).toBe('');
  expect(lostWords({ past: [] }, { attempts: [] })).toBe('');
});

test('a job that was restarted says how long it ran in all, and why it began again', () => {
  const j = { ...(interrupted as object), attempt: { no: 2 } } as never;
  expect(restartWords(j)).toBe('attempt 2, restarted because: node hgx-1: XID 79');
  expect(ranSince(j, '2030-01-01T04:00:00Z')).toBe('2030-01-01T00:24:00.000Z');
});
