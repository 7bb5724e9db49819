import { useQuery } from '@tanstack/react-query';
import { Link, useNavigate, useParams, useSearch } from '@tanstack/react-router';
import { useMemo } from 'react';
import type { Schemas } from '../api/client';
import {
  APART_WORDS,
  along,
  apartColours,
  beside,
  legend,
  range,
  slowShare,
  type Values,
} from '../debug/heat';
import { HeatMap, type Row } from '../debug/heat-map';
import { stateWord } from '../jobs/offers';
import { job as jobQuery, jobTelemetry } from '../queries';
import { Chart, type Line, type Mark } from '../ui/chart';
import { Choice } from '../ui/choice';
import { NodeLink } from '../ui/links';
import { Page } from '../ui/page';
import { Clock, count, Empty, Loaded, Panel, State } from '../ui/parts';
import { useTheme } from '../ui/theme';

export type Telemetry = Schemas['JobTelemetry'];
type Happened = Schemas['TelemetryMark'];

/** More GPUs than these are drawn as a band. */
const LINES = 32;
const PAGE = 64;
const ORDERS = [
  ['rank', 'By rank'],
  ['slow', 'Slowest first'],
] as const;

export function DebugPage() {
  const { id } = useParams({ from: '/debug/jobs/$id' });
  const search = useSearch({ from: '/debug/jobs/$id' });
  const navigate = useNavigate({ from: '/debug/jobs/$id' });
  const job = useQuery(jobQuery(id));
  const asked = { order: search.order, from: search.from ?? 0, attempt: search.attempt, ranks: PAGE };
  const query = useQuery(jobTelemetry(id, asked));
  const go = (to: Partial<typeof search>) =>
    void navigate({ search: { ...search, ...to }, replace: true, resetScroll: false });
  return (
    <Page
      title={
        <>
          Debug{' '}
          <Link to="/jobs/$id" params={{ id }}>
            job {id} {job.data?.name}
          </Link>
        </>
      }
      about={
        <>
          {job.data && <State word={stateWord(job.data)} />}
          {query.data && <Reach of={query.data} />}
        </>
      }
      actions={
        <Choice
          label="Order of ranks"
          of={ORDERS}
          chosen={search.order ?? 'rank'}
          choose={(o) => go({ order: o === 'rank' ? undefined : o, from: undefined })}
        />
      }
    >
      <Loaded query={query}>
        {(t) =>
          t.attempt === null || t.attempt === undefined ? (
            <Empty title="No attempt of this job sent reports in the last ten minutes">
              <p>
                A job that waits has no metrics, and of one that is over they are stored for ten minutes.
                Where its time went is on{' '}
                <Link to="/jobs/$id" params={{ id }}>
                  the job's page
                </Link>{' '}
                for as long as the log knows it.
              </p>
            </Empty>
          ) : (
            <Shown t={t} rank={search.rank} field={search.by} go={go} />
          )
        }
      </Loaded>
    </Page>
  );
}

/** How far back it reaches. */
function Reach({ of: t }: { of: Telemetry }) {
  const young = Date.parse(t.reporting_since) > Date.parse(t.since);
  return (
    <span className="dim">
      {t.attempt ? `attempt ${t.attempt}, ` : ''}
      {count(t.ranks, 'rank')}, {count(t.gpus, 'GPU')};{' '}
      {young ? (
        <>
          this server has them since <Clock at={t.reporting_since} />
        </>
      ) : (
        'the last ten minutes: older metrics are in your Prometheus, if it reads the agents'
      )}
    </span>
  );
}

type Go = (to: { rank?: number; by?: string; from?: number }) => void;

function Shown({ t, rank, field, go }: { t: Telemetry; rank?: number; field?: string; go: Go }) {
  const marks = useMemo(() => t.marks.map(drawn), [t.marks]);
  return (
    <>
      <Stragglers t={t} rank={rank} field={field} go={go} pages />
      <div className="columns wide-left">
        <Charts t={t} rank={rank} marks={marks} />
        <Happenings marks={t.marks} />
      </div>
    </>
  );
}

const tone = (m: Happened): Mark['tone'] =>
  m.what === 'fault' || m.severity === 'critical' || m.severity === 'degraded'
    ? 'bad'
    : m.what === 'checkpoint'
      ? 'ok'
      : 'note';
const drawn = (m: Happened): Mark => ({ at: Date.parse(m.at) / 1000, tone: tone(m) });

