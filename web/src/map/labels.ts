// Names over the map: what fits, and no more.

import type { Fleet } from '../live/fleet';
import type { Theme } from './colors';
import { type Plan, ROW_HEAD } from './layout';
import type { View } from './render';

const INK: Record<Theme, { name: string; dim: string; line: string }> = {
  dark: { name: '#d6dee6', dim: '#8f9daa', line: '#2a3641' },
  light: { name: '#18222c', dim: '#566370', line: '#c9d1d9' },
};

/** Height of the heading of each level, in cells. */
const HEADS = { region: 2, spine: 1.6, leaf: 1.1, rack: 0.5 };

export function labels(
  g: CanvasRenderingContext2D,
  fleet: Fleet,
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
    const head = HEADS[group.level] * view.scale;
    const font = Math.min(px(group.level === 'region' ? 14 : 12), head * 0.72);
    if (font < px(group.level === 'region' ? 8 : 9)) continue;
    g.font = `${group.level === 'region' || group.level === 'spine' ? 600 : 400} ${font}px ${families}`;
    g.fillStyle = group.level === 'rack' || group.level === 'leaf' ? ink.dim : ink.name;
    const name = fitText(
      `${group.level === 'rack' || group.level === 'leaf' ? '' : `${group.level} `}${group.name}`,
      gw,
    );
    // The name of a group that begins outside the window stays in sight.
    if (name) g.fillText(name, Math.max(x, px(4)), y + head - font * 0.3);
    if (group.level === 'leaf' || group.level === 'spine') {
      g.strokeStyle = ink.line;
      g.lineWidth = ratio;
      g.beginPath();
      g.moveTo(x, Math.round(y + head) - 0.5);
      g.lineTo(x + gw, Math.round(y + head) - 0.5);
      g.stroke();
    }
  }
  const font = Math.min(px(12), view.scale * ROW_HEAD * 0.8);
  const layout = fleet.layout;
  if (font < px(8) || !layout) return;
  g.font = `${font}px ${families}`;
  g.fillStyle = ink.dim;
  for (let n = 0; n < layout.nodes.length; n++) {
    const first = fleet.first[n];
    const x = plan.x[first] * view.scale + view.dx;
    const y = plan.y[first] * view.scale + view.dy;
    if (x > w || y < 0 || y > h + view.scale || x + 16 * view.scale < 0) continue;
    const room = Math.max(1, Math.min(16, layout.nodes[n].gpus)) * view.scale;
    const text = fitText(layout.nodes[n].name, Math.max(room, view.scale * 4));
    if (text) g.fillText(text, x, y - font * 0.28);
  }
}
