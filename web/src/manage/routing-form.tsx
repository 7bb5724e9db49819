import { useQuery } from '@tanstack/react-query';
import { useId } from 'react';
import { secretsOf } from '../queries';
import { Options } from '../ui/options';
import { Panel } from '../ui/parts';
import { type Document, valueAt, withValue } from './document';
import type { FormOf } from './document-editor';
import { isAt, refusalWords } from './errors';
import { CheckField, FieldProblem, NameChoices, SelectField, TextField } from './field';
import { Items } from './items';
import { listAt, words } from './lists';
import { MatcherFields } from './matcher-fields';
import {
  CHANNELS,
  channelOf,
  emptyChannel,
  receiverNames,
  routeWords,
  withChannel,
  withReceiver,
} from './routes';

/** The project whose secrets receivers name. */
const SECRETS_OF = 'operators';

/** What alerts are put into one message by. */
const GROUP_BY: Record<string, string> = {
  alert: 'alert: each in a message of its own',
  urgency: 'urgency',
  topic: 'topic',
  kind: 'kind',
  owner: 'owner',
  project: 'project',
};

/** What the server refuses at a path of the document. */
type At = (path: string) => string | null;

/** Receivers and routes, one by one. What they do not show stays as it is. */
export function RoutingForm({ document, change, error }: FormOf) {
  const receivers = listAt(document, 'receivers');
  const routes = listAt(document, 'routes');
  const at: At = (path) => (isAt(error, path) ? refusalWords(error) : null);
  const names = receiverNames(document);
  return (
    <Panel title="Receivers and routes" note="the same document as the text below">
      <div className="body">
        {receivers === null || routes === null ? (
          <p className="field-problem" role="alert">
            The text has something else than lists of receivers and routes: correct it there.
          </p>
        ) : (
          <>
            <Items
              legend="Receivers"
              items={receivers}
              name={(r, i) => `receiver ${r.name || i + 1}`}
              words={(r) => `${r.name || 'without a name'}: ${channelOf(r).kind}`}
              none="No receiver yet: routes have nobody to notify."
              add="Add a receiver"
              empty={(): Document => ({ name: '', by: emptyChannel('webhook') })}
              problem={(i) => at(`receivers[${i}]`)}
              change={(next) => change({ ...document, receivers: next })}
              form={(receiver, i) => (
                <ReceiverFields
                  receiver={receiver}
                  at={(path) => at(`receivers[${i}].${path}`)}
                  set={(next) => change(withReceiver(document, i, next))}
                />
              )}
            />
            <Items
              legend="Routes, in order"
              about="An alert goes to the first that matches, and to those after it where that one says so."
              items={routes}
              name={(_, i) => `route ${i + 1}`}
              words={routeWords}
              none="No route: no alert notifies anybody."
              add="Add a route"
              empty={(): Document => ({ match: {}, to: names.slice(0, 1) })}
              ordered
              problem={(i) => at(`routes[${i}]`)}
              change={(next) => change({ ...document, routes: next })}
              form={(route, i, set) => (
                <RouteFields
                  route={route}
                  names={names}
                  at={(path) => at(`routes[${i}].${path}`)}
                  set={set}
                />
              )}
            />
          </>
        )}
      </div>
    </Panel>
  );
}

