import { expect, test } from 'vitest';
import type { Plan } from './layout';
import { draw, Finder, onPixels, type Paint, rowsOf, Sheet } from './render';

/** Three rows of four, two and five cells; the last is set off by half a cell. */
const plan: Plan = {
  w: 8,
  h: 5,
  x: new Float32Array([0, 1, 2, 3, 5, 6, 2.5, 3.5, 4.5, 5.5, 6.5]),
  y: new Float32Array([0, 0, 0, 0, 0, 0, 2, 2, 2, 2, 2]),
  groups: [],
  rowHead: 0,
};
const n = plan.x.length;
const BACK = 0xff101010;
const MARK = 0xffffffff;
const colors = new Uint32Array(n).map((_, i) => (0xff000000 | ((i + 1) * 0x10203)) >>> 0);
const some = (every: number) => new Uint8Array(n).map((_, i) => Number(i % every === 0));
const plain: Paint = { colors, background: BACK, match: null, strong: null, marked: null, mark: MARK };

/** The colour of one pixel, by the rules: the last cell that covers it. */
function expected(x: number, y: number, scale: number, dx: number, dy: number, paint: Paint): number {
  const gap = scale >= 14 ? 2 : scale >= 4 ? 1 : 0;
  const size = Math.max(1, scale);
  let out = BACK;
  for (let i = 0; i < n; i++) {
    const [left, top] = [plan.x[i] * scale + dx, plan.y[i] * scale + dy];
    const [x0, y0] = [Math.round(left), Math.round(top)];
    const x1 = Math.max(x0 + 1, Math.round(left + size) - gap);
    const y1 = Math.max(y0 + 1, Math.round(top + size) - gap);
    if (x < x0 || x >= x1 || y < y0 || y >= y1) continue;
    const thick = scale >= 18 ? 2 : 1;
    const edge = x < x0 + thick || x >= x1 - thick || y < y0 + thick || y >= y1 - thick;
    out = scale >= 6 && paint.marked?.[i] && edge ? MARK : colors[i];
  }
  return out;
}

test('each cell has its colour, edges on whole pixels, and what is outside the window is left out', () => {
  const [w, h] = [90, 50];
  const pixels = new Uint32Array(w * h);
  for (const scale of [0.5, 1, 1.6, 2, 3.5, 4, 6.3, 14, 22.5])
    for (const [dx, dy] of [
      [0, 0],
      [7.5, 3.2],
      [-scale * 3.2, scale * 1.1],
      [80, 44],
    ])
      for (const paint of [plain, { ...plain, marked: some(2) }]) {
        draw(pixels, w, h, plan, { scale, dx, dy }, paint);
        const wrong: string[] = [];
        for (let y = 0; y < h; y++)
          for (let x = 0; x < w; x++) {
            if (pixels[y * w + x] !== expected(x, y, scale, dx, dy, paint)) wrong.push(`${x} ${y}`);
          }
        expect(wrong, `scale ${scale}, from ${dx} ${dy}`).toEqual([]);
      }
});

test('what was not searched for is dimmed, and what must be seen is large from afar', () => {
  const pixels = new Uint32Array(60 * 30);
  const view = { scale: 2, dx: 10, dy: 10 };
  const at = (i: number) => pixels[(plan.y[i] * 2 + 10) * 60 + plan.x[i] * 2 + 10];
  draw(pixels, 60, 30, plan, view, { ...plain, match: some(2) });
  expect(at(0)).toBe(colors[0]);
  expect(at(1)).not.toBe(colors[1]);
  expect(at(1)).not.toBe(BACK);
  draw(pixels, 60, 30, plan, view, { ...plain, strong: some(n) });
  expect(pixels[9 * 60 + 9]).toBe(colors[0]);
  expect(pixels[12 * 60 + 12]).toBe(colors[0]);
  expect(pixels[13 * 60 + 13]).toBe(BACK);
});

test('rows are found once for a plan', () => {
  const rows = rowsOf(plan);
  expect([...rows.from]).toEqual([0, 4, 6]);
  expect([...rows.to]).toEqual([4, 6, 11]);
  expect(rowsOf(plan)).toBe(rows);
  expect(rowsOf({ ...plan, x: new Float32Array(0), y: new Float32Array(0) }).from.length).toBe(0);
});

test('a point of no cell has none, also outside the plan', () => {
  const finder = new Finder(plan);
  expect(finder.at(3.2, 2.5)).toBe(6);
  expect(finder.at(4.5, 0.5)).toBeNull();
  for (const [x, y] of [
    [-5, -5],
    [-0.1, 0.5],
    [400, 2],
    [2, 400],
  ])
    expect(finder.at(x, y)).toBeNull();
});

test('a map that is moved has the pixels of one that is drawn there', () => {
  const [w, h] = [70, 40];
  const [pixels, whole] = [new Uint32Array(w * h), new Uint32Array(w * h)];
  for (const scale of [1, 2, 3.5, 6.3, 22.5]) {
    const sheet = new Sheet(pixels, w, h);
    const paint = { ...plain, marked: some(2), strong: some(3), match: some(1) };
    let [dx, dy] = [0, 0];
    // To and fro, at once in both directions, by nothing, out of the window and back.
    for (const [mx, my] of [
      [0, 0],
      [3, 0],
      [0, 5],
      [-4, -9],
      [11, -6],
      [-20, 13],
      [0, 0],
      [-69, 2],
      [80, 50],
      [-11, -39],
    ]) {
      [dx, dy] = [dx + mx, dy + my];
      sheet.draw(plan, { scale, dx, dy }, paint);
      draw(whole, w, h, plan, { scale, dx, dy }, paint);
      expect(pixels, `scale ${scale}, at ${dx} ${dy}`).toEqual(whole);
    }
    // Other colours are drawn, wherever the map is.
    sheet.draw(plan, { scale, dx, dy }, plain);
    draw(whole, w, h, plan, { scale, dx, dy }, plain);
    expect(pixels).toEqual(whole);
  }
});

test('the corner of the map is on a whole pixel', () => {
  expect(onPixels({ scale: 1.6, dx: 3.4, dy: -2.6 })).toEqual({ scale: 1.6, dx: 3, dy: -3 });
});
