// The on-call page as one token sees it. Answers are those that the server gives to such a token.
import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { createElement } from 'react';
import { renderToStaticMarkup } from 'react-dom/server';
import { expect, test, vi } from 'vitest';
import type { Schemas } from '../api/client';

vi.stubGlobal('sessionStorage', { getItem: () => null });
vi.mock('@tanstack/react-router', async () => {
  const { createElement } = await import('react');
  return {
    Link: (p: {
      children: never;
      to?: string;
      params?: Record<string, string>;
      search?: object;
      className?: string;
    }) =>
      createElement(
        'a',
        {
          className: p.className,
          'data-to': p.to?.replace(/\$(\w+)/g, (_, name: string) => p.params?.[name] ?? ''),
          'data-search': p.search && JSON.stringify(p.search),
        },
        p.children,
      ),
    useNavigate: () => () => {},
    useParams: () => ({}),
    useSearch: () => ({}),
  };
});
vi.mock('../ui/theme', () => ({ useTheme: () => 'dark' }));
vi.mock('../ui/brand', () => ({ useBrand: () => ({ name: 'Muster' }) }));
vi.mock('../ui/chart', () => ({ Chart: () => null }));
vi.mock('../ui/virtual', () => ({ Rows: () => null }));
const connection = vi.hoisted(() => ({ standing: 'live' }));
vi.mock('../live/fleet', () => ({ useRevision: () => 0, useStanding: () => connection.standing }));

const { FleetContext } = await import('../live/context');
const { lastEnded, OncallPage, STOP_WORDS, undoWords } = await import('./oncall');
const { assignments, OwnerField } = await import('../oncall/actions');
const { withNode } = await import('./runbooks');

type Me = Schemas['WhoAmI'];
const tenant: Me = { name: 'user:ann', role: 'user', project: 'team-a', site: 's' };
const operator: Me = { name: 'user:op', role: 'operator', project: null, site: 's' };
const viewer: Me = { name: 'user:eve', role: 'viewer', project: null, site: 's' };

const page = { items: [], cursor: null };
const running = {
  state: 'running',
  nodes: 9,
  out: 0,
  out_at_most: 2,
  taken: [],
  taken_at_most: 1,
  modes: {},
};
const health = {
  state: 'well',
  reasons: [],
  findings: [],
  waiting: [],
  incidents: [],
  breakers: [],
  automation: running,
  nodes: { ready: 7, lost: 2, enrolled: 3 },
  nodes_out: 2,
};
const day = '2020-01-30T00:00:00Z';
const alert = {
  id: 'a1',
  urgency: 'page',
  cause: 'gpu:n1/3',
  summary: 'gpu:n1/3: gpu-off-bus',
  kind: 'gpu-off-bus',
  notifications: [],
  level: 0,
  count: 1,
  since: day,
};
const remediation = {
  returnable: true,
  id: '5',
  node: 'n1',
  gpu: 3,
  step: 'approval',
  step_index: 0,
  action: 'reset_gpu',
  action_text: 'reset the GPU',
  finding: '12',
  kind: 'gpu-off-bus',
  why: 'the policy asks for approval',
  since: day,
  until: null,
};
const cause = {
  id: 'node:n1',
  kind: 'gpu-off-bus',
  title: 'A GPU fell off the bus',
  entity: 'gpu:n1/3',
  summary: alert.summary,
  severity: 'critical',
  urgency: 'page',
  since: day,
  alerts: [alert],
  incidents: [],
  findings: [
    {
      id: '12',
      kind: 'gpu-off-bus',
      title: 'A GPU fell off the bus',
      severity: 'critical',
      entity: 'gpu:n1/3',
      opened_at: day,
      last_seen: day,
      count: 4,
      evidence: ['Xid 79'],
    },
  ],
  findings_open: 1,
  remediations: [remediation],
  pending: ['5'],
  pending_jobs: [{ id: '7', name: 'train', project: 'team-a', gpus: 8, nodes: ['n1'] }],
  pending_jobs_count: 1,
  nodes: ['n1'],
  jobs: [{ id: '7', name: 'train', project: 'team-a', gpus: 8, nodes: ['n1'] }],
  jobs_affected: 1,
  projects: ['team-a'],
  runbook: {
    name: 'gpu-off-bus',
    title: 'A GPU fell off the bus',
    step: 4,
    step_title: 'Let it restart the node',
    vars: { node: 'n1' },
    run: null,
  },
};

