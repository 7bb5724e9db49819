import { Link } from '@tanstack/react-router';
import { memo, type PointerEvent } from 'react';
import { count, Empty, tidy } from '../ui/parts';
import { momentWord, wall } from '../ui/zone';
import {
  barsOf,
  type Estimate,
  type Group,
  outside,
  placeOf,
  type Row,
  type Stretch,
  timesOf,
} from './gantt';

const HEADS: Record<Group, string> = {
  running: 'Running',
  reserved: 'With a reserved start',
  waiting: 'Waiting, no start reserved',
  held: 'Held',
};

/** The time of day; the date too when it is another day. */
export function clockWord(at: number, now = Date.now()): string {
  const { date, time } = wall(at);
  return date === wall(now).date ? time.slice(0, 5) : momentWord(at);
}

/** Why a job waits; what an estimate rests on where it has one. */
function whyOf(row: Row, estimate: Estimate): string {
  if (row.group === 'held') return tidy(row.why);
  return [row.why, estimate?.basis]
    .filter(Boolean)
    .map((t) => tidy(t as string))
    .join('; ');
}

interface Props {
  row: Row;
  estimate: Estimate;
  stretch: Stretch;
  now: number;
  /** Says which row is pointed at or focused, and where. */
  point: (row: Row, at: { x: number; y: number } | null) => void;
}

/** One job: its name, and its bars in the stretch of time. */
export const GanttRow = memo(function GanttRow({ row, estimate, stretch, now, point }: Props) {
  const bars = barsOf(row, estimate, now);
  const words = timesOf(row, estimate, (at) => clockWord(at, now));
  const side = outside(bars, stretch);
  const why = tidy(row.why);
  const hover = (e: PointerEvent) => point(row, { x: e.clientX, y: e.clientY });
  return (
    <>
      <Link
        to="/jobs/$id"
        params={{ id: row.id }}
        className="cut"
        onFocus={(e) => {
          const box = e.currentTarget.getBoundingClientRect();
          point(row, { x: box.left, y: box.bottom });
        }}
        onBlur={() => point(row, null)}
      >
        {row.id} {row.name}
      </Link>
      <div
        className="track"
        role="img"
        aria-label={bars.length === 0 && why ? `${words}: ${why}` : words}
        onPointerMove={hover}
        onPointerDown={hover}
        // A finger that was lifted has left, too: its card stays until the next touch.
        onPointerLeave={(e) => e.pointerType !== 'touch' && point(row, null)}
      >
        {side === null &&
          bars.map((b) => {
            const left = placeOf(b.from, stretch);
            const width = placeOf(b.to, stretch) - left;
            const open = b.to === null || b.to > stretch.to ? ' open' : '';
            return (
              <i
                key={b.kind}
                className={`bar ${b.kind}${open}`}
                style={{ left: `${left}%`, width: `${width}%` }}
              />
            );
          })}
        {side !== null && <span className={`aside ${side}`}>{words}</span>}
        {bars.length === 0 && <span className="aside">{why || words}</span>}
      </div>
    </>
  );
});

/** What is known of the job under the pointer. It is at the pointer, and within the window. */
export function GanttCard({
  row,
  estimate,
  at,
}: {
  row: Row;
  estimate: Estimate;
  at: { x: number; y: number };
}) {
  const why = whyOf(row, estimate);
  const low = at.y > window.innerHeight / 2;
  return (
    <div
      className="card gantt-card"
      role="tooltip"
      style={{
        left: Math.max(8, Math.min(at.x + 12, window.innerWidth - 332)),
        ...(low ? { bottom: window.innerHeight - at.y + 12 } : { top: at.y + 14 }),
      }}
    >
      <h3>
        {row.id} {row.name}
      </h3>
      <p>{timesOf(row, estimate, clockWord)}</p>
      <dl>
        <dt>State</dt>
        <dd>{row.group === 'held' ? 'held' : row.state}</dd>
        <dt>Project</dt>
        <dd>
          {row.project}, {row.user}
        </dd>
        <dt>Gang</dt>
        <dd>{row.gang}</dd>
        {why && (
          <>
            <dt>{row.group === 'held' ? 'Held by' : row.group === 'running' ? 'Stopped' : 'Why it waits'}</dt>
            <dd>{why}</dd>
          </>
        )}
      </dl>
    </div>
  );
}

/** Nothing to draw: what would be here, and how it comes here. */
export function NoBars({
  ended,
  narrowed,
  project,
  submits,
  showActive,
}: {
  /** The filter lets only jobs through that have ended. */
  ended: boolean;
  narrowed: boolean;
  project: string | null;
  submits: boolean;
  showActive: () => void;
}) {
  if (ended)
    return (
      <Empty title="The timeline is of jobs that run or wait">
        <p>Only jobs that have ended are chosen. Their times are on their pages, and in the list.</p>
        <button type="button" onClick={showActive}>
          Show active jobs
        </button>
      </Empty>
    );
  if (narrowed)
    return (
      <Empty title="No such job runs or waits">
        <p>The filters choose none of the active jobs: clear some of them.</p>
      </Empty>
    );
  return (
    <Empty title="Nothing runs, and nothing waits">
      <p>
        Each job that runs has a bar here from its start to its time limit. A job that waits has one from its
        reserved start, or a range in which it is expected to start.
      </p>
      {submits && (
        <p>
          Try one: <code>muster run{project ? ` --project ${project}` : ''} --gpus 8 -- nvidia-smi</code>, or{' '}
          <Link to="/jobs/new">submit a job</Link>.
        </p>
      )}
    </Empty>
  );
}

/** The head of a group. */
export function GroupHead({ head, jobs }: { head: Group; jobs: number }) {
  return (
    <h2>
      {HEADS[head]} <span className="dim">{count(jobs, 'job')}</span>
    </h2>
  );
}
