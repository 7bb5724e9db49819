// Pages as one token sees them: what the server hides from it is never shown as absent, and what it may
// not do is not offered. Answers are those that the server gives to such a token.
import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { type ComponentType, createElement } from 'react';
import { renderToStaticMarkup } from 'react-dom/server';
import { expect, test, vi } from 'vitest';
import type { Schemas } from '../api/client';

vi.stubGlobal('sessionStorage', { getItem: () => null });
vi.mock('@tanstack/react-router', async () => {
  const { createElement } = await import('react');
  return {
    Link: (p: { children: never }) => createElement('a', null, p.children),
    useNavigate: () => () => {},
    useParams: () => ({ name: 'n1', id: '7', gpu: '0' }),
    useSearch: () => ({}),
  };
});
vi.mock('../ui/theme', () => ({ useTheme: () => 'dark' }));
vi.mock('../ui/brand', () => ({ useBrand: () => ({ name: 'Muster' }) }));
vi.mock('../ui/chart', () => ({ Chart: () => null }));
vi.mock('../ui/virtual', async () => {
  const { createElement } = await import('react');
  return {
    Rows: (p: { items: never[]; row: (item: never) => never }) =>
      createElement('section', null, ...p.items.map(p.row)),
  };
});
const connection = vi.hoisted(() => ({ standing: 'live' }));
vi.mock('../live/fleet', () => ({ useRevision: () => 0, useStanding: () => connection.standing }));

const { FleetContext } = await import('../live/context');
const { pageWords } = await import('./incident');
const { ReservationsPage } = await import('../manage/reservations');
const { SlosPage } = await import('./slos');
const { ExecutivePage } = await import('./executive');
const { NodePage } = await import('./node');
const { drainWords } = await import('../nodes/offers');
const { GpuChoice } = await import('../nodes/actions');
const { FindingPage } = await import('./finding');
const { GpuPage } = await import('./gpu');
const { NodesPage } = await import('./nodes');
const { RunbookPage, RunbookRunPage, RunbooksPage } = await import('./runbooks');
const { JobPage, recoveryWords, Times } = await import('./job');
const { momentWord } = await import('../ui/zone');

type Me = Schemas['WhoAmI'];
const tenant: Me = { name: 'user:ann', role: 'user', project: 'team-a', site: 's' };
const operator: Me = { name: 'user:op', role: 'operator', project: null, site: 's' };
const viewer: Me = { name: 'user:eve', role: 'viewer', project: null, site: 's' };

const page = { items: [], cursor: null };
const health = {
  state: 'well',
  reasons: [],
  findings: [],
  waiting: [],
  incidents: [],
  breakers: [],
  automation: null,
  nodes: {},
};
/** Actions that the server says the node takes. */
const takes = (...actions: string[]) =>
  actions.map((action) => ({ action, refused: null, ...(/clude$/.test(action) && { gpus: [0] }) }));
const node = {
  name: 'n1',
  actions: takes('cordon', 'drain', 'qualify', 'exclude'),
  state: 'ready',
  location: { region: 'r', cluster: 'c', spine: 's', leaf: 'l', rack: 'k', nvlink: 'n1', feed: 'a' },
  jobs: [],
  findings: [],
  gpus_excluded: [],
  inventory: { kernel: '', versions: {}, gpus: [] },
  agent: null,
  qualified: null,
  hazard: 0,
};
const job = {
  id: '7',
  name: 'train',
  state: 'failed',
  past: [],
  preemptions: 0,
  groups: [],
  spec: {},
  submitted_at: '2030-01-31T00:00:00Z',
};

