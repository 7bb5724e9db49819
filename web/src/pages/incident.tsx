import { useQuery } from '@tanstack/react-query';
import { Link, useParams } from '@tanstack/react-router';
import { type FormEvent, Fragment, useState } from 'react';
import { api, once, type Schemas, stream } from '../api/client';
import { saveBlob } from '../jobs/files';
import { assignments, useIncidentActions } from '../oncall/actions';
import { incidentRecord } from '../queries';
import { useRights } from '../rights';
import { useAct } from '../ui/act';
import { NodeLink } from '../ui/links';
import { Ago, Clock, count, Empty, Fact, Loaded, Panel, State, span } from '../ui/parts';
import { Table } from '../ui/table';
import { entryWords, kindWord } from './incident-words';

type Made = Schemas['IncidentRecord'];

/** One incident: its timeline, its impact, what people wrote, and the runbook. */
export function IncidentPage() {
  const { id } = useParams({ from: '/incidents/$id' });
  const query = useQuery(incidentRecord(id));
  return (
    <main className="page" id="page">
      <Loaded query={query}>
        {(r) => (
          <>
            <div className="head">
              <h1>Incident {r.incident.id}</h1>
              <State word={r.incident.severity} />
              <State word={r.incident.state} />
              <span>{r.incident.summary}</span>
            </div>
            {/* On a phone what can be done comes before what happened. */}
            <Actions made={r} />
            <div className="columns wide-left">
              <Timeline made={r} />
              <div>
                <Impact made={r} />
                <Notes made={r} />
                <Changes made={r} />
              </div>
            </div>
          </>
        )}
      </Loaded>
    </main>
  );
}

function Timeline({ made }: { made: Made }) {
  return (
    <Panel
      title="Timeline"
      note={`${count(made.timeline.length, 'entry', 'entries')}, newest first${made.cut ? '; there was more than is shown' : ''}`}
    >
      {made.timeline.length === 0 ? (
        <Empty title="No entries in the log" />
      ) : (
        <Table label="Timeline" tall cards heads={['When', 'What', 'Where', 'Who', 'Text']}>
          {made.timeline.toReversed().map((e, i) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: entries are only added, and counted from the oldest
            <tr key={made.timeline.length - i}>
              <td className="nowrap">
                <Clock at={e.at} />
              </td>
              <td>{kindWord(e.what)}</td>
              <td className="nowrap">{e.node && <NodeLink name={e.node} />}</td>
              <td className="dim nowrap">{e.actor}</td>
              <td className="whole">{entryWords(e)}</td>
            </tr>
          ))}
        </Table>
      )}
    </Panel>
  );
}

function Actions({ made }: { made: Made }) {
  const { act, busy } = useAct();
  const { operates } = useRights();
  const { me, take, assign, release, close, busy: changing } = useIncidentActions();
  const i = made.incident;
  const node = made.impact.nodes[0];
  const open = i.state === 'open';
  const off = busy || changing;
  const can = assignments(i.owner, me);
  return (
    <Panel title="Actions">
      <div className="item">
        <p>{i.owner ? `Assigned to ${i.owner.replace(/^user:/, '')}` : 'Not assigned.'}</p>
        <div className="actions">
          {made.runbooks.map((name) => (
            <Link key={name} to="/runbooks/$name" params={{ name }} search={{ incident: i.id, node }}>
              Runbook {name}
            </Link>
          ))}
          {operates && open && can.take && (
            <button
              type="button"
              className={i.owner ? undefined : 'main'}
              disabled={off}
              onClick={() => void take(i.id)}
            >
              Assign to me
            </button>
          )}
          {operates && open && (
            <>
              <button type="button" disabled={off} onClick={() => void assign(i.id, i.owner)}>
                Assign
              </button>
              {can.release && (
                <button type="button" disabled={off} onClick={() => void release(i.id, i.owner)}>
                  Unassign
                </button>
              )}
              <button type="button" className="risky" disabled={off} onClick={() => void close(i.id)}>
                Close
              </button>
            </>
          )}
          <button
            type="button"
            disabled={busy}
            onClick={() =>
              void act(async () => {
                const answer = await stream(`/v1/incidents/${i.id}/report`, {});
                saveBlob(`incident-${i.id}.md`, await answer.blob());
              }, 'The draft is saved')
            }
          >
            Save a draft of the report
          </button>
        </div>
      </div>
    </Panel>
  );
}

/** Pages that reached somebody; where none did, that some were raised. */
export function pageWords({ impact, timeline }: Pick<Made, 'impact' | 'timeline'>): string {
  const raised = timeline.filter((e) => e.what === 'page').length;
  if (impact.pages > 0 || raised === 0) return String(impact.pages);
  return `0, although ${count(raised, 'page')} ${raised === 1 ? 'was' : 'were'} raised: nobody was reached`;
}

function Impact({ made }: { made: Made }) {
  const m = made.impact;
  return (
    <Panel title="Impact">
      <dl className="facts item">
        <Fact word="Began">
          <Ago at={made.incident.began_at} />
        </Fact>
        <Fact word="Opened">
          <Ago at={made.incident.opened_at} />, {span(m.seconds_to_detect * 1000)} after it began
        </Fact>
        <Fact word="Duration">{span(m.seconds * 1000)}</Fact>
        <Fact word="GPU-hours of work lost">{((m.lost_gpu_milli_hours ?? 0) / 1000).toFixed(1)}</Fact>
        <Fact word="GPU-hours out of service">{(m.gpu_milli_hours / 1000).toFixed(1)}</Fact>
        <Fact word="Nodes">{m.nodes.length}</Fact>
        <Fact word="Jobs interrupted">
          {m.jobs.length === 0 && 'none'}
          {m.jobs.map((j, i) => (
            <Fragment key={j}>
              {i > 0 && ', '}
              <Link to="/jobs/$id" params={{ id: String(j) }}>
                job {j}
              </Link>
            </Fragment>
          ))}
        </Fact>
        <Fact word="Projects">{m.projects.join(', ') || 'none'}</Fact>
        <Fact word="Pages sent">{pageWords(made)}</Fact>
      </dl>
    </Panel>
  );
}

function Notes({ made }: { made: Made }) {
  const [text, setText] = useState('');
  const { act, busy } = useAct();
  const { operates } = useRights();
  const i = made.incident;
  const send = (e: FormEvent) => {
    e.preventDefault();
    void act(async () => {
      await api.POST('/v1/incidents/{id}/note', {
        params: { path: { id: i.id }, header: once() },
        body: { text },
      });
      setText('');
    }, 'Saved');
  };
  return (
    <Panel title="Notes">
      {(i.notes ?? []).map((n) => (
        <div className="item" key={`${n.at} ${n.by}`}>
          <p>{n.text}</p>
          <p className="dim">
            {n.by} <Ago at={n.at} />
          </p>
        </div>
      ))}
      {operates && (
        <form className="stack item" onSubmit={send}>
          <label className="stack">
            Add a note
            <input value={text} required maxLength={2000} onChange={(e) => setText(e.target.value)} />
          </label>
          <div className="actions">
            <button type="submit" disabled={busy}>
              Save
            </button>
          </div>
        </form>
      )}
    </Panel>
  );
}

function Changes({ made }: { made: Made }) {
  const changes = made.incident.changes ?? [];
  if (changes.length === 0) return null;
  return (
    <Panel title="Changes shortly before">
      {changes.map((c) => (
        <div className="item" key={`${c.at} ${c.text}`}>
          <p>{c.text}</p>
          <p className="dim">
            {c.actor} <Ago at={c.at} />
          </p>
        </div>
      ))}
    </Panel>
  );
}