/** Ranks over time: who is slow, and when it began. */
export function Stragglers({
  t,
  rank,
  field,
  go,
  pages,
}: {
  t: Telemetry;
  rank?: number;
  field?: string;
  go: Go;
  pages?: boolean;
}) {
  const theme = useTheme();
  const steps = t.lines.some((l) => l.step_ms.some((v) => v !== null));
  const reported = t.fields.filter((_, i) => t.lines.some((l) => l.gpus.some((g) => g.metrics[i]?.length)));
  const by =
    field && reported.some((f) => f.name === field) ? field : steps ? 'step' : (reported[0]?.name ?? 'step');
  const at = t.fields.findIndex((f) => f.name === by);
  const rows: Row[] = useMemo(
    () =>
      t.lines.flatMap((l): Row[] =>
        at < 0 && l.step_ms.every((v) => v === null)
          ? []
          : at < 0
            ? [{ key: String(l.rank), label: `${l.rank} ${l.node}`, values: l.step_ms as Values }]
            : l.gpus.map((g) => ({
                key: l.gpus.length > 1 ? `${l.rank}.${g.gpu}` : String(l.rank),
                label: `${l.rank} ${l.node} GPU ${g.gpu}`,
                values: (g.metrics[at] ?? []) as Values,
              })),
      ),
    [t, at],
  );
  const paint = useMemo(() => {
    if (at < 0) return beside(t.step_band.median as Values, theme);
    return along(range(rows.map((r) => r.values)) ?? [0, 1], theme);
  }, [at, rows, t, theme]);
  const marks = useMemo(
    () =>
      t.marks.flatMap((m) => {
        const column = Math.floor((Date.parse(m.at) - Date.parse(t.at[0])) / t.width_ms);
        return column >= 0 && column < t.at.length ? [{ column, bad: tone(m) === 'bad' }] : [];
      }),
    [t],
  );
  const unit = at < 0 ? 'ms' : t.fields[at].unit;
  const slow = t.lines
    .map((l) => ({ l, share: slowShare(l.step_ms as Values, t.step_band.median as Values) }))
    .filter((s) => s.share >= 0.5);
  const silent = t.lines.length - rows.length;
  const words =
    at >= 0
      ? ''
      : slow.length === 0
        ? 'no rank is slower than the rest for long'
        : slow.length > 3
          ? `${count(slow.length, 'rank')} are slower than the rest most of the time`
          : slow.map((s) => `rank ${s.l.rank} on ${s.l.node} is slower than the rest`).join('; ');
  return (
    <Panel
      title="Rank by rank"
      note={at < 0 && silent > 0 ? `${words}; ${count(silent, 'rank')} report no steps` : words}
      actions={
        <>
          {(steps || reported.length > 0) && (
            <label className="dim">
              show{' '}
              <select value={by} onChange={(e) => go({ by: e.target.value })}>
                {steps && <option value="step">step time</option>}
                {reported.map((f) => (
                  <option key={f.name} value={f.name}>
                    {f.title.toLowerCase()}
                  </option>
                ))}
              </select>
            </label>
          )}
          {pages && <Pages t={t} go={go} />}
        </>
      }
    >
      {rows.length === 0 || rows.every((r) => r.values.every((v) => v === null)) ? (
        <Empty title="Nothing reported yet">
          <p>
            Lengths of steps come from the ranks themselves: they write a line for each to the file that{' '}
            <code>MUSTER_REPORT</code> names. Metrics of GPUs come from the nodes, every ten seconds.
          </p>
        </Empty>
      ) : (
        <div className="body">
          <HeatMap
            rows={rows}
            at={t.at}
            paint={paint}
            unit={unit}
            marks={marks}
            label={`${by === 'step' ? 'Step time' : t.fields[at].title} of ${count(rows.length, 'row')} over ten minutes. ${words}`}
            chosen={rank === undefined ? null : String(rank)}
            choose={(key) => go({ rank: key === null ? undefined : Number.parseInt(key, 10) })}
          />
          <HeatLegend steps={at < 0} unit={unit} range={range(rows.map((r) => r.values))} />
        </div>
      )}
    </Panel>
  );
}

function HeatLegend({
  steps,
  unit,
  range: r,
}: {
  steps: boolean;
  unit: string;
  range: [number, number] | null;
}) {
  const theme = useTheme();
  const shown = steps
    ? apartColours(theme).map((colour, i) => ({ colour, word: APART_WORDS[i] }))
    : legend(r ?? [0, 1], unit).map(({ at, word }) => ({ colour: along([0, 1], theme)(at, 0), word }));
  return (
    <ul className="legend">
      {shown.map(({ colour, word }) => (
        <li key={word}>
          <i style={{ background: colour }} />
          {word}
        </li>
      ))}
      {steps && <li className="dim">compared with the median of all ranks at that moment</li>}
      <li className="dim">▾ an event</li>
    </ul>
  );
}

function Pages({ t, go }: { t: Telemetry; go: Go }) {
  const search = useSearch({ from: '/debug/jobs/$id' });
  const from = search.from ?? 0;
  if (t.next === null && from === 0) return null;
  return (
    <span className="row">
      <button
        type="button"
        disabled={from === 0}
        onClick={() => go({ from: Math.max(0, from - PAGE) || undefined })}
      >
        Before
      </button>
      <span className="dim">
        {from + 1} to {from + t.lines.length} of {t.ranks.toLocaleString('en')}
      </span>
      <button
        type="button"
        disabled={t.next === null || t.next === undefined}
        onClick={() => go({ from: t.next ?? undefined })}
      >
        After
      </button>
    </span>
  );
}