function show(what: ComponentType, me: Me | undefined, more: [unknown[], unknown][] = []): string {
  const queries = new QueryClient();
  const known: [unknown[], unknown][] = [
    [['whoami'], me],
    [['health', 'summary'], health],
    [['slo', 'alerts'], page],
    [['slo', 'list'], page],
    [['slo', 'silences'], page],
    [['slo', 'receivers'], page],
    [['jobs', 'one', '7'], job],
    [['node', 'n1'], node],
    [['node', 'n1', 'timeline'], page],
    [['telemetry', 'n1'], { rows: [], gpu_columns: [] }],
    ...more,
  ];
  for (const [key, data] of known) if (data !== undefined) queries.setQueryData(key, data);
  const fleet = { byName: new Map(), columns: null, layout: null } as never;
  const inside = createElement(FleetContext.Provider, { value: fleet }, createElement(what));
  return renderToStaticMarkup(createElement(QueryClientProvider, { client: queries }, inside));
}

test('a token is not asked for figures of a node on which its project holds nothing', () => {
  const on = (jobs: object[]) => show(NodePage, tenant, [[['node', 'n1'], { ...node, jobs }]]);
  const job = { name: 'train', project: 'team-a', state: 'running', gpus: [2, 3] };
  for (const jobs of [[], [{ ...job, id: "another project's" }], [{ ...job, id: '7', gpus: [] }]])
    expect(on(jobs)).toContain('team-a has no GPU here');
  // Nor for their history, which says so.
  expect(on([])).toContain('<h2>No data</h2>');
  expect(on([{ ...job, id: '7' }])).not.toContain('<h2>No data</h2>');
  expect(on([{ ...job, id: '7' }])).toContain('No metrics yet');
  expect(show(NodePage, viewer)).toContain('No metrics yet');
});

test('empty pages name commands that there are', () => {
  const reservations = show(ReservationsPage, operator, [[['reservations'], page]]);
  expect(reservations).toContain(
    'muster reservation create NAME --gpus 64 --project PROJECT --start +2h --length 4h',
  );
  expect(show(SlosPage, operator)).toContain('once the routing names them: <code>muster routing</code>');
});

test('pages that reached nobody are not called none', () => {
  const of = (pages: number, ...what: string[]) =>
    pageWords({ impact: { pages }, timeline: what.map((w) => ({ what: w })) } as never);
  expect(of(0, 'page', 'note')).toBe('0, although 1 page was raised: nobody was reached');
  expect(of(0, 'note')).toBe('0');
  expect(of(2, 'page', 'page')).toBe('2');
});

test('a tenant is not informed that there are no objectives, or that there are no GPUs', () => {
  const slos = show(SlosPage, tenant);
  expect(slos).not.toContain('No objectives are set');
  expect(slos).not.toContain('0 objectives');
  expect(slos).toContain('No objective is about team-a alone');
  expect(slos).toContain('silences and receivers');
  const jobs = { submitted: 0, succeeded: 0, succeeded_first: 0, cancelled: 0, failed: {} };
  const total = { jobs, interruptions: {}, gpu_seconds: {} };
  const report = {
    from: '2030-01-24T00:00:00Z',
    to: '2030-01-31T00:00:00Z',
    since: '2030-01-01T00:00:00Z',
    complete: true,
    project: 'team-a',
    rows: [{ ...total, from: '2030-01-24T00:00:00Z', to: '2030-01-25T00:00:00Z' }],
    total,
    inventory: [],
    projects: [],
    forecast: null,
  };
  const executive = show(ExecutivePage, tenant, [[['report', 7], report]]);
  expect(executive).not.toContain('0 GPUs');
  expect(executive).not.toContain('No objectives are set');
  expect(executive).toContain('not shown to tenants');
  expect(executive, 'it is hidden, not unknown').not.toContain('no data for this time');
  expect(executive).toContain('Not shown to this token');
  expect(executive).toContain('in UTC');
  expect(show(SlosPage, operator)).toContain('No objectives are set');
});

test('of several alerts one is to be acknowledged first', () => {
  const alert = { urgency: 'page', summary: 'hot', kind: 'thermal', since: '2030-01-31T00:00:00Z', count: 1 };
  const more = { ...alert, jobs: 0, gpus: 0, level: 0, notifications: [] };
  const items = ['1', '2'].map((id) => ({ ...more, id, cause: `node:n${id}` }));
  const slos = show(SlosPage, operator, [[['slo', 'alerts'], { items, cursor: null }]]);
  expect(slos.match(/>Acknowledge</g)).toHaveLength(2);
  expect(slos.match(/class="main"/g)).toHaveLength(1);
});

