import { expect, test, vi } from 'vitest';
import type { Alert, Cause, Remediation } from './causes';

vi.stubGlobal('sessionStorage', { getItem: () => null });
const {
  approveEach,
  breakerWords,
  counts,
  newPages,
  OWN_LENGTH,
  pageWords,
  pendingOf,
  informs,
  primary,
  quieted,
  runbookSearch,
  silenceMatch,
  silenceName,
  silenceWords,
  waitingCounts,
  waitingWords,
} = await import('./causes');

const remediation = (id: string, node: string, gpu: number | null = null): Remediation =>
  ({ id, node, gpu, action_text: 'reboot the node' }) as never;
const alert = (id: string, more: object = {}): Alert =>
  ({ id, urgency: 'page', silenced: null, acknowledged: null, ...more }) as never;
const job = (id: string, ...nodes: string[]) => ({ id, name: 'train', project: 'a', gpus: 8, nodes });
const cause = (more: object): Cause =>
  ({
    id: 'node:n1',
    kind: 'gpu-off-bus',
    alerts: [],
    incidents: [],
    findings: [],
    remediations: [],
    pending: [],
    pending_jobs: [],
    pending_jobs_count: 0,
    jobs: [],
    jobs_affected: 0,
    runbook: null,
    ...more,
  }) as never;

test('what is pending names the jobs on its own node only', () => {
  const one = cause({
    remediations: [remediation('5', 'n1'), remediation('6', 'n2'), remediation('7', 'n3')],
    pending: ['5', '6'],
    pending_jobs: [job('1', 'n1', 'n2'), job('2', 'n2'), job('3', 'n3')],
    pending_jobs_count: 3,
    jobs: [job('2', 'n2')],
    jobs_affected: 1,
  });
  const named = pendingOf([one]).map((p) => [p.remediation.id, p.jobs.map((j) => j.id), p.unnamed]);
  expect(named).toEqual([
    ['5', ['1'], 0],
    ['6', ['1', '2'], 0],
  ]);
});

test('there is one thing to do next, and none that would be refused', () => {
  const runbook = { name: 'b', vars: {}, step: 1 };
  const all = cause({
    pending: ['5'],
    alerts: [alert('a')],
    incidents: [{ id: '9', owner: null }],
    runbook,
  });
  expect(primary(all, true).does).toBe('approve');
  expect(primary(all, false).does).toBe('runbook');
  const woken = cause({ alerts: [alert('a')], incidents: [{ id: '9', owner: null }], runbook });
  expect(primary(woken, true)).toMatchObject({ does: 'acknowledge', alert: { id: 'a' } });
  for (const quiet of [{ silenced: 's' }, { acknowledged: { by: 'x' } }, { urgency: 'ticket' }]) {
    const c = cause({ alerts: [alert('a', quiet)], incidents: [{ id: '9', owner: null }], runbook });
    expect(primary(c, true)).toEqual({ does: 'assign', incident: '9' });
  }
  const owned = cause({ incidents: [{ id: '9', owner: 'user:ann' }], runbook });
  expect(primary(owned, true).does).toBe('runbook');
  const watched = cause({ runbook: { ...runbook, step: null } });
  expect(primary(watched, true).does).toBe('nothing');
  expect(primary(cause({}), true).does).toBe('nothing');
  const waiting = cause({ kind: 'approvals-wait', alerts: [alert('a', { urgency: 'ticket' })] });
  expect(primary(waiting, true).does).toBe('review');
});

test('what is silenced or acknowledged as a whole has no main thing to do', () => {
  expect(quieted(cause({ alerts: [alert('a', { silenced: 's' }), alert('b', { acknowledged: {} })] }))).toBe(
    true,
  );
  expect(quieted(cause({ alerts: [alert('a', { silenced: 's' }), alert('b')] }))).toBe(false);
  expect(quieted(cause({ alerts: [] }))).toBe(false);
});

test('a card that only informs is known by its words', () => {
  expect(informs(cause({ urgency: null, severity: 'info' }))).toBe(true);
  expect(informs(cause({ urgency: null, severity: null }))).toBe(true);
  expect(informs(cause({ urgency: 'page', severity: 'info' }))).toBe(false);
  expect(informs(cause({ urgency: 'ticket', severity: null }))).toBe(false);
  expect(informs(cause({ urgency: 'ticket', severity: 'warning' }))).toBe(false);
});

test('the strip counts each job once, and says where it cannot know', () => {
  const causes = [
    cause({ alerts: [alert('a'), alert('b', { silenced: 's' })], jobs: [job('1')], jobs_affected: 1 }),
    cause({ pending: ['5', '6'], incidents: [{ id: '9' }], jobs: [job('1'), job('2')], jobs_affected: 2 }),
  ];
  expect(counts(causes)).toEqual({ paging: 1, pending: 2, delayed: 0, incidents: 1, jobs: 2, about: false });
  const many = [cause({ jobs: [job('1')], jobs_affected: 70 })];
  expect(counts(many)).toMatchObject({ jobs: 70, about: true });
});

