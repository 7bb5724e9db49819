import { useQueries, useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import type { Schemas } from '../api/client';
import { incidentRecord, incidents } from '../queries';
import { useRights } from '../rights';
import { count, Empty, Loaded, Panel, Scroll, State, span } from '../ui/parts';
import { num, Table } from '../ui/table';
import { interruptionLosses, type Loss, outOfService, sum, within } from './cost';
import { hours, known, type Report } from './fleet-metrics';
import { Metric, spanned } from './metric';

/** Incidents that are listed, each with its record. */
const SHOWN = 8;

/** What did incidents cost: in GPU-hours, since no prices are kept. */
export function IncidentCost({ r }: { r: Report }) {
  const { log } = known(r);
  const lost = interruptionLosses(r.total);
  const out = outOfService(r.total);
  const { interruptions: i } = r.total;
  const hit = i.infrastructure + i.platform + i.unknown;
  return (
    <>
      <div className="tiles">
        <Metric
          word="GPU-hours lost, all causes"
          definition="lost work + restarting, by all causes, programs that failed by themselves included: work since the last checkpoint that had to be done again, and the time of allocated GPUs until the first step after an interruption"
          value={hours(sum(lost))}
          note={lost.map((l) => `${hours(l.seconds)} ${l.word}`).join(', ')}
          over={spanned(log)}
        />
        <Metric
          word="GPU-hours out of service"
          definition="time in which GPUs could take no work, for faults and for maintenance, added up over all GPUs"
          value={out ? hours(sum(out)) : 'not shown to tenants'}
          over={spanned(log)}
        />
        <Metric
          word="attempts interrupted"
          definition="attempts of jobs that ended by infrastructure, platform or unknown causes; failures of the programs themselves are not counted"
          value={Number.isFinite(hit) ? hit.toLocaleString('en') : 'not known'}
          note="most of their jobs resumed"
          over={spanned(log)}
        />
      </div>
      <div className="columns">
        <Panel title={out ? 'GPU-hours lost or out of service' : 'GPU-hours lost'} note={spanned(log)}>
          <Losses of={[...lost, ...(out ?? [])]} />
        </Panel>
        <Incidents r={r} />
      </div>
      <p className="dim">In GPU-hours only: this site has no prices.</p>
    </>
  );
}

function Losses({ of }: { of: Loss[] }) {
  const some = of.filter((l) => l.seconds > 0);
  if (some.length === 0)
    return (
      <Empty title="No GPU-hour was lost in this time">
        <p>Work that has to be done again, restarts and GPUs out of service would be listed here by cause.</p>
      </Empty>
    );
  return (
    <Table heads={['Cause', num('GPU-hours')]}>
      {some.map((l) => (
        <tr key={l.word} title={l.definition}>
          <td>{l.word}</td>
          <td className="num">{hours(l.seconds)}</td>
        </tr>
      ))}
    </Table>
  );
}

function Incidents({ r }: { r: Report }) {
  const { whole } = useRights();
  const query = useQuery({ ...incidents(), enabled: whole === true });
  if (whole === false)
    return (
      <Panel title="Incidents">
        <Empty title="Not shown to this token">
          <p>Incidents are the site's. Status shows what is wrong with the nodes of this project.</p>
        </Empty>
      </Panel>
    );
  return (
    <Loaded query={query}>
      {(page) => {
        const all = within(page.items, Date.parse(r.from), Date.parse(r.to));
        return (
          <Panel
            title="Incidents"
            note={`${count(all.length, 'incident')}${page.cursor ? ' or more' : ''} in this period`}
          >
            {all.length === 0 ? (
              <Empty title="No incident in this period">
                <p>Findings with one cause become an incident; each is listed here with what it cost.</p>
              </Empty>
            ) : (
              <Listed of={all.slice(0, SHOWN)} more={all.length - SHOWN} />
            )}
          </Panel>
        );
      }}
    </Loaded>
  );
}

function Listed({ of, more }: { of: Schemas['Incident'][]; more: number }) {
  const records = useQueries({ queries: of.map((i) => incidentRecord(i.id)) });
  return (
    <Scroll label="Incidents">
      <Table
        cards
        heads={[
          'Incident',
          'State',
          num('Duration', 'from its first signal to its end, or until now'),
          num('GPU-hours', 'GPU-hours in which its nodes were out of service'),
          num('Jobs'),
        ]}
      >
        {of.map(({ id, title, summary, state }, n) => {
          // What it is called is known before what it cost.
          const { data, error } = records[n];
          const none = error ? 'no data' : '…';
          return (
            <tr key={id}>
              <td className="whole">
                <Link to="/incidents/$id" params={{ id }}>
                  {id}
                </Link>{' '}
                {title || summary}
              </td>
              <td>
                <State word={state} />
              </td>
              <td className="num" data-l="duration">
                {data ? span(data.impact.seconds * 1000) : none}
              </td>
              <td className="num" data-l="GPU-hours">
                {data ? hours(data.impact.gpu_milli_hours * 3.6) : none}
              </td>
              <td className="num" data-l="jobs">
                {data ? data.impact.jobs.length : none}
              </td>
            </tr>
          );
        })}
      </Table>
      {more > 0 && <p className="state">and {count(more, 'more incident')}</p>}
    </Scroll>
  );
}
