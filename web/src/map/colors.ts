import type { Avoided } from '../live/avoided';
import type { Picture } from '../live/fleet';
import { Flag, NO_VALUE, NONE, OTHERS, OTHERS_JOB } from '../live/frame';
import { assignHues } from './hues';

export type Mode = 'state' | 'util' | 'temp' | 'power' | 'hazard' | 'tenant' | 'job' | 'version';
export type Theme = 'dark' | 'light';

/** `site`: not sent to tokens that are bound to a project. */
export const MODES: { mode: Mode; label: string; what: string; site?: boolean }[] = [
  { mode: 'state', label: 'State', what: 'what each GPU is fit for, and whether it is allocated' },
  { mode: 'util', label: 'Utilisation', what: 'share of time in which kernels ran, in percent' },
  { mode: 'temp', label: 'Temperature', what: 'of the GPU, in degrees' },
  { mode: 'power', label: 'Power', what: 'drawn by the GPU, in watts' },
  { mode: 'hazard', label: 'Hazard', what: 'how likely the node is to fail, in percent a month', site: true },
  { mode: 'tenant', label: 'Tenant', what: 'the project that the GPU is allocated to' },
  { mode: 'job', label: 'Job', what: 'the job that the GPU is allocated to' },
  { mode: 'version', label: 'Version', what: 'of the GPU driver', site: true },
];

/** What people distinguish on the map; several states of the server share one. */
export const CLASSES = [
  'allocated',
  'free',
  'avoided',
  'away',
  'testing',
  'suspect',
  'out',
  'lost',
  'unknown',
] as const;
export type Class = (typeof CLASSES)[number];
const SUSPECT = CLASSES.indexOf('suspect');
const LOST = CLASSES.indexOf('lost');

export const CLASS_WORDS: Record<Class, string> = {
  allocated: 'allocated, healthy',
  free: 'free, healthy',
  avoided: 'spare, or avoided by new work',
  away: 'gets no new work',
  testing: 'tested or repaired',
  suspect: 'degraded',
  out: 'out of service or critical',
  lost: 'unreachable or missing',
  unknown: 'not known',
};

// What is allocated is calm, what is free is seen at once, and trouble is loud. Distinct by lightness as well as by
// hue, so that nobody needs to see red and green.
const STATE: Record<Theme, Record<Class, string>> = {
  dark: {
    allocated: '#4d6f8c',
    free: '#58c9a0',
    avoided: '#7d9a5a',
    away: '#a08a45',
    testing: '#9a7fd1',
    suspect: '#f5b83d',
    out: '#ff7b3a',
    lost: '#ff4f5e',
    unknown: '#1d252e',
  },
  light: {
    allocated: '#6d8ba6',
    free: '#0d8560',
    avoided: '#647d33',
    away: '#927c2a',
    testing: '#7a58b3',
    suspect: '#b86e00',
    out: '#c8480f',
    lost: '#b3001b',
    unknown: '#ffffff',
  },
};
/** What belongs to nobody recedes where colours stand for names. */
const NOBODY: Record<Theme, string> = { dark: '#2b3a49', light: '#c9d5df' };
/** Those that have no colour of their own, two by turns: neighbours can be distinguished. */
const OTHER: Record<Theme, [string, string]> = {
  dark: ['#5b6670', '#77838e'],
  light: ['#9aa4ad', '#7d8892'],
};

// Lightness moves steadily along both. On a dark page blue becomes yellow (after cividis, Nuñez et
// al. 2018); on a light one pale becomes dark, so that what is idle recedes on either.
const RAMP: Record<Theme, string[]> = {
  dark: ['#12294d', '#2b446e', '#575d6d', '#7d7c78', '#a59c74', '#d2c060', '#fee838'],
  light: ['#cfe1f0', '#a9c9e2', '#7fadd0', '#568fba', '#336f9f', '#1b4d7c', '#0b2b52'],
};

// Ten hues that stay apart for the colour-blind (after Okabe and Ito, and Paul Tol's muted set).
const HUES: Record<Theme, string[]> = {
  dark: [
    '#4ea5d9',
    '#e8a33d',
    '#33b08a',
    '#d8d05a',
    '#5c7fd6',
    '#e0703a',
    '#cc79a7',
    '#9bd3c5',
    '#b1a0e0',
    '#a8774a',
  ],
  light: [
    '#0072b2',
    '#d98a00',
    '#009e73',
    '#a89b00',
    '#3f5fbf',
    '#c8480f',
    '#b0578a',
    '#4aa693',
    '#7c62c4',
    '#7d5228',
  ],
};

