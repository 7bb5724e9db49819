import { useQuery } from '@tanstack/react-query';
import { Link, useNavigate, useSearch } from '@tanstack/react-router';
import { drawnAt, type FleetMetrics, hours, known, percent, RATES, type Report } from '../exec/fleet-metrics';
import { Metric, RateMetric, spanned } from '../exec/metric';
import { Period } from '../exec/period';
import { BETWEEN } from '../exec/reliable';
import { fleetReport } from '../queries';
import { Page } from '../ui/page';
import { count, Empty, Fact, Loaded, Panel, span } from '../ui/parts';
import { Plot } from '../ui/plot';
import { ForTenant } from './for-tenant';
import { usedParts } from './words';

const ALLOCATED = 'GPUs allocated to jobs of the project, times the hours that they were';

/** What was allocated, by what became of it. */
function Used({ of: f }: { of: FleetMetrics }) {
  const all = Math.max(1, f.allocated_gpu_seconds);
  const parts = usedParts(f).filter((p) => p.seconds > 0);
  return (
    <div className="split-box">
      <div className="split" aria-hidden="true">
        {parts.map((p) => (
          <i key={p.key} className={p.key} style={{ flexGrow: p.seconds / all }} />
        ))}
      </div>
      <ul className="legend">
        {parts.map((p) => (
          <li key={p.key} title={p.definition}>
            <i className={p.key} />
            {p.word}{' '}
            <span className="dim">
              {hours(p.seconds)} h, {percent(p.seconds / all)}
            </span>
          </li>
        ))}
      </ul>
    </div>
  );
}

/** Nothing was allocated: what would make something appear. */
function NoUsage({ project, complete }: { project: string; complete: boolean }) {
  if (!complete) return <Empty title="Nothing counted yet; the log is still being read" />;
  return (
    <Empty title={`No GPU was allocated to ${project} in this time`}>
      <p>Every GPU-hour of a job is counted here, also of one that fails.</p>
    </Empty>
  );
}

/** The last week in one panel. */
export function UsagePanel({ project }: { project: string }) {
  const query = useQuery(fleetReport(7));
  return (
    <Panel title="My usage" note="the last 7 days" actions={<Link to="/usage">More</Link>}>
      <Loaded query={query}>
        {(r) =>
          r.total.allocated_gpu_seconds > 0 ? (
            <div className="body">
              <p>
                <b className="large">{hours(r.total.allocated_gpu_seconds)}</b> GPU-hours allocated to jobs of{' '}
                {project}, each in full, {spanned(known(r).log)}
                {!r.complete && <span className="dim"> so far; the log is still being read</span>}
              </p>
              <Used of={r.total} />
            </div>
          ) : (
            <NoUsage project={project} complete={r.complete} />
          )
        }
      </Loaded>
    </Panel>
  );
}

/** What a project used, and what came of it. */
export function UsagePage() {
  return (
    <ForTenant
      title="My usage"
      instead={
        <>
          The usage of the whole site is on <Link to="/executive">Executive</Link>.
        </>
      }
    >
      {(project) => <Usage project={project} />}
    </ForTenant>
  );
}

function Usage({ project }: { project: string }) {
  const { days = 7 } = useSearch({ from: '/usage' });
  const navigate = useNavigate({ from: '/usage' });
  const query = useQuery(fleetReport(days));
  return (
    <Page
      className="executive"
      title="My usage"
      about={
        <span className="dim">
          project {project}
          {query.data && `, ${spanned(known(query.data).log)}`}
          {query.data && !query.data.complete && '; the log is still being read, numbers will grow'}
        </span>
      }
      actions={<Period days={days} choose={(d) => void navigate({ search: { days: d }, replace: true })} />}
    >
      <Loaded query={query}>
        {(r) =>
          r.total.allocated_gpu_seconds > 0 || r.total.jobs.submitted > 0 ? (
            <Numbers r={r} />
          ) : (
            <NoUsage project={project} complete={r.complete} />
          )
        }
      </Loaded>
    </Page>
  );
}

function Numbers({ r }: { r: Report }) {
  const t = r.total;
  const { log } = known(r);
  const over = spanned(log);
  const { failed } = t.jobs;
  const site = failed.infrastructure + failed.platform;
  return (
    <>
      <div className="tiles">
        <Metric
          word="GPU-hours"
          definition={ALLOCATED}
          value={hours(t.allocated_gpu_seconds)}
          note={count(t.jobs.submitted, 'job submitted', 'jobs submitted')}
          over={over}
        />
        <RateMetric rate={RATES.goodput} r={r} over={log} note="productive of allocated" />
        <RateMetric
          rate={RATES.success}
          r={r}
          over={log}
          note={`${count(t.jobs.succeeded, 'job')} succeeded`}
        />
        <Metric
          word="between interruptions"
          definition={BETWEEN}
          value={t.mtbi_ms ? span(t.mtbi_ms) : 'not known'}
          note={t.recover_ms ? `${span(t.recover_ms)} recovery time` : undefined}
          over={over}
        />
      </div>
      <div className="columns">
        <div>
          <Panel title="Where GPU-hours went" weight="primary">
            <div className="body">
              <Used of={t} />
              <p className="dim">
                What a job did with its GPUs, and whether fewer would have been enough, is on its own page.
              </p>
            </div>
          </Panel>
          <Panel title="Jobs that ended">
            <div className="body">
              <dl className="facts">
                <Fact word="succeeded">{t.jobs.succeeded.toLocaleString('en')}</Fact>
                <Fact word="failed by their own program">{failed.application.toLocaleString('en')}</Fact>
                <Fact word="failed by the site">{site.toLocaleString('en')}</Fact>
                <Fact word="failed, cause not known">{failed.unknown.toLocaleString('en')}</Fact>
                <Fact word="cancelled">{t.jobs.cancelled.toLocaleString('en')}</Fact>
              </dl>
            </div>
          </Panel>
        </div>
        <Panel title="GPU-hours over time" note={`of each ${r.step}`}>
          <div className="body">
            <Plot
              title="GPU-hours"
              each={r.step}
              at={r.rows.map((x) => drawnAt(r.step, x))}
              say={(v) => hours(v * 3600)}
              lines={[
                {
                  label: 'allocated',
                  tone: '--accent',
                  values: r.rows.map((x) => x.allocated_gpu_seconds / 3600),
                },
                {
                  label: 'useful',
                  tone: '--ok',
                  dashed: true,
                  values: r.rows.map((x) => x.gpu_seconds.productive / 3600),
                },
              ]}
            />
          </div>
        </Panel>
      </div>
    </>
  );
}
