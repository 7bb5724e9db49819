import { Link } from '@tanstack/react-router';
import type { Schemas } from '../api/client';
import { timeTicks } from '../history/ticks';
import { Clock, count, Empty } from '../ui/parts';
import { wall } from '../ui/zone';
import { type Bar, barsOf, placeOf, stretchOf } from './gantt';

/** Most bars that are drawn. */
const DRAWN = 100;
/** Most times above the bars, and how near to another word none is written, in thousandths of the width. */
const [TICKS, NEAR] = [10, 35];

function wordsOf(b: Bar): string {
  const clock = (at: number) => wall(at).time.slice(0, 5);
  const to = b.to === null ? 'no time limit' : `time limit at ${clock(b.to)}`;
  return `${b.reserved ? 'reserved start' : 'started'} ${clock(b.from)}, ${to}`;
}

/** Running jobs and reserved starts as bars in time. */
export function Gantt({ jobs, more }: { jobs: readonly Schemas['Job'][]; more: boolean }) {
  const bars = barsOf(jobs);
  const now = Date.now();
  const stretch = stretchOf(bars, now);
  const line = placeOf(now, stretch);
  if (bars.length === 0)
    return (
      <Empty title="Nothing runs, and no start is reserved">
        <p>Among the jobs that the filters choose.</p>
      </Empty>
    );
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls
    <section className="gantt" tabIndex={0} aria-label="Running jobs and reserved starts">
      <p className="dim">
        From <Clock at={new Date(stretch.from).toISOString()} /> to{' '}
        <Clock at={new Date(stretch.to).toISOString()} />; a bar ends at the time limit, a hollow one begins
        at a reserved start.
        {(more || bars.length > DRAWN) &&
          ` Of the newest ${count(jobs.length, 'job')}, ${count(Math.min(bars.length, DRAWN), 'bar')}.`}
      </p>
      <div className="line" aria-hidden="true">
        <div className="axis">
          {timeTicks(stretch.from, stretch.to, TICKS)
            .map((t) => ({ ...t, x: placeOf(t.at, stretch) }))
            .filter((t) => Math.abs(t.x - line) > NEAR && t.x < 1000 - NEAR)
            .map((t) => (
              <span key={t.at} style={{ left: `${t.x / 10}%` }}>
                {t.word}
              </span>
            ))}
          <b style={{ left: `${line / 10}%` }}>now</b>
        </div>
      </div>
      <ol>
        {bars.slice(0, DRAWN).map((b) => {
          const x = placeOf(b.from, stretch);
          const width = Math.max(3, placeOf(b.to, stretch) - x);
          return (
            <li key={b.id}>
              <Link to="/jobs/$id" params={{ id: b.id }} className="cut">
                {b.id} {b.name}
              </Link>
              <svg viewBox="0 0 1000 16" preserveAspectRatio="none" role="img" aria-label={wordsOf(b)}>
                <title>{wordsOf(b)}</title>
                <rect x={x} y={3} width={width} height={10} className={b.reserved ? 'reserved' : 'runs'} />
                <line x1={line} x2={line} y1={0} y2={16} className="now" />
              </svg>
            </li>
          );
        })}
      </ol>
    </section>
  );
}
