import { useQuery } from '@tanstack/react-query';
import { useId, useMemo, useState } from 'react';
import type { Schemas } from '../api/client';
import { HistoryChart, type TimeAxis } from '../history/chart';
import { historyMetrics, historySince } from '../history/queries';
import { Refused, SWITCH } from '../history/section';
import { firstSample, linesOf, missingUntil } from '../history/series';
import { Empty, Panel, span } from '../ui/parts';
import { momentWord } from '../ui/zone';
import {
  COMPARED_METRICS,
  lengthRan,
  lengthWord,
  noSamplesWords,
  pointAt,
  pointsFor,
  type Ran,
  sinceStart,
  sinceTicks,
  topOf,
} from './since';

type Answer = Schemas['MetricsHistory'];

/** One of the two: what it is called, whose samples they are, and when it ran. */
export interface ChartSide {
  name: string;
  job: string;
  ran: Ran | null;
}

const SINCE: TimeAxis = { ticks: sinceTicks, word: (ms) => `${lengthWord(ms)} after the start` };
/** Points of the longer one. */
const pointsOf = () => (globalThis.innerWidth < 720 ? 200 : 300);
const NO_MARKS: never[] = [];

/** Metrics of both beside each other, from the start of each on. */
export function SinceCharts({ sides }: { sides: [ChartSide, ChartSide] }) {
  const [points] = useState(pointsOf);
  // What runs grows: the axis is that of what was read.
  const [now] = useState(() => Date.now());
  const metrics = useQuery(historyMetrics());
  const kept = metrics.data && metrics.data.source !== 'off';
  const longest = Math.max(...sides.map((s) => lengthRan(s.ran, now)));
  const asked = (s: ChartSide) => ({
    ...historySince(
      s.job,
      s.ran ?? { from: 0, to: 0 },
      COMPARED_METRICS,
      pointsFor(lengthRan(s.ran, now), longest, points),
    ),
    enabled: kept === true && s.ran !== null,
  });
  // Each by itself: a job may be compared with itself.
  const queries = [useQuery(asked(sides[0])), useQuery(asked(sides[1]))];
  const answers = sides.map((s, i) => (s.ran ? (queries[i].data ?? null) : null));
  const failed = [metrics, ...queries].find((q) => q.isError && q.data === undefined);
  const reading = !kept || sides.some((s, i) => s.ran !== null && queries[i].data === undefined);
  const steps = new Set(answers.flatMap((a) => (a ? [span(a.step_ms)] : [])));
  const note = steps.size > 0 ? `time since the start of each; points of ${[...steps].join(' and ')}` : '';
  return (
    <Panel title="Metrics" note={note}>
      {metrics.data?.source === 'off' ? (
        <Empty title="No history is stored">
          <p>It is switched off. {SWITCH}</p>
        </Empty>
      ) : failed ? (
        <Refused error={failed.error} again={() => void failed.refetch()} />
      ) : reading ? (
        <p className="state" role="status">
          Loading…
        </p>
      ) : (
        <Charts sides={sides} answers={answers} titles={metrics.data?.items ?? []} />
      )}
    </Panel>
  );
}

interface ChartsProps {
  sides: [ChartSide, ChartSide];
  answers: (Answer | null)[];
  titles: Schemas['TelemetryField'][];
}

function Charts({ sides, answers, titles }: ChartsProps) {
  const sync = useId();
  /** Under the pointer, in seconds since the start. */
  const [at, setAt] = useState<number | null>(null);
  const xs = useMemo(
    () => sides.map(({ ran }, i) => (answers[i] && ran ? sinceStart(answers[i], ran.from) : [])),
    [sides, answers],
  );
  const rows = useMemo(
    () =>
      COMPARED_METRICS.map((name) => ({
        name,
        lines: answers.map((a) => {
          const lines = a && linesOf(a, name);
          return lines?.mean.some((v) => v !== null) ? lines : null;
        }),
      })).filter((row) => row.lines.some((l) => l !== null)),
    [answers],
  );
  const all = sides.flatMap((s, i) => {
    const answer = answers[i];
    if (answer === null || firstSample(answer) === null)
      return [noSamplesWords(s.name, s.ran, answer?.known_from ?? null)];
    const missing = missingUntil(answer);
    return missing === null ? [] : [`Of ${s.name} nothing is stored from before ${momentWord(missing)}.`];
  });
  const words = [...new Set(all)];
  if (rows.length === 0)
    return (
      <Empty title="No samples of either">
        {words.map((w) => (
          <p key={w}>{w}</p>
        ))}
      </Empty>
    );
  const to = Math.max(60, ...xs.map((x, i) => (x.at(-1) ?? 0) + (answers[i]?.step_ms ?? 0) / 2000)) * 1000;
  return (
    <div className="history">
      <p className="history-near dim">
        {words.map((w) => (
          <span key={w} className="no-samples">
            {w}{' '}
          </span>
        ))}
        Line: mean; band: least to greatest. Both have the same axes.
      </p>
      <div className="charts">
        {rows.flatMap(({ name, lines }) =>
          sides.map((s, i) => (
            <HistoryChart
              key={`${name} ${i === 0 ? 'first' : 'second'}`}
              title={`${s.name}: ${titles.find((t) => t.name === name)?.title ?? name}`}
              lines={lines[i]}
              x={xs[i]}
              from={0}
              to={to}
              most={topOf(lines)}
              marks={NO_MARKS}
              busy={false}
              at={at === null ? null : pointAt(xs[i], at, answers[i]?.step_ms ?? 1)}
              sync={sync}
              onHover={(k) => setAt(k === null ? null : (xs[i][k] ?? null))}
              axis={SINCE}
            />
          )),
        )}
      </div>
    </div>
  );
}
