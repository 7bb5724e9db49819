import { useQuery } from '@tanstack/react-query';
import { type FormEvent, useEffect, useRef, useState } from 'react';
import { api, must } from '../api/client';
import type { Standing } from '../live/fleet';
import { logBegins } from '../queries';
import { momentWord, wall } from '../ui/zone';
import { HOW, momentWords, senseless, typedMoment } from './moment';
import { type Asked, besideWords, EVENT_SETS, type EventSet, eventBeside, type Way } from './step';
import { SPANS, stepOf, type TimeSpan, type TimeWindow, windowFor } from './window';

interface Props {
  at: string | undefined;
  span: TimeSpan | undefined;
  /** What is said of the map of then. */
  note: string;
  standing: Standing;
  /** When the newest frame was made. */
  seen: number;
  go: (to: string | undefined) => void;
  stretch: (span: TimeSpan | undefined) => void;
  /** Why what was typed cannot be shown; nothing is shown in its place. */
  refused: string | null;
  refuse: (why: string | null) => void;
}

/** Where the page says why what was typed cannot be shown. */
export const REFUSAL = 'time-refusal';

/** One event of the log, for a step. */
async function readEvents(asked: Asked) {
  const page = must(await api.GET('/v1/events', { params: { query: asked } }));
  return typeof page === 'string' ? { items: [], cursor: null } : page;
}

/** What did it look like at 03:12? Any moment of the log: by the slider, by its time, or event by event. */
export function TimeBar({ at, span, note, standing, seen, go, stretch, refused, refuse }: Props) {
  const begin = useQuery(logBegins());
  const now = Math.floor(Date.now() / 1000) * 1000;
  const oldest = begin.data ? Math.ceil(Date.parse(begin.data) / 1000) * 1000 : now;
  const [drawn, setDrawn] = useState<number | null>(null);
  const shown = at !== undefined && !senseless(at) ? Date.parse(at) : null;
  const wanted = drawn ?? shown ?? now;
  const last = useRef<TimeWindow | null>(null);
  // Under a hand that draws it does not move.
  const window =
    drawn !== null && last.current
      ? last.current
      : windowFor(shown, { begin: oldest, now }, span, last.current);
  last.current = window;
  const step = stepOf(window);
  // The log is read again when the hand rests, not at every pixel.
  useEffect(() => {
    if (drawn === null) return;
    const timer = setTimeout(() => {
      go(drawn >= Date.now() - 1000 * step ? undefined : new Date(drawn).toISOString());
      setDrawn(null);
    }, 180);
    return () => clearTimeout(timer);
  }, [drawn, go, step]);
  const past = at !== undefined || drawn !== null;
  const stale = standing === 'away';
  const words =
    drawn === null && (refused !== null || senseless(at))
      ? 'no moment'
      : past
        ? momentWords(wanted, now)
        : !stale
          ? 'now'
          : seen > 0
            ? `not now: as of ${momentWords(seen, now)}`
            : 'nothing read yet';
  // Whole minutes where it goes by minutes, and never before the log begins.
  const low = Math.ceil(window.from / 1000 / step) * step;
  return (
    <section className={past ? 'time-bar past' : stale ? 'time-bar stale' : 'time-bar'} aria-label="Time">
      <button type="button" aria-pressed={!past && refused === null} onClick={() => go(undefined)}>
        Live
      </button>
      <div className="time-slider">
        <input
          type="range"
          aria-label="Time"
          aria-valuetext={words}
          min={low}
          max={Math.floor(window.to / 1000)}
          step={step}
          value={Math.floor(wanted / 1000)}
          onChange={(e) => setDrawn(Number(e.target.value) * 1000)}
        />
        <span className="time-ends" aria-hidden="true">
          <span>{momentWord(window.from)}</span>
          <span>{now - window.to < 60_000 ? 'now' : momentWord(window.to)}</span>
        </span>
      </div>
      <output>{words}</output>
      <Steps at={at} from={shown ?? now} go={go} />
      <div className="modes" role="group" aria-label="Length of the slider">
        {SPANS.map((s) => (
          <button
            key={s.span}
            type="button"
            aria-pressed={span === s.span}
            disabled={s.ms >= now - oldest && span !== s.span}
            onClick={() => stretch(s.span)}
          >
            {s.label}
          </button>
        ))}
        <button type="button" aria-pressed={span === undefined} onClick={() => stretch(undefined)}>
          All
        </button>
      </div>
      <TypeTime
        base={shown ?? now}
        begin={begin.data ? oldest : null}
        go={go}
        refused={refused}
        refuse={refuse}
      />
      <span className="dim time-note" role="status">
        {note}
      </span>
    </section>
  );
}

