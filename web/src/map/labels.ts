// Names over the map: what fits, and no more.

import type { Picture } from '../live/fleet';
import type { Theme } from './colors';
import type { Plan } from './layout';
import type { View } from './render';

const INK: Record<Theme, { name: string; dim: string; line: string; plate: string }> = {
  dark: { name: '#d6dee6', dim: '#8f9daa', line: '#2a3641', plate: '#0e1318' },
  light: { name: '#18222c', dim: '#566370', line: '#c9d1d9', plate: '#f3f5f7' },
};

export function labels(
  g: CanvasRenderingContext2D,
  fleet: Picture,
  plan: Plan,
  view: View,
  size: { w: number; h: number; ratio: number },
  theme: Theme,
) {
  const { w, h, ratio } = size;
  const ink = INK[theme];
  const px = (n: number) => n * ratio;
  g.clearRect(0, 0, w, h);
  g.textBaseline = 'alphabetic';
  const families = 'system-ui, "DejaVu Sans", sans-serif';
  const fitText = (text: string, room: number) => {
    if (g.measureText(text).width <= room) return text;
    let cut = text.length - 1;
    while (cut > 2 && g.measureText(`${text.slice(0, cut)}…`).width > room) cut--;
    return cut > 2 ? `${text.slice(0, cut)}…` : '';
  };
  for (const group of plan.groups) {
    const x = group.x * view.scale + view.dx;
    const y = group.y * view.scale + view.dy;
    const gw = group.w * view.scale;
    const gh = group.h * view.scale;
    if (x > w || y > h || x + gw < 0 || y + gh < 0) continue;
    const head = group.head * view.scale;
    const font = Math.min(px(group.level === 'region' ? 14 : 12), head * 0.72);
    if (font < px(group.level === 'region' || group.level === 'spine' ? 7.5 : 9)) continue;
    g.font = `${group.level === 'region' || group.level === 'spine' ? 600 : 400} ${font}px ${families}`;
    g.fillStyle = group.level === 'rack' || group.level === 'leaf' ? ink.dim : ink.name;
    const name = fitText(
      `${group.level === 'rack' || group.level === 'leaf' ? '' : `${group.level} `}${group.name}`,
      gw,
    );
    // The name of a group that begins outside the window stays in sight.
    if (name) g.fillText(name, Math.max(x, px(4)), y + head - font * 0.42);
    if (group.level === 'leaf' || group.level === 'spine') {
      g.strokeStyle = ink.line;
      g.lineWidth = ratio;
      g.beginPath();
      g.moveTo(x, Math.round(y + head) - 0.5);
      g.lineTo(x + gw, Math.round(y + head) - 0.5);
      g.stroke();
    }
  }
  // Where rows have no room above them, a name is written into its row, when that is large enough.
  const inside = plan.rowHead === 0;
  const font = Math.min(px(12), view.scale * (inside ? 0.42 : plan.rowHead * 0.8));
  const layout = fleet.layout;
  if (font < px(inside ? 10 : 8) || !layout) return;
  g.font = `${font}px ${families}`;
  for (let n = 0; n < layout.nodes.length; n++) {
    const first = fleet.first[n];
    const x = plan.x[first] * view.scale + view.dx;
    const y = plan.y[first] * view.scale + view.dy;
    if (x > w || y < -view.scale || y > h + view.scale || x + 16 * view.scale < 0) continue;
    const room = Math.max(1, Math.min(16, layout.nodes[n].gpus)) * view.scale;
    const text = fitText(layout.nodes[n].name, inside ? room - px(8) : Math.max(room, view.scale * 4));
    if (!text) continue;
    if (inside) {
      g.fillStyle = ink.plate;
      g.fillRect(x, y, g.measureText(text).width + px(6), font * 1.35);
      g.fillStyle = ink.name;
      g.fillText(text, x + px(3), y + font);
    } else {
      g.fillStyle = ink.dim;
      g.fillText(text, x, y - font * 0.28);
    }
  }
}

/** Marks the GPU that the keyboard has chosen. */
export function ring(
  g: CanvasRenderingContext2D,
  plan: Plan,
  view: View,
  gpu: number,
  ratio: number,
  color: string,
) {
  // A cell of two pixels could not be seen.
  const side = Math.max(view.scale, 8 * ratio);
  const off = (side - view.scale) / 2 + 2 * ratio;
  const x = plan.x[gpu] * view.scale + view.dx - off;
  const y = plan.y[gpu] * view.scale + view.dy - off;
  g.strokeStyle = color;
  g.lineWidth = 3 * ratio;
  g.strokeRect(x, y, side + 3 * ratio, side + 3 * ratio);
}
