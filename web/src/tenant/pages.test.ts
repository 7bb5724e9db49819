// The pages of one project as their tokens see them. Answers are those that the server gives to such a token.
import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { type ComponentType, createElement } from 'react';
import { renderToStaticMarkup } from 'react-dom/server';
import { expect, test, vi } from 'vitest';
import type { Schemas } from '../api/client';

vi.stubGlobal('sessionStorage', { getItem: () => null });
const address = vi.hoisted(() => ({ search: {} as object }));
vi.mock('@tanstack/react-router', async () => {
  const { createElement } = await import('react');
  return {
    Link: (p: { children: never; className?: string }) =>
      createElement('a', { className: p.className }, p.children),
    useNavigate: () => () => {},
    useParams: () => ({}),
    useSearch: () => address.search,
  };
});
vi.mock('../ui/theme', () => ({ useTheme: () => 'dark' }));
vi.mock('../ui/brand', () => ({ useBrand: () => ({ name: 'Muster' }) }));
vi.mock('../ui/virtual', () => ({ Rows: () => null }));
const connection = vi.hoisted(() => ({ standing: 'live' }));
vi.mock('../live/fleet', () => ({ useRevision: () => 0, useStanding: () => connection.standing }));

const { FleetContext } = await import('../live/context');
const { StatusPage } = await import('./status');
const { UsagePage } = await import('./usage');
const { WorkPage } = await import('./work');

type Me = Schemas['WhoAmI'];
type Known = [unknown[], unknown][];
const tenant: Me = { name: 'user:ann', role: 'user', project: 'nlp', site: 's' };
const viewer: Me = { ...tenant, role: 'viewer' };
const operator: Me = { name: 'user:op', role: 'operator', project: null, site: 's' };

const at = '2030-01-31T00:00:00Z';
const ON_NODES = 'starting,running,stopping';
const none = { items: [], cursor: null };
const health = { state: 'well', reasons: [], nodes: { ready: 15, drained: 1 }, waiting: [] };
const limit = {
  sku: 'h100',
  nominal_milli: 16_000,
  owned_milli: 16_000,
  used_milli: 12_000,
  borrowed_milli: 0,
  borrow_milli: 0,
  left_milli: 4_000,
};
const report = {
  quotas: [{ name: 'lab', projects: ['nlp'], limits: [limit], depth: 0 }],
  accounts: [{ project: 'nlp', user: null, used_milli: 12_000, running: 3, waiting: 1 }],
};
const jobs = {
  submitted: 4,
  succeeded: 2,
  succeeded_first: 2,
  cancelled: 0,
  failed: { application: 1, infrastructure: 1, platform: 0, unknown: 0 },
};
const total = {
  jobs,
  interruptions: { application: 0, infrastructure: 1, platform: 0, unknown: 0 },
  allocated_gpu_seconds: 360_000,
  restarting_waiting_gpu_seconds: 0,
  gpu_seconds: {
    productive: 288_000,
    lost: 36_000,
    restarting: 0,
    idle: 36_000,
    starting: 0,
    checkpointing: 0,
    queued: 0,
  },
  goodput: 0.8,
};
const cause = {
  id: 'node:n1',
  kind: 'qualification-failed',
  title: 'A node failed its test',
  entity: 'node:n1',
  summary: 's',
  severity: 'critical',
  urgency: null,
  since: at,
  alerts: [],
  incidents: [],
  breakers: [],
  findings: [],
  findings_open: 0,
  pending: [],
  pending_jobs: [],
  pending_jobs_count: 0,
  remediations: [],
  nodes: ['n1'],
  nodes_count: 1,
  projects: [],
  jobs: [],
  jobs_affected: 0,
  runbook: null,
};
const usage = {
  from: '2030-01-24T00:00:00Z',
  to: at,
  since: '2030-01-01T00:00:00Z',
  complete: true,
  step: 'hour',
  project: 'nlp',
  rows: [{ ...total, from: '2030-01-30T23:00:00Z', to: at }],
  total,
  projects: [],
  inventory: [],
};
const job = {
  id: '7',
  name: 'train',
  state: 'queued',
  user: 'ann',
  project: 'nlp',
  groups: [{ nodes: 2, gpus: 8, cpus: 0 }],
  past: [],
  spec: {},
  submitted_at: at,
  waiting: 'waits for free capacity; `muster explain 7` says more',
};

