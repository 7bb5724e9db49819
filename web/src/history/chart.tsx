import { memo, useEffect, useRef } from 'react';
import uPlot from 'uplot';
import { useTheme } from '../ui/theme';
import { momentWord, useUtc, wall } from '../ui/zone';
import { type EventMark, fitting, groupsOf, type MarkGroup } from './marks';
import { alone, type Lines, numberWord, pointWords, wholeWords } from './series';
import { type Tick, ticksIn, timeTicks } from './ticks';

const HEIGHT = 158;
/** Space above the lines for the words of events, in pixels. */
const ABOVE = 14;
/** Marks closer than this are one, in pixels. */
const APART = 6;
const TONES = { bad: '--bad', note: '--note', plain: '--dim' };

/** How an axis of time is marked, and how a moment on it is said. In milliseconds. */
export interface TimeAxis {
  ticks: (from: number, to: number, most: number) => Tick[];
  word: (at: number) => string;
}

interface Props {
  title: string;
  /** Null where nothing is kept of this metric. */
  lines: Lines | null;
  /** Midpoints of the points' times, in seconds since 1970. */
  x: number[];
  /** The time that is shown, in milliseconds. */
  from: number;
  to: number;
  /** The top of the scale, where it is known. */
  most?: number;
  marks: EventMark[];
  /** What is shown is of the time or the metrics before: others are being read. */
  busy: boolean;
  /** The point under the pointer, of whichever chart of the section. */
  at: number | null;
  /** Charts with the same word have one crosshair. */
  sync: string;
  onHover: (at: number | null) => void;
  /** Another time was chosen by dragging, in milliseconds. Without it nothing is chosen. */
  onZoom?: (from: number, to: number) => void;
  onReset?: () => void;
  /** An axis that is not the time of day. */
  axis?: TimeAxis;
}

/** Draws events behind the lines, and above them the words that have a place. */
function drawMarks(u: uPlot, groups: MarkGroup[]) {
  const style = getComputedStyle(document.documentElement);
  const { left, top, width, height } = u.bbox;
  const px = devicePixelRatio;
  const { ctx } = u;
  ctx.save();
  ctx.lineWidth = px;
  ctx.font = `${10 * px}px system-ui`;
  ctx.textBaseline = 'top';
  ctx.textAlign = 'left';
  const shown = groups
    .map((g) => ({ ...g, x: Math.round(u.valToPos(g.at / 1000, 'x', true)) }))
    .filter((g) => g.x >= left && g.x <= left + width)
    .map((g) => ({ ...g, width: ctx.measureText(g.word).width + 8 * px }));
  const written = fitting(shown, left + width);
  shown.forEach((g, i) => {
    const tone = style.getPropertyValue(TONES[g.tone]);
    ctx.strokeStyle = tone;
    ctx.fillStyle = tone;
    ctx.setLineDash(g.tone === 'bad' ? [] : [3 * px, 3 * px]);
    ctx.beginPath();
    ctx.moveTo(g.x, top);
    ctx.lineTo(g.x, top + height);
    ctx.stroke();
    if (written[i]) ctx.fillText(g.word, g.x, top - 12 * px);
  });
  ctx.restore();
}

/** Only moving is shared: a drag is of the chart in which it began. */
const shared = (type: string) => type !== 'mousedown' && type !== 'mouseup' && type !== 'dblclick';

function dataOf({ x, lines }: Pick<Props, 'x' | 'lines'>): uPlot.AlignedData {
  return lines ? [x, lines.mean, lines.min, lines.max] : [[], [], [], []];
}

