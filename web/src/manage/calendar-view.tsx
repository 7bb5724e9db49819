import { type KeyboardEvent, type PointerEvent, type ReactNode, useRef, useState } from 'react';
import { exact, Panel } from '../ui/parts';
import { dayWord } from '../ui/zone';
import {
  DAY,
  dragged,
  type Grip,
  momentAt,
  nudged,
  placeOf,
  type Recurring,
  type Stretch,
  windowsOf,
} from './calendar';

/** One line of the calendar. */
export interface Line extends Recurring {
  /** Stays the same while it is edited. */
  id: string;
  name: string;
  maintenance: boolean;
  /** It is being edited: nothing of it is saved yet. */
  draft?: boolean;
}

interface Drag {
  grip: Grip;
  from: number;
  to: number;
}

/** The moment under the pointer on the track that holds an element. */
function under(e: PointerEvent<HTMLElement>, track: HTMLElement, seen: Stretch): number {
  const box = track.getBoundingClientRect();
  return momentAt(e.clientX - box.left, box.width, seen);
}

/** Reservations as lines over some days. With `edit` windows are chosen, moved and resized; nothing is saved by that. */
export function Calendar({
  lines,
  seen,
  edit,
}: {
  lines: Line[];
  seen: Stretch;
  edit?: {
    choose: (of: Stretch) => void;
    move: (line: Line, from: Stretch, to: Stretch) => void;
    open: (line: Line) => void;
  };
}) {
  const count = Math.round((seen.end - seen.start) / DAY);
  const days = Array.from({ length: count }, (_, i) => seen.start + i * DAY + DAY / 2);
  return (
    <div className="calendar">
      <span />
      <div className="days" style={{ gridTemplateColumns: `repeat(${count}, minmax(0, 1fr))` }}>
        {days.map((d) => (
          <span key={d} className="dim">
            {count > 7 ? dayWord(d).split(' ')[0] : dayWord(d)}
          </span>
        ))}
      </div>
      {edit && (
        <div className="line">
          <span className="dim">Drag to choose a time</span>
          <NewTrack seen={seen} choose={edit.choose} />
        </div>
      )}
      {lines.map((line) => (
        <div className="line" key={line.id}>
          <span className="cut">{line.name || 'new'}</span>
          <div className="track">
            <Now seen={seen} />
            {windowsOf(line, seen).map((w, i) => (
              <Window
                // biome-ignore lint/suspicious/noArrayIndexKey: a window that moves stays the same one
                key={i}
                line={line}
                of={w}
                seen={seen}
                move={edit && ((to) => edit.move(line, w, to))}
                open={edit && (() => edit.open(line))}
              />
            ))}
          </div>
        </div>
      ))}
    </div>
  );
}

/** A line at the present, where that is among the days shown. */
function Now({ seen }: { seen: Stretch }) {
  const now = Date.now();
  const place = placeOf({ start: now, end: now + 1 }, seen);
  return place && <b className="now" title={`now: ${exact(now)}`} style={{ left: `${place.left}%` }} />;
}

/** A track on which a new window is drawn. */
function NewTrack({ seen, choose }: { seen: Stretch; choose: (of: Stretch) => void }) {
  const [drag, setDrag] = useState<Drag | null>(null);
  const shown = drag && dragged('new', seen, drag.from, drag.to);
  const place = shown && placeOf(shown, seen);
  return (
    <div
      className="track choose"
      onPointerDown={(e) => {
        if (e.button !== 0) return;
        e.currentTarget.setPointerCapture(e.pointerId);
        const at = under(e, e.currentTarget, seen);
        setDrag({ grip: 'new', from: at, to: at });
      }}
      onPointerMove={(e) => {
        if (drag) setDrag({ ...drag, to: under(e, e.currentTarget, seen) });
      }}
      onPointerUp={() => {
        if (drag && shown && drag.from !== drag.to) choose(shown);
        setDrag(null);
      }}
      onPointerCancel={() => setDrag(null)}
    >
      <Now seen={seen} />
      {place && <i className="draft" style={{ left: `${place.left}%`, width: `${place.width}%` }} />}
    </div>
  );
}

/** One window. Dragged by its middle it moves, by an end it is resized; arrows do the same by the keyboard. */
function Window({
  line,
  of,
  seen,
  move,
  open,
}: {
  line: Line;
  of: Stretch;
  seen: Stretch;
  move?: (to: Stretch) => void;
  open?: () => void;
}) {
  const [drag, setDrag] = useState<Drag | null>(null);
  const moved = useRef(false);
  const shown = drag ? dragged(drag.grip, of, drag.from, drag.to) : of;
  const place = placeOf(shown, seen) ?? { left: 100, width: 0 };
  const style = { left: `${place.left}%`, width: `${place.width}%` };
  const kind = [line.maintenance && 'maintenance', line.draft && 'draft'].filter(Boolean).join(' ');
  const words = `${exact(shown.start)} to ${exact(shown.end)}`;
  if (!move || !open) return <i className={kind} style={style} title={words} />;
  const track = (e: PointerEvent<HTMLElement>) => e.currentTarget.parentElement ?? e.currentTarget;
  return (
    <button
      type="button"
      className={`window ${kind}`}
      style={style}
      title={words}
      aria-label={`${line.name || 'new reservation'}, ${words}. Edit; arrow keys move it, with Shift they move its end`}
      onPointerDown={(e) => {
        if (e.button !== 0) return;
        e.currentTarget.setPointerCapture(e.pointerId);
        const grip = ((e.target as HTMLElement).dataset.grip ?? 'whole') as Grip;
        const at = under(e, track(e), seen);
        moved.current = false;
        setDrag({ grip, from: at, to: at });
      }}
      onPointerMove={(e) => {
        if (drag) setDrag({ ...drag, to: under(e, track(e), seen) });
      }}
      onPointerUp={() => {
        if (drag && drag.from !== drag.to) {
          moved.current = true;
          move(shown);
        }
        setDrag(null);
      }}
      onPointerCancel={() => setDrag(null)}
      onClick={() => {
        // The end of a drag is a click, too.
        if (moved.current) moved.current = false;
        else open();
      }}
      onKeyDown={(e: KeyboardEvent) => {
        const next = nudged(of, e.key, e.shiftKey);
        if (!next) return;
        e.preventDefault();
        move(next);
      }}
    >
      <span className="grip" data-grip="start" />
      <span className="grip" data-grip="end" />
    </button>
  );
}

/** The calendar with what chooses its days. */
export function CalendarPanel({
  from,
  days,
  look,
  children,
}: {
  from: number;
  days: number;
  look: (from: number | null, days: number) => void;
  children: (seen: Stretch) => ReactNode;
}) {
  const seen = { start: from, end: from + days * DAY };
  return (
    <Panel
      title="Calendar"
      note={`${dayWord(seen.start, true)} to ${dayWord(seen.end - DAY / 2, true)}`}
      actions={
        <span className="log-tools">
          <button type="button" aria-label="Earlier" onClick={() => look(from - days * DAY, days)}>
            ‹
          </button>
          <button type="button" onClick={() => look(null, days)}>
            Today
          </button>
          <button type="button" aria-label="Later" onClick={() => look(from + days * DAY, days)}>
            ›
          </button>
          {[3, 14].map((n) => (
            <button key={n} type="button" aria-pressed={days === n} onClick={() => look(from, n)}>
              {n} days
            </button>
          ))}
        </span>
      }
    >
      {children(seen)}
    </Panel>
  );
}
