// Manage pages as one token sees them: what it may not do is not there.
import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { type ComponentType, createElement } from 'react';
import { renderToStaticMarkup } from 'react-dom/server';
import { expect, test, vi } from 'vitest';
import type { Schemas } from '../api/client';

vi.stubGlobal('sessionStorage', { getItem: () => null });
vi.mock('../live/fleet', () => ({ useRevision: () => 0, useStanding: () => 'live' }));

const { FleetContext } = await import('../live/context');
const { BulkNodesPage } = await import('./bulk-nodes');
const { PolicyPage } = await import('./policy');
const { ProjectsPage } = await import('./projects');
const { QuotasPage } = await import('./quotas');
const { ReservationsPage } = await import('./reservations');
const { RoutingPage } = await import('./routing');
const { SilencesPage } = await import('./silences');
const { TokensPage } = await import('./tokens');
const { WhatIfPage } = await import('./whatif-page');

type Me = Schemas['WhoAmI'];
const me = (role: Me['role'], project: string | null = null): Me => ({
  name: 'user:ann',
  role,
  project,
  site: 's',
  token: 'tok1',
});

const at = '2030-01-31T12:00:00Z';
const night = {
  name: 'night',
  state: 'scheduled',
  version: 7,
  projects: ['nlp'],
  maintenance: false,
  reason: 'demo',
  over: { gpus: { count: 8 } },
  start: at,
  length: '10h',
  overrun: 'stop',
  lend: false,
  nodes: ['n1', 'n2', 'n3', 'n4', 'n5'],
  window: { start: at, end: '2030-01-31T22:00:00Z' },
};
const account = {
  project: 'nlp',
  quota: 'lab',
  used_milli: 8500,
  running: 2,
  waiting: 1,
  rank: 1,
  usage_gpu_s: 0,
};
const quotas = {
  version: 3,
  quotas: { tree: [{ name: 'lab', projects: ['nlp'] }] },
  report: { quotas: [], accounts: [account] },
};
const token = {
  id: 'tok1',
  name: 'ci',
  role: 'admin',
  state: 'valid',
  join: false,
  created_at: at,
  version: 1,
};
const route = {
  match: { kind: 'gpu-*' },
  to: ['chat'],
  escalate: [{ after: '15m', to: ['boss'] }],
  wait: '1m',
};
const receiver = { name: 'chat', by: { webhook: { url: 'http://chat.example/hook', sign: null } } };
const silence = {
  name: 'fans',
  state: 'active',
  match: { under: 'rack:r7' },
  silences: 2,
  by: 'user:bo',
  why: 'fans',
};

function show(what: ComponentType, who: Me, layout: object | null = null): string {
  const queries = new QueryClient();
  const known: [unknown[], unknown][] = [
    [['whoami'], who],
    [['reservations'], { items: [night] }],
    [['projects'], { items: [{ name: 'nlp', description: 'words' }] }],
    [['quotas'], quotas],
    [['policy'], { version: 5, policy: { backfill: { mode: 'easy' }, limits: {} } }],
    [['slo', 'routing'], { version: 5, routing: { receivers: [receiver], routes: [route] } }],
    [['slo', 'receivers'], { items: [] }],
    [['slo', 'silences'], { items: [silence, { ...silence, name: 'old', state: 'over' }] }],
    [['tokens'], { items: [token] }],
  ];
  for (const [key, data] of known) queries.setQueryData(key, data);
  const fleet = { byName: new Map(), columns: null, layout } as never;
  const inside = createElement(FleetContext.Provider, { value: fleet }, createElement(what));
  return renderToStaticMarkup(createElement(QueryClientProvider, { client: queries }, inside));
}

test('reservations are changed by operators of the site, and seen by all', () => {
  for (const who of [me('viewer'), me('user', 'nlp'), me('operator', 'nlp')]) {
    const text = show(ReservationsPage, who);
    expect(text).toContain('night');
    for (const no of ['New reservation', '>Edit<', '>Delete<', 'Drag to choose'])
      expect(text).not.toContain(no);
  }
  const text = show(ReservationsPage, me('operator'));
  for (const yes of [
    'New reservation',
    'New maintenance window',
    'Edit night',
    'Delete night',
    'Drag to choose',
  ])
    expect(text).toContain(yes);
  expect(text).toContain('n1, n2, n3, n4, 1 more');
});

test('documents are seen by those who may read them, and changed by admins', () => {
  const pages: [ComponentType, string, string][] = [
    [QuotasPage, 'Edit quotas', '8.5'],
    [PolicyPage, '>Edit<', 'mode: easy'],
    [RoutingPage, '>Edit<', 'webhook http://chat.example/hook'],
    [ProjectsPage, 'New project', 'nlp'],
  ];
  for (const [what, button, seen] of pages) {
    const operator = show(what, me('operator'));
    expect(operator).toContain(seen);
    expect(operator).not.toContain(button);
    expect(show(what, me('admin'))).toContain(button);
  }
});

test('a route says whom it notifies and how it goes on', () => {
  const text = show(RoutingPage, me('operator'));
  for (const words of ['kind gpu-*', 'after 15m: boss', 'no later route']) expect(text).toContain(words);
});

test('silences that are over are not listed', () => {
  const text = show(SilencesPage, me('operator'));
  expect(text).toContain('End fans');
  expect(text).not.toContain('End old');
  const seen = show(SilencesPage, me('viewer'));
  expect(seen).toContain('fans');
  for (const no of ['End fans', 'New silence']) expect(seen).not.toContain(no);
});

test('the token of the session is marked', () => {
  const text = show(TokensPage, me('admin'));
  expect(text).toContain('(this session)');
  expect(text).toContain('Revoke ci tok1');
  expect(text).toContain('Last used');
  expect(text).toContain('<td data-l="last used">unknown</td>');
  expect(show(TokensPage, me('operator'))).not.toContain('New token');
});

test('nodes are chosen by the rack, and nothing is done without one', () => {
  const rack = { region: 'eu', cluster: 'c1', spine: 's1', leaf: 'l1', rack: 'r1', feed: 'A' };
  const layout = {
    racks: [rack],
    nodes: [{ name: 'n1', gpus: 8, rack: 0 }],
    skus: [],
    states: [],
    version: 1,
  };
  const text = show(BulkNodesPage, me('operator'), layout);
  expect(text).toContain('eu/c1/s1/l1/r1 (1)');
  expect(show(BulkNodesPage, me('viewer'), layout)).not.toContain('<button');
  for (const verb of ['Cordon', 'Uncordon', 'Drain', 'Undrain', 'Qualify'])
    expect(text).toMatch(new RegExp(`<button type="button" disabled="">${verb}<`));
});

test('a change is simulated by operators of the site', () => {
  const text = show(WhatIfPage, me('operator'));
  for (const yes of ['>Simulate<', 'muster whatif --from server --change nodes=+8', 'No what-if yet'])
    expect(text).toContain(yes);
  for (const who of [me('viewer'), me('operator', 'nlp')]) {
    const seen = show(WhatIfPage, who);
    expect(seen).toContain('Not for this token');
    expect(seen).not.toContain('<button');
  }
});
