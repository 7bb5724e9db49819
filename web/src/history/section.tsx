import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { useCallback, useId, useMemo, useState } from 'react';
import { ApiError, type Schemas } from '../api/client';
import { Clock, count, Empty, Panel, Problem, span, Word } from '../ui/parts';
import { momentWord, useUtc, wall } from '../ui/zone';
import { HistoryChart } from './chart';
import { type EventMark, marksOf, nearby } from './marks';
import { HistoryPicker } from './picker';
import { EVENTS_MAX, history, historyBegins, historyEvents, historyMetrics, type Subject } from './queries';
import { drawn, type HistorySearch, metricsOf, rangeOf, zoomed } from './range';
import { firstSample, linesOf, midpoints, missingUntil } from './series';

type Answer = Schemas['MetricsHistory'];

interface Props {
  subject: Subject;
  /** May this token see it? Null until that is known. */
  visible: boolean | null;
  /** When what is shown ended. */
  ended?: string | null;
  search: HistorySearch;
  /** Changes parts of the address. */
  show: (part: HistorySearch) => void;
}

/** Metrics over time, of a node, a GPU or a job. */
export function History(props: Props) {
  const { subject } = props;
  if (props.visible === null) return null;
  if (!props.visible)
    return (
      <Panel title="History">
        <Empty title="No data">
          <p>This token sees a GPU only while it is allocated to its project.</p>
        </Empty>
      </Panel>
    );
  // Another node begins anew: nothing of the one before stays while it loads.
  return <Shown key={`${subject.node}/${subject.gpu}/${subject.job}`} {...props} />;
}

/** Points of a chart: about one for each two pixels. */
const pointsOf = () => (globalThis.innerWidth < 720 ? 200 : 400);

function Shown({ subject: given, ended, search, show }: Props) {
  useUtc();
  const { node, gpu, job } = given;
  const subject = useMemo<Subject>(() => ({ node, gpu, job }), [node, gpu, job]);
  const [points] = useState(pointsOf);
  const end = ended ? Date.parse(ended) : null;
  const { range: word, from, to } = search;
  const range = useMemo(
    () => rangeOf({ range: word, from, to }, job ? 'whole' : '1h', end ?? Date.now()),
    [word, from, to, job, end],
  );
  const chosen = useMemo(() => metricsOf(search.metrics, job !== undefined), [search.metrics, job]);
  const metrics = useQuery(historyMetrics());
  const kept = metrics.data && metrics.data.source !== 'off';
  const query = useQuery({
    ...history(subject, range, chosen, points, end),
    enabled: kept === true && range.kind !== 'bad',
  });
  const answer = query.data;
  const named = search.metrics !== undefined;
  const charts = useMemo(
    () => drawn(chosen, named, answer?.series.map((s) => s.metric) ?? []),
    [chosen, named, answer],
  );
  const note = answer
    ? `${momentWord(answer.from)} to ${momentWord(answer.to)} ${wall(answer.to).zone}, points of ${span(answer.step_ms)}`
    : '';
  if (metrics.data?.source === 'off')
    return (
      <Panel title="History">
        <Empty title="No history is stored">
          <p>It is switched off. {SWITCH}</p>
        </Empty>
      </Panel>
    );
  const error = metrics.error ?? query.error;
  const again = () => void (metrics.error ? metrics : query).refetch();
  return (
    <Panel title="History" note={range.kind === 'bad' ? '' : note}>
      <HistoryPicker
        search={search}
        range={range}
        whole={job !== undefined}
        time={answer ?? null}
        chosen={chosen}
        metrics={metrics.data?.items ?? []}
        show={show}
      />
      {range.kind === 'bad' ? (
        <div className="error" role="alert">
          {range.why}{' '}
          <button type="button" onClick={() => show({ range: undefined, from: undefined, to: undefined })}>
            Reset
          </button>
        </div>
      ) : error && (!answer || query.isPlaceholderData) ? (
        <Refused error={error} again={again} />
      ) : !answer ? (
        <Skeleton charts={chosen.length} />
      ) : firstSample(answer) === null && !query.isPlaceholderData ? (
        <Nothing subject={subject} metrics={chosen} from={answer.from} to={answer.to} />
      ) : (
        <Charts
          answer={answer}
          subject={subject}
          chosen={charts}
          titles={metrics.data?.items ?? []}
          busy={query.isPlaceholderData}
          show={show}
        />
      )}
    </Panel>
  );
}

export const SWITCH =
  'The server stores samples for up to 90 days when it is started with --history on, the default (or MUSTER_HISTORY=on).';

/** What a token may not see, or the server does not know, is no failure. */
export function Refused({ error, again }: { error: unknown; again: () => void }) {
  if (error instanceof ApiError && (error.status === 403 || error.status === 404))
    return (
      <Empty title="No data">
        <p>
          {error.message}
          {error.hint && ` (${error.hint})`}
        </p>
      </Empty>
    );
  return <Problem error={error} again={again} />;
}

function Skeleton({ charts }: { charts: number }) {
  return (
    <div className="charts" role="status">
      {[...Array(charts).keys()].map((i) => (
        <div key={i} className="chart skeleton">
          {i === 0 ? 'Loading…' : ''}
        </div>
      ))}
    </div>
  );
}

