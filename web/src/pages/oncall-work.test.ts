import { expect, test, vi } from 'vitest';

vi.stubGlobal('sessionStorage', { getItem: () => null });
const { hottest, more } = await import('./oncall-work');

test('each hot node is named once, by its hottest GPU; what has no data is not hot', () => {
  const fleet = {
    columns: { temp: new Uint8Array([81, 90, 79, 255, 85, 30]) },
    nodeOf: new Uint32Array([0, 0, 1, 1, 2, 2]),
  } as unknown as Parameters<typeof hottest>[0];
  expect(hottest(fleet)).toEqual([
    { node: 0, gpu: 1, temp: 90 },
    { node: 2, gpu: 4, temp: 85 },
  ]);
});

test('what is left out is counted in words that fit together', () => {
  expect(more(42, true, 'job')).toBe('at least 42 more jobs');
  expect(more(1, false, 'job')).toBe('1 more job');
  expect(more(1641, false, 'job')).toBe('1,641 more jobs');
});
