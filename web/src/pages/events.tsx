import { useInfiniteQuery } from '@tanstack/react-query';
import { useNavigate, useSearch } from '@tanstack/react-router';
import { useState } from 'react';
import {
  cleaned,
  csv,
  type EventSearch,
  fromField,
  isChosen,
  type LogEvent,
  toField,
  together,
} from '../find/events';
import { LENGTHS, RANGES, type Range } from '../find/output';
import { useDraft } from '../find/use-draft';
import { useTail } from '../find/use-tail';
import { saveCsv } from '../jobs/files';
import { events as eventPages } from '../queries';
import { JobLink, NodeLink } from '../ui/links';
import { Page } from '../ui/page';
import { LoadMore } from '../ui/paged';
import { Clock, count, Empty, Problem, Word } from '../ui/parts';
import { Table } from '../ui/table';
import { about, kindWords } from './event-words';

export function EventsPage() {
  const search = useSearch({ from: '/events' });
  const navigate = useNavigate({ from: '/events' });
  const query = useInfiniteQuery(eventPages(search));
  const first = query.data?.pages[0];
  // A range that has ended grows no more.
  const end = search.to ? null : (first?.end ?? null);
  const { fresh, error, live } = useTail(search, end, () => void query.refetch());
  const shown = together(fresh, query.data?.pages.flatMap((p) => p.items) ?? []);
  const show = (next: EventSearch) => void navigate({ search: next });
  return (
    <Page
      title="Events"
      about={
        <>
          {end !== null && (
            <span className="dim">
              <Word tone={live ? 'ok' : 'plain'}>{live ? 'as they come' : 'connecting'}</Word>
            </span>
          )}
          <span className="dim">{count(shown.length, 'event')} shown, newest first</span>
        </>
      }
      actions={
        <button type="button" disabled={shown.length === 0} onClick={() => saveCsv('events', csv(shown))}>
          Download CSV
        </button>
      }
    >
      <Filters search={search} show={show} />
      {error && <Problem error={error} />}
      {query.error && <Problem error={query.error} again={() => void query.refetch()} />}
      <div className="panel scroll-x">
        {shown.length === 0 ? (
          <Empty
            title={query.isPending ? 'Loading…' : isChosen(search) ? 'Nothing matches so far' : 'Nothing yet'}
          >
            <p>
              {query.isPending
                ? null
                : isChosen(search)
                  ? 'No event of this kind was found in the part of the log that was searched.'
                  : "Everything that happens is an event in one log: submissions, placements, faults, remediation, operators' actions."}
            </p>
          </Empty>
        ) : (
          <EventTable events={shown} show={show} />
        )}
      </div>
      <LoadMore of={query} what="older events" />
      {query.data && !query.hasNextPage && shown.length > 0 && (
        <p className="dim">These are all, as far back as the log is stored.</p>
      )}
    </Page>
  );
}

/** What the address says as fields; Enter or the button asks for it. */
function Filters({ search, show }: { search: EventSearch; show: (next: EventSearch) => void }) {
  const { draft, set, submit, field } = useDraft(search, (next) => show(cleaned(next)));
  const moment = (name: 'from' | 'to', label: string) => (
    <label>
      {label}
      <input
        type="datetime-local"
        value={toField(draft[name])}
        onChange={(e) => set({ [name]: fromField(e.target.value) })}
      />
    </label>
  );
  return (
    <form className="filters" aria-label="Which events" onSubmit={submit}>
      {field('find', 'Text', 'in any field', 'search')}
      {field('kind', 'Kinds', 'job_*,node_*')}
      {field('actor', 'By', 'user:ann')}
      {field('object', 'About', 'job:42')}
      {moment('from', 'From')}
      {moment('to', 'Until')}
      <label>
        Range
        <select
          value=""
          onChange={(e) => {
            const from = new Date(Date.now() - Number(e.target.value)).toISOString();
            show({ ...cleaned(draft), from, to: undefined });
          }}
        >
          <option value="" disabled>
            choose
          </option>
          {(Object.keys(RANGES) as Range[]).map((r) => (
            <option key={r} value={LENGTHS[r]}>
              {RANGES[r]}
            </option>
          ))}
        </select>
      </label>
      <button type="submit">Show</button>
      {isChosen(search) && (
        <button type="button" className="quiet" onClick={() => show({})}>
          Show all
        </button>
      )}
    </form>
  );
}

function EventTable({ events, show }: { events: LogEvent[]; show: (next: EventSearch) => void }) {
  const [open, setOpen] = useState<string | null>(null);
  return (
    <Table cards heads={['At', 'Event', 'Job', 'Node', 'Details', 'By']}>
      {events.map((e) => {
        const a = about(e);
        return (
          <tr key={e.cursor}>
            <td className="nowrap dim">
              <Clock at={e.at} />
            </td>
            <td className="nowrap">
              <button
                type="button"
                className="quiet flat"
                aria-expanded={open === e.cursor}
                onClick={() => setOpen(open === e.cursor ? null : e.cursor)}
              >
                {kindWords(e.kind)}
              </button>
            </td>
            <td className="nowrap" data-l={a.job && 'job'}>
              {a.job && <JobLink id={a.job} />}
            </td>
            <td className="nowrap">{a.node && <NodeLink name={a.node} />}</td>
            <td className="whole">
              {open === e.cursor ? <pre className="log">{JSON.stringify(e.data, null, 2)}</pre> : a.text}
            </td>
            <td className="nowrap" data-l="by">
              <button
                type="button"
                className="quiet flat dim"
                title="Show only what they did"
                onClick={() => show({ actor: e.actor })}
              >
                {e.actor}
              </button>
            </td>
          </tr>
        );
      })}
    </Table>
  );
}