test('every figure of the report says from when to when it is known, and each rate its one formula', () => {
  const jobs = { submitted: 10, succeeded: 6, succeeded_first: 3, cancelled: 1 };
  const failed = { application: 2, infrastructure: 1, platform: 0, unknown: 1 };
  const total = {
    jobs: { ...jobs, failed },
    interruptions: { application: 0, infrastructure: 1, platform: 0, unknown: 0 },
    gpu_seconds: {},
    utilisation: 0.7,
    success_rate: 0.6,
    first_attempt_success_rate: 0.3,
    not_failed_by_site_rate: 0.9,
  };
  const row = { ...total, from: '2030-01-31T12:00:00Z', to: '2030-01-31T12:30:00Z' };
  const report = {
    from: '2030-01-24T12:00:00Z',
    to: '2030-01-31T12:30:00Z',
    since: '2030-01-24T12:00:00Z',
    telemetry_since: '2030-01-31T12:06:00Z',
    complete: true,
    step: 'hour',
    rows: [row],
    total,
    inventory: [],
    projects: [{ ...total, name: 'team-a', allocated_gpu_seconds: 7200 }],
    forecast: null,
  };
  const text = show(ExecutivePage, operator, [[['report', 7], report]]);
  const whole = `${momentWord(report.from)} to ${momentWord(report.to)}`;
  const seen = `${momentWord(report.telemetry_since)} to ${momentWord(report.to)}`;
  const tile = (word: string) => text.split('class="tile"').find((t) => t.includes(`<span>${word}</span>`));
  expect(tile('utilisation')).toContain(seen);
  expect(tile('utilisation')).not.toContain(whole);
  for (const word of ['allocation', 'goodput', 'availability', 'success rate', 'between interruptions'])
    expect(tile(word)).toContain(whole);
  expect(tile('success rate')).toMatch(
    /role="tooltip"[^>]*>jobs succeeded \/ \(jobs succeeded \+ failed\); cancelled jobs are not counted</,
  );
  // In the order in which it is asked for.
  const asked = [
    'Is the fleet used',
    'Are we reliable',
    'Is there enough capacity',
    'What did incidents cost',
  ];
  const places = asked.map((q) => text.indexOf(q));
  expect(places).toEqual([...places].sort((a, b) => a - b));
  expect(places[0]).toBeGreaterThan(0);
  // What stands beside the lines is of one hour, and says so.
  expect(text).toContain('numbers here are of the newest hour');
  // The same rate has the same value wherever it stands.
  expect(text.match(/60\.0 %/g)?.length).toBe(3);
  expect(text).not.toContain('less than 7 days');
  const young = { ...report, since: '2030-01-31T12:00:00Z' };
  expect(show(ExecutivePage, operator, [[['report', 7], young]])).toContain('less than 7 days are known');
});

test("a tenant's page of a node leaves out what is hidden, and buttons that would be refused", () => {
  const hidden = ['not connected', 'Never tested', 'kernel', 'hazard<', 'press Qualify', 'known to be wrong'];
  const buttons = ['>Cordon<', '>Drain<', '>Qualify<'];
  const text = show(NodePage, tenant);
  for (const t of [...hidden, ...buttons, '>Timeline<']) expect(text).not.toContain(t);
  expect(text).toContain('Not shown to this token');
  const whole = show(NodePage, operator);
  for (const t of ['not connected', 'Never tested', 'press Qualify', ...buttons]) expect(whole).toContain(t);
  // Buttons that the server would refuse are not shown.
  const out = show(NodePage, operator, [[['node', 'n1'], { ...node, actions: takes('qualify', 'return') }]]);
  expect(out).not.toContain('>Drain<');
  // Work that runs there keeps it from a test: the button says so.
  const refused = 'work runs on node n1';
  const held = { id: '7', name: 'train', project: 'team-a', state: 'running', gpus: [] };
  const busy = { ...node, jobs: [held], actions: [{ action: 'qualify', refused }] };
  expect(show(NodePage, operator, [[['node', 'n1'], busy]])).toContain(`disabled="" title="${refused}"`);
  // A node that was cordoned without a reason can be uncordoned.
  const cordoned = show(NodePage, operator, [
    [['node', 'n1'], { ...node, cordon: '', actions: takes('uncordon') }],
  ]);
  expect(cordoned).toContain('>Uncordon<');
  expect(cordoned).not.toContain('>Cordon<');
  const only = show(NodePage, viewer);
  for (const t of ['press Qualify', ...buttons]) expect(only).not.toContain(t);
  expect(only).toContain('Never tested');
});

