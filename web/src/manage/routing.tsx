import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { api, must, once, type Schemas } from '../api/client';
import { receivers, routing } from '../queries';
import { useRights } from '../rights';
import { Ago, count, Empty, Loaded, Panel, Scroll, Word } from '../ui/parts';
import type { Document } from './document';
import { DocumentEditor } from './document-editor';
import { matchWords } from './silence';

type SiteRouting = Schemas['SiteRouting'];

const put = async (document: Document, version: number, dry_run: boolean, signal?: AbortSignal) =>
  must(
    await api.PUT('/v1/routing', {
      params: {
        query: { dry_run },
        header: { ...(dry_run ? {} : once()), 'If-Match': String(version) },
      },
      body: { routing: document as Schemas['Routing'] },
      signal,
    }),
  );

/** Which alerts go to whom. Operators see it, admins change it. */
export function RoutingPage() {
  const query = useQuery(routing());
  const { administers } = useRights();
  const [editing, setEditing] = useState(false);
  return (
    <main className="page" id="page">
      <div className="head">
        <h1>Notification routing</h1>
        <span className="dim">
          An alert goes to the first route that matches, and to those after it where that one says so.
        </span>
        {administers && !editing && query.data && (
          <div className="actions">
            <button type="button" className="main" onClick={() => setEditing(true)}>
              Edit
            </button>
          </div>
        )}
      </div>
      <Loaded query={query}>
        {(r) =>
          editing && administers ? (
            <DocumentEditor
              source={{
                kind: 'Routing',
                name: 'routing',
                now: r.routing as unknown as Document,
                version: r.version,
                check: async (d, v, signal) => (await put(d, v, true, signal)).routing as unknown as Document,
                set: (d, v) => put(d, v, false),
                done: 'The routing is set',
              }}
              close={() => setEditing(false)}
            />
          ) : (
            <>
              <Routes of={r} />
              <Receivers of={r} />
            </>
          )
        }
      </Loaded>
    </main>
  );
}

function Routes({ of: r }: { of: SiteRouting }) {
  const routes = r.routing.routes ?? [];
  return (
    <Panel title="Routes" note="in order">
      {routes.length === 0 ? (
        <Empty title="No route: no alert notifies anybody">
          <p>
            <code>muster routing</code> shows and sets it, too.
          </p>
        </Empty>
      ) : (
        <Scroll label="Routes">
          <table className="cards">
            <thead>
              <tr>
                <th className="num">No.</th>
                <th>Alerts</th>
                <th>To</th>
                <th>Escalation</th>
                <th>Waits</th>
                <th>Repeats</th>
                <th>Then</th>
              </tr>
            </thead>
            <tbody>
              {routes.map((route, i) => (
                // biome-ignore lint/suspicious/noArrayIndexKey: its place is what a route is known by
                <tr key={i}>
                  <td className="num" data-l="route">
                    {i + 1}
                  </td>
                  <td data-l="alerts">{matchWords(route.match ?? {})}</td>
                  <td data-l="to">{route.to.join(', ') || 'nobody'}</td>
                  <td data-l="escalation">
                    {(route.escalate ?? []).map((e) => `after ${e.after}: ${e.to.join(', ')}`).join('; ') ||
                      'none'}
                  </td>
                  <td data-l="waits">{route.wait ?? ''}</td>
                  <td data-l="repeats">{route.repeat ?? ''}</td>
                  <td data-l="then">{route.go_on ? 'later routes too' : 'no later route'}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </Scroll>
      )}
    </Panel>
  );
}

/** How a receiver is reached: `webhook http://…`. Secrets are named, never shown. */
function channelWords(by: unknown): string {
  const [first] = Object.entries((by ?? {}) as Record<string, Record<string, unknown>>);
  if (!first) return '';
  const [kind, of] = first;
  const values = Object.values(of).filter((v) => v !== null);
  return [kind, ...values.map((v) => (Array.isArray(v) ? v.join(', ') : String(v)))].join(' ');
}

function Receivers({ of: r }: { of: SiteRouting }) {
  const states = useQuery(receivers());
  const known = r.routing.receivers ?? [];
  if (known.length === 0) return null;
  return (
    <Panel title="Receivers">
      {known.map((one) => {
        const state = states.data?.items.find((s) => s.name === one.name);
        return (
          <div className="item" key={one.name}>
            <h3>
              {state && <Word tone={state.state === 'ok' ? 'ok' : 'bad'}>{state.state}</Word>}
              <span>{one.name}</span>
              <span className="dim">{channelWords(one.by)}</span>
            </h3>
            {state && state.failures > 0 && (
              <p>
                {count(state.failures, 'failure')} in a row: {state.error}; next attempt{' '}
                <Ago at={state.next_try} />
              </p>
            )}
          </div>
        );
      })}
    </Panel>
  );
}
