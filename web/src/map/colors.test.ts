import { expect, test } from 'vitest';
import { Flag } from '../live/frame';
import { CLASSES, classColor, classOf, css, ramp, type Theme } from './colors';

/** How light a colour is to the eye, by the rule of the WCAG. */
function light(hex: string): number {
  const parts = [1, 3, 5].map((i) => Number.parseInt(hex.slice(i, i + 2), 16) / 255);
  const [r, g, b] = parts.map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

const THEMES: Theme[] = ['dark', 'light'];

test('what was found outweighs that a GPU works', () => {
  expect(classOf('ready', 0)).toBe('free');
  expect(classOf('ready', 128)).toBe('held');
  expect(classOf('ready', 128 | 1)).toBe('held');
  expect(classOf('ready', 128 | 2)).toBe('suspect');
  expect(classOf('ready', 3)).toBe('out');
  expect(classOf('lost', 3)).toBe('lost');
  expect(classOf('lost', Flag.breaker)).toBe('lost');
  expect(classOf('something new', 0)).toBe('unknown');
});

test('a GPU behind an open breaker takes no new work: it is not called free', () => {
  expect(classOf('ready', Flag.breaker)).toBe('away');
  expect(classOf('ready', Flag.breaker | Flag.held)).toBe(classOf('cordoned', Flag.held));
  expect(classOf('ready', Flag.breaker | 3)).toBe('out');
});

test('ramps go one way in lightness, so that no hue needs to be seen', () => {
  for (const theme of THEMES) {
    const steps = Array.from({ length: 20 }, (_, i) => light(css(ramp(i / 19, theme))));
    const sorted = [...steps].sort((a, b) => (theme === 'dark' ? a - b : b - a));
    expect(steps).toEqual(sorted);
  }
});

test('what is wrong differs from what is well in lightness too', () => {
  for (const theme of THEMES) {
    const held = light(classColor('held', theme));
    for (const c of ['suspect', 'out', 'lost'] as const) {
      const bad = light(classColor(c, theme));
      const ratio = (Math.max(held, bad) + 0.05) / (Math.min(held, bad) + 0.05);
      expect(ratio, `${c} beside held, ${theme}`).toBeGreaterThan(1.1);
    }
    expect(new Set(CLASSES.map((c) => classColor(c, theme))).size).toBe(CLASSES.length);
  }
});