/** One metric over time: the mean as a line, all between the least and the greatest filled. */
export const HistoryChart = memo(function HistoryChart(props: Props) {
  const { title, lines, x, from, to, marks, at, most } = props;
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const theme = useTheme();
  const utc = useUtc();
  // The chart outlives what it shows: it asks for what is newest.
  const shown = useRef(props);
  shown.current = props;
  const exists = lines !== null;
  useEffect(() => {
    const place = box.current;
    if (!place || !exists || !theme) return;
    const style = getComputedStyle(document.documentElement);
    const [dim, line, accent] = ['--dim', '--line', '--accent'].map((v) => style.getPropertyValue(v).trim());
    const axis = {
      stroke: dim,
      grid: { stroke: line, width: 1 },
      ticks: { show: false },
      font: '11px system-ui',
    };
    const ticks = (u: uPlot, min: number, max: number) => {
      const ticksOf = shown.current.axis?.ticks ?? timeTicks;
      return ticksOf(min * 1000, max * 1000, ticksIn(u.bbox.width / devicePixelRatio));
    };
    const dots = (show: boolean) => ({
      show: false,
      size: 4,
      filter: (u: uPlot, i: number) => (show ? alone(u.data[i] as (number | null)[]) : null),
    });
    const edge = { stroke: dim, width: 0.5, points: dots(false) };
    const made = new uPlot(
      {
        width: place.clientWidth,
        height: HEIGHT,
        // Space for half of the last word.
        padding: [ABOVE, 26, 0, 0],
        legend: { show: false },
        cursor: {
          y: false,
          drag: { x: shown.current.onZoom !== undefined, y: false, setScale: false, dist: 6 },
          sync: { key: props.sync, setSeries: false, filters: { pub: shared } },
          bind: {
            dblclick: () => () => {
              shown.current.onReset?.();
              return null;
            },
          },
        },
        bands: [{ series: [3, 2], fill: `${accent}33` }],
        scales: {
          x: { range: () => [shown.current.from / 1000, shown.current.to / 1000] },
          y: {
            range: (_u, min, max) => [
              Math.min(0, min ?? 0),
              shown.current.most ?? Math.max(1e-9, (max ?? 1) * 1.08),
            ],
          },
        },
        axes: [
          {
            ...axis,
            size: 22,
            splits: (u, _axis, min, max) => ticks(u, min, max).map((t) => t.at / 1000),
            values: (u) => ticks(u, u.scales.x.min ?? 0, u.scales.x.max ?? 0).map((t) => t.word),
          },
          { ...axis, size: 52, values: (_u, v) => v.map(numberWord) },
        ],
        series: [
          {},
          { label: 'mean', stroke: accent, width: 1.5, points: dots(true) },
          { label: 'least', ...edge },
          { label: 'greatest', ...edge },
        ],
        hooks: {
          drawClear: [
            (u) => {
              const now = shown.current;
              const pixels = Math.max(1, u.bbox.width / devicePixelRatio);
              drawMarks(u, groupsOf(now.marks, ((now.to - now.from) / pixels) * APART));
            },
          ],
          setCursor: [
            (u) => {
              const over = (u.cursor.left ?? -1) >= 0;
              // Points of other charts may be of other lengths: the one under the pointer says which it is.
              if (!over) shown.current.onHover(null);
              else if (u.over.matches(':hover')) shown.current.onHover(u.cursor.idx ?? null);
            },
          ],
          setSelect: [
            (u) => {
              const { left, width } = u.select;
              if (width < 1) return;
              const [a, b] = [u.posToVal(left, 'x'), u.posToVal(left + width, 'x')];
              u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
              shown.current.onZoom?.(a * 1000, b * 1000);
            },
          ],
        },
      },
      dataOf(shown.current),
      place,
    );
    plot.current = made;
    const watch = new ResizeObserver(() => made.setSize({ width: place.clientWidth, height: HEIGHT }));
    watch.observe(place);
    return () => {
      watch.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [exists, theme, props.sync]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: drawn anew also when only the zone, the time, the top, the marks or the colours are others
  useEffect(() => {
    if (lines) plot.current?.setData(dataOf({ x, lines }));
  }, [x, lines, from, to, most, marks, utc, theme, props.sync]);
  const moment = at === null ? undefined : x[at];
  const axis = props.axis ?? {
    word: (ms: number) => (to - from > 86_400_000 ? momentWord(ms) : wall(ms).time),
  };
  const words = !lines
    ? props.busy
      ? 'Loading…'
      : 'no data'
    : at === null || moment === undefined
      ? wholeWords(lines)
      : pointWords(lines, at);
  return (
    <figure className="chart history-chart">
      <h3>
        {title} <b>{words}</b>
        {lines && moment !== undefined && <span> at {axis.word(moment * 1000)}</span>}
      </h3>
      {lines && <div ref={box} aria-hidden="true" />}
    </figure>
  );
});
