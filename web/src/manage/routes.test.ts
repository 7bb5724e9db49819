import { expect, test } from 'vitest';
import description from '../../../crates/http/openapi.json?raw';
import { listAt, moved, replaced, without } from './lists';
import {
  CHANNELS,
  channelOf,
  emptyChannel,
  receiverNames,
  routeWords,
  withChannel,
  withReceiver,
} from './routes';

const { schemas } = JSON.parse(description).components;

const chat = { name: 'chat', by: { webhook: { url: 'http://c.example/' } } };
const mail = { name: 'mail', by: { smtp: { server: 's', from: 'a@b', to: ['c@d', 'e@f'] } } };
const document = {
  receivers: [chat, mail],
  routes: [{ match: { urgency: 'page' }, to: ['chat'], escalate: [{ after: '5m', to: ['mail', 'chat'] }] }],
};

test('a receiver can be reached in each way that the server knows, with all that this takes', () => {
  const known = schemas.Channel.oneOf.map((one: { properties: object }) => {
    const [kind, of] = Object.entries(one.properties)[0]!;
    const needed = of.required as string[];
    return [kind, Object.keys(of.properties).map((key) => [key, !needed.includes(key)])];
  });
  const offered = Object.entries(CHANNELS).map(([kind, { fields }]) => [
    kind,
    fields.map((f) => [f.key, f.optional === true]),
  ]);
  const byKey = (list: [string, [string, boolean][]][]) =>
    Object.fromEntries(list.map(([kind, fields]) => [kind, Object.fromEntries(fields)]));
  expect(byKey(offered as never)).toEqual(byKey(known));
});

test('a channel is changed without losing the rest, and what is empty is left out where it may be', () => {
  const [address, sign] = CHANNELS.webhook!.fields;
  const signed = withChannel(chat, sign!, 'key');
  expect(channelOf(signed)).toEqual({ kind: 'webhook', of: { url: 'http://c.example/', sign: 'key' } });
  expect(withChannel(signed, sign!, '')).toEqual(chat);
  expect(channelOf(withChannel(chat, address!, '')).of).toEqual({ url: '' });
  const to = CHANNELS.smtp!.fields.find((f) => f.key === 'to')!;
  expect(channelOf(withChannel(mail, to, 'x@y, z@y')).of.to).toEqual(['x@y', 'z@y']);
  expect(emptyChannel('smtp')).toEqual({ smtp: { server: '', from: '', to: [] } });
  expect(channelOf({ name: 'x' })).toEqual({ kind: 'webhook', of: {} });
});

test('routes follow a receiver that gets another name', () => {
  const next = withReceiver(document, 0, { ...chat, name: 'room' });
  expect(receiverNames(next)).toEqual(['room', 'mail']);
  expect(next.routes).toEqual([
    { match: { urgency: 'page' }, to: ['room'], escalate: [{ after: '5m', to: ['mail', 'room'] }] },
  ]);
  // Another value alone changes no route.
  expect(withReceiver(document, 0, { ...chat, resolved: false }).routes).toBe(document.routes);
});

test('a name that another receiver has takes no routes with it', () => {
  const twice = withReceiver(document, 0, { ...chat, name: 'mail' });
  expect(twice.routes).toBe(document.routes);
  // And back out of it neither: it is not known whose they are.
  expect(withReceiver(twice, 0, { ...chat, name: 'mails' }).routes).toBe(document.routes);
});

test('a route is said in a line', () => {
  expect(routeWords(document.routes[0]!)).toBe('urgency page: to chat');
  expect(routeWords({ go_on: true })).toBe('all alerts: to nobody, and later routes');
});

test('lists are changed one by one; what is no list is known', () => {
  expect(listAt({}, 'routes')).toEqual([]);
  expect(listAt({ routes: 5 }, 'routes')).toBe(null);
  expect(listAt({ routes: ['x'] }, 'routes')).toBe(null);
  expect(replaced([1, 2, 3], 1, 9)).toEqual([1, 9, 3]);
  expect(without([1, 2, 3], 1)).toEqual([1, 3]);
  expect(moved([1, 2, 3], 2, 1)).toEqual([1, 3, 2]);
  expect(moved([1, 2, 3], 0, -1)).toEqual([1, 2, 3]);
  expect(moved([1, 2, 3], 2, 3)).toEqual([1, 2, 3]);
});