/** No sample in this time: says since when there are any. That samples are stored is known here. */
function Nothing({
  subject,
  metrics,
  from,
  to,
}: {
  subject: Subject;
  metrics: string[];
  from: number;
  to: number;
}) {
  const query = useQuery(historyBegins(subject, metrics));
  const since = query.data;
  return (
    <Empty title={`No samples between ${momentWord(from)} and ${momentWord(to)}`}>
      {query.isPending && <p>Looking for the first one…</p>}
      {typeof since === 'number' && <p>The history of these metrics begins at {momentWord(since)}.</p>}
      {since === null && <p>No sample of these metrics is stored here yet.</p>}
    </Empty>
  );
}

interface ChartsProps {
  answer: Answer;
  subject: Subject;
  chosen: string[];
  titles: Schemas['TelemetryField'][];
  /** Another time is being read. */
  busy: boolean;
  show: (part: HistorySearch) => void;
}

/** What the log calls it; a task of an array has no name there. */
function objectOf(subject: Subject): string | null {
  if (subject.node) return `node:${subject.node}`;
  return subject.job && /^\d+$/.test(subject.job) ? `job:${subject.job}` : null;
}

function Charts({ answer, subject, chosen, titles, busy, show }: ChartsProps) {
  const sync = useId();
  const [at, setAt] = useState<number | null>(null);
  const object = objectOf(subject);
  const events = useQuery({
    ...historyEvents(object ?? '', answer.from, answer.to),
    enabled: object !== null,
  });
  const items = events.data?.items;
  const marks = useMemo(() => marksOf(items ?? [], subject.gpu), [items, subject.gpu]);
  const x = useMemo(() => midpoints(answer), [answer]);
  const lines = useMemo(() => chosen.map((name) => linesOf(answer, name)), [answer, chosen]);
  const zoom = useCallback((from: number, to: number) => show(zoomed(from, to)), [show]);
  const reset = useCallback(() => show({ from: undefined, to: undefined }), [show]);
  const hovered = at === null ? undefined : x[at];
  // As near as a pointer can be put, and at least within the point.
  const within = Math.max(answer.step_ms / 2, (answer.to - answer.from) / 100);
  const near = hovered === undefined ? [] : nearby(marks, hovered * 1000, within);
  const missing = missingUntil(answer);
  const gpus = Math.max(0, ...lines.map((l) => l?.gpus ?? 0));
  return (
    <div aria-busy={busy} className={busy ? 'history busy' : 'history'}>
      <p className="history-near">
        {near.length > 0 ? (
          <>
            <Happened of={near[0]} />
            {near.length > 1 && <span className="dim"> and {count(near.length - 1, 'more event')}</span>}
          </>
        ) : (
          <span className="dim">
            {gpus > 1 && `${gpus} GPUs${subject.job ? ' that it ran on' : ''} put together. `}
            {missing !== null && `Nothing is stored from before ${momentWord(missing)}. `}
            Line: mean; band: least to greatest.<span className="fine-only"> Drag to zoom in.</span>
          </span>
        )}
      </p>
      <div className="charts">
        {chosen.map((name, i) => (
          <HistoryChart
            key={name}
            title={titles.find((t) => t.name === name)?.title ?? name}
            lines={lines[i]}
            x={x}
            from={answer.from}
            to={answer.to}
            most={lines[i]?.unit === '%' ? 100 : undefined}
            marks={marks}
            busy={busy}
            at={at}
            sync={sync}
            onHover={setAt}
            onZoom={zoom}
            onReset={reset}
          />
        ))}
      </div>
      <Events
        marks={marks}
        object={object}
        answer={answer}
        more={!!events.data?.cursor}
        error={events.error}
      />
    </div>
  );
}

function Happened({ of: m }: { of: EventMark }) {
  return (
    <>
      <Clock at={new Date(m.at).toISOString()} /> <Word tone={m.tone}>{m.kind}</Word> {m.text}
    </>
  );
}

/** The marks of the charts in words, newest first. */
function Events({
  marks,
  object,
  answer,
  more,
  error,
}: {
  marks: EventMark[];
  object: string | null;
  answer: Answer;
  more: boolean;
  error: unknown;
}) {
  if (object === null) return <p className="history-near dim">Events of tasks of an array are not marked.</p>;
  if (error) return <p className="history-near dim">Events: no data ({(error as Error).message}).</p>;
  if (marks.length === 0) return <p className="history-near dim">No events in this time.</p>;
  const iso = (ms: number) => new Date(ms).toISOString();
  return (
    <details className="history-events">
      <summary>
        {count(marks.length, 'event')} in this time{more && ` (of the newest ${EVENTS_MAX} only)`}
      </summary>
      <p className="history-near">
        <Link to="/events" search={{ object, from: iso(answer.from), to: iso(answer.to) }}>
          All events of this time
        </Link>
      </p>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls */}
      <ol className="timeline tall" tabIndex={0} aria-label="Events in this time">
        {marks.toReversed().map((m) => (
          <li key={m.cursor}>
            <Clock at={iso(m.at)} />
            <Word tone={m.tone}>{m.kind}</Word>
            <span>{m.text}</span>
          </li>
        ))}
      </ol>
    </details>
  );
}
