import { expect, test, vi } from 'vitest';

vi.stubGlobal('sessionStorage', { getItem: () => null });
const { hottest } = await import('./oncall-work');

test('each hot node is named once, by its hottest GPU; what is not told is not hot', () => {
  const fleet = {
    columns: { temp: new Uint8Array([81, 90, 79, 255, 85, 30]) },
    nodeOf: new Uint32Array([0, 0, 1, 1, 2, 2]),
  } as unknown as Parameters<typeof hottest>[0];
  expect(hottest(fleet)).toEqual([
    { node: 0, gpu: 1, temp: 90 },
    { node: 2, gpu: 4, temp: 85 },
  ]);
});
