import { useInfiniteQuery } from '@tanstack/react-query';
import { Link, useNavigate, useSearch } from '@tanstack/react-router';
import { type FormEvent, useEffect, useState } from 'react';
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
import { useTail } from '../find/use-tail';
import { events as eventPages } from '../queries';
import { Clock, count, Empty, Problem, Word } from '../ui/parts';
import { about } from './event-words';

const HOUR = 3_600_000;
const RANGES: [string, number][] = [
  ['last hour', HOUR],
  ['last day', 24 * HOUR],
  ['last week', 7 * 24 * HOUR],
  ['last 30 days', 30 * 24 * HOUR],
];

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
    <main className="page" id="page">
      <div className="head">
        <h1>Events</h1>
        {end !== null && (
          <span className="dim">
            <Word tone={live ? 'ok' : 'plain'}>{live ? 'as they come' : 'connecting'}</Word>
          </span>
        )}
        <span className="dim">{count(shown.length, 'event')} shown, newest first</span>
        <div className="actions">
          <button type="button" disabled={shown.length === 0} onClick={() => save(shown)}>
            Download CSV
          </button>
        </div>
      </div>
      <Filters search={search} show={show} />
      {error && <Problem error={error} />}
      {query.error && <Problem error={query.error} again={() => void query.refetch()} />}
      <div className="panel scroll-x">
        {shown.length === 0 ? (
          <Empty
            title={query.isPending ? 'Loading…' : isChosen(search) ? 'Nothing matches so far' : 'Nothing yet'}
          >
            <p>
              {isChosen(search)
                ? 'No event of this kind was found in the part of the log that was searched.'
                : "Everything that happens is an event in one log: submissions, placements, faults, remediation, operators' actions."}
            </p>
          </Empty>
        ) : (
          <EventTable events={shown} show={show} />
        )}
      </div>
      {query.hasNextPage && (
        <p>
          <button
            type="button"
            disabled={query.isFetchingNextPage}
            onClick={() => void query.fetchNextPage()}
          >
            {query.isFetchingNextPage ? 'Loading…' : 'Load more'}
          </button>{' '}
          <span className="dim">older events</span>
        </p>
      )}
      {query.data && !query.hasNextPage && shown.length > 0 && (
        <p className="dim">These are all, as far back as the log is stored.</p>
      )}
    </main>
  );
}

/** Saves what is shown as a file. */
function save(shown: LogEvent[]) {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([csv(shown)], { type: 'text/csv' }));
  link.download = `events-${new Date().toISOString().slice(0, 19).replaceAll(':', '')}.csv`;
  link.click();
  URL.revokeObjectURL(link.href);
}

/** What the address says as fields; Enter or the button asks for it. */
function Filters({ search, show }: { search: EventSearch; show: (next: EventSearch) => void }) {
  const [draft, setDraft] = useState(search);
  useEffect(() => setDraft(search), [search]);
  const set = (part: EventSearch) => setDraft({ ...draft, ...part });
  const submit = (e: FormEvent) => {
    e.preventDefault();
    show(cleaned(draft));
  };
  const field = (name: 'find' | 'kind' | 'actor' | 'object', label: string, like: string) => (
    <label>
      {label}
      <input
        type={name === 'find' ? 'search' : 'text'}
        value={draft[name] ?? ''}
        placeholder={like}
        maxLength={200}
        autoComplete="off"
        spellCheck={false}
        onChange={(e) => set({ [name]: e.target.value })}
      />
    </label>
  );
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
      {field('find', 'Text', 'anywhere in the event')}
      {field('kind', 'Kinds', 'job_submitted,node_*')}
      {field('actor', 'By', 'user:ann')}
      {field('object', 'About', 'job:42, node:hgx-01')}
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
          {RANGES.map(([word, ms]) => (
            <option key={ms} value={ms}>
              {word}
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
    <table className="cards">
      <thead>
        <tr>
          <th>At</th>
          <th>Event</th>
          <th>Job</th>
          <th>Node</th>
          <th>Details</th>
          <th>By</th>
        </tr>
      </thead>
      <tbody>
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
                  {e.kind.replaceAll('_', ' ')}
                </button>
              </td>
              <td className="nowrap" data-l={a.job && 'job'}>
                {a.job && (
                  <Link to="/jobs/$id" params={{ id: a.job }}>
                    {a.job}
                  </Link>
                )}
              </td>
              <td className="nowrap">
                {a.node && (
                  <Link to="/nodes/$name" params={{ name: a.node }}>
                    {a.node}
                  </Link>
                )}
              </td>
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
      </tbody>
    </table>
  );
}
