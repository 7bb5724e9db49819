import { expect, test } from 'vitest';
import { Gate } from './gate';

/** Work that ends when the test says so. */
function work() {
  let end = () => {};
  const done = new Promise<void>((resolve) => {
    end = resolve;
  });
  let begun = false;
  const run = async () => {
    begun = true;
    await done;
  };
  return { run, end, begun: () => begun };
}

test('so much runs at once, the rest in its order, and what is not wanted any more does not', async () => {
  const gate = new Gate(2);
  const { signal } = new AbortController();
  const gone = new AbortController();
  const [a, b, c, d, e] = [work(), work(), work(), work(), work()];
  const first = gate.pass(signal, a.run);
  const second = gate.pass(signal, b.run);
  const third = gate.pass(gone.signal, c.run);
  const fourth = gate.pass(signal, d.run);
  const fifth = gate.pass(signal, e.run);
  expect([a, b, c, d, e].map((w) => w.begun())).toEqual([true, true, false, false, false]);
  gone.abort();
  a.end();
  await first;
  await expect(third).rejects.toThrow();
  b.end();
  await second;
  d.end();
  e.end();
  await Promise.all([fourth, fifth]);
  expect([c.begun(), d.begun(), e.begun()]).toEqual([false, true, true]);
});

test('work that fails gives its place on', async () => {
  const gate = new Gate(1);
  const { signal } = new AbortController();
  await expect(gate.pass(signal, () => Promise.reject(new Error('no')))).rejects.toThrow('no');
  expect(await gate.pass(signal, async () => 7)).toBe(7);
});
