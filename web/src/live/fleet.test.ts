import { expect, test, vi } from 'vitest';

vi.stubGlobal('sessionStorage', { getItem: () => null });
const { within } = await import('./fleet');

test('a server that says nothing is away, though its connection stands', async () => {
  vi.useFakeTimers();
  try {
    const silent = within(new Promise<never>(() => {}), 20_000);
    const said = expect(silent).rejects.toThrow('the server sent nothing for 20 s');
    await vi.advanceTimersByTimeAsync(20_000);
    await said;
    await expect(within(Promise.resolve(7), 20_000)).resolves.toBe(7);
    expect(vi.getTimerCount()).toBe(0);
  } finally {
    vi.useRealTimers();
  }
});
