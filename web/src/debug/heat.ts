import { css, ramp, type Theme } from '../map/colors';

export type Values = (number | null)[];

/** Slower than the middle of its stretch by so much is called a straggler. */
export const SLOW = 1.15;

// Faster, as the middle, slower, much slower. Lightness rises to both ends on a dark page and falls
// on a light one, so that the middle recedes.
const APART: Record<Theme, string[]> = {
  dark: ['#3f7fbf', '#22303d', '#8a6a22', '#e0a030', '#ff5a3c'],
  light: ['#5b97cf', '#dbe4ec', '#eed39a', '#d98f00', '#b3001b'],
};
const STEPS = [0.94, 1.03, 1.08, SLOW];

/** The colour of a length beside the middle of all. */
export function apart(ratio: number, theme: Theme): string {
  const at = STEPS.findIndex((s) => ratio < s);
  return APART[theme][at < 0 ? STEPS.length : at];
}

export const APART_WORDS = [
  'faster',
  'as the median',
  `3 to 8 % slower`,
  `8 to ${Math.round((SLOW - 1) * 100)} % slower`,
  `slower still`,
];
export const apartColours = (theme: Theme) => APART[theme];

/** The least and the most of many lines; nothing when nothing is reported. */
export function range(lines: Values[]): [number, number] | null {
  let [low, high] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
  for (const line of lines) {
    for (const v of line) {
      if (v === null) continue;
      low = Math.min(low, v);
      high = Math.max(high, v);
    }
  }
  return high >= low ? [low, high] : null;
}

/** What one cell of the map looks like. */
export type Paint = (value: number, bin: number) => string;

/** Lengths of steps beside the middle of the same stretch. */
export function beside(middle: Values, theme: Theme): Paint {
  return (v, bin) => apart(v / (middle[bin] || v || 1), theme);
}

/** A figure between the least and the most. */
export function along([low, high]: [number, number], theme: Theme): Paint {
  return (v) => css(ramp(high > low ? (v - low) / (high - low) : 0.5, theme));
}

/**
 * The words of a legend and where each is on the ramp. Words that would be the same are one: what lies between
 * 96 and 97 % is not five things, and one value is one.
 */
export function legend([low, high]: [number, number], unit: string): { at: number; word: string }[] {
  const places = high > low ? [0, 0.25, 0.5, 0.75, 1] : [0.5];
  const digits = high > low && high - low < 4 ? 1 : 0;
  const word = (at: number) =>
    `${(low + (high - low) * at).toLocaleString('en', { maximumFractionDigits: digits })} ${unit}`;
  const all = places.map((at) => ({ at, word: word(high > low ? at : 0) }));
  return all.filter((e, i) => all.findIndex((o) => o.word === e.word) === i);
}

/** In how many stretches a rank was a straggler, of those that it reported. */
export function slowShare(line: Values, middle: Values): number {
  let [slow, reported] = [0, 0];
  line.forEach((v, i) => {
    const m = middle[i];
    if (v === null || m === null || m === undefined || m <= 0) return;
    reported++;
    if (v / m >= SLOW) slow++;
  });
  return reported ? slow / reported : 0;
}