function show(what: ComponentType, me: Me, more: Known = []): string {
  const queries = new QueryClient();
  const known: Known = [
    [['whoami'], me],
    [['health', 'summary'], health],
    [['quotas'], { report }],
    [['report', 7], usage],
    [['causes'], { items: [], count: 0 }],
    [['reservations'], none],
    [['slo', 'list'], none],
    ...more,
  ];
  for (const [key, data] of known) queries.setQueryData(key, data);
  const fleet = { layout: null } as never;
  const inside = createElement(FleetContext.Provider, { value: fleet }, createElement(what));
  return renderToStaticMarkup(createElement(QueryClientProvider, { client: queries }, inside));
}

const lists = (user: string | null, running: object[], waiting: object[], over: object[]): Known => [
  [['work', ON_NODES, user], { items: running, cursor: null }],
  [['work', 'queued', user], { items: waiting.filter((j) => !('held' in j && j.held)), cursor: null }],
  [['work', 'held', user], { items: waiting.filter((j) => 'held' in j && j.held), cursor: null }],
  [['work', 'ended', user], { items: over, cursor: null }],
];

test('what the end of the last attempt cost is read by the number of that attempt', () => {
  const past = [{ no: 1, started_at: at, ended_at: at, reason: 'node n1 was lost' }];
  const attempts = [{ no: 1, checkpoints: 0, lost_estimated: false, time_ms: { lost: 3_600_000 } }];
  const known: Known = [[['lost', '7', 1], { attempts }]];
  const text = show(WorkPage, tenant, [...lists('ann', [], [{ ...job, past }], []), ...known]);
  expect(text).toContain('that attempt reported no checkpoint');
});

test('who has no jobs yet is taught the first command, with the project in it', () => {
  const text = show(WorkPage, tenant, lists('ann', [], [], []));
  expect(text).toContain('muster run --project nlp --gpus 1 --');
  expect(text).toContain('Your first job');
  // Others of the project have jobs: they are one click away.
  expect(text).toContain('4 active jobs');
  expect(text).not.toContain('<h2>Running</h2>');
  const seen = show(WorkPage, viewer, lists(null, [], [], []));
  expect(seen).toContain('This token may not submit jobs');
  expect(seen).not.toContain('muster run');
  expect(seen).not.toContain('Submit a job');
});

test('a job that waits says why and when it starts, one that ended why and what is next', () => {
  const failed = {
    ...job,
    id: '6',
    state: 'failed',
    exit_code: 1,
    reason: 'rank 0 exited with code 1 on n1',
    ended_at: at,
  };
  const explained = {
    summary: 'needs 2 nodes of 8 GPUs; 1 is free',
    possible: true,
    estimated_start: { at: '2030-01-31T06:00:00Z', earliest: '2030-01-31T05:00:00Z', basis: 'time limits' },
    suggestions: ['ask for 1 node'],
  };
  const known: Known = [
    ...lists('ann', [{ ...job, id: '8', state: 'running' }], [job], [failed]),
    [['work', 'explain', '7'], explained],
  ];
  const text = show(WorkPage, tenant, known);
  expect(text).toContain('needs 2 nodes of 8 GPUs; 1 is free');
  expect(text).toContain('Expected to start between');
  expect(text).toContain('Sooner: ask for 1 node');
  expect(text).toContain('rank 0 exited with code 1 on n1');
  expect(text).toContain('last lines of its output');
  expect(text).toContain('12 GPUs used, 16 owned');
  expect(text).toContain('100</b> GPU-hours');
  expect(text).toContain('10.0 %');
  // One thing to do on this page.
  expect(text.match(/class="button"/g)).toHaveLength(1);
  const held = show(WorkPage, tenant, lists('ann', [], [{ ...job, held: 'user:ann' }], []));
  expect(held).toContain('after somebody releases it');
  expect(held).toContain('No job of yours runs');
  // It is counted apart from what waits.
  expect(held).toContain('No job of yours waits');
  expect(held).toContain('>Held<');
});

test('the address chooses the jobs of the whole project', () => {
  address.search = { of: 'project' };
  const text = show(WorkPage, tenant, lists(null, [{ ...job, state: 'running', name: 'of-bo' }], [], []));
  address.search = {};
  expect(text).toContain('of-bo');
  expect(text).toContain('No job of nlp waits');
});

