import { expect, test, vi } from 'vitest';

vi.stubGlobal('sessionStorage', { getItem: () => null });
const { still } = await import('./act');

test('that the server cannot be reached is said until it answers again; other things stay', () => {
  const away = { text: 'the server cannot be reached', bad: true, away: true };
  expect(still(away, 'away')).toBe(away);
  expect(still(away, 'connecting')).toBe(away);
  expect(still(away, 'live')).toBeNull();
  const refused = { text: 'no such job', bad: true, away: false };
  expect(still(refused, 'live')).toBe(refused);
  expect(still(null, 'live')).toBeNull();
});