function show(me: Me | undefined, causes: object[] = [], summary: object = health): string {
  const queries = new QueryClient();
  const known: [unknown[], unknown][] = [
    [['whoami'], me],
    [['health', 'summary'], summary],
    [['causes'], { items: causes, count: causes.length, cursor: null }],
    [['oncall', 'remediations'], page],
    [['slo', 'list'], page],
    [['slo', 'receivers'], page],
    [['oncall', 'jobs', 'queued'], page],
    [['oncall', 'jobs', 'failed'], page],
  ];
  for (const [key, data] of known) if (data !== undefined) queries.setQueryData(key, data);
  const fleet = { byName: new Map(), columns: null, layout: null } as never;
  const inside = createElement(FleetContext.Provider, { value: fleet }, createElement(OncallPage));
  return renderToStaticMarkup(createElement(QueryClientProvider, { client: queries }, inside));
}

test('a tenant is shown what is about their project, and that the rest is not shown', () => {
  const text = show(tenant, [], { ...health, automation: null });
  for (const clear of ['Nothing is open<', 'No GPU is at', 'All closed', 'to approve<', 'nodes out'])
    expect(text).not.toContain(clear);
  // Pages about nodes are not shown to them: no count of pages is better than a wrong one.
  expect(text).not.toContain('paging alert');
  expect(text).toContain('Nothing is open about jobs of team-a');
  expect(text).toContain('jobs of team-a affected');
  expect(text).toContain('No job of team-a is queued');
  expect(text).toContain('No GPU allocated to team-a is at 80 °C');
  expect(text).toContain('Not shown to this token, which is bound to project team-a: remediations');
  expect(text).not.toContain('Try again');
  // Who is notified is not theirs to know, so that nobody reads that nobody is.
  expect(show(tenant, [{ ...cause, remediations: [], pending: [] }])).not.toContain('notifications:');
});

test('one card says everything about a cause, and has one primary action', () => {
  const text = show(operator, [cause]);
  expect(text.match(/<article/g)).toHaveLength(1);
  for (const part of [
    'A GPU fell off the bus',
    'pending approval',
    'reset the GPU',
    'the policy asks for approval',
    '(remediation step 1, <time',
    'Affected jobs: ',
    '7 train',
    'of project team-a',
    'notifications: none',
    'Evidence: 1 open finding',
    'Xid 79',
    ', seen 4 times, last <time',
    'step 4: Let it restart the node',
  ])
    expect(text).toContain(part);
  expect(text.match(/class="main"[^>]*>Approve</g)).toHaveLength(1);
  // One remediation needs no bulk approval.
  expect(text).not.toContain('Approve selected');
});

test('a runbook that somebody follows is opened as that run, at the step that it is at', () => {
  const followed = show(operator, [{ ...cause, runbook: { ...cause.runbook, run: '71' } }]);
  expect(followed).toContain('A GPU fell off the bus, active at step 4: Let it restart the node');
  expect(followed).toContain('data-to="/runbook-runs/71"');
  expect(followed).not.toContain('data-to="/runbooks/gpu-off-bus"');
  expect(show(operator, [cause])).toContain('data-to="/runbooks/gpu-off-bus"');
});

