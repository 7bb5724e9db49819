import { useQuery } from '@tanstack/react-query';
import { api, must, type Schemas } from '../api/client';
import { receivers, routing } from '../queries';
import { Ago, count, Empty, Panel, Word } from '../ui/parts';
import { num, Table } from '../ui/table';
import { DocumentEditor, type Put, replacing } from './document-editor';
import { EditPage } from './frames';
import { RoutingForm } from './routing-form';
import { matchWords } from './silence';

type SiteRouting = Schemas['SiteRouting'];

const put: Put = async (document, version, dry_run, signal) => {
  const body = { routing: document as Schemas['Routing'] };
  return must(await api.PUT('/v1/routing', { params: replacing(version, dry_run), body, signal })).routing;
};

/** Which alerts go to whom. Operators see it, admins change it. */
export function RoutingPage() {
  return (
    <EditPage
      title="Notification routing"
      about={
        <span className="dim">
          An alert goes to the first route that matches, and to those after it where that one says so.
        </span>
      }
      query={useQuery(routing())}
      editor={(r, close) => (
        <DocumentEditor
          kind="Routing"
          name="routing"
          now={r.routing}
          version={r.version}
          put={put}
          form={(of) => <RoutingForm {...of} />}
          close={close}
        />
      )}
    >
      {(r) => (
        <>
          <Routes of={r} />
          <Receivers of={r} />
        </>
      )}
    </EditPage>
  );
}

/** What a site without a route is shown. */
const EXAMPLE = `receivers:
  - {name: oncall, by: {webhook: {url: https://hooks.example.org/m}}}
  - name: mail
    by: {smtp: {server: mail.example.org:587, from: muster@example.org, to: [ops@example.org]}}
routes:
  - match: {urgency: page}
    to: [oncall]
    escalate: [{after: 15m, to: [mail]}]`;

function Routes({ of: r }: { of: SiteRouting }) {
  const routes = r.routing.routes ?? [];
  return (
    <Panel title="Routes" note="in order">
      {routes.length === 0 ? (
        <Empty title="No route: no alert notifies anybody">
          <p>
            A receiver is where notifications go: a webhook, Slack, mail or an Alertmanager. A route says
            which alerts go to which receivers, and to whom after how long nobody has acknowledged them. Such
            as:
          </p>
          <pre className="log">{EXAMPLE}</pre>
          <p>
            The same in a file: <code>muster routing apply routing.yaml</code>.
          </p>
        </Empty>
      ) : (
        <Table
          label="Routes"
          cards
          heads={[num('No.'), 'Alerts', 'To', 'Escalation', 'Waits', 'Repeats', 'Then']}
        >
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
        </Table>
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
