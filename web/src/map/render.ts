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

/** A part of the window, in pixels: `x1` and `y1` are outside. */
interface Part {
  x0: number;
  y0: number;
  x1: number;
  y1: number;
}

/** All GPUs in sight; gives how many they are. */
export function draw(
  pixels: Uint32Array,
  w: number,
  h: number,
  plan: Plan,
  view: View,
  paint: Paint,
): number {
  return drawPart(pixels, w, { x0: 0, y0: 0, x1: w, y1: h }, plan, view, paint);
}

/**
 * What is in sight in a part of the window; the rest stays. Cells of a row share their upper and lower edge: one line of
 * pixels is made for the row, and copied to the lines below it.
 */
function drawPart(pixels: Uint32Array, w: number, part: Part, plan: Plan, view: View, paint: Paint): number {
  const { colors, match, background, mark } = paint;
  for (let y = part.y0; y < part.y1; y++) pixels.fill(background, y * w + part.x0, y * w + part.x1);
  const { scale, dx, dy } = view;
  const { x: xs, y: ys } = plan;
  const { from, to } = rowsOf(plan);
  const gap = scale >= 14 ? 2 : scale >= 4 ? 1 : 0;
  const size = Math.max(1, scale);
  const strong = scale < STRONG ? paint.strong : null;
  const marked = scale >= 6 ? paint.marked : null;
  // What is drawn larger than it is reaches in from outside.
  const reach = strong === null ? 0 : STRONG;
  const [leftmost, rightmost] = [part.x0 - reach - size, part.x1 + reach];
  const [highest, lowest] = [part.y0 - reach - size, part.y1 + reach];
  let drawn = 0;
  let [seen, faint] = [background, dimmed(background, background)];
  const late: number[] = [];
  for (let r = 0; r < from.length; r++) {
    const [first, end] = [from[r], to[r]];
    const top = ys[first] * scale + dy;
    if (top >= lowest || top <= highest) continue;
    if (xs[first] * scale + dx >= rightmost || xs[end - 1] * scale + dx <= leftmost) continue;
    // Edges on whole pixels: neighbours neither touch nor drift apart.
    const upper = Math.round(top);
    const lower = Math.max(upper + 1, Math.round(top + size) - gap);
    const [y0, y1] = [Math.max(part.y0, upper), Math.min(part.y1, lower)];
    const line = y0 * w;
    let [least, most] = [w, 0];
    for (let i = first; i < end; i++) {
      const left = xs[i] * scale + dx;
      if (left >= rightmost || left <= leftmost) continue;
      if (strong !== null && strong[i] !== 0) late.push(i);
      const start = Math.round(left);
      const x0 = Math.max(part.x0, start);
      const x1 = Math.min(part.x1, Math.max(start + 1, Math.round(left + size) - gap));
      if (x0 >= x1 || y0 >= y1) continue;
      drawn++;
      let color = colors[i];
      if (match !== null && match[i] === 0) {
        if (color !== seen) [seen, faint] = [color, dimmed(color, background)];
        color = faint;
      }
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
      const cell = { x0: start, y0: upper, x1: Math.round(left + size) - gap, y1: lower };
      frame(pixels, w, part, cell, mark, scale >= 18 ? 2 : 1);
    }
  }
  // One among a hundred thousand is not to be missed: it is drawn larger than it is, over its
  // neighbours.
  const grow = (STRONG - size) / 2;
  for (const i of late) {
    if (match && match[i] === 0) continue;
    const x0 = Math.round(xs[i] * scale + dx - grow);
    const y0 = Math.round(ys[i] * scale + dy - grow);
    box(pixels, w, part, { x0, y0, x1: x0 + STRONG, y1: y0 + STRONG }, colors[i]);
  }
  return drawn;
}

/** Fills as much of a box as is in a part of the window. */
function box(pixels: Uint32Array, w: number, part: Part, of: Part, color: number) {
  const [x0, x1] = [Math.max(part.x0, of.x0), Math.min(part.x1, of.x1)];
  if (x0 >= x1) return;
  for (let y = Math.max(part.y0, of.y0); y < Math.min(part.y1, of.y1); y++)
    pixels.fill(color, y * w + x0, y * w + x1);
}

function frame(pixels: Uint32Array, w: number, part: Part, cell: Part, color: number, thick: number) {
  const { x0, y0, x1, y1 } = cell;
  box(pixels, w, part, { x0, y0, x1, y1: y0 + thick }, color);
  box(pixels, w, part, { x0, y0: y1 - thick, x1, y1 }, color);
  box(pixels, w, part, { x0, y0, x1: x0 + thick, y1 }, color);
  box(pixels, w, part, { x0: x1 - thick, y0, x1, y1 }, color);
}

/** The view with its corner on a whole pixel: so what was drawn can be moved as it is. */
export function onPixels(view: View): View {
  return { ...view, dx: Math.round(view.dx), dy: Math.round(view.dy) };
}

/** The pixels of the window. Where the map only moved, they are moved, and what came into sight is drawn. */
export class Sheet {
  private last: { plan: Plan; view: View; paint: Paint } | null = null;

  constructor(
    readonly pixels: Uint32Array,
    private w: number,
    private h: number,
  ) {}

  draw(plan: Plan, view: View, paint: Paint) {
    const { pixels, w, h, last } = this;
    this.last = { plan, view, paint };
    const [mx, my] = last ? [view.dx - last.view.dx, view.dy - last.view.dy] : [0, 0];
    const moved =
      last?.plan === plan &&
      last.paint === paint &&
      last.view.scale === view.scale &&
      Number.isInteger(mx) &&
      Number.isInteger(my) &&
      Math.abs(mx) < w &&
      Math.abs(my) < h;
    if (!moved) {
      draw(pixels, w, h, plan, view, paint);
      return;
    }
    if (mx === 0 && my === 0) return;
    // A line may run over into the next: those pixels are drawn anew.
    const by = my * w + mx;
    if (by > 0) pixels.copyWithin(by, 0, w * h - by);
    else pixels.copyWithin(0, -by, w * h);
    const above = my > 0 ? { y0: 0, y1: my } : { y0: h + my, y1: h };
    if (my !== 0) drawPart(pixels, w, { x0: 0, x1: w, ...above }, plan, view, paint);
    const rest = my > 0 ? { y0: my, y1: h } : { y0: 0, y1: h + my };
    const beside = mx > 0 ? { x0: 0, x1: mx } : { x0: w + mx, x1: w };
    if (mx !== 0) drawPart(pixels, w, { ...beside, ...rest }, plan, view, paint);
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
