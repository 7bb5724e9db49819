import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from 'react';
import type { Avoided } from '../live/avoided';
import type { Picture } from '../live/fleet';
import { useTheme } from '../ui/theme';
import { Card } from './card';
import { cellWords, writeCells } from './cells';
import type { Painter } from './colors';
import { DIRECTIONS, inSight, nearest, neighbour } from './keys';
import { labels, ring } from './labels';
import { plan as planOf } from './layout';
import { cssColor, lookOf } from './look';
import { Finder, fit, kept, onPixels, Sheet, type View, zoom } from './render';

interface Props {
  fleet: Picture;
  paint: Painter;
  match: Uint8Array | null;
  /** Nodes that new work avoids, where that is known. */
  avoided?: Avoided;
  revision: number;
  /** Opens what a GPU is part of. */
  open: (gpu: number) => void;
}

interface Hover {
  gpu: number;
  x: number;
  y: number;
}

export function FleetMap({ fleet, paint, match, avoided, revision, open }: Props) {
  const theme = useTheme();
  const area = useRef<HTMLDivElement>(null);
  const under = useRef<HTMLCanvasElement>(null);
  const over = useRef<HTMLCanvasElement>(null);
  const [size, setSize] = useState({ w: 0, h: 0, ratio: 1 });
  const [hover, setHover] = useState<Hover | null>(null);
  /** Chosen by the keyboard; its card is shown beside it. */
  const [chosen, setChosen] = useState<Hover | null>(null);
  const view = useRef<View | null>(null);
  const asked = useRef(0);
  const marked = useRef(false);
  /** Where the pointer rests, in the window. */
  const rests = useRef<{ clientX: number; clientY: number } | null>(null);
  const drag = useRef<{ x: number; y: number; moved: boolean } | null>(null);
  const image = useRef<{ data: ImageData; sheet: Sheet } | null>(null);
  const layout = fleet.layout;

  // Room for the plan is measured coarsely: it is not laid anew for every pixel.
  const aspect = size.h > 0 ? Math.round((size.w / size.h) * 10) / 10 : 0;
  // biome-ignore lint/correctness/useExhaustiveDependencies: the same layout has the same plan, now or then
  const plan = useMemo(
    () => (layout && aspect > 0 ? planOf(layout.nodes, layout.racks, fleet.first, aspect) : null),
    [layout?.version, aspect],
  );
  const finder = useMemo(() => (plan ? new Finder(plan) : null), [plan]);

  useLayoutEffect(() => {
    const box = area.current;
    if (!box) return;
    const measure = () => {
      const ratio = Math.min(2, window.devicePixelRatio || 1);
      setSize({ w: Math.round(box.clientWidth * ratio), h: Math.round(box.clientHeight * ratio), ratio });
    };
    const watch = new ResizeObserver(measure);
    watch.observe(box);
    measure();
    return () => watch.disconnect();
  }, []);

  // biome-ignore lint/correctness/useExhaustiveDependencies: colours follow the theme, marks the revision
  const look = useMemo(() => lookOf(fleet, paint, match), [fleet, paint, match, theme, revision]);

  const render = useCallback(() => {
    asked.current = 0;
    const [a, b] = [under.current, over.current];
    if (!plan || !a || !b || size.w === 0 || look.colors.length !== plan.x.length) return;
    if (a.width !== size.w || a.height !== size.h) {
      for (const c of [a, b]) {
        c.width = size.w;
        c.height = size.h;
      }
      image.current = null;
    }
    const g = a.getContext('2d', { alpha: false });
    const o = b.getContext('2d');
    if (!g || !o) return;
    if (!image.current) {
      const data = g.createImageData(size.w, size.h);
      image.current = { data, sheet: new Sheet(new Uint32Array(data.data.buffer), size.w, size.h) };
    }
    view.current ??= fit(plan, size.w, size.h);
    const at = onPixels(view.current);
    image.current.sheet.draw(plan, at, look);
    g.putImageData(image.current.data, 0, 0);
    labels(o, fleet, plan, at, size, theme);
    writeCells(o, fleet, plan, at, size, look.colors, match);
    if (chosen && chosen.gpu < plan.x.length) ring(o, plan, at, chosen.gpu, size.ratio, cssColor('--focus'));
    if (!marked.current) {
      marked.current = true;
      performance.mark('map-drawn');
    }
  }, [plan, size, look, fleet, theme, match, chosen]);

  const ask = useCallback(() => {
    if (asked.current === 0) asked.current = requestAnimationFrame(render);
  }, [render]);

  // Another plan or window begins with all of it.
  // biome-ignore lint/correctness/useExhaustiveDependencies: only these make the old view senseless
  useLayoutEffect(() => {
    view.current = null;
  }, [plan, size]);

  const least = plan && size.w ? fit(plan, size.w, size.h).scale * 0.8 : 0.2;
  const move = useCallback(
    (next: View) => {
      if (!plan) return;
      view.current = kept(next, plan, size.w, size.h);
      ask();
    },
    [plan, size, ask],
  );

  const point = (e: { clientX: number; clientY: number }) => {
    const r = (over.current as HTMLCanvasElement).getBoundingClientRect();
    return { x: (e.clientX - r.left) * size.ratio, y: (e.clientY - r.top) * size.ratio };
  };
  const gpuAt = (p: { x: number; y: number }) => {
    const v = view.current;
    return v && finder ? finder.at((p.x - v.dx) / v.scale, (p.y - v.dy) / v.scale) : null;
  };
  const spot = () => {
    if (!rests.current || drag.current) return;
    const p = point(rests.current);
    const gpu = gpuAt(p);
    over.current?.classList.toggle('pointing', gpu !== null);
    const [x, y] = [p.x / size.ratio, p.y / size.ratio];
    setHover((old) =>
      gpu === null ? null : old?.gpu === gpu && old.x === x && old.y === y ? old : { gpu, x, y },
    );
  };

  // The map may have moved under a pointer that rests: a line came above it.
  // biome-ignore lint/correctness/useExhaustiveDependencies: what is under the pointer changes with what is drawn
  useEffect(() => {
    render();
    spot();
    return () => cancelAnimationFrame(asked.current);
  }, [render]);

  // React listens to the wheel passively; this one must keep the page from scrolling.
  useEffect(() => {
    const c = over.current;
    if (!c) return;
    const wheel = (e: WheelEvent) => {
      e.preventDefault();
      if (!view.current) return;
      const r = c.getBoundingClientRect();
      const [x, y] = [(e.clientX - r.left) * size.ratio, (e.clientY - r.top) * size.ratio];
      rests.current = null;
      setHover(null);
      setChosen(null);
      move(zoom(view.current, Math.exp(-e.deltaY * 0.0016), x, y, least));
    };
    c.addEventListener('wheel', wheel, { passive: false });
    return () => c.removeEventListener('wheel', wheel);
  }, [move, least, size.ratio]);

  const pinch = useRef(new Map<number, { x: number; y: number }>());
  const choose = (gpu: number) => {
    if (!plan || !view.current) return;
    const seen = kept(inSight(view.current, plan, gpu, size.w, size.h), plan, size.w, size.h);
    move(seen);
    const at = (corner: number, offset: number) => ((corner + 1) * seen.scale + offset) / size.ratio;
    rests.current = null;
    setHover(null);
    setChosen({ gpu, x: at(plan.x[gpu], seen.dx), y: at(plan.y[gpu], seen.dy) });
  };
  const keys = (e: React.KeyboardEvent) => {
    const v = view.current;
    if (!v || !plan || e.ctrlKey || e.metaKey || e.altKey) return;
    const way = DIRECTIONS[e.key];
    if (way && e.shiftKey) {
      const step = (way === 'left' || way === 'up' ? 60 : -60) * size.ratio;
      setChosen(null);
      move(way === 'left' || way === 'right' ? { ...v, dx: v.dx + step } : { ...v, dy: v.dy + step });
    } else if (way) {
      const central = () => nearest(plan, (size.w / 2 - v.dx) / v.scale, (size.h / 2 - v.dy) / v.scale);
      const next = chosen ? neighbour(plan, chosen.gpu, way) : central();
      if (next !== null) choose(next);
    } else if (e.key === 'Enter' && chosen) open(chosen.gpu);
    else if (e.key === 'Escape' && chosen) setChosen(null);
    else if (e.key === '+' || e.key === '=') zoomBy(1.4);
    else if (e.key === '-') zoomBy(1 / 1.4);
    else if (e.key === '0') {
      setChosen(null);
      move(fit(plan, size.w, size.h));
    } else return;
    e.preventDefault();
  };
  const zoomBy = (factor: number) => {
    if (!view.current) return;
    // Around what is chosen, so that it stays in sight.
    const [x, y] = chosen ? [chosen.x * size.ratio, chosen.y * size.ratio] : [size.w / 2, size.h / 2];
    move(zoom(view.current, factor, x, y, least));
  };
  const n = fleet.columns?.state.length ?? 0;
  const shown = hover ?? chosen;
  const nameOf = (gpu: number) => {
    const node = fleet.nodeOf[gpu];
    return `${layout?.nodes[node]?.name} GPU ${gpu - fleet.first[node]}`;
  };
  return (
    <div className="map-area" ref={area}>
      <canvas ref={under} aria-hidden="true" />
      {/* biome-ignore lint/a11y/noInteractiveElementToNoninteractiveRole: arrow keys walk it, as in an application */}
      <canvas
        ref={over}
        className="over"
        tabIndex={0}
        role="application"
        aria-roledescription="map"
        aria-label={`Map of ${n} GPUs on ${layout?.nodes.length ?? 0} nodes. Arrow keys choose a GPU, Enter opens its node. Search finds nodes by name; the Nodes page lists them.`}
        onKeyDown={keys}
        onBlur={() => setChosen(null)}
        onPointerDown={(e) => {
          e.currentTarget.setPointerCapture(e.pointerId);
          pinch.current.set(e.pointerId, point(e));
          drag.current = { ...point(e), moved: false };
          setChosen(null);
        }}
        onPointerMove={(e) => {
          const p = point(e);
          const v = view.current;
          const fingers = pinch.current;
          if (v && fingers.size === 2 && fingers.has(e.pointerId)) {
            const [other] = [...fingers].filter(([id]) => id !== e.pointerId).map(([, q]) => q);
            const before = fingers.get(e.pointerId) as { x: number; y: number };
            const far = (q: { x: number; y: number }) => Math.hypot(q.x - other.x, q.y - other.y) || 1;
            fingers.set(e.pointerId, p);
            move(zoom(v, far(p) / far(before), (p.x + other.x) / 2, (p.y + other.y) / 2, least));
            if (drag.current) drag.current.moved = true;
            return;
          }
          const d = drag.current;
          if (d && v) {
            if (d.moved || Math.abs(p.x - d.x) + Math.abs(p.y - d.y) > 5) {
              e.currentTarget.classList.add('moving');
              rests.current = null;
              setHover(null);
              move({ ...v, dx: v.dx + p.x - d.x, dy: v.dy + p.y - d.y });
              drag.current = { ...p, moved: true };
            }
            return;
          }
          rests.current = { clientX: e.clientX, clientY: e.clientY };
          spot();
        }}
        onPointerUp={(e) => {
          pinch.current.delete(e.pointerId);
          e.currentTarget.classList.remove('moving');
          const gpu = drag.current && !drag.current.moved ? gpuAt(point(e)) : null;
          drag.current = null;
          if (gpu !== null) open(gpu);
        }}
        onPointerCancel={(e) => {
          pinch.current.delete(e.pointerId);
          drag.current = null;
        }}
        onPointerLeave={() => {
          rests.current = null;
          setHover(null);
        }}
      />
      <p className="skip" role="status">
        {chosen && chosen.gpu < n
          ? `${nameOf(chosen.gpu)}: ${cellWords(fleet, chosen.gpu).join(', ').replace('#', 'job ')}`
          : ''}
      </p>
      {shown && shown.gpu < n && (
        <Card
          fleet={fleet}
          gpu={shown.gpu}
          avoided={avoided}
          x={shown.x}
          y={shown.y}
          width={size.w / size.ratio}
          height={size.h / size.ratio}
        />
      )}
      <div className="zoom">
        <button type="button" aria-label="Zoom in" onClick={() => zoomBy(1.5)}>
          +
        </button>
        <button type="button" aria-label="Zoom out" onClick={() => zoomBy(1 / 1.5)}>
          −
        </button>
        <button type="button" onClick={() => plan && move(fit(plan, size.w, size.h))}>
          Fit
        </button>
      </div>
    </div>
  );
}
