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

/** Cells side by side in one row: from the first index up to the end. */
export interface Rows {
  from: Uint32Array;
  to: Uint32Array;
}

const rowsOfPlans = new WeakMap<Plan, Rows>();

/** The rows of a plan, found once. */
export function rowsOf(plan: Plan): Rows {
  const known = rowsOfPlans.get(plan);
  if (known) return known;
  const { x, y } = plan;
  const starts: number[] = [];
  for (let i = 0; i < x.length; i++)
    if (i === 0 || y[i] !== y[i - 1] || Math.abs(x[i] - x[i - 1] - 1) > 1e-3) starts.push(i);
  const from = Uint32Array.from(starts);
  const to = Uint32Array.from([...starts.slice(1), ...(starts.length > 0 ? [x.length] : [])]);
  const rows = { from, to };
  rowsOfPlans.set(plan, rows);
  return rows;
}

/**
 * All GPUs in sight. Cells of a row share their upper and lower edge: one line of pixels is made for the row, and copied
 * to the lines below it.
 */
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
  const { x: xs, y: ys } = plan;
  const { colors, match, background } = paint;
  const { from, to } = rowsOf(plan);
  const gap = scale >= 14 ? 2 : scale >= 4 ? 1 : 0;
  const size = Math.max(1, scale);
  const strong = scale < STRONG ? paint.strong : null;
  const marked = scale >= 6 ? paint.marked : null;
  let drawn = 0;
  let [seen, faint] = [background, dimmed(background, background)];
  const late: number[] = [];
  for (let r = 0; r < from.length; r++) {
    const [first, end] = [from[r], to[r]];
    const top = ys[first] * scale + dy;
    if (top >= h || top + size <= 0) continue;
    if (xs[first] * scale + dx >= w || xs[end - 1] * scale + dx + size <= 0) continue;
    // Edges on whole pixels: neighbours neither touch nor drift apart.
    const above = Math.round(top);
    const y0 = Math.max(0, above);
    const y1 = Math.min(h, Math.max(above + 1, Math.round(top + size) - gap));
    const line = y0 * w;
    let [least, most] = [w, 0];
    for (let i = first; i < end; i++) {
      const left = xs[i] * scale + dx;
      if (left >= w || left + size <= 0) continue;
      drawn++;
      if (strong !== null && strong[i] !== 0) late.push(i);
      let color = colors[i];
      if (match !== null && match[i] === 0) {
        if (color !== seen) [seen, faint] = [color, dimmed(color, background)];
        color = faint;
      }
      const start = Math.round(left);
      const x0 = Math.max(0, start);
      const x1 = Math.min(w, Math.max(start + 1, Math.round(left + size) - gap));
      if (x0 >= x1 || y0 >= y1) continue;
      // So short that a call would take longer.
      for (let x = line + x0; x < line + x1; x++) pixels[x] = color;
      if (x0 < least) least = x0;
      if (x1 > most) most = x1;
    }
    for (let y = y0 + 1, to = line + w; y < y1; y++, to += w)
      pixels.copyWithin(to + least, line + least, line + most);
    if (marked === null) continue;
    for (let i = first; i < end; i++) {
      if (marked[i] === 0) continue;
      const left = xs[i] * scale + dx;
      const start = Math.round(left);
      const x0 = Math.max(0, start);
      const x1 = Math.min(w, Math.max(start + 1, Math.round(left + size) - gap));
      if (x0 < x1) frame(pixels, w, x0, y0, x1, y1, paint.mark, scale >= 18 ? 2 : 1);
    }
  }
  // One among a hundred thousand is not to be missed: it is drawn larger than it is, over its
  // neighbours.
  for (const i of late) {
    if (match && match[i] === 0) continue;
    const grow = (STRONG - size) / 2;
    const x0 = Math.round(xs[i] * scale + dx - grow);
    const y0 = Math.round(ys[i] * scale + dy - grow);
    const [left, right] = [Math.max(0, x0), Math.min(w, x0 + STRONG)];
    for (let y = Math.max(0, y0); y < Math.min(h, y0 + STRONG); y++) {
      if (right > left) pixels.fill(colors[i], y * w + left, y * w + right);
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

/** Finds GPUs by where they are drawn: a grid of the plan, made when it is first asked. */
export class Finder {
  /** In each square of the grid the first of its cells, and the next one of each cell, plus one. */
  private head: Uint32Array | null = null;
  private next = new Uint32Array(0);
  private wide: number;
  private high: number;

  constructor(private plan: Plan) {
    this.wide = Math.ceil(plan.w) + 2;
    this.high = Math.ceil(plan.h) + 2;
  }

  private grid(): Uint32Array {
    if (this.head) return this.head;
    const { x, y } = this.plan;
    const head = new Uint32Array(this.wide * this.high);
    this.next = new Uint32Array(x.length);
    for (let i = 0; i < x.length; i++) {
      const at = Math.floor(y[i]) * this.wide + Math.floor(x[i]);
      this.next[i] = head[at];
      head[at] = i + 1;
    }
    this.head = head;
    return head;
  }

  /** The GPU at a point of the plan, or none. */
  at(x: number, y: number): number | null {
    const head = this.grid();
    for (const cy of [Math.floor(y), Math.floor(y) - 1]) {
      for (const cx of [Math.floor(x), Math.floor(x) - 1]) {
        if (cx < 0 || cy < 0 || cx >= this.wide || cy >= this.high) continue;
        for (let i = head[cy * this.wide + cx]; i !== 0; i = this.next[i - 1]) {
          const [px, py] = [this.plan.x[i - 1], this.plan.y[i - 1]];
          if (x >= px && x < px + 1 && y >= py && y < py + 1) return i - 1;
        }
      }
    }
    return null;
  }
}
