import { useRights } from '../rights';
import { count, Empty, Panel, Scroll } from '../ui/parts';
import { Plot } from '../ui/plot';
import { num, Table } from '../ui/table';
import {
  drawnAt,
  hours,
  known,
  percent,
  RATES,
  type Report,
  utilisationWords,
  waterfall,
} from './fleet-metrics';
import { Metric, RateMetric, spanned } from './metric';

/** Projects that are listed. */
const SHOWN = 12;

/** Is the fleet used: what of the fleet does work that counts. */
export function Earning({ r }: { r: Report }) {
  const { log, telemetry } = known(r);
  const { whole } = useRights();
  // What a tenant is not shown is not unknown.
  const hidden = whole === false && !telemetry;
  const seen = hidden ? 'not shown to tenants' : telemetry ? spanned(telemetry) : 'not known';
  return (
    <>
      <div className="tiles">
        <Metric
          word={RATES.utilisation.name}
          definition={RATES.utilisation.formula}
          {...utilisationWords(r, whole)}
          over={spanned(hidden ? log : telemetry)}
        />
        <RateMetric rate={RATES.goodput} r={r} over={log} note="productive of allocated" />
        <RateMetric rate={RATES.allocation} r={r} over={log} note="allocated of GPUs in service" />
      </div>
      <div className="columns">
        <Panel title="Utilisation and allocation" note={`utilisation ${seen}, the rest ${spanned(log)}`}>
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
        <div>
          <Panel title="Where GPU-hours went" note={spanned(log)}>
            <Falls r={r} />
          </Panel>
          <Projects r={r} />
        </div>
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

function Projects({ r }: { r: Report }) {
  return (
    <Panel title="Projects" note={`most GPU-hours first; ${spanned(known(r).log)}`}>
      {r.projects.length === 0 ? (
        <Empty
          title={
            r.project
              ? `${r.project} was allocated no GPUs in this time`
              : 'Nobody was allocated GPUs in this time'
          }
        />
      ) : (
        <Scroll label="Projects">
          <Table
            cards
            heads={[
              'Project',
              num('GPU-hours'),
              num('Goodput', RATES.goodput.formula),
              num('Jobs succeeded'),
              num('Success rate', RATES.success.formula),
            ]}
          >
            {r.projects.slice(0, SHOWN).map((p) => (
              <tr key={p.name}>
                <td className="whole">{p.name}</td>
                <td className="num" data-l="GPU-hours">
                  {hours(p.allocated_gpu_seconds)}
                </td>
                <td className="num" data-l="goodput">
                  {percent(p.goodput)}
                </td>
                <td className="num" data-l="jobs succeeded">
                  {p.jobs.succeeded.toLocaleString('en')}
                </td>
                <td className="num" data-l="success rate">
                  {percent(RATES.success.of(p))}
                </td>
              </tr>
            ))}
          </Table>
          {r.projects.length > SHOWN && (
            <p className="state">and {count(r.projects.length - SHOWN, 'more project', 'more projects')}</p>
          )}
        </Scroll>
      )}
    </Panel>
  );
}