const wrong = {
  id: '12',
  kind: 'gpu-off-bus',
  title: 'A GPU fell off the bus',
  state: 'open',
  severity: 'critical',
  entity: 'gpu:n1/0',
  node: 'n1',
  gpu: 0,
  opened_at: '2020-01-30T00:00:00Z',
  last_seen: '2020-01-30T00:00:00Z',
  count: 1,
  evidence: [],
};

test('a node in repair is reported as repaired, returned or retired by operators alone', () => {
  const out = {
    ...node,
    state: 'repairing',
    stage: 'repairing',
    reachable: true,
    inventory: { kernel: '', versions: {}, gpus: [{ index: 0 }, { index: 1 }] },
    gpus_excluded: [1],
    actions: takes('repaired', 'return', 'exclude', 'include', 'retire'),
    findings: [wrong],
    remediation_detail: {
      id: '5',
      node: 'n1',
      finding: '12',
      kind: 'gpu-off-bus',
      action: 'replace',
      action_text: 'have GPU 0 replaced',
      step: 'repairing',
      step_index: 2,
      why: '',
      since: '2020-01-30T00:00:00Z',
    },
  };
  const of = (me: Me) => show(NodePage, me, [[['node', 'n1'], out]]);
  const buttons = [
    '>Repaired<',
    '>Return to service<',
    '>Retire<',
    '>Exclude GPU<',
    '>Include GPU<',
    '>Close finding<',
  ];
  for (const b of buttons) expect(of(operator)).toContain(b);
  for (const me of [viewer, tenant]) for (const b of buttons) expect(of(me)).not.toContain(b);
  // A page has one main button, also when a remediation is pending approval on it.
  const pending = {
    ...out,
    stage: 'quarantined',
    remediation_detail: { ...out.remediation_detail, step: 'approval' },
  };
  expect(of(operator)).toContain('class="main">Repaired<');
  const both = show(NodePage, operator, [[['node', 'n1'], pending]]);
  expect(both.match(/<button[^>]*class="main"[^>]*>[^<]*/g)).toEqual([
    '<button type="button" class="main">Approve',
  ]);
  expect(both).toContain('>Repaired<');
  // What is in service is not returned to it.
  const ready = show(NodePage, operator, [
    [['node', 'n1'], { ...out, stage: 'ready', remediation_detail: null, actions: node.actions }],
  ]);
  for (const b of ['>Repaired<', '>Return to service<', '>Retire<']) expect(ready).not.toContain(b);
});

test('a GPU is excluded and a finding is closed on its own page, by operators alone', () => {
  const gpu = (me: Me, gpus_excluded: number[]) =>
    show(GpuPage, me, [[['node', 'n1'], { ...node, gpus_excluded, actions: takes('exclude', 'include') }]]);
  expect(gpu(operator, [])).toContain('>Exclude GPU<');
  expect(gpu(operator, [0])).toContain('>Include GPU<');
  const finding = (me: Me, state: string) =>
    show(FindingPage, me, [[['health', 'finding', '7'], { ...wrong, id: '7', state }]]);
  expect(finding(operator, 'open')).toContain('>Close finding<');
  expect(finding(operator, 'closed')).not.toContain('>Close finding<');
  for (const me of [viewer, tenant]) {
    expect(gpu(me, [])).not.toContain('clude GPU<');
    expect(finding(me, 'open')).not.toContain('>Close finding<');
  }
});