test('a card is called a page where the strip counts it, and says why where not', () => {
  const of = (...alerts: Alert[]) => {
    const one = cause({ alerts });
    expect(counts([one]).paging > 0).toBe(pageWords(one).paging);
    return pageWords(one).word;
  };
  const known = alert('a', { acknowledged: { by: 'user:ann' } });
  const silenced = alert('b', { silenced: 's' });
  expect(of(alert('a'))).toBe('page');
  expect(of(known, alert('b'))).toBe('page');
  expect(of(known)).toBe('page, acknowledged');
  expect(of(silenced)).toBe('page, silenced');
  // A ticket that nobody has acknowledged makes no page of it.
  expect(of(known, alert('c', { urgency: 'ticket' }))).toBe('page, acknowledged');
});

test('what is delayed is not counted as what somebody has to approve', () => {
  const delayed = { ...remediation('6', 'n2'), delayed: true };
  const one = cause({ remediations: [remediation('5', 'n1'), delayed], pending: ['5', '6'] });
  expect(counts([one])).toMatchObject({ pending: 1, delayed: 1 });
  expect(waitingWords(waitingCounts(one.remediations))).toBe('1 to approve, 1 delayed');
  expect(waitingWords(waitingCounts([delayed]))).toBe('1 delayed');
  expect(waitingWords(waitingCounts([]))).toBe('');
});

test('a silence means what the alert is made of, and never the whole site', () => {
  const one = { kind: 'gpu-off-bus', cause: 'gpu:n1/3', count: 1 };
  expect(silenceMatch(one)).toEqual({ kind: 'gpu-off-bus', entity: 'gpu:n1/3' });
  const leaf = { kind: 'leaf-loss', cause: 'leaf:eu/c/s/l', count: 65 };
  expect(silenceMatch(leaf)).toEqual({ under: 'leaf:eu/c/s/l' });
  expect(silenceWords(leaf)).toContain('what is part of it');
  const site = { kind: 'api-latency', cause: 'site', count: 3 };
  expect(silenceMatch(site)).toEqual({ kind: 'api-latency', entity: 'site' });
});

test('a length of one’s own is one that the server reads', () => {
  const fits = (text: string) => new RegExp(`^(?:${OWN_LENGTH})$`).test(text);
  for (const good of ['45m', '6h', '1h30m', '3d']) expect(fits(good)).toBe(true);
  for (const bad of ['', '0m', '45', 'h', '-1h', '1 h', 'forever']) expect(fits(bad)).toBe(false);
});

test('only pages that came later are new', () => {
  const causes = [{ alerts: [alert('a'), alert('b'), alert('c', { urgency: 'ticket' })] }];
  expect(newPages(null, causes)).toEqual([]);
  expect(newPages(new Set(['a']), causes).map((a) => a.id)).toEqual(['b']);
  expect(newPages(new Set(['a', 'b']), causes)).toEqual([]);
});

test('what is refused does not keep the rest from being approved', async () => {
  const asked: string[] = [];
  const approve = async (id: string) => {
    asked.push(id);
    if (id === '6') throw new Error('remediation 6 has ended');
  };
  const all = [remediation('5', 'n1'), remediation('6', 'n2', 3), remediation('7', 'n3')];
  await expect(approveEach(all, approve)).rejects.toThrow(
    '2 remediations approved. Not approved: reboot the node on n2 GPU 3: remediation 6 has ended',
  );
  expect(asked).toEqual(['5', '6', '7']);
  expect(await approveEach([remediation('5', 'n1')], async () => {})).toBe(1);
});

test('a runbook is opened at its step, with what it asks for filled in', () => {
  const runbook = { name: 'gpu-off-bus', vars: { node: 'n1', gpu: '3' }, step: 4 };
  const c = cause({ runbook, findings: [{ id: '12' }] });
  expect(runbookSearch(c)).toEqual({ node: 'n1', gpu: '3', finding: '12', step: 4 });
  expect(runbookSearch(cause({}))).toEqual({});
});

test('a breaker is explained in the same words everywhere', () => {
  const reason = 'this version fails more than others';
  expect(breakerWords({ reason })).toBe(reason);
  expect(breakerWords({ reason, pinned: 'user:mara' })).toBe(`forced by mara: ${reason}`);
  expect(breakerWords({ reason: '', pinned: 'user:mara' })).toBe('forced by mara');
});

test('a silence is named by what it is about and when it was made', () => {
  const at = Date.parse('2030-01-31T12:05:09Z');
  expect(silenceName({ kind: 'driver-hang' }, at)).toBe('console-driver-hang-20300131-120509');
  expect(silenceName({ kind: '..' }, at)).toBe('console-20300131-120509');
  expect(silenceName({ kind: 'x'.repeat(200) }, at).length).toBeLessThan(64);
});
