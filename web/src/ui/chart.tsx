import { useEffect, useRef } from 'react';
import uPlot from 'uplot';
import { useTheme } from './theme';
import { wall } from './zone';

const HUES = ['#4ea5d9', '#e8a33d', '#33b08a', '#cc79a7', '#7f8fe0', '#e0703a', '#a9a23a', '#8d9aa6'];

/** Something that happened: a line through the chart. */
export interface Mark {
  /** Seconds since 1970. */
  at: number;
  tone: 'bad' | 'note' | 'ok' | 'plain';
}

const TONES = { bad: '--bad', note: '--note', ok: '--line', plain: '--dim' };

export interface Line {
  label: string;
  values: (number | null)[];
  /** Drawn over the others, which step back. */
  strong?: boolean;
  dashed?: boolean;
}

interface Props {
  title: string;
  unit: string;
  /** Seconds since 1970. */
  x: number[];
  lines: Line[];
  height?: number;
  /** The top of the scale, where it is known. */
  most?: number;
  marks?: Mark[];
  /** The first line is the least and the last the most of many: what lies between is filled. */
  band?: boolean;
  /** How moments are written under it; the time of day when absent. */
  when?: (seconds: number) => string;
  /** What stands beside the title; the newest figures when absent. */
  now?: string;
  digits?: number;
}

const clock = (t: number) => wall(t * 1000).time;

/** Draws what happened behind the lines. */
function marker(marks: { current: Mark[] }): uPlot.Plugin {
  return {
    hooks: {
      drawClear: (u) => {
        const style = getComputedStyle(document.documentElement);
        const { left, top, width, height } = u.bbox;
        u.ctx.save();
        u.ctx.lineWidth = devicePixelRatio;
        for (const m of marks.current) {
          const at = Math.round(u.valToPos(m.at, 'x', true));
          if (at < left || at > left + width) continue;
          u.ctx.strokeStyle = style.getPropertyValue(TONES[m.tone]);
          u.ctx.setLineDash(m.tone === 'bad' ? [] : [3 * devicePixelRatio, 3 * devicePixelRatio]);
          u.ctx.beginPath();
          u.ctx.moveTo(at, top);
          u.ctx.lineTo(at, top + height);
          u.ctx.stroke();
        }
        u.ctx.restore();
      },
    },
  };
}

/** Lines over time. The newest figures stand beside the title, also for those who hear the page. */
export function Chart({
  title,
  unit,
  x,
  lines,
  height = 120,
  most,
  marks = [],
  band,
  when = clock,
  now: said,
  digits = 0,
}: Props) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const theme = useTheme();
  const happened = useRef(marks);
  happened.current = marks;
  const shape = `${lines.length}:${theme}:${unit}:${band}:${lines.map((l) => Number(!!l.strong)).join('')}`;
  // biome-ignore lint/correctness/useExhaustiveDependencies: the data goes in below, without a new chart
  useEffect(() => {
    const at = box.current;
    if (!at) return;
    const style = getComputedStyle(document.documentElement);
    const [dim, line, accent] = ['--dim', '--line', '--accent'].map((v) => style.getPropertyValue(v));
    const axis = {
      stroke: dim,
      grid: { stroke: line, width: 1 },
      ticks: { show: false },
      font: '11px system-ui',
    };
    const chosen = lines.some((l) => l.strong);
    const many = lines.length > HUES.length;
    const stroke = (l: Line, i: number) => {
      if (l.strong) return accent;
      if (band) return i === 1 ? accent : dim;
      if (chosen || many) return `${HUES[i % HUES.length]}66`;
      return HUES[i % HUES.length];
    };
    plot.current = new uPlot(
      {
        width: at.clientWidth,
        height,
        // Room for half of the last time of day.
        padding: [6, 26, 0, 0],
        cursor: { drag: { x: false, y: false } },
        legend: { show: false },
        plugins: [marker(happened)],
        ...(band && { bands: [{ series: [lines.length, 1] as [number, number], fill: `${dim.trim()}33` }] }),
        scales: {
          y: { range: (_u, min, max) => [Math.min(0, min ?? 0), most ?? Math.max(1e-9, (max ?? 1) * 1.08)] },
        },
        axes: [
          { ...axis, size: 22, space: 70, values: (_u, v) => v.map(when) },
          { ...axis, size: 52, values: (_u, v) => v.map((n) => n.toLocaleString('en')) },
        ],
        series: [
          {},
          ...lines.map((l, i) => ({
            label: l.label,
            stroke: stroke(l, i),
            width: l.strong ? 2 : band && i !== 1 ? 0.5 : 1.25,
            ...(l.dashed && { dash: [5, 4] }),
            points: { show: x.length < 3 },
          })),
        ],
      },
      [x, ...lines.map((l) => l.values)] as uPlot.AlignedData,
      at,
    );
    const watch = new ResizeObserver(() => plot.current?.setSize({ width: at.clientWidth, height }));
    watch.observe(at);
    return () => {
      watch.disconnect();
      plot.current?.destroy();
      plot.current = null;
    };
  }, [shape, height]);
  useEffect(() => {
    plot.current?.setData([x, ...lines.map((l) => l.values)] as uPlot.AlignedData);
  }, [x, lines]);
  const last = lines
    .map((l) => l.values[l.values.length - 1])
    .filter((v): v is number => v !== null && v !== undefined);
  const text = (n: number) => n.toLocaleString('en', { maximumFractionDigits: digits });
  const now =
    said ??
    (last.length === 0
      ? 'no data'
      : text(Math.min(...last)) === text(Math.max(...last))
        ? `${text(last[0])} ${unit}`
        : `${text(Math.min(...last))} to ${text(Math.max(...last))} ${unit}`);
  return (
    <figure className="chart">
      <h3>
        {title} <b>{now}</b>
      </h3>
      <div ref={box} aria-hidden="true" />
    </figure>
  );
}
