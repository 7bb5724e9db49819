import { useQuery } from '@tanstack/react-query';
import { Link, useNavigate, useSearch } from '@tanstack/react-router';
import type { Schemas } from '../api/client';
import {
  drawnAt,
  hours,
  type Known,
  known,
  percent,
  RATES,
  type Rate,
  type Report,
  rateWords,
  toldFor,
  waterfall,
} from '../exec/figures';
import { fleetReport, slos } from '../queries';
import { useRights } from '../rights';
import { useBrand } from '../ui/brand';
import { count, Empty, Loaded, Panel, Scroll, span, tidy } from '../ui/parts';
import { Plot } from '../ui/plot';
import { dayWord, momentWord, wall } from '../ui/zone';
import { Budget, NoObjectives, sloTone } from './slo-parts';

const SPANS = [7, 30, 90] as const;
/** Projects that are listed. */
const SHOWN = 12;

/** The forecast counts whole days of UTC, and so do its sentences. */
const date = (at: string) => dayWord(at, true, 'UTC');

/** From when to when figures are known: the page names the zone. */
const spanned = (k: Known | null) =>
  k ? `${momentWord(k.from)} to ${momentWord(k.to)}` : 'nothing known of this time';

/** Is less known than was asked for? An hour is none. */
function tooShort(r: Report, days: number): boolean {
  const { log } = known(r);
  return !log || log.to - log.from < days * 86_400_000 - 3_600_000;
}

/** What became of the fleet, for people who run the business; prints on two pages. */
export function ExecutivePage() {
  const { days = 7 } = useSearch({ from: '/executive' });
  const navigate = useNavigate({ from: '/executive' });
  const brand = useBrand();
  const query = useQuery(fleetReport(days));
  return (
    <main className="page executive" id="page">
      <div className="head">
        <h1>
          <span className="printed">{brand.name}: </span>Executive report
        </h1>
        {query.data && (
          <span className="dim">
            {spanned(known(query.data).log)}, {wall(query.data.to).zone}
            {!query.isPlaceholderData && tooShort(query.data, days) && `: less than ${days} days are known`}
            {!query.data.complete && '; the log is still being read, numbers will grow'}
          </span>
        )}
        <div className="actions">
          <div className="modes" role="group" aria-label="Period">
            {SPANS.map((d) => (
              <button
                key={d}
                type="button"
                aria-pressed={days === d}
                onClick={() => void navigate({ search: { days: d === 7 ? undefined : d }, replace: true })}
              >
                {d} days
              </button>
            ))}
          </div>
          <button type="button" onClick={() => window.print()}>
            Print
          </button>
        </div>
      </div>
      <Loaded query={query}>{(r) => <Shown r={r} />}</Loaded>
    </main>
  );
}

function Tile({
  word,
  formula,
  value,
  note,
  over,
}: {
  word: string;
  formula: string;
  value: string;
  note?: string;
  /** From when to when it is known. */
  over: Known | null;
}) {
  return (
    <div className="tile" title={formula}>
      <span>{word}</span>
      <b className={value.startsWith('not ') ? 'dim' : ''}>{value}</b>
      {note && <span>{note}</span>}
      <span className="over">{spanned(over)}</span>
    </div>
  );
}

/** One meaning of an interruption here, in `muster report fleet` and in the objective of that name. */
export const BETWEEN =
  'time of jobs with all ranks up / attempts ended by infrastructure, platform or unknown causes, over the time shown; failures of the programs themselves are not counted';

function RateTile({ rate, r, over, note }: { rate: Rate; r: Report; over: Known | null; note?: string }) {
  const { whole } = useRights();
  const value = rateWords(rate, r.total, whole);
  return <Tile word={rate.name} formula={rate.formula} value={value} note={note} over={over} />;
}