test('a cause that ended an attempt says so to everybody, also when its job runs again', () => {
  const over = { ...cause, jobs: [], jobs_affected: 0, projects: [], ended_attempts: ['2050.1', '42_3.2'] };
  const ended = 'It ended attempt 1 of job 2050, attempt 2 of job 42_3. No job is affected now.';
  expect(show(operator, [over])).toContain(ended);
  expect(show(operator, [over])).not.toContain('No job is affected.');
  expect(show(tenant, [over])).toContain('It ended attempt 1 of your job 2050, attempt 2 of your job 42_3.');
  const waits = show(operator, [{ ...cause, ended_attempts: ['7.1'] }]);
  expect(waits).toContain('It ended attempt 1 of job 7.</p>');
  const none = { ...over, ended_attempts: [] };
  expect(show(operator, [none])).toContain('No job is affected.');
});

test('a viewer is offered nothing that would be refused, and the runbook stands out', () => {
  const text = show(viewer, [cause]);
  for (const action of ['>Approve<', '>Silence<', '>Stop<', 'type="checkbox"', 'More actions'])
    expect(text).not.toContain(action);
  expect(text).toMatch(/class="button"[^>]*data-search="[^"]*n1/);
});

test('the strip counts, in place of a sentence', () => {
  const text = show(operator, [cause, { ...cause, id: 'node:n2', pending: [], alerts: [] }]);
  const tile = (words: string) => new RegExp(`<b>([^<]*)</b><span>${words}</span>`).exec(text)?.[1];
  expect(tile('paging alert')).toBe('1');
  expect(tile('to approve')).toBe('1');
  expect(tile('delayed')).toBeUndefined();
  expect(tile('open incidents')).toBe('0');
  expect(tile('nodes out')).toBe('2');
  expect(tile('job affected')).toBe('1');
});

test('the strip counts what a limit delays apart from what somebody has to approve', () => {
  const text = show(operator, [{ ...cause, remediations: [{ ...remediation, delayed: true }] }]);
  expect(text).toContain('<b>0</b><span>to approve</span>');
  expect(text).toContain('<b>1</b><span>delayed</span>');
});

test('a remediation that was not begun is pending approval or delayed, and nothing else', () => {
  const at = (more: object) => show(operator, [{ ...cause, remediations: [{ ...remediation, ...more }] }]);
  expect(at({ step: 'proposed', delayed: true })).toContain('>delayed</span>: reset the GPU');
  expect(at({ step: 'proposed' })).toContain('>pending approval</span>: reset the GPU');
  expect(at({ step: 'approval' })).toContain('>pending approval</span>: reset the GPU');
  for (const more of [{ delayed: true }, {}])
    expect(at({ ...more, step: 'proposed' })).not.toMatch(/on hold|proposed/);
});

test('a site where somebody has to act now is critical', () => {
  const text = show(operator, [cause], { ...health, state: 'bad', reasons: ['1 page is not acknowledged'] });
  expect(text).toContain('title="1 page is not acknowledged">critical<');
});

test('the buttons that refuse a remediation say what each does', () => {
  const text = show(operator, [cause]);
  expect(text).toMatch(/title="It is not done\.[^"]*"[^>]*>Deny on n1 GPU 3</);
  expect(text).toMatch(/title="It ends before anything was done[^"]*"[^>]*>Withdraw on n1 GPU 3</);
});

test('several causes can be approved at once', () => {
  const other = { ...cause, id: 'node:n2', remediations: [{ ...remediation, id: '6' }], pending: ['6'] };
  const text = show(operator, [cause, other]);
  expect(text).toContain('0 remediations selected of 2 to approve');
  expect(text).toContain('>Select all to approve<');
  expect(text.match(/type="checkbox"/g)).toHaveLength(2);
});

test('the alert about what is pending approves all of it', () => {
  const waits = { ...alert, urgency: 'ticket', cause: 'site', kind: 'approvals-wait', summary: 'pending' };
  const none = { findings: [], remediations: [], pending: [], jobs: [], runbook: null };
  const words = { id: 'automation', kind: 'approvals-wait', title: '', entity: 'site', urgency: 'ticket' };
  const site = { ...cause, ...none, ...words, alerts: [waits] };
  expect(show(operator, [cause, site])).toContain('>Approve all 1 pending<');
  const delayed = { ...cause, remediations: [{ ...remediation, delayed: true }] };
  expect(show(operator, [delayed, site])).not.toContain('Approve all');
  expect(show(operator, [cause, site])).not.toMatch(/class="main"[^>]*>Approve all/);
  expect(show(operator, [site])).not.toContain('Approve all');
});

