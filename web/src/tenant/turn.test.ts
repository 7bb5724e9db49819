import { expect, test } from 'vitest';
import { inTurn } from './turn';

test('reads come one after the other, also after one that fails', async () => {
  const begun: string[] = [];
  let end = () => {};
  const first = inTurn(() => {
    begun.push('first');
    return new Promise<void>((done) => {
      end = done;
    });
  });
  const second = inTurn(async () => {
    begun.push('second');
    throw new Error('refused');
  });
  const third = inTurn(async () => begun.push('third'));
  // Whoever could begin has begun by now.
  for (let i = 0; i < 10; i++) await Promise.resolve();
  expect(begun).toEqual(['first']);
  end();
  await first;
  await expect(second).rejects.toThrow('refused');
  await third;
  expect(begun).toEqual(['first', 'second', 'third']);
});