function Shown({ r }: { r: Report }) {
  const t = r.total;
  const { log, telemetry } = known(r);
  const sites = r.inventory.reduce((n, s) => n + s.gpus, 0);
  if (r.rows.length === 0)
    return (
      <Empty title="Nothing to report yet">
        <p>The report begins with the site's first hour.</p>
      </Empty>
    );
  return (
    <>
      <div className="tiles">
        <RateTile rate={RATES.allocation} r={r} over={log} note="allocated of GPUs in service" />
        <RateTile rate={RATES.utilisation} r={r} over={telemetry} note="as GPUs reported it" />
        <RateTile rate={RATES.goodput} r={r} over={log} note="productive of allocated" />
        <RateTile rate={RATES.availability} r={r} over={log} note="in service of all" />
        <RateTile
          rate={RATES.success}
          r={r}
          over={log}
          note={`${percent(RATES.first.of(t))} at the first attempt`}
        />
        <Tile
          word="between interruptions"
          formula={BETWEEN}
          value={t.mtbi_ms ? span(t.mtbi_ms) : 'not known'}
          note={t.recover_ms ? `${span(t.recover_ms)} to go on` : undefined}
          over={log}
        />
      </div>
      <div className="columns">
        <Panel
          title="Utilisation and allocation"
          note={`utilisation ${telemetry ? spanned(telemetry) : 'not known'}, the rest ${spanned(log)}`}
        >
          <div className="body">
            <Plot
              title="Utilisation and allocation"
              each={r.step}
              at={r.rows.map((x) => drawnAt(r.step, x))}
              most={1}
              say={(v) => `${Math.round(v * 100)} %`}
              lines={[
                { label: 'allocated', tone: '--accent', values: r.rows.map((x) => x.allocation ?? null) },
                { label: 'utilisation', tone: '--ok', values: r.rows.map((x) => x.utilisation ?? null) },
                {
                  label: 'in service of all',
                  tone: '--dim',
                  dashed: true,
                  values: r.rows.map((x) => x.availability ?? null),
                },
              ]}
            />
          </div>
        </Panel>
        <Panel title="Where GPU-hours went" note={spanned(log)}>
          <Falls r={r} />
        </Panel>
        <Success r={r} />
        <Forecast r={r} />
        <Inventory r={r} all={sites} />
        <Promises />
        <Projects r={r} />
        <Panel title="Money">
          <Empty title="Not metered yet">
            <p>
              This site keeps no prices, so nothing is said of cost, revenue or margin. GPU-hours by project
              are next to this: <code>muster report fleet</code> prints them too.
            </p>
          </Empty>
        </Panel>
      </div>
    </>
  );
}

/** From all GPUs to work that counts. */
function Falls({ r }: { r: Report }) {
  const steps = waterfall(r.total);
  if (steps.length === 0)
    return (
      <Empty title="Not shown to this token">
        <p>Who sees one project only does not see what the whole fleet did.</p>
      </Empty>
    );
  const all = steps[0].size;
  return (
    <div className="body falls">
      {steps.map((s) => (
        <div key={s.key} className="fall">
          <span>{s.word}</span>
          <span className="track">
            <i
              className={`fall-${s.key}`}
              style={{
                left: `${(s.from / all) * 100}%`,
                width: `${Math.max(0.3, (s.size / all) * 100)}%`,
              }}
            />
          </span>
          <span className="num">{hours(s.size)}</span>
          <span className="num dim">{percent(s.size / all)}</span>
        </div>
      ))}
    </div>
  );
}

