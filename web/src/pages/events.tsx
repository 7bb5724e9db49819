import { Link, useNavigate, useSearch } from '@tanstack/react-router';
import { useEffect, useMemo, useRef, useState } from 'react';
import { api, type Schemas, session, stream } from '../api/client';
import { Clock, Empty, Problem, Word } from '../ui/parts';
import { about, beginning } from './event-words';

type Event = Schemas['LogEvent'];

const KEPT = 2000;

/** The newest part of the log, and what is added to it. */
function useLog(): { events: Event[]; error: Error | null; live: boolean } {
  const [events, setEvents] = useState<Event[]>([]);
  const [error, setError] = useState<Error | null>(null);
  const [live, setLive] = useState(false);
  // Null: the oldest event that is kept comes first.
  const last = useRef<string | null | undefined>(undefined);
  useEffect(() => {
    const stop = new AbortController();
    const follow = async () => {
      if (last.current === undefined) {
        const { response } = await api.GET('/v1/whoami', { signal: stop.signal });
        last.current = beginning(response.headers.get('Muster-Seq') ?? '0');
      }
      const headers: Record<string, string> = { Accept: 'text/event-stream' };
      if (last.current !== null) headers['Last-Event-ID'] = last.current;
      const response = await stream('/v1/events', { signal: stop.signal, headers });
      setLive(true);
      setError(null);
      const reader = (response.body as ReadableStream<Uint8Array>)
        .pipeThrough(new TextDecoderStream() as unknown as TransformStream<Uint8Array, string>)
        .getReader();
      let rest = '';
      for (;;) {
        const { value, done } = await reader.read();
        if (done) return;
        const blocks = (rest + value).split('\n\n');
        rest = blocks.pop() ?? '';
        const fresh: Event[] = [];
        for (const block of blocks) {
          const data = block.split('\n').find((l) => l.startsWith('data: '));
          if (data) fresh.push(JSON.parse(data.slice(6)) as Event);
        }
        if (fresh.length) {
          last.current = fresh[fresh.length - 1].cursor;
          fresh.reverse();
          setEvents((old) => [...fresh, ...old].slice(0, KEPT));
        }
      }
    };
    const run = async () => {
      while (!stop.signal.aborted && session.token()) {
        try {
          await follow();
        } catch (e) {
          if (stop.signal.aborted) return;
          const status = (e as { status?: number }).status;
          if (status === 410 || status === 400) {
            // Archived meanwhile: the oldest that is kept comes first. Past the end: another log, asked anew.
            last.current = status === 410 ? null : undefined;
            setEvents([]);
          }
          setError(e as Error);
        }
        setLive(false);
        await new Promise((r) => setTimeout(r, 2000));
      }
    };
    void run();
    return () => stop.abort();
  }, []);
  return { events, error, live };
}

export function EventsPage() {
  const { events, error, live } = useLog();
  const search = useSearch({ from: '/events' });
  const navigate = useNavigate({ from: '/events' });
  const [open, setOpen] = useState<string | null>(null);
  const words = (search.find ?? '').toLowerCase();
  const shown = useMemo(
    () =>
      words
        ? events.filter((e) => `${e.kind} ${e.actor} ${JSON.stringify(e.data)}`.toLowerCase().includes(words))
        : events,
    [events, words],
  );
  return (
    <main className="page" id="page">
      <div className="head">
        <h1>Events</h1>
        <span className="dim">
          <Word tone={live ? 'ok' : 'plain'}>{live ? 'as they come' : 'connecting'}</Word>
        </span>
        <input
          type="search"
          className="search"
          aria-label="Search events"
          placeholder="Search in what is shown"
          value={search.find ?? ''}
          onChange={(e) => void navigate({ search: { find: e.target.value || undefined }, replace: true })}
        />
        <span className="dim">
          {shown.length} of the newest {events.length}
        </span>
      </div>
      {error && <Problem error={error} />}
      <div className="panel scroll-x">
        {shown.length === 0 ? (
          <Empty title="Nothing yet">
            <p>
              Everything that happens is an event in one log: submissions, placements, faults, remedies,
              operators' words.
            </p>
          </Empty>
        ) : (
          <table className="cards">
            <thead>
              <tr>
                <th>At</th>
                <th>What</th>
                <th>Job</th>
                <th>Node</th>
                <th>Particulars</th>
                <th>By</th>
              </tr>
            </thead>
            <tbody>
              {shown.slice(0, 500).map((e) => {
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
                      {open === e.cursor ? (
                        <pre className="log">{JSON.stringify(e.data, null, 2)}</pre>
                      ) : (
                        a.text
                      )}
                    </td>
                    <td className="nowrap dim" data-l="by">
                      {e.actor}
                    </td>
                  </tr>
                );
              })}
            </tbody>
          </table>
        )}
      </div>
    </main>
  );
}
