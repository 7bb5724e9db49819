import { expect, test } from 'vitest';
import { contrast } from '../map/hues';
import { GROUNDS, INKS, PAIRS, SIZES, SPACES, tokensOf, WEIGHTS } from './tokens';

// Tests have no types of Node's own, and the runner empties every style sheet that is imported.
const node = (
  globalThis as unknown as {
    process: { getBuiltinModule: (name: string) => { readFileSync: (path: string, as: 'utf8') => string } };
  }
).process;
const sheet = tokensOf(node.getBuiltinModule('node:fs').readFileSync('src/styles/tokens.css', 'utf8'));
const THEMES = ['dark', 'light'] as const;

function colour(theme: (typeof THEMES)[number], name: string): string {
  const value = sheet.get(`[data-theme="${theme}"]`)?.get(name) ?? '';
  expect(value, `${name}, ${theme}`).toMatch(/^#[0-9a-f]{6}$/);
  return value;
}

test('every size, weight and space that is named is defined', () => {
  for (const name of [...SIZES, ...WEIGHTS, ...SPACES])
    expect(sheet.get(':root')?.get(name), name).toMatch(/^\d+(px)?$/);
});

test('sizes grow, body is 14 px, and a title is clearly larger', () => {
  const px = SIZES.map((name) => Number.parseInt(sheet.get(':root')?.get(name) ?? '', 10));
  expect(px).toEqual([...px].sort((a, b) => a - b));
  expect(new Set(px).size).toBe(px.length);
  const size = (name: (typeof SIZES)[number]) => px[SIZES.indexOf(name)];
  expect(size('--text-md')).toBe(14);
  expect(size('--text-xl') / size('--text-md')).toBeGreaterThan(1.5);
});

test('words can be read on every ground in both themes (WCAG AA)', () => {
  for (const theme of THEMES) {
    for (const ground of GROUNDS)
      for (const ink of INKS) {
        const ratio = contrast(colour(theme, ink), colour(theme, ground));
        expect(ratio, `${ink} on ${ground}, ${theme}`).toBeGreaterThanOrEqual(4.5);
      }
    for (const [ink, ground] of PAIRS)
      expect(contrast(colour(theme, ink), colour(theme, ground)), ink).toBeGreaterThanOrEqual(4.5);
  }
});

test('where the focus is can be seen on every ground', () => {
  for (const theme of THEMES)
    for (const ground of GROUNDS)
      expect(contrast(colour(theme, '--focus'), colour(theme, ground))).toBeGreaterThanOrEqual(3);
});

test('both themes define the same colours', () => {
  const names = THEMES.map((theme) => [...(sheet.get(`[data-theme="${theme}"]`)?.keys() ?? [])].sort());
  expect(names[0]).toEqual(names[1]);
  expect(names[0].length).toBeGreaterThan(10);
});
