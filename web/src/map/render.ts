// Draws the map into pixels: every visible GPU is a filled square in one image, so that a frame
// costs the same on a machine without a graphics card.

import type { Plan } from './layout';

export interface View {
  /** Pixels for one cell. */
  scale: number;
  /** Where the plan's corner is, in pixels. */
  dx: number;
  dy: number;
}

/** All of it, with a margin. */
export function fit(plan: Plan, w: number, h: number, margin = 16): View {
  const exact = Math.max(0.25, Math.min((w - 2 * margin) / plan.w, (h - 2 * margin) / plan.h, 96));
  // Small cells are all of one size only when that is a whole number of pixels.
  const scale = exact >= 1.9 && exact < 6 ? Math.floor(exact + 0.1) : exact;
  return { scale, dx: (w - plan.w * scale) / 2, dy: Math.min(margin, (h - plan.h * scale) / 2) };
}

/** Nearer or farther, around a point of the window. */
export function zoom(view: View, factor: number, x: number, y: number, least: number): View {
  const scale = Math.min(160, Math.max(least, view.scale * factor));
  const f = scale / view.scale;
  return { scale, dx: x - (x - view.dx) * f, dy: y - (y - view.dy) * f };
}

/** Some of the map is always in sight. */
export function kept(view: View, plan: Plan, w: number, h: number): View {
  const room = 80;
  const dx = Math.min(w - room, Math.max(room - plan.w * view.scale, view.dx));
  const dy = Math.min(h - room, Math.max(room - plan.h * view.scale, view.dy));
  return { ...view, dx, dy };
}

/** Least size of what must be seen, in pixels. */
const STRONG = 4;

export interface Paint {
  colors: Uint32Array;
  background: number;
  /** Only these are shown in full colour, when somebody searches. */
  match: Uint8Array | null;
  /** GPUs that must be seen also when a cell is two pixels wide. */
  strong: Uint8Array | null;
  /** GPUs with something to see to, and the colour of their mark. */
  marked: Uint8Array | null;
  mark: number;
}

/** Halfway to the background. */
function dimmed(color: number, background: number): number {
  const mix = (shift: number) => (((color >>> shift) & 255) * 2 + ((background >>> shift) & 255) * 6) >> 3;
  return ((255 << 24) | (mix(16) << 16) | (mix(8) << 8) | mix(0)) >>> 0;
}

export function draw(
  pixels: Uint32Array,
  w: number,
  h: number,
  plan: Plan,
  view: View,
  paint: Paint,
): number {
  pixels.fill(paint.background);
  const { scale, dx, dy } = view;
  const gap = scale >= 14 ? 2 : scale >= 4 ? 1 : 0;
  const size = Math.max(1, scale);
  let drawn = 0;
  const late: number[] = [];
  for (let i = 0; i < plan.x.length; i++) {
    const left = plan.x[i] * scale + dx;
    const top = plan.y[i] * scale + dy;
    if (left >= w || top >= h || left + size <= 0 || top + size <= 0) continue;
    drawn++;
    if (scale < STRONG && paint.strong?.[i]) late.push(i);
    let color = paint.colors[i];
    if (paint.match && paint.match[i] === 0) color = dimmed(color, paint.background);
    // Edges on whole pixels: neighbours neither touch nor drift apart.
    const x0 = Math.max(0, Math.round(left));
    const y0 = Math.max(0, Math.round(top));
    const x1 = Math.min(w, Math.max(x0 + 1, Math.round(left + size) - gap));
    const y1 = Math.min(h, Math.max(y0 + 1, Math.round(top + size) - gap));
    for (let y = y0, row = y0 * w; y < y1; y++, row += w) pixels.fill(color, row + x0, row + x1);
    if (paint.marked && paint.marked[i] !== 0 && scale >= 6)
      frame(pixels, w, x0, y0, x1, y1, paint.mark, scale >= 18 ? 2 : 1);
  }
  // One among a hundred thousand is not to be missed: it is drawn larger than it is, over its
  // neighbours.
  for (const i of late) {
    if (paint.match && paint.match[i] === 0) continue;
    const grow = (STRONG - size) / 2;
    const x0 = Math.round(plan.x[i] * scale + dx - grow);
    const y0 = Math.round(plan.y[i] * scale + dy - grow);
    const [left, right] = [Math.max(0, x0), Math.min(w, x0 + STRONG)];
    for (let y = Math.max(0, y0); y < Math.min(h, y0 + STRONG); y++) {
      if (right > left) pixels.fill(paint.colors[i], y * w + left, y * w + right);
    }
  }
  return drawn;
}

function frame(
  pixels: Uint32Array,
  w: number,
  x0: number,
  y0: number,
  x1: number,
  y1: number,
  color: number,
  thick: number,
) {
  for (let y = y0; y < y1; y++) {
    const edge = y < y0 + thick || y >= y1 - thick;
    if (edge) pixels.fill(color, y * w + x0, y * w + x1);
    else {
      pixels.fill(color, y * w + x0, y * w + Math.min(x1, x0 + thick));
      pixels.fill(color, y * w + Math.max(x0, x1 - thick), y * w + x1);
    }
  }
}

/** Finds GPUs by where they are drawn: a grid of the plan, made once. */
export class Finder {
  private cells: Map<number, number[]> = new Map();
  private wide: number;

  constructor(private plan: Plan) {
    this.wide = Math.ceil(plan.w) + 2;
    for (let i = 0; i < plan.x.length; i++) {
      const key = Math.floor(plan.y[i]) * this.wide + Math.floor(plan.x[i]);
      const here = this.cells.get(key);
      if (here) here.push(i);
      else this.cells.set(key, [i]);
    }
  }

  /** The GPU at a point of the plan, or none. */
  at(x: number, y: number): number | null {
    for (const cy of [Math.floor(y), Math.floor(y) - 1]) {
      for (const cx of [Math.floor(x), Math.floor(x) - 1]) {
        for (const i of this.cells.get(cy * this.wide + cx) ?? []) {
          const [px, py] = [this.plan.x[i], this.plan.y[i]];
          if (x >= px && x < px + 1 && y >= py && y < py + 1) return i;
        }
      }
    }
    return null;
  }
}