test('the status is that of the project, and is not called well when nobody answers', () => {
  const text = show(StatusPage, tenant);
  expect(text).toContain('No problem is open about jobs of nlp');
  expect(text).toContain('15 of 16 ready; 1 drained');
  expect(text).toContain('Not shown to this token');
  expect(text).toContain('Nothing is planned');
  const reasons = ['the operators of this site were paged'];
  const attention = { ...health, state: 'attention', reasons };
  const paged = show(StatusPage, tenant, [[['health', 'summary'], attention]]);
  expect(paged).toContain('The operators of this site were paged.');
  expect(paged).not.toContain('word ok');
  // What this token is not shown is not said to be absent.
  const finding = { id: '1', kind: 'k', entity: 'node:n1', severity: 'critical', opened_at: at, count: 1 };
  const open = { ...cause, findings: [finding], findings_open: 1 };
  const hidden = show(StatusPage, tenant, [[['causes'], { items: [open], count: 1 }]]);
  expect(hidden).toContain('A node failed its test');
  expect(hidden).not.toContain('No remediation');
  // It affects none of its jobs.
  expect(hidden).toContain('<span class="word plain">critical</span>');
  expect(hidden).toContain('no job affected');
  connection.standing = 'away';
  const away = show(StatusPage, tenant);
  const line = show(WorkPage, tenant, lists('ann', [], [], []));
  connection.standing = 'live';
  for (const old of [away, line]) {
    expect(old).toContain('status not known');
    expect(old).not.toContain('class="word ok"');
  }
});

test('a ticket about a job of the project is a problem', () => {
  const ticket = show(WorkPage, tenant, [...lists('ann', [], [], []), [['causes'], { items: [], count: 2 }]]);
  expect(ticket).toContain('2 problems are open about jobs of nlp');
  expect(ticket).not.toContain('word ok');
});

test('who may not submit is not asked to clone or requeue', () => {
  const over = [{ ...job, state: 'failed', exit_code: 1, ended_at: at }];
  expect(show(WorkPage, viewer, lists(null, [], [], over))).not.toContain('clone');
  expect(show(WorkPage, tenant, lists('ann', [], [], over))).toContain('clone');
});

test('what was read last is not called all that ended lately', () => {
  const known = lists('ann', [], [], [{ ...job, state: 'succeeded', ended_at: at }]);
  known[3][1] = { ...(known[3][1] as object), cursor: 'c' };
  expect(show(WorkPage, tenant, known)).toContain('of the 50 submitted last');
});

test('usage is split into what it was for, and says when there was none', () => {
  const text = show(UsagePage, tenant);
  for (const word of ['useful', 'lost to failures', 'idle', '80.0 %']) expect(text).toContain(word);
  expect(text).toContain('<dt>failed by the site</dt><dd>1</dd>');
  const nothing = { ...total, allocated_gpu_seconds: 0, jobs: { ...jobs, submitted: 0 } };
  const empty = show(UsagePage, tenant, [[['report', 7], { ...usage, total: nothing }]]);
  expect(empty).toContain('No GPU was allocated to nlp in this time');
  const early = { ...usage, total: nothing, complete: false };
  for (const page of [UsagePage, WorkPage])
    expect(show(page, tenant, [[['report', 7], early]])).toContain('the log is still being read');
});

test('who sees the whole site is sent to the pages of the site', () => {
  for (const page of [WorkPage, UsagePage, StatusPage])
    expect(show(page, operator)).toContain('This page is for tokens that are bound to a project');
});

test('the status page says which attempt a node has ended, and the dates of what is planned', () => {
  const hit = { ...cause, nodes: ['n1'], findings: [], ended_attempts: ['7.1'], ended_attempts_count: 1 };
  const window = { start: '2030-02-19T14:00:00Z', end: '2030-02-19T18:00:00Z' };
  const text = show(StatusPage, tenant, [
    [['causes'], { items: [hit], count: 1 }],
    [
      ['reservations'],
      {
        items: [{ name: 'swap', state: 'planned', maintenance: true, nodes: ['n1'], window, start: at }],
        cursor: null,
      },
    ],
  ]);
  expect(text).toContain('It ended attempt 1 of your job 7. No job is affected now.');
  expect(text).toMatch(/\d+ Feb 2030 \d\d:\d\d<\/time> to <time/);
});