interface StepsProps {
  at: string | undefined;
  from: number;
  go: (to: string) => void;
}

function Steps({ at, from, go }: StepsProps) {
  const [set, setSet] = useState<EventSet>(EVENT_SETS[0].set);
  /** What the last step led to, and the moment that it is said of. */
  const [said, setSaid] = useState<{ at: string | undefined; text: string } | null>(null);
  const [busy, setBusy] = useState(false);
  const step = async (way: Way) => {
    setBusy(true);
    try {
      const beside = await eventBeside(from, way, set, readEvents);
      const text = besideWords(beside, way);
      const { found } = beside;
      if (found === null || found === 'far') setSaid({ at, text });
      else {
        setSaid({ at: found.at, text });
        go(found.at);
      }
    } catch (e) {
      setSaid({ at, text: `events cannot be read: ${(e as Error).message}` });
    } finally {
      setBusy(false);
    }
  };
  const text = said && said.at === at ? said.text : '';
  return (
    <div className="time-steps" role="group" aria-label="Step from event to event">
      {/* Where there is little room only the arrows are shown: the names are apart from them. */}
      <button
        type="button"
        disabled={busy}
        onClick={() => void step('previous')}
        title="Previous event"
        aria-label="Previous event"
      >
        <span aria-hidden="true">◂</span> <span className="roomy">Previous</span>
      </button>
      <button
        type="button"
        disabled={busy}
        onClick={() => void step('next')}
        title="Next event"
        aria-label="Next event"
      >
        <span className="roomy">Next</span> <span aria-hidden="true">▸</span>
      </button>
      <select
        aria-label="Events that are stepped to"
        value={set}
        onChange={(e) => setSet(e.target.value as EventSet)}
      >
        {EVENT_SETS.map((s) => (
          <option key={s.set} value={s.set}>
            {s.label}
          </option>
        ))}
      </select>
      <span className="cut time-event" role="status" title={text}>
        {busy ? 'reading the log…' : text}
      </span>
    </div>
  );
}

function TypeTime({
  base,
  begin,
  go,
  refused,
  refuse,
}: Pick<Props, 'go' | 'refused' | 'refuse'> & { base: number; begin: number | null }) {
  const [text, setText] = useState('');
  const submit = (e: FormEvent) => {
    e.preventDefault();
    const typed = typedMoment(text, { now: Date.now(), base, begin });
    if (typed.kind === 'bad') return refuse(typed.why);
    setText('');
    go(typed.kind === 'live' ? undefined : new Date(typed.at).toISOString());
  };
  return (
    <form className="time-type" onSubmit={submit}>
      <input
        type="text"
        aria-label={`Go to a time, in ${wall(base).zone}`}
        aria-describedby={refused === null ? undefined : REFUSAL}
        aria-invalid={refused !== null}
        placeholder="03:12"
        title={`A time in ${wall(base).zone}: ${HOW}`}
        autoComplete="off"
        value={text}
        onChange={(e) => {
          setText(e.target.value);
          refuse(null);
        }}
      />
      <button type="submit">Go</button>
    </form>
  );
}