function rgb(hex: string): number {
  const n = Number.parseInt(hex.slice(1), 16);
  // As bytes in memory: red, green, blue, alpha.
  return ((255 << 24) | ((n & 255) << 16) | (n & 0xff00) | (n >> 16)) >>> 0;
}

export function css(color: number): string {
  const part = (shift: number) => ((color >> shift) & 255).toString(16).padStart(2, '0');
  return `#${part(0)}${part(8)}${part(16)}`;
}

function between(a: string, b: string, t: number): number {
  const [x, y] = [Number.parseInt(a.slice(1), 16), Number.parseInt(b.slice(1), 16)];
  const mix = (shift: number) => {
    const [p, q] = [(x >> shift) & 255, (y >> shift) & 255];
    return Math.round(p + (q - p) * t);
  };
  return ((255 << 24) | (mix(0) << 16) | (mix(8) << 8) | mix(16)) >>> 0;
}

/** A colour for a share between 0 and 1. */
export function ramp(share: number, theme: Theme): number {
  const t = Math.min(1, Math.max(0, share)) * (RAMP[theme].length - 1);
  const i = Math.min(RAMP[theme].length - 2, Math.floor(t));
  return between(RAMP[theme][i], RAMP[theme][i + 1], t - i);
}

/** From and to of a ramp, and its unit. */
export const SCALES: Partial<Record<Mode, { from: number; to: number; unit: string }>> = {
  util: { from: 0, to: 100, unit: '%' },
  temp: { from: 25, to: 95, unit: '°C' },
  power: { from: 50, to: 1200, unit: 'W' },
  hazard: { from: 0, to: 20, unit: '% a month' },
};

const CLASS_OF: Record<string, Class> = {
  ready: 'free',
  maintenance: 'away',
  stopping: 'away',
  cordoned: 'away',
  draining: 'away',
  drained: 'away',
  protected: 'away',
  enrolled: 'away',
  excluded: 'out',
  qualifying: 'testing',
  repairing: 'testing',
  suspect: 'suspect',
  quarantined: 'out',
  lost: 'lost',
  missing: 'lost',
};

/** What a GPU is, for the map: its state, whether it is allocated, what was found there, and whether new work avoids it. */
export function classOf(state: string, flags: number, avoided = false): Class {
  const own = CLASS_OF[state] ?? 'unknown';
  const worst = flags & Flag.worst;
  if (own === 'free' || own === 'away') {
    if (worst === 3) return 'out';
    if (worst === 2) return 'suspect';
    // As where a node is cordoned, allocated or not.
    if (own === 'free' && flags & Flag.breaker) return 'away';
    if (own === 'free' && flags & Flag.allocated) return 'allocated';
    if (own === 'free') return avoided || flags & Flag.spare ? 'avoided' : 'free';
  }
  return own;
}

/**
 * Allocated: a job has it, whatever is wrong there. Free: no job has it and new work may go there: its state is `ready`,
 * which the server says of no node in a maintenance window, nor of one on which old ranks may still run. Spare: it
 * would be free, and waits to replace a node that fails. `muster top` counts so too.
 */
export function allocatedOrFree(state: string, flags: number): 'allocated' | 'free' | 'spare' | 'neither' {
  if (flags & Flag.allocated) return 'allocated';
  if (state !== 'ready' || flags & Flag.breaker) return 'neither';
  return flags & Flag.spare ? 'spare' : 'free';
}

const USES = ['allocated', 'free', 'spare', 'neither'] as const;

/** GPUs by their use. */
export function usage(fleet: Picture): Record<ReturnType<typeof allocatedOrFree>, number> {
  const counts = new Uint32Array(USES.length);
  const { columns: c, layout } = fleet;
  // Of each state with each flags once, not of each GPU.
  const use = new Uint8Array((layout?.states.length ?? 0) * 256);
  layout?.states.forEach((word, s) => {
    for (let f = 0; f < 256; f++) use[s * 256 + f] = USES.indexOf(allocatedOrFree(word, f));
  });
  const unknown = (flags: number) => USES.indexOf(allocatedOrFree('', flags));
  layout?.nodes.forEach((node, n) => {
    // A node without GPUs has a place on the map too.
    if (!c || node.gpus === 0) return;
    for (let i = fleet.first[n]; i < fleet.first[n + 1]; i++) {
      const at = c.state[i] * 256 + c.flags[i];
      counts[at < use.length ? use[at] : unknown(c.flags[i])]++;
    }
  });
  const [allocated, free, spare, neither] = counts;
  return { allocated, free, spare, neither };
}