function ReceiverFields({
  receiver,
  at,
  set,
}: {
  receiver: Document;
  at: At;
  set: (receiver: Document) => void;
}) {
  const { kind, of } = channelOf(receiver);
  const known = useQuery(secretsOf(SECRETS_OF));
  const secrets = useId();
  return (
    <>
      <TextField
        label="Name of the receiver"
        hint="Routes name it by this, and follow when it changes."
        problem={at('name')}
        maxLength={128}
        autoComplete="off"
        value={String(receiver.name ?? '')}
        onChange={(e) => set({ ...receiver, name: e.target.value })}
      />
      <SelectField
        label="Reached by"
        problem={CHANNELS[kind] ? null : at('by')}
        value={kind}
        onChange={(e) => set({ ...receiver, by: emptyChannel(e.target.value) })}
      >
        {Object.entries(CHANNELS).map(([value, { word }]) => (
          <option key={value} value={value}>
            {word}
          </option>
        ))}
        {!CHANNELS[kind] && <option>{kind}</option>}
      </SelectField>
      {CHANNELS[kind]?.fields.map((field) => (
        <TextField
          key={field.key}
          label={field.label}
          hint={
            field.kind === 'secret' ? `${field.help} Name of a secret of project ${SECRETS_OF}.` : field.help
          }
          problem={at(`by.${kind}.${field.key}`)}
          list={field.kind === 'secret' ? secrets : undefined}
          autoComplete="off"
          value={words(of[field.key]).join(', ')}
          onChange={(e) => set(withChannel(receiver, field, e.target.value))}
        />
      ))}
      <datalist id={secrets}>
        <Options of={known.data?.items.map((s) => s.name)} />
      </datalist>
      <CheckField
        label="Notified of the end, too"
        hint="When an alert is over. Default: on."
        problem={at('resolved')}
        checked={receiver.resolved !== false}
        onChange={(e) => set({ ...receiver, resolved: e.target.checked })}
      />
    </>
  );
}

function RouteFields({
  route,
  names,
  at,
  set,
}: {
  route: Document;
  /** Of the receivers. */
  names: readonly string[];
  at: At;
  set: (route: Document) => void;
}) {
  const text = (path: string) => ({
    value: String(valueAt(route, path) ?? ''),
    onChange: (e: { target: { value: string } }) => set(withValue(route, path, e.target.value || undefined)),
    problem: at(path),
  });
  const grouped = words(route.group_by ?? ['alert']);
  const escalate = listAt(route, 'escalate') ?? [];
  return (
    <>
      <MatcherFields typed={(key) => text(`match.${key}`)} />
      <NameChoices
        legend="Receivers that are notified"
        of={names}
        chosen={words(route.to)}
        change={(to) => set({ ...route, to })}
        problem={at('to')}
      />
      <TextField
        label="Sent after"
        hint="What is over by then is not sent; at most 1h. Default: 30s."
        placeholder="30s"
        {...text('wait')}
      />
      <TextField
        label="Repeated every"
        hint="While nobody acknowledges it; at least 1m. Default: 4h."
        placeholder="4h"
        {...text('repeat')}
      />
      <fieldset className="choices whole">
        <legend>Alerts that have these in common are one message</legend>
        {Object.entries(GROUP_BY).map(([value, word]) => (
          <label key={value}>
            <input
              type="checkbox"
              checked={grouped.includes(value)}
              onChange={(e) => {
                const rest = grouped.filter((g) => g !== value);
                set({ ...route, group_by: e.target.checked ? [...rest, value] : rest });
              }}
            />{' '}
            {word}
          </label>
        ))}
        <FieldProblem text={at('group_by')} />
      </fieldset>
      <Items
        legend="Who else, when nobody acknowledges it"
        items={escalate}
        name={(_, i) => `escalation ${i + 1}`}
        words={(e) => `after ${e.after || '?'}: ${words(e.to).join(', ') || 'nobody'}`}
        none="Default: nobody."
        add="Add an escalation"
        empty={(): Document => ({ after: '15m', to: [] })}
        problem={(i) => at(`escalate[${i}]`)}
        change={(next) => set({ ...route, escalate: next.length > 0 ? next : undefined })}
        form={(step, i, put) => (
          <>
            <TextField
              label="After"
              hint="Counted from the first notification, such as 15m; in order of time."
              problem={at(`escalate[${i}].after`)}
              value={String(step.after ?? '')}
              onChange={(e) => put({ ...step, after: e.target.value })}
            />
            <NameChoices
              legend="Receivers that are notified then"
              of={names}
              chosen={words(step.to)}
              change={(to) => put({ ...step, to })}
              problem={at(`escalate[${i}].to`)}
            />
          </>
        )}
      />
      <CheckField
        label="Later routes count, too"
        hint="Default: off."
        problem={at('go_on')}
        checked={route.go_on === true}
        onChange={(e) => set(withValue(route, 'go_on', e.target.checked || undefined))}
      />
    </>
  );
}
