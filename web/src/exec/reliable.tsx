import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import type { Schemas } from '../api/client';
import { Budget, belowWords, NoObjectives, sloTone } from '../pages/slo-parts';
import { slos } from '../queries';
import { count, Empty, Loaded, Panel, span } from '../ui/parts';
import { Plot } from '../ui/plot';
import { num, Table } from '../ui/table';
import { drawnAt, known, percent, RATES, type Report } from './fleet-metrics';
import { Metric, RateMetric, spanned } from './metric';

/** One meaning of an interruption here, in `muster report fleet` and in the objective of that name. */
export const BETWEEN =
  'time of jobs with all ranks up / attempts ended by infrastructure, platform or unknown causes, over the time shown; failures of the programs themselves are not counted';

/** Are we reliable: objectives and their error budgets, and how often work was interrupted. */
export function Reliable({ r }: { r: Report }) {
  const t = r.total;
  const { log } = known(r);
  return (
    <>
      <div className="tiles">
        <RateMetric rate={RATES.availability} r={r} over={log} note="in service of all" />
        <RateMetric
          rate={RATES.success}
          r={r}
          over={log}
          note={`${percent(RATES.first.of(t))} at the first attempt; both of all jobs that ended, failures of their own programs included`}
        />
        <Metric
          word="between interruptions"
          definition={BETWEEN}
          value={t.mtbi_ms ? span(t.mtbi_ms) : 'not known'}
          note={t.recover_ms ? `${span(t.recover_ms)} recovery time` : undefined}
          over={spanned(log)}
        />
      </div>
      <div className="columns">
        <Objectives />
        <Success r={r} />
      </div>
    </>
  );
}

function Objectives() {
  const query = useQuery(slos());
  return (
    <Panel
      title="SLOs"
      note="each over its own window, not over this period; those of jobs leave failures of their own programs out"
      actions={<Link to="/slos">All of them</Link>}
    >
      <Loaded query={query}>
        {(page) =>
          page.items.length === 0 ? (
            <NoObjectives />
          ) : (
            <Table
              label="SLOs"
              cards
              heads={['Objective', 'State', num('Good'), num('Target'), 'Window', 'Budget left']}
            >
              {page.items.map((s: Schemas['Slo']) => (
                <tr key={s.name}>
                  <td className="whole">
                    <Link to="/slos" search={{ name: s.name }}>
                      {s.name}
                    </Link>{' '}
                    <span className="dim">
                      {s.description}
                      {belowWords(s)}
                    </span>
                  </td>
                  <td>{sloTone(s)}</td>
                  <td className="num" data-l="good">
                    {s.good_text ?? '–'}
                  </td>
                  <td className="num" data-l="target">
                    {s.target}
                  </td>
                  <td data-l="window">{s.window}</td>
                  <td data-l="budget left">
                    <Budget of={s} />
                  </td>
                </tr>
              ))}
            </Table>
          )
        }
      </Loaded>
    </Panel>
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
        <Empty title="No job came or ended in this time">
          <p>
            Choose a longer period, or submit one: <code>muster submit train.yaml</code>.
          </p>
        </Empty>
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
              {
                label: RATES.success.name,
                tone: '--accent',
                values: r.rows.map((x) => x.success_rate ?? null),
              },
              {
                label: RATES.first.name,
                tone: '--note',
                dashed: true,
                values: r.rows.map((x) => x.first_attempt_success_rate ?? null),
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
                <td className="dim">by infrastructure, platform or unknown; most of their jobs resumed</td>
              </tr>
            </tbody>
          </table>
        </div>
      )}
    </Panel>
  );
}
