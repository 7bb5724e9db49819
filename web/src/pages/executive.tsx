import { useQuery } from '@tanstack/react-query';
import { Link, useNavigate, useSearch } from '@tanstack/react-router';
import type { Schemas } from '../api/client';
import { firstTime, hours, percent, platform, type Report, success, waterfall } from '../exec/figures';
import { fleetReport, slos } from '../queries';
import { useBrand } from '../ui/brand';
import { count, Empty, Loaded, Panel, Scroll, span, tidy } from '../ui/parts';
import { Plot } from '../ui/plot';
import { Budget, NoObjectives, sloTone } from './slo-parts';

const SPANS = [7, 30, 90] as const;

const date = (at: string) =>
  new Date(at).toLocaleDateString('en', { day: 'numeric', month: 'short', year: 'numeric', timeZone: 'UTC' });

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
            {date(query.data.from)} to {date(query.data.to)}, days in UTC
            {!query.data.complete && '; the log is still being read, figures will grow'}
            {Date.parse(query.data.since) > Date.parse(query.data.from) &&
              `; known since ${date(query.data.since)}`}
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

function Tile({ word, value, note }: { word: string; value: string; note?: string }) {
  return (
    <div className="tile">
      <span>{word}</span>
      <b className={value === 'not known' ? 'dim' : ''}>{value}</b>
      {note && <span>{note}</span>}
    </div>
  );
}

