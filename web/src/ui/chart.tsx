import { useEffect, useRef } from 'react';
import uPlot from 'uplot';
import { useTheme } from './theme';

const HUES = ['#4ea5d9', '#e8a33d', '#33b08a', '#cc79a7', '#7f8fe0', '#e0703a', '#a9a23a', '#8d9aa6'];

interface Props {
  title: string;
  unit: string;
  /** Seconds since 1970. */
  x: number[];
  lines: { label: string; values: (number | null)[] }[];
  height?: number;
  /** The top of the scale, where it is known. */
  most?: number;
}

/** Lines over time. The newest figures stand beside the title, also for those who hear the page. */
export function Chart({ title, unit, x, lines, height = 120, most }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const theme = useTheme();
  const shape = `${lines.length}:${theme}:${unit}`;
  // biome-ignore lint/correctness/useExhaustiveDependencies: the data goes in below, without a new chart
  useEffect(() => {
    const at = box.current;
    if (!at) return;
    const style = getComputedStyle(document.documentElement);
    const [dim, line] = [style.getPropertyValue('--dim'), style.getPropertyValue('--line')];
    const axis = {
      stroke: dim,
      grid: { stroke: line, width: 1 },
      ticks: { show: false },
      font: '11px system-ui',
    };
    plot.current = new uPlot(
      {
        width: at.clientWidth,
        height,
        padding: [6, 6, 0, 0],
        cursor: { drag: { x: false, y: false } },
        legend: { show: false },
        scales: {
          y: { range: (_u, min, max) => [Math.min(0, min ?? 0), most ?? Math.max(1, (max ?? 1) * 1.08)] },
        },
        axes: [
          {
            ...axis,
            size: 22,
            space: 70,
            values: (_u, v) => v.map((t) => new Date(t * 1000).toLocaleTimeString('en-GB').slice(0, 8)),
          },
          { ...axis, size: 52, values: (_u, v) => v.map((n) => n.toLocaleString('en')) },
        ],
        series: [
          {},
          ...lines.map((l, i) => ({
            label: l.label,
            stroke: HUES[i % HUES.length],
            width: 1.25,
            points: { show: false },
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
  const text = (n: number) => n.toLocaleString('en', { maximumFractionDigits: 0 });
  const now =
    last.length === 0
      ? 'not told'
      : last.length === 1
        ? `${text(last[0])} ${unit}`
        : `${text(Math.min(...last))} to ${text(Math.max(...last))} ${unit}`;
  return (
    <figure className="chart">
      <h3>
        {title} <b>{now}</b>
      </h3>
      <div ref={box} aria-hidden="true" />
    </figure>
  );
}
