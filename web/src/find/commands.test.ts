import { expect, test, vi } from 'vitest';
import { PAGES } from '../ui/pages';
import { ownEntries } from './commands';

const hands = {
  theme: 'dark' as const,
  utc: false,
  chooseTheme: vi.fn(),
  chooseUtc: vi.fn(),
  openHelp: vi.fn(),
  leave: vi.fn(),
};
const rights = { whole: true, project: null, submits: true, operates: false, administers: false };
const labels = (submits: boolean) => ownEntries(PAGES, { ...rights, submits }, hands).map((e) => e.label);

test('who may not submit jobs is not offered to', () => {
  expect(labels(true)).toContain('Submit a job');
  expect(labels(false)).not.toContain('Submit a job');
  expect(labels(false)).toContain('Fleet');
});

test('a command does what it says', () => {
  const all = ownEntries([], rights, hands);
  const run = (label: string) => all.find((e) => e.label === label)?.run?.();
  run('Use the light colours');
  expect(hands.chooseTheme).toHaveBeenCalledWith('light');
  run('Show times in UTC');
  expect(hands.chooseUtc).toHaveBeenCalledWith(true);
  run('Log out');
  expect(hands.leave).toHaveBeenCalled();
});

test('every entry has a key of its own, and either an address or what it runs', () => {
  const all = ownEntries(PAGES, rights, hands);
  expect(new Set(all.map((e) => e.key)).size).toBe(all.length);
  for (const e of all) expect(Boolean(e.href) !== Boolean(e.run), e.label).toBe(true);
});
