import { type PointerEvent, useEffect, useRef, useState } from 'react';
import { useTheme } from '../ui/theme';
import { wall } from '../ui/zone';
import type { Paint, Values } from './heat';

export interface Row {
  key: string;
  label: string;
  values: Values;
}

interface Props {
  rows: Row[];
  /** When each column begins. */
  at: string[];
  paint: Paint;
  unit: string;
  label: string;
  /** Moments to be marked at the top: columns, and how bad. */
  marks: { column: number; bad: boolean }[];
  chosen: string | null;
  choose: (key: string | null) => void;
}

const LEFT = 132;
const TOP = 8;

/** Rows over time, one square for each stretch. A click chooses a row; so do the arrows. */
export function HeatMap({ rows, at, paint, unit, label, marks, chosen, choose }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const theme = useTheme();
  const [width, setWidth] = useState(0);
  const [over, setOver] = useState<{ row: number; column: number } | null>(null);
  const tall = rows.length > 64 ? 6 : rows.length > 24 ? 12 : 18;
  const height = TOP + rows.length * tall;
  useEffect(() => {
    const at = box.current;
    if (!at) return;
    const watch = new ResizeObserver(() => setWidth(at.clientWidth));
    watch.observe(at);
    return () => watch.disconnect();
  }, []);
  const columns = at.length;
  const cell = (width - LEFT) / Math.max(1, columns);
  // biome-ignore lint/correctness/useExhaustiveDependencies: colours change with the theme
  useEffect(() => {
    const c = canvas.current;
    const ctx = c?.getContext('2d');
    if (!c || !ctx || width === 0) return;
    const scale = devicePixelRatio;
    c.width = width * scale;
    c.height = height * scale;
    ctx.scale(scale, scale);
    const style = getComputedStyle(document.documentElement);
    const [dim, text, accent, bad, note] = ['--dim', '--text', '--accent', '--bad', '--note'].map((v) =>
      style.getPropertyValue(v),
    );
    ctx.font = '11px system-ui, "DejaVu Sans", sans-serif';
    ctx.textBaseline = 'middle';
    const every = tall >= 12 ? 1 : 4;
    rows.forEach((row, r) => {
      const y = TOP + r * tall;
      const own = row.key === chosen;
      if (r % every === 0 || own) {
        ctx.fillStyle = own ? text : dim;
        ctx.fillText(row.label, 0, y + tall / 2, LEFT - 8);
      }
      row.values.forEach((v, i) => {
        if (v === null) return;
        ctx.fillStyle = paint(v, i);
        ctx.fillRect(LEFT + i * cell, y, Math.max(1, cell - 0.5), tall - (tall > 8 ? 1 : 0));
      });
      if (own) {
        ctx.strokeStyle = accent;
        ctx.lineWidth = 1.5;
        ctx.strokeRect(LEFT, y - 0.5, columns * cell, tall);
      }
    });
    for (const m of marks) {
      ctx.fillStyle = m.bad ? bad : note;
      const x = LEFT + (m.column + 0.5) * cell;
      ctx.beginPath();
      ctx.moveTo(x - 4, 0);
      ctx.lineTo(x + 4, 0);
      ctx.lineTo(x, TOP - 1);
      ctx.fill();
    }
  }, [rows, paint, marks, chosen, width, height, cell, theme]);
  const find = (e: PointerEvent) => {
    const at = canvas.current?.getBoundingClientRect();
    if (!at) return null;
    const column = Math.floor((e.clientX - at.left - LEFT) / cell);
    const row = Math.floor((e.clientY - at.top - TOP) / tall);
    return row >= 0 && row < rows.length ? { row, column: Math.min(column, columns - 1) } : null;
  };
  const seen = over && rows[over.row];
  const value = seen && over.column >= 0 ? seen.values[over.column] : null;
  const step = (by: number) => {
    const now = rows.findIndex((r) => r.key === chosen);
    const next = now < 0 ? (by > 0 ? 0 : rows.length - 1) : Math.max(0, Math.min(rows.length - 1, now + by));
    choose(rows[next]?.key ?? null);
  };
  return (
    <div ref={box} className="heat">
      <canvas
        ref={canvas}
        style={{ height }}
        tabIndex={0}
        role="img"
        aria-label={label}
        onPointerMove={(e) => setOver(find(e))}
        onPointerLeave={() => setOver(null)}
        onClick={() => seen && choose(seen.key === chosen ? null : seen.key)}
        onKeyDown={(e) => {
          if (e.key === 'ArrowDown') step(1);
          else if (e.key === 'ArrowUp') step(-1);
          else if (e.key === 'Escape') choose(null);
          else return;
          e.preventDefault();
        }}
      />
      {seen && over && (
        <div
          className="card"
          style={{
            left: Math.min(Math.max(0, over.column) * cell + LEFT + 14, width - 230),
            top: TOP + over.row * tall + tall + 6,
          }}
        >
          <h3>{seen.label}</h3>
          {over.column >= 0 && (
            <span className="dim">
              {wall(at[over.column]).time}:{' '}
              {value === null || value === undefined
                ? 'no data'
                : `${value.toLocaleString('en', { maximumFractionDigits: 1 })} ${unit}`}
            </span>
          )}
        </div>
      )}
    </div>
  );
}
