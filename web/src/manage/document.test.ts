import { expect, test } from 'vitest';
import { documentText, readDocument, valueAt, withValue } from './document';

const policy = {
  backfill: { mode: 'easy', patience: '10m' },
  limits: {},
  power: { feeds: { A: 120000 } },
  remediations: { rules: [{ kind: 'gpu-*', steps: ['drain', 'reboot'] }] },
};

test('what is shown as a file is read as the same document', () => {
  const text = documentText('Policy', policy);
  expect(text.startsWith('kind: Policy\nbackfill:\n')).toBe(true);
  expect(readDocument('Policy', 'policy', text)).toEqual({ document: policy });
});

test('what the API gave is taken too', () => {
  const text = 'kind: Policy\nversion: 7\npolicy:\n  limits: {}\n';
  expect(readDocument('Policy', 'policy', text)).toEqual({ document: { limits: {} } });
});

test('lengths and dates stay text', () => {
  expect(readDocument('Policy', 'policy', 'a: 1d\nb: 2026-01-31')).toEqual({
    document: { a: '1d', b: '2026-01-31' },
  });
});

test('what is no document is refused with where and why', () => {
  const problem = (text: string) => {
    const read = readDocument('Policy', 'policy', text);
    return 'problem' in read ? read.problem : null;
  };
  expect(problem('a: [1\nb: 2')).toMatch(/^line \d+, column \d+: /);
  expect(problem('a: 1\na: 2')).toContain('duplicated');
  expect(problem('- a')).toContain('kind: Policy');
  expect(problem('')).toContain('not a document');
  expect(problem('kind: Quotas\ntree: []')).toBe('This is a document of kind Quotas; here it must be Policy');
  expect(problem('policy: 3')).toBe('policy must have keys with values');
});

test('a value is read and changed by its path', () => {
  expect(valueAt(policy, 'backfill.mode')).toBe('easy');
  expect(valueAt(policy, 'limits.max_time')).toBeUndefined();
  expect(valueAt(policy, 'backfill.mode.x')).toBeUndefined();
  const next = withValue(policy, 'limits.max_time', '2d');
  expect(next.limits).toEqual({ max_time: '2d' });
  expect(policy.limits).toEqual({});
  expect(withValue(next, 'limits.max_time', undefined)).toEqual(policy);
  expect(withValue({}, 'idle.warn_after', '1h')).toEqual({ idle: { warn_after: '1h' } });
});