function Shown({ r }: { r: Report }) {
  const t = r.total;
  const sites = r.inventory.reduce((n, s) => n + s.gpus, 0);
  if (r.rows.length === 0)
    return (
      <Empty title="Nothing to tell of yet">
        <p>The report begins with the site's first hour.</p>
      </Empty>
    );
  return (
    <>
      <div className="tiles">
        <Tile word="allocation" value={percent(t.allocation)} note="held of GPUs in service" />
        <Tile word="utilisation" value={percent(t.utilisation)} note="as GPUs told" />
        <Tile word="goodput" value={percent(t.goodput)} note="productive of held" />
        <Tile word="availability" value={percent(t.availability)} note="in service of all" />
        <Tile
          word="jobs that succeed"
          value={percent(success(t))}
          note={`${percent(firstTime(t))} at the first attempt`}
        />
        <Tile
          word="between interruptions"
          value={t.mtbi_ms ? span(t.mtbi_ms) : 'not known'}
          note={t.recover_ms ? `${span(t.recover_ms)} to go on` : undefined}
        />
      </div>
      <div className="columns">
        <Panel title="Utilisation and allocation" note="of GPUs in service">
          <div className="body">
            <Plot
              title="Utilisation and allocation"
              at={r.rows.map((x) => Date.parse(x.from))}
              most={1}
              say={(v) => `${Math.round(v * 100)} %`}
              lines={[
                { label: 'allocated', tone: '--accent', values: r.rows.map((x) => x.allocation ?? null) },
                { label: 'at work', tone: '--ok', values: r.rows.map((x) => x.utilisation ?? null) },
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
        <Panel title="Where GPU time went" note="in GPU hours">
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
              This site keeps no prices, so nothing is said of cost, revenue or margin. GPU hours by project
              stand beside this: <code>muster report fleet</code> prints them too.
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
    ['succeeded', jobs.succeeded, `${jobs.succeeded_first} of them at the first attempt`],
    ['failed by themselves', jobs.failed.application, 'the program ended badly'],
    ['failed by the hardware', jobs.failed.infrastructure, ''],
    ['failed by the platform', jobs.failed.platform, ''],
    ['failed, not known why', jobs.failed.unknown, ''],
    ['cancelled', jobs.cancelled, 'by somebody'],
  ];
  const hit = interruptions.infrastructure + interruptions.platform + interruptions.unknown;
  return (
    <Panel title="Jobs" note={`${count(jobs.submitted, 'job')} came`}>
      {jobs.submitted === 0 && jobs.succeeded === 0 ? (
        <Empty title="No job came or ended in this time" />
      ) : (
        <div className="body">
          <Plot
            title="Jobs that succeed"
            height={130}
            at={r.rows.map((x) => Date.parse(x.from))}
            most={1}
            say={(v) => `${Math.round(v * 100)} %`}
            lines={[
              { label: 'succeed', tone: '--accent', values: r.rows.map((x) => success(x)) },
              {
                label: 'at the first attempt',
                tone: '--note',
                dashed: true,
                values: r.rows.map((x) => firstTime(x)),
              },
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
              <tr>
                <td>not failed by the site</td>
                <td className="num">{percent(platform(r.total))}</td>
                <td className="dim">
                  {count(hit, 'attempt')} interrupted by hardware or platform, most went on
                </td>
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
    at: Date.parse(x.from),
    seconds: (Date.parse(x.to) - Date.parse(x.from)) / 1000,
    x,
  }));
  const gpus = (v: number | null | undefined, s: number) =>
    v === null || v === undefined || s <= 0 ? null : v / s;
  return (
    <Panel title="Capacity" note={f.days > 0 ? `by a straight line through ${count(f.days, 'day')}` : ''}>
      <div className="body">
        <p>{tidy(f.summary)}</p>
        <Plot
          title="Demand and what is in service"
          height={130}
          at={rows.map((w) => w.at)}
          say={(v) => v.toLocaleString('en', { maximumFractionDigits: 0 })}
          lines={[
            {
              label: 'GPUs wanted',
              tone: '--accent',
              values: rows.map((w) => gpus(w.x.wanted_gpu_seconds, w.seconds)),
            },
            {
              label: 'in service',
              tone: '--dim',
              dashed: true,
              values: rows.map((w) => gpus(w.x.in_service_gpu_seconds, w.seconds)),
            },
          ]}
        />
        {f.growth_gpus_per_day !== null && f.growth_gpus_per_day !== undefined && (
          <dl className="facts">
            <dt>growth</dt>
            <dd>{f.growth_gpus_per_day.toFixed(1)} GPUs a day</dd>
            <dt>meets capacity</dt>
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
    <Panel title="Inventory" note={r.inventory.length === 0 ? '' : `${count(all, 'GPU')} now`}>
      {r.inventory.length === 0 ? (
        <Empty title={r.project ? 'Not shown to this token' : 'No GPUs yet'} />
      ) : (
        <Scroll label="Inventory">
          <table>
            <thead>
              <tr>
                <th>SKU</th>
                <th className="num">GPUs</th>
                <th className="num">In service</th>
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
    <Panel title="Promises" actions={<Link to="/slos">All of them</Link>}>
      <Loaded query={query}>
        {(page) =>
          page.items.length === 0 ? (
            <NoObjectives />
          ) : (
            <Scroll label="Promises">
              <table>
                <thead>
                  <tr>
                    <th>Objective</th>
                    <th>State</th>
                    <th className="num">Good</th>
                    <th className="num">Target</th>
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
                      <td className="num">{s.good_text ?? '–'}</td>
                      <td className="num">{s.target}</td>
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
    <Panel title="Projects" note="most GPU time first">
      {r.projects.length === 0 ? (
        <Empty
          title={r.project ? `${r.project} held no GPUs in this time` : 'Nobody held GPUs in this time'}
        />
      ) : (
        <Scroll label="Projects">
          <table>
            <thead>
              <tr>
                <th>Project</th>
                <th className="num">GPU hours</th>
                <th className="num">Goodput</th>
                <th className="num">Jobs done</th>
                <th className="num">Succeed</th>
              </tr>
            </thead>
            <tbody>
              {r.projects.slice(0, 12).map((p) => (
                <tr key={p.name}>
                  <td>{p.name}</td>
                  <td className="num">{hours(p.allocated_gpu_seconds)}</td>
                  <td className="num">{percent(p.goodput)}</td>
                  <td className="num">{p.jobs.succeeded.toLocaleString('en')}</td>
                  <td className="num">{percent(success(p))}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </Scroll>
      )}
    </Panel>
  );
}