function Success({ r }: { r: Report }) {
  const { jobs, interruptions } = r.total;
  const rows: [string, number, string][] = [
    [
      'succeeded',
      jobs.succeeded,
      `${jobs.succeeded_first.toLocaleString('en')} of them at the first attempt`,
    ],
    ['failed by themselves', jobs.failed.application, 'the program ended badly'],
    ['failed by the infrastructure', jobs.failed.infrastructure, ''],
    ['failed by the platform', jobs.failed.platform, ''],
    ['failed, not known why', jobs.failed.unknown, ''],
    ['cancelled', jobs.cancelled, 'by somebody'],
  ];
  const hit = interruptions.infrastructure + interruptions.platform + interruptions.unknown;
  return (
    <Panel title="Jobs" note={`${count(jobs.submitted, 'job')} submitted; ${spanned(known(r).log)}`}>
      {jobs.submitted === 0 && jobs.succeeded === 0 ? (
        <Empty title="No job came or ended in this time" />
      ) : (
        <div className="body">
          <Plot
            title="Success rate"
            each={r.step}
            height={130}
            at={r.rows.map((x) => drawnAt(r.step, x))}
            most={1}
            say={(v) => `${Math.round(v * 100)} %`}
            lines={[
              { label: RATES.success.name, tone: '--accent', values: r.rows.map(RATES.success.of) },
              { label: RATES.first.name, tone: '--note', dashed: true, values: r.rows.map(RATES.first.of) },
            ]}
          />
          <table>
            <tbody>
              {rows
                .filter(([, n]) => n > 0)
                .map(([word, n, note]) => (
                  <tr key={word}>
                    <td>{word}</td>
                    <td className="num">{n.toLocaleString('en')}</td>
                    <td className="dim">{note}</td>
                  </tr>
                ))}
              {[RATES.success, RATES.first, RATES.site].map((rate) => (
                <tr key={rate.name} title={rate.formula}>
                  <td>{rate.name}</td>
                  <td className="num">{percent(rate.of(r.total))}</td>
                  <td className="dim">{rate.formula}</td>
                </tr>
              ))}
              <tr>
                <td>attempts interrupted</td>
                <td className="num">{hit.toLocaleString('en')}</td>
                <td className="dim">by infrastructure, platform or unknown; most of their jobs went on</td>
              </tr>
            </tbody>
          </table>
        </div>
      )}
    </Panel>
  );
}

function Forecast({ r }: { r: Report }) {
  const f = r.forecast;
  if (!f)
    return (
      <Panel title="Capacity">
        <Empty title="Not shown to this token" />
      </Panel>
    );
  const rows = r.rows.map((x) => ({
    at: drawnAt(r.step, x),
    seconds: toldFor(r, x),
    x,
  }));
  const gpus = (v: number | null | undefined, s: number) =>
    v === null || v === undefined || s <= 0 ? null : v / s;
  return (
    <Panel
      title="Capacity"
      note={
        f.days > 0
          ? `a straight line through the last ${count(f.days, 'whole day')} of UTC, whatever the period`
          : ''
      }
    >
      <div className="body">
        <p>{tidy(f.summary)}</p>
        <Plot
          title="Demand and what is in service"
          each={r.step}
          height={130}
          at={rows.map((w) => w.at)}
          say={(v) => v.toLocaleString('en', { maximumFractionDigits: 0 })}
          lines={[
            {
              label: 'GPUs wanted, mean',
              tone: '--accent',
              values: rows.map((w) => gpus(w.x.wanted_gpu_seconds, w.seconds)),
            },
            {
              label: 'in service, mean',
              tone: '--dim',
              dashed: true,
              values: rows.map((w) => gpus(w.x.in_service_gpu_seconds, w.seconds)),
            },
          ]}
        />
        {f.growth_gpus_per_day !== null && f.growth_gpus_per_day !== undefined && (
          <dl className="facts">
            <dt>in service</dt>
            <dd>{f.capacity_gpus.toFixed(0)} GPUs, mean of the last whole day of UTC</dd>
            <dt>growth</dt>
            <dd>
              {f.growth_gpus_per_day.toFixed(1)} GPUs a day, from {count(f.days, 'day')}
              {f.spread_gpus !== null &&
                f.spread_gpus !== undefined &&
                `; days lie ${f.spread_gpus.toFixed(1)} GPUs off that line`}
            </dd>
            <dt>meets capacity (UTC)</dt>
            <dd>
              {f.met
                ? 'already'
                : f.meets_at
                  ? `${date(f.meets_at)}${f.meets_earliest ? `, as early as ${date(f.meets_earliest)}` : ''}`
                  : 'not within a year'}
            </dd>
          </dl>
        )}
      </div>
    </Panel>
  );
}