test('what is pending says when its time runs out', () => {
  const until = (at: string) => show(operator, [{ ...cause, remediations: [{ ...remediation, until: at }] }]);
  const ahead = until(new Date(Date.now() + 3.5 * 3_600_000).toISOString());
  // The card is a page already: it is not announced as one to come.
  expect(ahead).toContain('stays pending until somebody decides; another page is raised');
  expect(ahead.match(/no receiver is set up that works \(muster routing\): it reaches nobody/g)).toHaveLength(
    1,
  );
  expect(ahead).toMatch(/>in 3 h</);
  expect(until('2020-01-31T00:00:00Z')).toContain('Undecided for too long');
});

test('what is acknowledged, silenced or escalated says so', () => {
  const known = { ...alert, acknowledged: { by: 'user:ann', at: day, note: 'on it' }, level: 1 };
  const text = show(operator, [{ ...cause, pending: [], remediations: [], alerts: [known] }]);
  expect(text).toContain('Acknowledged by ann');
  expect(text).toContain('escalation step 1');
  const quiet = { ...alert, silenced: 'console-1' };
  const silent = show(operator, [{ ...cause, pending: [], remediations: [], alerts: [quiet] }]);
  expect(silent).toContain('silenced by console-1');
  expect(silent).not.toContain('>Silence<');
});

test('a finding is closed and a node returned from the card, by operators alone', () => {
  const buttons = ['>Close finding 12<', '>Return n1 to service<'];
  for (const b of buttons) {
    expect(show(operator, [cause])).toContain(b);
    for (const me of [viewer, tenant]) expect(show(me, [cause])).not.toContain(b);
  }
  expect(show(operator, [cause])).not.toContain('>Repaired: n1<');
  const repairing = { ...cause, pending: [], remediations: [{ ...remediation, step: 'repairing' }] };
  expect(show(operator, [repairing])).toContain('>Repaired: n1<');
  expect(show(viewer, [repairing])).not.toContain('>Repaired: n1<');
  // The server says whether it may be returned: not before a reset is over.
  const acting = { ...cause, pending: [], remediations: [{ ...remediation, returnable: false }] };
  expect(show(operator, [acting])).not.toContain('>Return n1 to service<');
});

test('an incident is assigned and closed from its card', () => {
  const incident = { id: '9', cause: 'leaf:l', count: 8, began_at: day, opened_at: day, owner: null };
  const quiet = { ...cause, id: 'incident:9', alerts: [], pending: [], remediations: [] };
  const of = (owner: string | null) => show(operator, [{ ...quiet, incidents: [{ ...incident, owner }] }]);
  expect(of(null)).toContain('not assigned');
  expect(of(null)).toMatch(/class="main"[^>]*>Assign to me</);
  expect(of(null)).toContain('Close incident 9');
  expect(of('user:ann')).toContain('assigned to ann');
  expect(of('user:ann')).not.toContain('>Assign to me<');
  // What belongs to somebody else can be taken over or ended, each by its own button.
  expect(of('user:ann')).toContain('Assign incident 9 to me');
  expect(of('user:ann')).toContain('Unassign incident 9');
  expect(of(null)).not.toContain('Unassign');
  expect(of(operator.name)).not.toContain('Assign incident 9 to me');
});

test('the field of an owner has the owner, and is not sent empty', () => {
  const field = renderToStaticMarkup(createElement(OwnerField, { owner: 'user:mara', onChange: () => {} }));
  expect(field).toContain('value="user:mara"');
  expect(field).toMatch(/<input[^>]* required=""/);
  expect(assignments('user:mara', 'user:mara')).toEqual({ take: false, release: true });
  expect(assignments('user:mara', 'user:ann')).toEqual({ take: true, release: true });
  expect(assignments(null, 'user:ann')).toEqual({ take: true, release: false });
});

