// Receivers and routes as the form of the routing changes them. No React here.
import type { Document } from './document';
import { listAt, replaced, words } from './lists';
import { type Matcher, matchWords } from './silence';

export interface ChannelField {
  key: string;
  label: string;
  help: string;
  kind: 'text' | 'secret' | 'list';
  /** It may be empty. */
  optional?: boolean;
}

const url = (help: string): ChannelField => ({ key: 'url', label: 'Address', help, kind: 'text' });

/** How a receiver can be reached, and what that needs. */
export const CHANNELS: Record<string, { word: string; fields: ChannelField[] }> = {
  webhook: {
    word: 'webhook: JSON to any address',
    fields: [
      url('Where to, such as https://hooks.example.org/m.'),
      {
        key: 'sign',
        label: 'Secret for the signature',
        help: 'Its body is signed with it (HMAC-SHA-256). Empty: not signed.',
        kind: 'secret',
        optional: true,
      },
    ],
  },
  slack: {
    word: 'slack: an address that takes Slack’s messages',
    fields: [
      {
        key: 'url_secret',
        label: 'Secret with the address',
        help: 'The address is in the secret.',
        kind: 'secret',
      },
    ],
  },
  smtp: {
    word: 'smtp: mail',
    fields: [
      {
        key: 'server',
        label: 'Mail server',
        help: 'Host and port, such as mail.example.org:587.',
        kind: 'text',
      },
      { key: 'from', label: 'From', help: 'The address it is sent from.', kind: 'text' },
      { key: 'to', label: 'Mail to', help: 'Addresses, separated by commas.', kind: 'list' },
      { key: 'user', label: 'User', help: 'Name to log in with. Empty: none.', kind: 'text', optional: true },
      {
        key: 'password_secret',
        label: 'Secret with the password',
        help: 'Empty: no password.',
        kind: 'secret',
        optional: true,
      },
    ],
  },
  alertmanager: {
    word: 'alertmanager: an Alertmanager',
    fields: [url('Such as http://alertmanager:9093.')],
  },
};

/** The channel of a receiver and what is set of it; the first of all where the text has none that is known. */
export function channelOf(receiver: Document): { kind: string; of: Document } {
  const by = receiver.by;
  const found = typeof by === 'object' && by !== null ? Object.entries(by)[0] : undefined;
  const [kind, of] = found ?? ['webhook', {}];
  return { kind, of: typeof of === 'object' && of !== null && !Array.isArray(of) ? (of as Document) : {} };
}

/** What a channel begins with: what it needs, empty, so that the server names what is missing. */
export function emptyChannel(kind: string): Document {
  const needed = CHANNELS[kind]?.fields.filter((f) => !f.optional) ?? [];
  return { [kind]: Object.fromEntries(needed.map((f) => [f.key, f.kind === 'list' ? [] : ''])) };
}

/** A receiver with another value of its channel; without what may be empty and is. */
export function withChannel(receiver: Document, field: ChannelField, typed: string): Document {
  const { kind, of } = channelOf(receiver);
  const next = { ...of };
  if (typed === '' && field.optional) delete next[field.key];
  else next[field.key] = field.kind === 'list' ? typed.split(',').map((t) => t.trim()) : typed;
  return { ...receiver, by: { [kind]: next } };
}

/** The names that routes may send to. */
export const receiverNames = (document: Document): string[] => [
  ...new Set((listAt(document, 'receivers') ?? []).map((r) => String(r.name ?? '')).filter(Boolean)),
];

/**
 * The routing with another receiver in the place of one. Where only its name is another, and no other receiver has or
 * gets it, routes that notify it follow.
 */
export function withReceiver(document: Document, at: number, next: Document): Document {
  const list = listAt(document, 'receivers') ?? [];
  const before = String(list[at]?.name ?? '');
  const name = String(next.name ?? '');
  const receivers = replaced(list, at, next);
  const taken = (n: string) => list.some((r, i) => i !== at && String(r.name ?? '') === n);
  const routes = listAt(document, 'routes');
  if (before === name || !routes || taken(before) || taken(name)) return { ...document, receivers };
  const follow = (to: unknown) => words(to).map((n) => (n === before ? name : n));
  const renamed = routes.map((r) => ({
    ...r,
    ...(r.to === undefined ? {} : { to: follow(r.to) }),
    ...(listAt(r, 'escalate')?.length
      ? { escalate: listAt(r, 'escalate')?.map((e) => ({ ...e, to: follow(e.to) })) }
      : {}),
  }));
  return { ...document, receivers, routes: renamed };
}

/** `urgency page: to oncall, chat`, in a line. */
export function routeWords(route: Document): string {
  const match =
    typeof route.match === 'object' && route.match !== null ? (route.match as Partial<Matcher>) : {};
  const to = words(route.to).join(', ') || 'nobody';
  return `${matchWords(match, 'all alerts')}: to ${to}${route.go_on === true ? ', and later routes' : ''}`;
}