/** Every metric over time: a line for each GPU, or what many have in common. */
function Charts({ t, rank, marks }: { t: Telemetry; rank?: number; marks: Mark[] }) {
  const x = useMemo(() => t.at.map((a) => Date.parse(a) / 1000), [t.at]);
  const all = t.lines.reduce((n, l) => n + l.gpus.length, 0);
  const few = all <= LINES && t.lines.length === t.ranks;
  const charts = useMemo(() => {
    const chosen = t.lines.find((l) => l.rank === rank);
    const step: Line[] = few
      ? t.lines
          .filter((l) => l.step_ms.length > 0)
          .map((l) => ({ label: `rank ${l.rank}`, values: l.step_ms as Values, strong: l.rank === rank }))
      : banded(t.step_band, chosen && { label: `rank ${chosen.rank}`, values: chosen.step_ms as Values });
    const metrics = t.fields.map((f, i) => {
      const own = chosen?.gpus[0];
      const lines: Line[] = few
        ? t.lines.flatMap((l) =>
            l.gpus
              .filter((g) => g.metrics[i]?.length)
              .map((g) => ({
                label: `rank ${l.rank} GPU ${g.gpu}`,
                values: g.metrics[i] as Values,
                strong: l.rank === rank,
              })),
          )
        : banded(
            t.bands[i] ?? { low: [], median: [], high: [] },
            own?.metrics[i]?.length ? { label: `rank ${rank}`, values: own.metrics[i] as Values } : undefined,
          );
      return { name: f.name, title: f.title, unit: f.unit, lines };
    });
    return [{ name: 'step', title: 'Step time', unit: 'ms', lines: step }, ...metrics].filter((c) =>
      c.lines.some((l) => l.values.some((v) => v !== null)),
    );
  }, [t, rank, few]);
  return (
    <Panel
      title="GPUs"
      note={
        few
          ? 'a line for each; choose a rank above to see it alone'
          : `least, median and most of all ${t.gpus.toLocaleString('en')}; a rank chosen above is drawn over them`
      }
    >
      {charts.length === 0 ? (
        <Empty title="No metrics yet">
          <p>Nodes send a row every ten seconds.</p>
        </Empty>
      ) : (
        <div className="charts">
          {charts.map((c) => (
            <Chart
              key={c.name}
              title={c.title}
              unit={c.unit}
              most={c.unit === '%' ? 100 : undefined}
              x={x}
              lines={c.lines}
              band={!few && c.lines.length === 3}
              marks={marks}
              now={latest(c.lines, c.unit)}
            />
          ))}
        </div>
      )}
    </Panel>
  );
}

function banded(b: Schemas['TelemetryBand'], over?: { label: string; values: Values }): Line[] {
  const lines: Line[] = [
    { label: 'min', values: b.low as Values },
    { label: 'median', values: b.median as Values },
    { label: 'max', values: b.high as Values },
  ];
  return over ? [...lines, { ...over, strong: true }] : lines;
}

/** The newest stretch is often not over yet: the last metrics that were reported. */
function latest(lines: Line[], unit: string): string {
  const last = lines
    .map((l) => l.values.findLast((v) => v !== null))
    .filter((v): v is number => v !== null && v !== undefined);
  if (last.length === 0) return 'no data';
  const text = (n: number) => n.toLocaleString('en', { maximumFractionDigits: 0 });
  const [low, high] = [text(Math.min(...last)), text(Math.max(...last))];
  return low === high ? `${low} ${unit}` : `${low} to ${high} ${unit}`;
}

function Happenings({ marks }: { marks: Happened[] }) {
  return (
    <Panel title="What happened" note="newest first">
      {marks.length === 0 ? (
        <Empty title="Nothing in the last ten minutes">
          <p>Attempts, checkpoints, faults and findings of this job and its GPUs are shown here.</p>
        </Empty>
      ) : (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls
        <ol className="timeline tall" tabIndex={0} aria-label="What happened">
          {[...marks].reverse().map((m, i) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: marks have no id of their own
            <li key={`${m.at}${i}`}>
              <Clock at={m.at} />
              <span>{m.severity ? <State word={m.severity} /> : <span className="dim">{m.what}</span>}</span>
              <span>
                {m.text}
                {m.node && (
                  <>
                    {' '}
                    <NodeLink name={m.node} />
                  </>
                )}
                {m.gpu !== null && m.gpu !== undefined && <span className="dim"> GPU {m.gpu}</span>}
                {m.rank !== null && m.rank !== undefined && <span className="dim"> rank {m.rank}</span>}
              </span>
            </li>
          ))}
        </ol>
      )}
    </Panel>
  );
}

/** The same on the page of a job: one look, and the way to more. */
export function JobRanks({ id }: { id: string }) {
  const navigate = useNavigate();
  const query = useQuery(jobTelemetry(id, { order: 'slow', from: 0, ranks: 16 }));
  return (
    <Loaded query={query}>
      {(t) =>
        t.attempt && t.lines.length > 0 ? (
          <Stragglers
            t={t}
            go={(to) =>
              void navigate({ to: '/debug/jobs/$id', params: { id }, search: { order: 'slow', ...to } })
            }
          />
        ) : null
      }
    </Loaded>
  );
}
