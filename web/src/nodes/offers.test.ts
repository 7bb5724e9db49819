import { expect, test } from 'vitest';
import {
  affectedWords,
  closeWords,
  drainWords,
  excludedAfter,
  gpusFor,
  nodeOffers,
  returnWords,
  whyNot,
} from './offers';

type Node = Parameters<typeof nodeOffers>[0];
const node = (...actions: object[]) => ({ actions }) as unknown as Node;
const remediation = (step: string, more: object = {}) => ({
  action: 'replace',
  action_text: 'have GPU 1 replaced',
  step,
  ...more,
});

test('what the server says is offered, in its order, and nothing else', () => {
  const n = node(
    { action: 'cordon', refused: null },
    { action: 'undrain', refused: 'remediation 5 took node n1 out of service', hint: 'undo it' },
    { action: 'exclude', refused: null, gpus: [0, 2] },
    { action: 'include', refused: 'node n1 has no GPU that is excluded', hint: null },
  );
  expect(nodeOffers(n)).toEqual(['cordon', 'exclude']);
  expect(whyNot(n, 'undrain')).toBe('remediation 5 took node n1 out of service');
  expect(whyNot(n, 'cordon')).toBeNull();
  expect(gpusFor(n, 'exclude')).toEqual([0, 2]);
  expect(gpusFor(n, 'include')).toEqual([]);
  // A token that may do nothing is sent none.
  expect(nodeOffers({})).toEqual([]);
});

test('a GPU is excluded with those that are already, and included alone', () => {
  expect(excludedAfter([3], 1, true)).toEqual([1, 3]);
  expect(excludedAfter([1, 3], 3, false)).toEqual([1]);
  expect(excludedAfter([3], 3, false)).toEqual([]);
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