test('who excludes a GPU reads which jobs are on it, and who includes one what is open about it', () => {
  const one = { id: '7', name: 'train', project: 'team-a', state: 'running', gpus: [0] };
  const other = { ...one, id: '8', name: 'serve', gpus: [1] };
  const full = { ...node, jobs: [one, other], findings: [wrong] } as never;
  const choice = (out: boolean) => () => GpuChoice({ node: full, of: [0, 1], out, onPick: () => {} });
  const out = show(choice(true), operator);
  expect(out).toContain('Affected jobs: 7 train (team-a).');
  expect(out).not.toContain('serve');
  expect(show(choice(false), operator)).toContain('A GPU fell off the bus (finding 12)');
});

test('a node that new work stays away from says why, on its page and in the list', () => {
  const avoided = { avoided: 'critical finding 12 (gpu-off-bus)' };
  const barred = { no_new_work: 'breaker node:n1 is not closed' };
  const one = (more: object) => show(NodePage, operator, [[['node', 'n1'], { ...node, ...more }]]);
  expect(one({})).toContain('class="word ok">ready<');
  expect(one({})).not.toContain('new work');
  expect(one(avoided)).toContain(
    'Avoided: critical finding 12 (gpu-off-bus); new work goes elsewhere while other nodes fit',
  );
  expect(one(barred)).toContain('No new work: breaker node:n1 is not closed');
  for (const more of [avoided, barred]) expect(one(more)).not.toContain('class="word ok">ready');
  const items = [
    { ...node, ...avoided },
    { ...node, name: 'n2', ...barred },
  ];
  const pages = { pages: [{ items, cursor: null }], pageParams: [null] };
  const list = show(NodesPage, operator, [[['nodes', 'list', ''], pages]]);
  expect(list).toContain('title="critical finding 12 (gpu-off-bus)">ready, avoided<');
  expect(list).toContain('title="breaker node:n1 is not closed">ready, no new work<');
  expect(list).not.toContain('class="word ok"');
});

test('runbooks are the whole site’s: a tenant reads that once', () => {
  const text = show(RunbooksPage, tenant);
  expect(text.match(/Not shown to this token/g)).toHaveLength(1);
  expect(text).not.toContain('Loading');
});

test('of a runbook nobody is offered what would be refused', () => {
  const user: Me = { name: 'user:bo', role: 'user', project: null, site: 's' };
  const book = {
    name: 'n1',
    title: 'b',
    urgency: 'page',
    modes: [],
    topics: [],
    steps: [],
    needs: [],
    takes: [],
  };
  const one: [unknown[], unknown][] = [[['runbooks', 'n1'], book]];
  const read = { ...book, intro: 'Look at `muster breakers` ([breaker-open](breaker-open.md)).' };
  const shown = show(RunbookPage, viewer, [[['runbooks', 'n1'], read]]);
  expect(shown).toContain('<code>muster breakers</code> (<a>breaker-open</a>).');
  expect(show(RunbookPage, operator, one)).toContain('>Dry run<');
  expect(show(RunbookPage, user, one)).toContain('>Step by step<');
  expect(show(RunbookPage, user, one)).not.toContain('>Dry run<');
  expect(show(RunbookPage, viewer, one)).not.toContain('>Step by step<');
  const at = (kind: string, by: string, auto = false): [unknown[], unknown][] => {
    const choices =
      kind === 'ask'
        ? [
            { text: 'yes', goto: '2' },
            { text: 'not yet', goto: '3' },
          ]
        : [];
    const now = { no: 1, kind, title: 't', says: 'Is it done?', choices, otherwise: '3' };
    const run = { id: '7', runbook: 'b', state: 'waiting', by, auto, vars: {}, now, done: [] };
    return [[['runbook-runs', '7'], { ...run, started_at: job.submitted_at }]];
  };
  expect(show(RunbookRunPage, operator, at('act', 'user:ann'))).toContain('>Run now<');
  expect(show(RunbookRunPage, user, at('act', 'user:ann'))).not.toContain('<button');
  expect(show(RunbookRunPage, user, at('check', 'user:ann', true))).not.toContain('<button');
  // None of several answers is the one that is wanted.
  const asks = show(RunbookRunPage, operator, at('ask', 'user:ann'));
  expect(asks).toContain('>not yet</button>');
  expect(asks).not.toContain('class="main"');
  expect(asks, 'a question is no code').not.toContain('<code>Is it');
  const check = show(RunbookRunPage, user, at('check', 'user:ann'));
  expect(check).toContain('>Check now<');
  expect(check).not.toContain('>Stop the run<');
  expect(check, 'about nothing in particular').toContain('run 7, user:ann, ');
  const own = show(RunbookRunPage, user, at('act', 'user:bo'));
  expect(own).toContain('>Done manually<');
  expect(own).toContain('>Stop the run<');
  expect(own).not.toContain('>Run now<');
  expect(show(RunbookRunPage, viewer, at('check', 'user:ann'))).not.toContain('<button');
});

