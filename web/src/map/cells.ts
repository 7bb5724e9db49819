// What is written into the squares of the map. From afar they are squares; from near each says its job, utilisation and
// temperature. No React here.
import type { Picture } from '../live/fleet';
import { Flag, NO_VALUE, OTHERS_JOB } from '../live/frame';
import { css } from './colors';
import { inkOn } from './hues';
import type { Plan } from './layout';
import type { View } from './render';

/** From so many pixels of the screen on a square has words, and from so many three lines of them. */
export const [WORDS_FROM, ALL_FROM] = [34, 52];

/** The words of a GPU: what it is for, then what it does, as far as that is known. */
export function cellWords(fleet: Picture, i: number): string[] {
  const { columns: c, layout } = fleet;
  if (!c || !layout) return [];
  if (layout.nodes[fleet.nodeOf[i]]?.gpus === 0) return [];
  const state = layout.states[c.state[i]] ?? 'unknown';
  const [job, allocated] = [c.job[i], (c.flags[i] & Flag.allocated) !== 0];
  const use =
    job === OTHERS_JOB
      ? 'other'
      : job !== 0
        ? `#${job}`
        : allocated
          ? 'in use'
          : state === 'ready'
            ? c.flags[i] & Flag.breaker
              ? 'breaker'
              : c.flags[i] & Flag.spare
                ? 'spare'
                : 'free'
            : state;
  const out = [use];
  if (c.util[i] !== NO_VALUE) out.push(`${c.util[i]} %`);
  if (c.temp[i] !== NO_VALUE) out.push(`${c.temp[i]} °C`);
  return out;
}

/** Writes into the squares that are in sight and large enough. */
export function writeCells(
  g: CanvasRenderingContext2D,
  fleet: Picture,
  plan: Plan,
  view: View,
  size: { w: number; h: number; ratio: number },
  colors: Uint32Array,
  match: Uint8Array | null,
) {
  const { w, h, ratio } = size;
  const { scale } = view;
  if (scale < WORDS_FROM * ratio) return;
  // Where rows have no room above them, the node's name is written into its first squares.
  const top = plan.rowHead === 0 ? Math.min(17 * ratio, scale * 0.3) : 0;
  const most = scale - top >= ALL_FROM * ratio ? 3 : 2;
  const font = Math.min(13 * ratio, scale * 0.26);
  g.font = `${font}px system-ui, "DejaVu Sans", sans-serif`;
  g.textBaseline = 'alphabetic';
  const room = scale - 6 * ratio;
  for (let i = 0; i < plan.x.length; i++) {
    const x = plan.x[i] * scale + view.dx;
    const y = plan.y[i] * scale + view.dy;
    if (x > w || y > h || x + scale < 0 || y + scale < 0) continue;
    // What was not searched for steps back.
    if (match && match[i] === 0) continue;
    g.fillStyle = inkOn(css(colors[i]));
    const words = cellWords(fleet, i).slice(0, most);
    words.forEach((word, line) => {
      g.fillText(fitted(g, word, room), x + 3 * ratio, y + top + font * (1.15 + line * 1.2));
    });
  }
}

/** The text, or as much of its beginning as fits. */
function fitted(g: CanvasRenderingContext2D, text: string, room: number): string {
  let cut = text;
  while (cut.length > 1 && g.measureText(cut).width > room) cut = cut.slice(0, -1);
  return cut;
}
