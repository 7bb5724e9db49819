import { useEffect, useRef, useState } from 'react';
import { dayWord, midnights, wall } from './zone';

/** Lines drawn as SVG: they print as sharp as they look. Figures stand in the title for those who hear it. */
export interface PlotLine {
  label: string;
  values: (number | null)[];
  /** A colour of the style sheet, such as `--accent`. */
  tone: string;
  dashed?: boolean;
}

interface Props {
  title: string;
  /** Moments of the values, in milliseconds. */
  at: number[];
  lines: PlotLine[];
  /** Top of the scale; that of the figures when absent. */
  most?: number;
  say: (v: number) => string;
  height?: number;
  /** A line across, such as a target. */
  across?: { at: number; label: string };
  /** What a value covers, `hour` or `day`: the figures beside the lines are of the newest. */
  each?: string;
}

/** As wide as it is drawn, so that its words are as large as those of the page; this wide on paper. */
const WIDE = 640;
const NARROW = 280;
/** How wide a date with the space around it is. */
const DATE = 56;
const [LEFT, RIGHT, TOP, BOTTOM] = [52, 8, 8, 20];
/** How wide a digit of the scale is. */
const DIGIT = 6.5;
/** Half of a date or a time of day. */
const HALF = 22;

/** Space for the numbers of a scale, so that none is cut off. */
export function margin(words: string[]): number {
  return Math.max(LEFT, 12 + DIGIT * Math.max(0, ...words.map((w) => w.length)));
}

/** Round steps for a scale. */
export function ticks(most: number, about = 4): number[] {
  if (!(most > 0)) return [0];
  const rough = most / about;
  const unit = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((m) => m * unit).find((s) => s >= rough) ?? rough;
  const out = [];
  for (let v = 0; v <= most * 1.0001; v += step) out.push(v);
  return out;
}

/** Some of the moments, first and last among them. */
function spread(at: number[], most: number): number[] {
  const n = Math.min(most, at.length);
  return [
    ...new Set(
      Array.from({ length: n }, (_, k) => at[Math.round((k * (at.length - 1)) / Math.max(1, n - 1))]),
    ),
  ];
}

/** A path with gaps where nothing is known. */
export function path(values: (number | null)[], x: (i: number) => number, y: (v: number) => number): string {
  let out = '';
  let pen = false;
  values.forEach((v, i) => {
    if (v === null || !Number.isFinite(v)) {
      pen = false;
      return;
    }
    out += `${pen ? 'L' : 'M'}${x(i).toFixed(1)} ${y(v).toFixed(1)}`;
    // A figure alone would not be seen.
    if (!pen && (values[i + 1] === null || values[i + 1] === undefined)) out += 'h0.1';
    pen = true;
  });
  return out;
}

/** A plot is drawn as wide as its place, up to its own size. */
export function widthIn(place: number): number {
  return place > 0 ? Math.round(Math.min(WIDE, Math.max(NARROW, place))) : WIDE;
}

/** How many dates stand under a plot without touching each other. */
export function datesIn(width: number): number {
  return Math.min(8, Math.max(2, Math.floor((width - LEFT) / DATE)));
}

export function Plot({ title, at, lines, most, say, height = 190, across, each }: Props) {
  const box = useRef<HTMLElement>(null);
  const [W, setWidth] = useState(WIDE);
  useEffect(() => {
    const place = box.current;
    if (!place) return;
    const watch = new ResizeObserver(() => setWidth(widthIn(place.clientWidth)));
    watch.observe(place);
    return () => watch.disconnect();
  }, []);
  const reported = lines.flatMap((l) => l.values).filter((v): v is number => v !== null);
  const top = most ?? Math.max(1e-9, across?.at ?? 0, ...reported) * 1.08;
  const [first, last] = [at[0] ?? 0, at[at.length - 1] ?? 1];
  const scale = ticks(top);
  const from = margin(scale.map(say));
  const along = (ms: number) => from + ((ms - first) / Math.max(1, last - first)) * (W - from - RIGHT);
  const x = (i: number) => along(at[i]);
  const y = (v: number) => height - BOTTOM - (Math.min(v, top) / top) * (height - TOP - BOTTOM);
  const long = last - first > 2 * 86_400_000;
  const when = (ms: number) => (long ? dayWord(ms) : wall(ms).time.slice(0, 5));
  const marks = long ? midnights(first, last, datesIn(W)) : spread(at, Math.min(7, datesIn(W)));
  const newest = lines.map((l) => {
    const v = l.values.findLast((v) => v !== null);
    return `${l.label} ${v === null || v === undefined ? 'not known' : say(v)}`;
  });
  return (
    <figure className="plot" ref={box}>
      <svg
        viewBox={`0 0 ${W} ${height}`}
        role="img"
        aria-label={`${title}${each ? `, newest ${each}` : ''}: ${newest.join(', ')}`}
      >
        {scale.map((v) => (
          <g key={v}>
            <line x1={from} x2={W - RIGHT} y1={y(v)} y2={y(v)} className="grid" />
            <text x={from - 6} y={y(v) + 4} textAnchor="end">
              {say(v)}
            </text>
          </g>
        ))}
        {marks.map((ms) => {
          const anchor = along(ms) < from + HALF ? 'start' : along(ms) > W - RIGHT - HALF ? 'end' : 'middle';
          return (
            <text key={ms} x={along(ms)} y={height - 5} textAnchor={anchor}>
              {when(ms)}
            </text>
          );
        })}
        {across && (
          <>
            <line x1={from} x2={W - RIGHT} y1={y(across.at)} y2={y(across.at)} className="across" />
            <text x={W - RIGHT} y={y(across.at) - 4} textAnchor="end">
              {across.label}
            </text>
          </>
        )}
        {lines.map((l) => (
          <path
            key={l.label}
            d={path(l.values, x, y)}
            fill="none"
            style={{ stroke: `var(${l.tone})` }}
            strokeWidth={1.75}
            strokeLinejoin="round"
            strokeLinecap="round"
            strokeDasharray={l.dashed ? '5 4' : undefined}
          />
        ))}
      </svg>
      <figcaption>
        <ul className="legend">
          {lines.map((l, i) => (
            <li key={l.label}>
              <i style={{ background: `var(${l.tone})` }} />
              {newest[i]}
            </li>
          ))}
          <li className="dim">
            {each && `numbers here are of the newest ${each}; `}
            {long ? 'days' : 'times'} in {wall(last).zone}
          </li>
        </ul>
      </figcaption>
    </figure>
  );
}