test('a job that has ended can be requeued by whoever may submit', () => {
  expect(show(JobPage, tenant)).toContain('>Requeue<');
  expect(show(JobPage, viewer)).not.toContain('>Requeue<');
  const active: [unknown[], unknown][] = [[['jobs', 'one', '7'], { ...job, state: 'running' }]];
  expect(show(JobPage, tenant, active)).not.toContain('>Requeue<');
  expect(show(JobPage, tenant, active)).toContain('>Cancel<');
});

test('of a job nobody is offered, or shown, what would be refused', () => {
  const at = (state: string): [unknown[], unknown][] => [[['jobs', 'one', '7'], { ...job, state }]];
  expect(show(JobPage, operator, at('running'))).toContain('>Time limit<');
  expect(show(JobPage, tenant, at('running'))).not.toContain('>Time limit<');
  expect(show(JobPage, tenant, at('queued'))).toContain('>Time limit<');
  expect(show(JobPage, tenant)).toContain('>Clone<');
  expect(show(JobPage, tenant)).toContain('<h2>Spec</h2>');
  const seen = show(JobPage, viewer);
  for (const hidden of ['>Clone<', '>Submit again<', '<h2>Spec</h2>']) expect(seen).not.toContain(hidden);
});

test('a job that waits again does not run, and one that runs is timed from its own attempt', () => {
  const before = (ms: number) => new Date(Date.now() - ms).toISOString();
  const times = (of: object) =>
    renderToStaticMarkup(createElement(Times, { job: { past: [], ...of } as never }));
  const first = before(6 * 3_600_000);
  const waits = times({ state: 'queued', started_at: first, attempt: null });
  expect(waits).toContain('first started');
  expect(waits).not.toContain('runs for');
  const again = times({ state: 'running', started_at: first, attempt: { started_at: before(120_000) } });
  expect(again).toContain('first started');
  expect(again).toMatch(/runs for<\/dt><dd>2 min/);
  const once = times({ state: 'running', started_at: first, attempt: { started_at: first } });
  expect(once).toMatch(/<dt>started<\/dt>.*runs for<\/dt><dd>6 h/);
  const over = times({ state: 'succeeded', started_at: first, ended_at: before(0), attempt: null });
  expect(over).toMatch(/took<\/dt><dd>6 h/);
  // The cause of its end was looked for meanwhile.
  const past = [{ started_at: first, ended_at: before(3 * 3_600_000) }];
  const late = times({ state: 'failed', started_at: first, ended_at: before(0), attempt: null, past });
  expect(late).toMatch(/took<\/dt><dd>3 h/);
  const attempt = { started_at: first, freed_at: before(4 * 3_600_000) };
  const ending = times({ state: 'running', started_at: first, attempt });
  expect(ending).toMatch(/ran for<\/dt><dd>2 h/);
  expect(ending).not.toContain('runs for');
});

