import { expect, test } from 'vitest';
import {
  affectedWords,
  closeWords,
  drainWords,
  excludedAfter,
  gpusOf,
  nodeOffers,
  repairable,
  retirable,
  returnable,
  returnWords,
} from './offers';

type Node = Parameters<typeof nodeOffers>[0];
const node = (more: object = {}) =>
  ({
    stage: 'ready',
    reachable: true,
    gpus_excluded: [],
    gpus_missing: [],
    inventory: { gpus: [{ index: 0 }, { index: 1 }] },
    ...more,
  }) as unknown as Node;
const remediation = (step: string, more: object = {}) => ({
  action: 'replace',
  action_text: 'have GPU 1 replaced',
  step,
  ...more,
});

test('a node in service is not returned, repaired or retired', () => {
  expect(nodeOffers(node())).toEqual(['cordon', 'drain', 'qualify', 'exclude']);
  expect(nodeOffers(node({ stage: 'retired' }))).toEqual([]);
});

test('a node in repair may be reported as repaired until its test runs', () => {
  const at = (step: string, more = {}) =>
    node({ stage: 'repairing', remediation_detail: remediation(step, more) });
  expect(repairable(at('repairing'))).toBe(true);
  expect(repairable(at('testing'))).toBe(false);
  expect(repairable(node({ stage: 'repairing' })), 'no remediation took it').toBe(false);
  expect(repairable(node({ remediation_detail: remediation('repairing') })), 'it is ready').toBe(false);
});

test('in the middle of a reset a node is neither returned nor reported as repaired', () => {
  const act = (state: string) => ({ act: { what: 'reset_gpu', state } });
  const at = (state: string) =>
    node({ stage: 'quarantined', remediation_detail: remediation('acting', act(state)) });
  expect(returnable(at('open'))).toBe(false);
  expect(repairable(at('open'))).toBe(false);
  expect(returnable(at('failed'))).toBe(true);
  expect(repairable(at('failed'))).toBe(true);
});

test('only what was taken out of service may be returned', () => {
  for (const stage of ['quarantined', 'repairing', 'suspect']) expect(returnable(node({ stage }))).toBe(true);
  expect(returnable(node())).toBe(false);
  expect(returnable(node({ stage: 'drained' })), 'an operator drained it').toBe(false);
  expect(returnable(node({ stage: 'draining', remediation_detail: remediation('moving') }))).toBe(true);
  expect(returnable(node({ remediation_detail: remediation('proposed') })), 'nothing is done yet').toBe(
    false,
  );
  expect(returnable(node({ cordon: 'fan', qualified: { outcome: 'passed' } }))).toBe(false);
  expect(returnable(node({ cordon: 'its test failed', qualified: { outcome: 'failed' } }))).toBe(true);
  expect(returnable(node({ breaker: 'node:n1' }))).toBe(true);
  expect(returnable(node({ breaker: 'node:n1' }), true), 'its breaker is forced').toBe(false);
});

test('a node is retired when it is drained, out of service or away', () => {
  for (const stage of ['drained', 'enrolled', 'quarantined', 'repairing'])
    expect(retirable(node({ stage }))).toBe(true);
  for (const stage of ['ready', 'draining', 'suspect']) {
    expect(retirable(node({ stage }))).toBe(false);
    expect(retirable(node({ stage, reachable: false }))).toBe(true);
  }
  expect(retirable(node({ stage: 'retired', reachable: false }))).toBe(false);
});

test('a GPU is excluded with those that are already, and included alone', () => {
  expect(excludedAfter([3], 1, true)).toEqual([1, 3]);
  expect(excludedAfter([1, 3], 3, false)).toEqual([1]);
  expect(excludedAfter([3], 3, false)).toEqual([]);
  expect(gpusOf(node({ gpus_missing: [3], gpus_excluded: [3] }))).toEqual([0, 1, 3]);
  const all = node({ gpus_excluded: [0, 1] });
  expect(nodeOffers(all)).toContain('include');
  expect(nodeOffers(all)).not.toContain('exclude');
});

test('who decides about a node reads which jobs it affects', () => {
  const jobs = [{ id: '7', name: 'train', project: 'team-a' }];
  expect(affectedWords(jobs)).toBe('Affected jobs: 7 train (team-a).');
  expect(affectedWords([])).toBe('No job is affected.');
  expect(affectedWords(null)).toContain('could not be read');
  const many = Array.from({ length: 10 }, (_, i) => ({ id: `${i}`, name: 'j', project: 'p' }));
  expect(affectedWords(many)).toContain('and 2 more jobs');
  expect(drainWords(jobs)).toBe('Job 7 train (team-a) is allocated here. It may finish; nothing new comes.');
});

test('who returns a node reads what is closed with it', () => {
  const finding = { title: 'A GPU fell off the bus', kind: 'gpu-off-bus', gpu: 3 };
  const words = returnWords({
    findings: [finding],
    remediation_detail: remediation('repairing'),
  } as unknown as Parameters<typeof returnWords>[0]);
  expect(words).toContain('1 open finding is closed: A GPU fell off the bus on GPU 3.');
  expect(words).toContain('Its remediation (have GPU 1 replaced) ends.');
  expect(returnWords({ findings: [], remediation_detail: null })).not.toContain('closed');
});

test('who closes a critical finding reads that its node may get work', () => {
  expect(closeWords({ severity: 'critical', node: 'n1' })).toContain('n1 gets work again');
  expect(closeWords({ severity: 'warning', node: 'n1' })).not.toContain('gets work again');
});
