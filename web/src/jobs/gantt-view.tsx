import { useQueries, useQuery } from '@tanstack/react-query';
import { useVirtualizer } from '@tanstack/react-virtual';
import {
  type KeyboardEvent,
  type PointerEvent,
  useCallback,
  useEffect,
  useMemo,
  useRef,
  useState,
} from 'react';
import { ticksIn, timeTicks } from '../history/ticks';
import { useRights } from '../rights';
import { count, Loaded } from '../ui/parts';
import { useUtc } from '../ui/zone';
import { type JobSearch, narrowedBy } from './filters';
import {
  chosenStretch,
  type Estimate,
  entriesOf,
  momentsOf,
  moved,
  placeOf,
  type Row,
  type Stretch,
  statesOf,
  stretchOf,
  toAddress,
  zoomBy,
} from './gantt';
import { estimate, type Queue, queue, ROWS_MAX } from './gantt-queries';
import { clockWord, GanttCard, GanttRow, GroupHead, NoBars } from './gantt-row';

/** As high as the style sheet has a line. */
const LINE = 26;
/** A drag shorter than this is a click, in pixels. */
const CLICK = 6;
const FACTOR = 1.6;
/** So near to the word of now no other is written, in pixels. */
const NEAR = 40;

interface Props {
  search: JobSearch;
  show: (next: JobSearch) => void;
}

/** The present, again every ten seconds. */
function useNow(): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 10_000);
    return () => clearInterval(timer);
  }, []);
  return now;
}

/** The whole queue in time: what runs, reserved starts, and estimated starts of the rows in sight. */
export function Gantt({ search, show }: Props) {
  const { project, submits } = useRights();
  const ended = statesOf(search.state) === null;
  const query = useQuery({ ...queue(search), enabled: !ended });
  const none = (
    <NoBars
      ended={ended}
      narrowed={narrowedBy(search) > 0 || search.state !== undefined}
      project={project}
      submits={submits}
      showActive={() => show({ ...search, state: undefined })}
    />
  );
  if (ended) return none;
  return (
    <Loaded query={query}>
      {(data) => (data.rows.length === 0 ? none : <Timeline of={data} search={search} show={show} />)}
    </Loaded>
  );
}

/** The estimates of the rows that are in sight, and of those that were. */
function useEstimates(inSight: readonly Row[]): Map<string, Estimate> {
  const asked = inSight.filter((r) => r.group === 'waiting' || r.group === 'reserved');
  const seen = useRef(new Map<string, Estimate>());
  const queries = useQueries({ queries: asked.map((r) => estimate(r.id)) });
  const key = asked
    .map((r, i) => `${r.id} ${queries[i]?.dataUpdatedAt} ${queries[i]?.errorUpdatedAt}`)
    .join();
  // biome-ignore lint/correctness/useExhaustiveDependencies: the key says which answers came
  return useMemo(() => {
    const next = new Map(seen.current);
    asked.forEach((r, i) => {
      const { data, isError } = queries[i] ?? {};
      if (data !== undefined) next.set(r.id, data);
      else if (isError) next.set(r.id, null);
    });
    seen.current = next;
    return next;
  }, [key]);
}