/** States of what is out of service for a fault: how likely it is to fail says nothing any more. */
const FAULTY = new Set(['suspect', 'quarantined', 'repairing', 'excluded', 'lost', 'missing']);

/** How likely something is to fail, in words: no forecast of what has a fault. */
export function hazardWords(state: string, thousandths: number, worst: string | null): string {
  if (FAULTY.has(state)) return 'out of service';
  if (worst === 'critical') return 'critical finding';
  // The server writes a hazard down only where its model finds it high, or somebody set it.
  if (thousandths === 0) return 'not raised';
  return `${(thousandths / 10).toFixed(1)} % a month`;
}

export interface Painter {
  /** A colour for each GPU. */
  paint(out: Uint32Array): void;
  /** What the colours mean. */
  legend: { label: string; color: string; count?: number }[];
  scale?: { from: number; to: number; unit: string; stops: string[] };
  /** One for each GPU that must be seen from afar. */
  strong?: Uint8Array;
}

export function classColor(c: Class, theme: Theme): string {
  return STATE[theme][c];
}

/** One for each GPU of nodes that new work avoids. */
function avoidedGpus(fleet: Picture, n: number, names: Avoided | undefined): Uint8Array {
  const out = new Uint8Array(n);
  if (names && names.size > 0)
    fleet.layout?.nodes.forEach((node, i) => {
      if (names.has(node.name)) out.fill(1, fleet.first[i], fleet.first[i + 1]);
    });
  return out;
}

/** From here on a GPU is called hot: most slow down a few degrees later. */
export const HOT = 80;