test('what is pending is denied or withdrawn, not undone', () => {
  const text = show(operator, [cause]);
  expect(text).toContain('Deny on n1');
  expect(text).toContain('Withdraw on n1');
  expect(text).not.toContain('Undo on');
  const acting = { ...remediation, step: 'acting', approved: 'user:ann' };
  expect(show(operator, [{ ...cause, pending: [], remediations: [acting] }])).toContain('Undo on n1');
});

test('while the server is away the bar alone says so, and nothing can be pressed that changes something', () => {
  const button = (text: string, word: string) =>
    new RegExp(`<button[^>]*>${word}<`).exec(text)?.[0] ?? 'none';
  const live = show(operator, [cause]);
  expect(live).not.toContain('Stale.');
  for (const word of ['Stop', 'Approve', 'Silence']) expect(button(live, word)).not.toContain('disabled');
  connection.standing = 'away';
  try {
    const away = show(operator, [cause]);
    expect(away).toContain('class="page oncall stale"');
    expect(away).not.toContain('Stale.');
    for (const word of ['Stop', 'Approve', 'Silence']) expect(button(away, word)).toContain('disabled');
  } finally {
    connection.standing = 'live';
  }
});

test('until it is known who asks, nobody is notified that nothing is open', () => {
  const text = show(undefined);
  for (const clear of ['Nothing is open', 'All closed', 'Not shown', 'paging alert'])
    expect(text).not.toContain(clear);
});

test('remediations that ended are listed by when they ended', () => {
  const at = (of: number, step = 'ended') => ({ step, since: `2030-01-0${of}T00:00:00Z` }) as never;
  const all = [at(3), at(1), at(9, 'acting'), at(2), at(4)];
  expect(lastEnded(all, 3)).toEqual([at(4), at(3), at(2)]);
});

test('undoing names critical findings that stay open; stopping says what is not done meanwhile', () => {
  expect(undoWords([])).not.toContain('critical');
  const words = undoWords([{ id: '1203', kind: 'gpu-off-bus', title: 'GPU off its bus', gpu: 3 }]);
  expect(words).toContain('1 critical finding stays open: GPU off its bus on GPU 3 (finding 1203)');
  expect(words).toContain('at once');
  expect(undoWords(null)).toContain('could not be read');
  expect(STOP_WORDS).toContain('not taken out of service');
  expect(STOP_WORDS).toContain('avoids them only while other nodes fit');
});

test('isolated GPUs are shown as parts of nodes, as the limits of automation count them', () => {
  const automation = { ...running, isolated_milli: 2125, isolated_hour_milli: 125 };
  const text = show(operator, [], { ...health, automation });
  expect(text).toContain('2.125 of 9 nodes, 2 at most');
  expect(text).toContain('0.125 nodes, 1 at most');
});

test('nodes that operators approved are not called taken by automation', () => {
  const names = ['n1', 'n2', 'n3', 'n4', 'n5'];
  const at = '2030-01-01T00:00:00Z';
  const taken = names.map((node, i) => ({ at, node, approved: i < 3 }));
  const text = show(operator, [], { ...health, automation: { ...running, out: 5, out_approved: 3, taken } });
  const who = '(3 approved by operators, 2 by automation)';
  expect(text).toContain(`5 of 9 nodes ${who}, automation: 2 at most`);
  expect(text).toContain(`5 nodes ${who}, automation: 1 at most`);
  expect(text).not.toContain('taken out by automation');
});

test('a step of a runbook names the node that it is opened for', () => {
  const words = { title: '$node is there', text: 'Look at $node.', says: 'node.reachable' };
  const step = { no: 1, kind: 'check', ...words };
  expect(withNode(step as never, 'n1')).toMatchObject({ title: 'n1 is there', text: 'Look at n1.' });
  expect(withNode(step as never, undefined)).toBe(step);
});