function Timeline({ of, search, show }: Props & { of: Queue }) {
  useUtc();
  const now = useNow();
  const entries = useMemo(() => entriesOf(of.rows), [of.rows]);
  const box = useRef<HTMLElement>(null);
  const axis = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(600);
  useEffect(() => {
    const place = axis.current;
    if (!place) return;
    const watch = new ResizeObserver(() => setWidth(place.clientWidth));
    watch.observe(place);
    return () => watch.disconnect();
  }, []);
  const lines = useVirtualizer({
    count: entries.length,
    getScrollElement: () => box.current,
    estimateSize: () => LINE,
    overscan: 8,
  });
  const shown = lines.getVirtualItems();
  const inSight = shown.flatMap((v) => {
    const entry = entries[v.index];
    return entry && 'row' in entry ? [entry.row] : [];
  });
  const estimates = useEstimates(inSight);
  const whole = useMemo(() => stretchOf(momentsOf(of.rows, estimates), now), [of.rows, estimates, now]);
  const { from, to } = search;
  const chosen = useMemo(() => chosenStretch({ from, to }), [from, to]);
  const stretch = chosen ?? whole;
  const zoom = (to: Stretch) => show({ ...search, ...toAddress(to) });
  const reset = () => show({ ...search, from: undefined, to: undefined });
  const [hover, setHover] = useState<{ row: Row; at: { x: number; y: number } } | null>(null);
  const point = useCallback(
    (row: Row, at: { x: number; y: number } | null) =>
      setHover((old) => (at ? { row, at } : old?.row.id === row.id ? null : old)),
    [],
  );
  const { drag, onPointerDown } = useDrag(axis, stretch, zoom);
  const onKeyDown = (e: KeyboardEvent) => {
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    const act = {
      '+': () => zoom(zoomBy(stretch, FACTOR, now)),
      '=': () => zoom(zoomBy(stretch, FACTOR, now)),
      '-': () => zoom(zoomBy(stretch, 1 / FACTOR, now)),
      '0': reset,
      Escape: () => setHover(null),
      ArrowLeft: () => zoom(moved(stretch, -0.25)),
      ArrowRight: () => zoom(moved(stretch, 0.25)),
    }[e.key];
    if (!act) return;
    e.preventDefault();
    act();
  };
  const line = placeOf(now, stretch);
  const sees = now >= stretch.from && now <= stretch.to;
  const near = (NEAR / Math.max(1, width)) * 100;
  const ticks = timeTicks(stretch.from, stretch.to, ticksIn(width))
    .map((t) => ({ ...t, x: placeOf(t.at, stretch) }))
    .filter((t) => (!sees || Math.abs(t.x - line) > near) && t.x > near / 2 && t.x < 100 - near / 2);
  return (
    <div className="gantt">
      <div className="gantt-bar">
        <div className="modes" role="group" aria-label="Time of the timeline">
          <button type="button" aria-label="Earlier" onClick={() => zoom(moved(stretch, -0.5))}>
            ‹
          </button>
          <button type="button" aria-label="Later" onClick={() => zoom(moved(stretch, 0.5))}>
            ›
          </button>
          <button type="button" aria-label="Zoom out" onClick={() => zoom(zoomBy(stretch, 1 / FACTOR, now))}>
            −
          </button>
          <button type="button" aria-label="Zoom in" onClick={() => zoom(zoomBy(stretch, FACTOR, now))}>
            +
          </button>
        </div>
        {chosen && (
          <button type="button" onClick={reset}>
            Reset zoom
          </button>
        )}
        <span className="dim">
          {clockWord(stretch.from, now)} to {clockWord(stretch.to, now)}.
          <span className="fine-only"> Drag to zoom in.</span>
          {of.cut && ` The newest ${count(ROWS_MAX, 'active job')}: there are more.`}
        </span>
        <ul className="legend" aria-label="What the bars are">
          <li>
            <i className="bar runs" /> runs, to its time limit
          </li>
          <li>
            <i className="bar reserved" /> reserved start
          </li>
          <li>
            <i className="bar estimate" /> starts within
          </li>
        </ul>
      </div>
      <section
        className="gantt-lines"
        ref={box}
        // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls
        tabIndex={0}
        aria-label="Timeline of the queue"
        onKeyDown={onKeyDown}
        onScroll={() => setHover(null)}
        onPointerDownCapture={() => setHover(null)}
      >
        <div className="gantt-line gantt-head" aria-hidden="true">
          <span />
          <div className="axis" ref={axis}>
            {ticks.map((t) => (
              <span key={t.at} style={{ left: `${t.x}%` }}>
                {t.word}
              </span>
            ))}
            {sees && <b style={{ left: `${line}%` }}>now</b>}
          </div>
        </div>
        <div
          className="gantt-all"
          style={{ height: lines.getTotalSize() }}
          onPointerDown={onPointerDown}
          onDoubleClick={reset}
        >
          <ol>
            {shown.map((v) => {
              const entry = entries[v.index];
              if (!entry) return null;
              return (
                <li
                  key={'row' in entry ? entry.row.id : entry.head}
                  className="gantt-line"
                  style={{ transform: `translateY(${v.start}px)` }}
                >
                  {'row' in entry ? (
                    <GanttRow
                      row={entry.row}
                      estimate={estimates.get(entry.row.id)}
                      stretch={stretch}
                      now={now}
                      point={point}
                    />
                  ) : (
                    <GroupHead head={entry.head} jobs={entry.count} />
                  )}
                </li>
              );
            })}
          </ol>
          <div className="gantt-line gantt-over" aria-hidden="true">
            <span />
            <div>
              {sees && <i className="now" style={{ left: `${line}%` }} />}
              {drag && (
                <i
                  className="drag"
                  style={{
                    left: `${placeOf(Math.min(drag.from, drag.to), stretch)}%`,
                    width: `${(Math.abs(drag.to - drag.from) / (stretch.to - stretch.from)) * 100}%`,
                  }}
                />
              )}
            </div>
          </div>
        </div>
      </section>
      {hover && !drag && <GanttCard row={hover.row} estimate={estimates.get(hover.row.id)} at={hover.at} />}
    </div>
  );
}

/** Another time is chosen by a drag over the bars. A finger scrolls: it has the buttons. */
function useDrag(
  axis: { current: HTMLElement | null },
  stretch: Stretch,
  zoom: (to: Stretch) => void,
): { drag: Stretch | null; onPointerDown: (e: PointerEvent) => void } {
  const [drag, setDrag] = useState<Stretch | null>(null);
  const onPointerDown = (e: PointerEvent) => {
    const place = axis.current?.getBoundingClientRect();
    if (!place || e.button !== 0 || e.pointerType === 'touch' || e.clientX < place.left) return;
    const at = (x: number) => {
      const share = Math.min(1, Math.max(0, (x - place.left) / place.width));
      return stretch.from + share * (stretch.to - stretch.from);
    };
    const begun = e.clientX;
    const far = (x: number) => Math.abs(x - begun) >= CLICK;
    // No words are chosen by it.
    e.preventDefault();
    const stop = new AbortController();
    const on = { signal: stop.signal };
    const end = () => {
      stop.abort();
      setDrag(null);
    };
    window.addEventListener(
      'pointermove',
      (m) => setDrag(far(m.clientX) ? { from: at(begun), to: at(m.clientX) } : null),
      on,
    );
    window.addEventListener(
      'pointerup',
      (m) => {
        end();
        if (far(m.clientX)) zoom({ from: at(begun), to: at(m.clientX) });
      },
      on,
    );
    window.addEventListener('pointercancel', end, on);
    window.addEventListener('keydown', (k) => k.key === 'Escape' && end(), on);
  };
  return { drag, onPointerDown };
}
