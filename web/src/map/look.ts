// How a picture is drawn: the colours of its GPUs, and what must be seen to.
import type { Picture } from '../live/fleet';
import { Flag } from '../live/frame';
import type { Painter } from './colors';
import type { Paint } from './render';

/** A colour of the style sheet, as the page has it now. */
export const cssColor = (name: string) =>
  getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function color(name: string): number {
  const n = Number.parseInt(cssColor(name).slice(1), 16);
  return ((255 << 24) | ((n & 255) << 16) | (n & 0xff00) | (n >> 16)) >>> 0;
}

export function lookOf(fleet: Picture, paint: Painter, match: Uint8Array | null): Paint {
  const n = fleet.columns?.state.length ?? 0;
  const colors = new Uint32Array(n);
  paint.paint(colors);
  const marked = new Uint8Array(n);
  const flags = fleet.columns?.flags;
  if (flags)
    for (let i = 0; i < n; i++) marked[i] = flags[i] & Flag.waits || (flags[i] & Flag.worst) === 3 ? 1 : 0;
  return {
    colors,
    background: color('--bg'),
    match,
    strong: paint.strong ?? null,
    marked,
    mark: color('--text'),
  };
}