export function painter(fleet: Picture, mode: Mode, theme: Theme, names?: Avoided): Painter | null {
  const { columns, layout } = fleet;
  if (!columns || !layout) return null;
  const n = columns.state.length;
  const blank = rgb(STATE[theme].unknown);
  const scale = SCALES[mode];
  if (mode === 'state') {
    const size = layout.states.length * 256;
    const table = new Uint32Array(2 * size);
    const kind = new Uint8Array(table.length);
    layout.states.forEach((word, s) => {
      for (let f = 0; f < 512; f++) {
        const c = classOf(word, f & 255, f > 255);
        const at = (f > 255 ? size : 0) + s * 256 + (f & 255);
        table[at] = rgb(STATE[theme][c]);
        kind[at] = CLASSES.indexOf(c);
      }
    });
    const avoided = avoidedGpus(fleet, n, names);
    const entry = (i: number) => avoided[i] * size + columns.state[i] * 256 + columns.flags[i];
    const counts = new Array(CLASSES.length).fill(0);
    const strong = new Uint8Array(n);
    for (let i = 0; i < n; i++) {
      const c = kind[entry(i)];
      counts[c]++;
      if (c >= SUSPECT && c <= LOST) strong[i] = 1;
    }
    // A node without GPUs has a square on the map, and no GPU.
    layout.nodes.forEach((node, i) => {
      if (node.gpus === 0) for (let g = fleet.first[i]; g < fleet.first[i + 1]; g++) counts[kind[entry(g)]]--;
    });
    return {
      paint(out) {
        for (let i = 0; i < n; i++) out[i] = table[entry(i)];
      },
      legend: CLASSES.map((c, i) => ({
        label: CLASS_WORDS[c],
        color: STATE[theme][c],
        count: counts[i],
      })).filter((l, i) => l.count > 0 || i < 2),
      strong,
    };
  }
  if (scale) {
    const values =
      mode === 'util'
        ? columns.util
        : mode === 'temp'
          ? columns.temp
          : mode === 'power'
            ? columns.power
            : columns.hazard;
    const none = mode === 'power' ? NONE : mode === 'hazard' ? 0 : NO_VALUE;
    const factor = mode === 'hazard' ? 0.1 : 1;
    let to = scale.to;
    if (mode === 'power') {
      // To the largest figure that is seen, in steps that do not jump about.
      let most = 0;
      for (let i = 0; i < n; i++) if (values[i] !== none && values[i] > most) most = values[i];
      to = Math.max(200, Math.ceil(most / 200) * 200);
    }
    const steps = new Uint32Array(64);
    for (let i = 0; i < 64; i++) steps[i] = ramp(i / 63, theme);
    // What has a fault is past all forecast.
    const over = mode === 'hazard' ? layout.states.map((word) => FAULTY.has(word)) : [];
    const faulty = (i: number) => over[columns.state[i]] ?? false;
    const blanked = (i: number) => values[i] === none || faulty(i);
    let [broken, unknown] = [0, 0];
    for (let i = 0; i < n; i++) {
      if (faulty(i)) broken++;
      else if (values[i] === none) unknown++;
    }
    const hot = new Uint8Array(n);
    if (mode === 'temp') for (let i = 0; i < n; i++) hot[i] = Number(!blanked(i) && values[i] >= HOT);
    const alarm = rgb(STATE[theme].out);
    const marked = {
      label: `hot: ${HOT} °C or more`,
      color: STATE[theme].out,
      count: hot.reduce((sum, is) => sum + is, 0),
    };
    const blanks = [
      { label: 'out of service', color: STATE[theme].unknown, count: broken },
      { label: mode === 'hazard' ? 'not raised' : 'no data', color: STATE[theme].unknown, count: unknown },
    ];
    return {
      paint(out) {
        for (let i = 0; i < n; i++) {
          if (blanked(i)) out[i] = blank;
          else if (hot[i]) out[i] = alarm;
          else {
            const share = (values[i] * factor - scale.from) / (to - scale.from);
            out[i] = steps[share <= 0 ? 0 : share >= 1 ? 63 : (share * 63) | 0];
          }
        }
      },
      legend: [marked, ...blanks].filter((l) => l.count > 0),
      strong: mode === 'temp' ? hot : undefined,
      scale: { ...scale, to, stops: [0, 0.25, 0.5, 0.75, 1].map((s) => css(ramp(s, theme))) },
    };
  }
  const ids: Uint16Array | Uint32Array =
    mode === 'tenant' ? columns.tenant : mode === 'version' ? columns.version : columns.job;
  const none = mode === 'job' ? 0 : NONE;
  const others = mode === 'job' ? OTHERS_JOB : OTHERS;
  const greys = OTHER[theme].map(rgb);
  const [grey] = greys;
  const counts = new Map<number, number>();
  for (let i = 0; i < n; i++) counts.set(ids[i], (counts.get(ids[i]) ?? 0) + 1);
  // The ten largest have a colour each, which is nobody else's. The others are grey.
  const order = [...counts.keys()].filter((id) => id !== none && id !== others);
  order.sort((a, b) => (counts.get(b) ?? 0) - (counts.get(a) ?? 0) || a - b);
  const largest = order.slice(0, HUES[theme].length);
  const hues = assignHues(largest, HUES[theme].length);
  const color = new Map<number, number>();
  for (const [id, hue] of hues) color.set(id, rgb(HUES[theme][hue]));
  const more = order.slice(largest.length);
  [...more]
    .sort((a, b) => a - b)
    .forEach((id, i) => {
      color.set(id, greys[i % 2]);
    });
  color.set(none, rgb(NOBODY[theme]));
  color.set(others, grey);
  const name = (id: number) =>
    mode === 'job' ? `job ${id}` : (mode === 'tenant' ? fleet.tenants[id] : fleet.versions[id]) || '?';
  const legend: Painter['legend'] = largest.map((id) => ({
    label: name(id),
    color: css(color.get(id) ?? 0),
    count: counts.get(id),
  }));
  if (more.length > 0)
    legend.push({
      label: `${more.length} more, in two greys`,
      color: css(grey),
      count: more.reduce((sum, id) => sum + (counts.get(id) ?? 0), 0),
    });
  if (counts.has(others))
    legend.push({ label: 'another project', color: css(grey), count: counts.get(others) });
  const rest = counts.get(none);
  if (rest)
    legend.push({
      label: mode === 'version' ? 'no data' : 'unallocated',
      color: NOBODY[theme],
      count: rest,
    });
  return {
    paint(out) {
      let [last, seen] = [-1, 0];
      for (let i = 0; i < n; i++) {
        const id = ids[i];
        if (id !== last) {
          last = id;
          seen = color.get(id) ?? grey;
        }
        out[i] = seen;
      }
    },
    legend,
  };
}