function Inventory({ r, all }: { r: Report; all: number }) {
  return (
    <Panel
      title="Inventory"
      note={r.inventory.length === 0 ? '' : `${count(all, 'GPU')}, as of ${momentWord(r.to)}`}
    >
      {r.inventory.length === 0 ? (
        <Empty title={r.project ? 'Not shown to this token' : 'No GPUs yet'} />
      ) : (
        <Scroll label="Inventory">
          <table>
            <thead>
              <tr>
                <th>SKU</th>
                <th className="num">GPUs</th>
                <th className="num">In service now</th>
                <th>&nbsp;</th>
                <th>Not in service</th>
              </tr>
            </thead>
            <tbody>
              {r.inventory.map((s) => (
                <tr key={s.sku}>
                  <td>{s.sku}</td>
                  <td className="num">{s.gpus.toLocaleString('en')}</td>
                  <td className="num">{s.in_service.toLocaleString('en')}</td>
                  <td>
                    <div className="bar" aria-hidden="true">
                      <i style={{ width: `${(100 * s.in_service) / Math.max(1, s.gpus)}%` }} />
                    </div>
                  </td>
                  <td className="dim">
                    {Object.entries(s.out_of_service)
                      .filter(([, n]) => n > 0)
                      .map(([why, n]) => `${n} ${why.replaceAll('_', ' ')}`)
                      .join(', ') || 'none'}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </Scroll>
      )}
    </Panel>
  );
}

function Promises() {
  const query = useQuery(slos());
  return (
    <Panel
      title="Objectives"
      note="each over its own window, not over this period"
      actions={<Link to="/slos">All of them</Link>}
    >
      <Loaded query={query}>
        {(page) =>
          page.items.length === 0 ? (
            <NoObjectives />
          ) : (
            <Scroll label="Objectives">
              <table>
                <thead>
                  <tr>
                    <th>Objective</th>
                    <th>State</th>
                    <th className="num">Good</th>
                    <th className="num">Target</th>
                    <th>Window</th>
                    <th>Budget left</th>
                  </tr>
                </thead>
                <tbody>
                  {page.items.map((s: Schemas['Slo']) => (
                    <tr key={s.name}>
                      <td>
                        <Link to="/slos" search={{ name: s.name }}>
                          {s.name}
                        </Link>
                      </td>
                      <td>{sloTone(s)}</td>
                      <td className="num" title={s.description}>
                        {s.good_text ?? '–'}
                      </td>
                      <td className="num">{s.target}</td>
                      <td>{s.window}</td>
                      <td>
                        <Budget of={s} />
                      </td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </Scroll>
          )
        }
      </Loaded>
    </Panel>
  );
}

function Projects({ r }: { r: Report }) {
  return (
    <Panel title="Projects" note={`most GPU-hours first; ${spanned(known(r).log)}`}>
      {r.projects.length === 0 ? (
        <Empty
          title={r.project ? `${r.project} had no GPUs in this time` : 'No GPUs were allocated in this time'}
        />
      ) : (
        <Scroll label="Projects">
          <table>
            <thead>
              <tr>
                <th>Project</th>
                <th className="num">GPU-hours</th>
                <th className="num" title={RATES.goodput.formula}>
                  Goodput
                </th>
                <th className="num">Jobs succeeded</th>
                <th className="num" title={RATES.success.formula}>
                  Success rate
                </th>
              </tr>
            </thead>
            <tbody>
              {r.projects.slice(0, SHOWN).map((p) => (
                <tr key={p.name}>
                  <td>{p.name}</td>
                  <td className="num">{hours(p.allocated_gpu_seconds)}</td>
                  <td className="num">{percent(p.goodput)}</td>
                  <td className="num">{p.jobs.succeeded.toLocaleString('en')}</td>
                  <td className="num">{percent(RATES.success.of(p))}</td>
                </tr>
              ))}
            </tbody>
          </table>
          {r.projects.length > SHOWN && (
            <p className="state">and {count(r.projects.length - SHOWN, 'more project', 'more projects')}</p>
          )}
        </Scroll>
      )}
    </Panel>
  );
}
