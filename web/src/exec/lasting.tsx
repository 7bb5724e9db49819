import { count, Empty, Panel } from '../ui/parts';
import { Plot } from '../ui/plot';
import { num, Table, unseen } from '../ui/table';
import { momentWord } from '../ui/zone';
import { outBy } from './cost';
import { drawnAt, type Report, reportedFor } from './fleet-metrics';
import { falls, meetsWords, projection } from './forecast';
import { Metric } from './metric';

/** Is there enough capacity: demand, what is in service, and when the one meets the other. */
export function Lasting({ r }: { r: Report }) {
  const f = r.forecast;
  const sites = r.inventory.reduce((n, s) => n + s.gpus, 0);
  if (!f)
    return (
      <div className="columns">
        <Panel title="Capacity">
          <Empty title="Not shown to this token">
            <p>The forecast is that of the whole site.</p>
          </Empty>
        </Panel>
        <Inventory r={r} all={sites} />
      </div>
    );
  const meets = meetsWords(f);
  const service = r.inventory.reduce((n, s) => n + s.in_service, 0);
  const over = f.days > 0 ? `last ${count(f.days, 'whole day')} of UTC` : 'no whole day yet';
  const gpus = (v: number | null | undefined) =>
    typeof v === 'number' ? `${v.toLocaleString('en', { maximumFractionDigits: 0 })} GPUs` : 'not known';
  return (
    <>
      <div className="tiles">
        <Metric
          word="demand meets capacity"
          definition="the day on which demand, by a straight line through the last whole days, reaches the GPUs in service; the range is one standard deviation of the days from the line"
          value={meets.value}
          note={meets.note}
          over={over}
        />
        <Metric
          word="demand"
          definition="GPUs that are allocated or could be used at once by queued jobs, the mean of the newest day from midnight UTC on, as muster report fleet writes it; the change a day is that of the line"
          value={gpus(f.newest_demand_gpus)}
          note={
            typeof f.growth_gpus_per_day === 'number'
              ? `${f.growth_gpus_per_day >= 0 ? '+' : ''}${f.growth_gpus_per_day.toFixed(1)} a day${
                  typeof f.spread_gpus === 'number'
                    ? `, a standard deviation of ${f.spread_gpus.toFixed(1)}`
                    : ''
                }`
              : undefined
          }
          over={`newest day; the line: ${over}`}
        />
        <Metric
          word="in service"
          definition="GPUs that can take work now; the line is compared with the mean of the last whole day of UTC"
          value={gpus(service)}
          note={`${gpus(f.capacity_gpus)} on the last whole day`}
          over={`as of ${momentWord(r.to)}`}
        />
      </div>
      <div className="columns">
        <Demand r={r} />
        <div>
          <Ahead r={r} />
          <Inventory r={r} all={sites} />
        </div>
      </div>
    </>
  );
}

const whole = (v: number) => v.toLocaleString('en', { maximumFractionDigits: 0 });

function Demand({ r }: { r: Report }) {
  const rows = r.rows.map((x) => ({ at: drawnAt(r.step, x), seconds: reportedFor(r, x), x }));
  const mean = (v: number | null | undefined, s: number) =>
    v === null || v === undefined || s <= 0 ? null : v / s;
  return (
    <Panel title="Demand until now" note={`of each ${r.step}`}>
      <div className="body">
        <Plot
          title="Demand and what is in service"
          each={r.step}
          height={130}
          at={rows.map((w) => w.at)}
          say={whole}
          lines={[
            {
              label: 'demand in GPUs, mean',
              tone: '--accent',
              values: rows.map((w) => mean(w.x.wanted_gpu_seconds, w.seconds)),
            },
            {
              label: 'in service, mean',
              tone: '--dim',
              dashed: true,
              values: rows.map((w) => mean(w.x.in_service_gpu_seconds, w.seconds)),
            },
          ]}
        />
      </div>
    </Panel>
  );
}

function Ahead({ r }: { r: Report }) {
  const f = r.forecast;
  const p = f ? projection(f, Date.parse(r.to)) : null;
  if (f && falls(f))
    return (
      <Panel title="Forecast">
        <Empty title="No growth: the line falls">
          <p>
            {Math.abs(f.growth_gpus_per_day ?? 0).toFixed(1)} GPUs less every day, over{' '}
            {count(f.days, 'whole day')} of UTC. A line that falls is not continued.
          </p>
        </Empty>
      </Panel>
    );
  if (!f || !p)
    return (
      <Panel title="Forecast">
        <Empty title="No forecast yet">
          <p>It needs three whole days of UTC; {count(f?.days ?? 0, 'day')} so far.</p>
        </Empty>
      </Panel>
    );
  return (
    <Panel
      title="Forecast"
      note="a straight line, whatever the period; dashed: one standard deviation of the days"
    >
      <div className="body">
        <Plot
          title="Demand ahead"
          height={130}
          at={p.at}
          say={whole}
          across={{ at: f.capacity_gpus, label: 'in service, last whole day' }}
          lines={[
            { label: 'demand at the end, by the line', tone: '--accent', values: p.line },
            { label: 'high', tone: '--note', dashed: true, values: p.high },
            { label: 'low', tone: '--note', dashed: true, values: p.low },
          ]}
        />
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
        <Table
          label="Inventory"
          heads={['SKU', num('GPUs'), num('In service now'), unseen('Share in service'), 'Not in service']}
        >
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
                  .map(([why, n]) => `${n} ${outBy(why)}`)
                  .join(', ') || 'none'}
              </td>
            </tr>
          ))}
        </Table>
      )}
    </Panel>
  );
}
