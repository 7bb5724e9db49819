// Which colour is whose, where colours stand for names. No React here.

/**
 * A colour for each of these, none twice while there are enough. The same one keeps its colour while others come and
 * go: its number says which it would like, and the lower number goes first where two like the same.
 */
export function assignHues(ids: readonly number[], hues: number): Map<number, number> {
  const out = new Map<number, number>();
  const taken = new Set<number>();
  for (const id of [...ids].sort((a, b) => a - b)) {
    if (taken.size === hues) taken.clear();
    // Neighbours in number are far apart.
    let hue = (Math.imul(id, 7) >>> 0) % hues;
    while (taken.has(hue)) hue = (hue + 1) % hues;
    taken.add(hue);
    out.set(id, hue);
  }
  return out;
}

/** How light a colour is to the eye, by the rule of the WCAG. `#rrggbb`, or `#rgb` as style sheets are shortened to. */
export function lightness(hex: string): number {
  const long = hex.length === 4 ? hex.replace(/[\da-f]/gi, '$&$&') : hex;
  const [r, g, b] = [1, 3, 5]
    .map((i) => Number.parseInt(long.slice(i, i + 2), 16) / 255)
    .map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

/** How well one colour can be distinguished from another, from 1 to 21: words need 4.5, shapes 3. */
export function contrast(a: string, b: string): number {
  const [x, y] = [lightness(a), lightness(b)];
  return (Math.max(x, y) + 0.05) / (Math.min(x, y) + 0.05);
}

/** Black or white, whichever can be read on a colour: one of them always has a contrast of 4.5. */
export function inkOn(hex: string): '#000000' | '#ffffff' {
  return contrast('#000000', hex) >= contrast('#ffffff', hex) ? '#000000' : '#ffffff';
}