test('what the end of an attempt is attributed to is said by the server alone', () => {
  const at = job.submitted_at;
  const past = [
    {
      no: 1,
      verdict: 'operator',
      attributed_to: 'user',
      reason: 'cancelled by user:ops',
      nodes: [],
      placed_at: at,
      ended_at: at,
    },
  ];
  const text = show(JobPage, operator, [[['jobs', 'one', '7'], { ...job, user: 'bo', past }]]);
  expect(text).toContain('<td data-l="exit cause">user</td><td class="whole">cancelled by user:ops</td>');
});

test('that others are being stopped for a job is said by the server alone, who sees them', () => {
  const at = '2030-01-31T00:00:00Z';
  const reserved_start = { at, since: at, nodes: ['n1'], basis: 'preemption' };
  const explained = { summary: 'waits', constraints: [], ahead: [], suggestions: [] };
  const of = (state: string, more: object) =>
    show(JobPage, operator, [
      [['jobs', 'one', '7'], { ...job, state, reserved_start }],
      [['jobs', 'explain', '7'], { ...explained, ...more }],
    ]);
  const nobody = of('queued', {});
  expect(nobody).toContain('capacity is being freed for it');
  expect(nobody).not.toContain('being stopped');
  const somebody = of('queued', { estimated_start: { at, basis: 'others are being stopped for it' } });
  expect(somebody).toContain('others are being stopped for it');
  expect(of('running', {})).not.toContain('capacity is being freed');
});

test('draining a node names the jobs on it', () => {
  const one = { id: '42', name: 'train', project: 'nlp' };
  expect(drainWords([one])).toBe('Job 42 train (nlp) is allocated here. It may finish; nothing new comes.');
  expect(drainWords([one, { ...one, id: '43' }])).toContain(
    'Jobs 42 train (nlp), 43 train (nlp) are allocated here. They may finish',
  );
  const ten = Array.from({ length: 10 }, (_, i) => ({ ...one, id: String(i) }));
  expect(drainWords(ten)).toContain('and 2 more jobs are allocated');
});

test('a recovery has a length when the job works again', () => {
  expect(recoveryWords({ total_ms: 2000 }, false)).toBe('not yet');
  expect(recoveryWords({ total_ms: 2000 }, true)).toBe('not completed');
  expect(recoveryWords({ total_ms: 2000, working_at: '2030-01-31T00:00:00Z' }, false)).toBe('2 s');
});

test('only a simulated job is said to print nothing', () => {
  const of = (more: object) => show(JobPage, operator, [[['jobs', 'one', '7'], { ...job, ...more }]]);
  expect(of({})).not.toContain('prints nothing');
  expect(of({ spec: { simulate: { run: '1h' } } })).toContain('A simulated job prints nothing.');
});

test('of a node that serves nothing is given as wrong', async () => {
  const { why } = await import('./nodes');
  const back = { state: 'ready', stage_why: 'passed its test after a reboot (gpu-off-bus)' } as never;
  expect(why(back)).toBe('');
  const watched = { ...(back as object), probation: '2030-01-31T12:00:00Z' } as never;
  expect(why(watched)).toMatch(/^probation until \d+ \w+ \d\d:\d\d$/);
  expect(why({ state: 'suspect', stage_why: 'XID 79', cordon: 'swap' } as never)).toBe('XID 79');
});

test('a budget that was used is not shown as whole', async () => {
  const { leftWords } = await import('./slo-parts');
  expect([1, 0.9999, 0.995, 0.29, 0].map(leftWords)).toEqual(['100 %', '99 %', '99 %', '29 %', '0 %']);
});

test('an objective that is not met says why budget is left', async () => {
  const { belowWords } = await import('./slo-parts');
  const slo = { state: 'below_target', counted_for: '7d', window: '28d', budget_left: 0.77 } as never;
  expect(belowWords(slo)).toContain('counted for 7d of 28d; the rest counts as good');
  expect(belowWords({ ...(slo as object), state: 'met' } as never)).toBe('');
});
