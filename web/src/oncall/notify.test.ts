import { beforeEach, expect, test, vi } from 'vitest';

vi.stubGlobal('sessionStorage', { getItem: () => null });
vi.mock('@tanstack/react-router', () => ({ useNavigate: () => () => {} }));
vi.mock('../live/fleet', () => ({ useRevision: () => 0, useStanding: () => 'live' }));

const stored = new Map<string, string>();
const browser = { permission: 'granted' };
beforeEach(() => {
  stored.clear();
  browser.permission = 'granted';
  vi.stubGlobal('Notification', browser);
  vi.stubGlobal('localStorage', {
    getItem: (k: string) => stored.get(k) ?? null,
    setItem: (k: string, v: string) => stored.set(k, v),
    removeItem: (k: string) => stored.delete(k),
  });
});

/** The module as a page that is loaded again has it. */
async function loaded() {
  vi.resetModules();
  return await import('./notify');
}

test('notifications that somebody asked for are on after a reload', async () => {
  const first = await loaded();
  expect(first.notifies()).toBe(false);
  first.setNotifies(true);
  expect(first.notifies()).toBe(true);
  expect((await loaded()).notifies()).toBe(true);
  (await loaded()).setNotifies(false);
  expect((await loaded()).notifies()).toBe(false);
});

test('without the permission of the browser they are off, whatever is stored', async () => {
  const page = await loaded();
  page.setNotifies(true);
  browser.permission = 'default';
  expect(page.notifies()).toBe(false);
});

test('a browser that stores nothing has them until the page is loaded again', async () => {
  const refuse = () => {
    throw new Error('no storage');
  };
  vi.stubGlobal('localStorage', { getItem: refuse, setItem: refuse, removeItem: refuse });
  const page = await loaded();
  page.setNotifies(true);
  expect(page.notifies()).toBe(true);
  expect((await loaded()).notifies()).toBe(false);
});
