import { createRootRoute, createRoute, createRouter, Link, redirect } from '@tanstack/react-router';
import { type OutputSearch, rangeOf } from './find/output';
import { ComparePage } from './jobs/compare';
import type { JobSearch } from './jobs/filters';
import { BulkNodesPage } from './manage/bulk-nodes';
import { PolicyPage } from './manage/policy';
import { ProjectsPage } from './manage/projects';
import { QuotasPage } from './manage/quotas';
import { ReservationsPage } from './manage/reservations';
import { RoutingPage } from './manage/routing';
import { SilencesPage } from './manage/silences';
import { TokensPage } from './manage/tokens';
import { WhatIfPage } from './manage/whatif-page';
import { MODES, type Mode } from './map/colors';
import type { RunbookSearch } from './oncall/causes';
import { DebugPage } from './pages/debug';
import { DesignPage } from './pages/design';
import { EventsPage } from './pages/events';
import { ExecutivePage } from './pages/executive';
import { FindingPage } from './pages/finding';
import { FleetPage } from './pages/fleet';
import { GpuPage } from './pages/gpu';
import { IncidentPage } from './pages/incident';
import { JobPage } from './pages/job';
import { JobsPage } from './pages/jobs';
import { NodePage } from './pages/node';
import { NodesPage } from './pages/nodes';
import { OncallPage } from './pages/oncall';
import { OutputPage } from './pages/output';
import { RunbookPage, RunbookRunPage, RunbooksPage } from './pages/runbooks';
import { SimulatorPage } from './pages/simulator';
import { SlosPage } from './pages/slos';
import { SubmitPage } from './pages/submit';
import { TopologyPage } from './pages/topology';
import { useRights } from './rights';
import { StatusPage } from './tenant/status';
import { UsagePage } from './tenant/usage';
import { WorkPage } from './tenant/work';
import { SPANS, type TimeSpan } from './time/window';
import { Empty, Problem } from './ui/parts';
import { Shell } from './ui/shell';

function NoSuchPage() {
  const { whole } = useRights();
  const home = whole === false ? <Link to="/work">My work</Link> : <Link to="/">The fleet</Link>;
  return (
    <main className="page" id="page">
      <h1 className="skip">No such page</h1>
      <Empty title="There is no such page">
        <p>{home} is a good place to begin.</p>
      </Empty>
    </main>
  );
}

const root = createRootRoute({
  component: Shell,
  notFoundComponent: NoSuchPage,
  errorComponent: ({ error, reset }) => (
    <main className="page" id="page">
      <Problem error={error} again={reset} />
    </main>
  ),
});

const text = (v: unknown) => (typeof v === 'string' && v ? v : typeof v === 'number' ? String(v) : undefined);

const whole = (v: unknown) => (Number.isInteger(v) && (v as number) >= 0 ? (v as number) : undefined);

/** Reads words of an address; what is no word is left out. */
const texts =
  <K extends string>(...names: K[]) =>
  (s: Record<string, unknown>) =>
    Object.fromEntries(names.map((name) => [name, text(s[name])])) as { [N in K]?: string };

/** `past`: the moment of the map that somebody comes from. `do`: the dialog that opens. */
const historySearch = texts('past', 'do', 'range', 'from', 'to', 'metrics');

/** Every page stands directly under the shell. */
const under = { getParentRoute: () => root };

const fleet = createRoute({
  ...under,
  path: '/',
  component: FleetPage,
  validateSearch: (
    s: Record<string, unknown>,
  ): {
    by?: Mode;
    find?: string;
    search?: boolean;
    at?: string;
    span?: TimeSpan;
    open?: string;
  } => ({
    by: MODES.find((m) => m.mode === s.by)?.mode,
    find: text(s.find),
    at: text(s.at),
    span: SPANS.find((one) => one.span === s.span)?.span,
    open: text(s.open),
    search: s.search === true || undefined,
  }),
});
const oncall = createRoute({ ...under, path: '/oncall', component: OncallPage });
const jobs = createRoute({
  ...under,
  path: '/jobs',
  component: JobsPage,
  validateSearch: (s: Record<string, unknown>): JobSearch => ({
    state: text(s.state),
    // Addresses that were kept name a whole name.
    prefix: text(s.prefix) ?? text(s.name),
    ...texts('project', 'user', 'sku', 'tag', 'sort', 'from', 'to')(s),
    view: s.view === 'timeline' ? 'timeline' : undefined,
  }),
});
// Pages of one project, for tokens that see no more.
const work = createRoute({
  ...under,
  path: '/work',
  component: WorkPage,
  validateSearch: (s: Record<string, unknown>): { of?: 'project' } => ({
    of: s.of === 'project' ? 'project' : undefined,
  }),
});
const usage = createRoute({
  ...under,
  path: '/usage',
  component: UsagePage,
  validateSearch: (s: Record<string, unknown>): { days?: 30 | 90 } => ({
    days: s.days === 30 || s.days === 90 ? s.days : undefined,
  }),
});
const status = createRoute({ ...under, path: '/status', component: StatusPage });
const submit = createRoute({
  ...under,
  path: '/jobs/new',
  component: SubmitPage,
  validateSearch: texts('from'),
});
const compare = createRoute({
  ...under,
  path: '/jobs/compare',
  component: ComparePage,
  validateSearch: texts('a', 'b'),
});
const job = createRoute({ ...under, path: '/jobs/$id', component: JobPage, validateSearch: historySearch });
const debug = createRoute({
  ...under,
  path: '/debug/jobs/$id',
  component: DebugPage,
  validateSearch: (
    s: Record<string, unknown>,
  ): { order?: 'slow'; from?: number; rank?: number; attempt?: number; by?: string } => ({
    order: s.order === 'slow' ? 'slow' : undefined,
    from: whole(s.from),
    rank: whole(s.rank),
    attempt: whole(s.attempt),
    by: text(s.by),
  }),
});
const nodes = createRoute({ ...under, path: '/nodes', component: NodesPage, validateSearch: texts('state') });
const node = createRoute({
  ...under,
  path: '/nodes/$name',
  component: NodePage,
  validateSearch: historySearch,
});
const gpu = createRoute({
  ...under,
  path: '/nodes/$name/gpus/$gpu',
  component: GpuPage,
  validateSearch: historySearch,
});
const events = createRoute({
  ...under,
  path: '/events',
  component: EventsPage,
  validateSearch: texts('find', 'from', 'to', 'kind', 'actor', 'object'),
});
const output = createRoute({
  ...under,
  path: '/output',
  component: OutputPage,
  validateSearch: (s: Record<string, unknown>): OutputSearch => ({
    ...texts('q', 'project', 'job')(s),
    range: rangeOf(s.range),
  }),
});
const topology = createRoute({
  ...under,
  path: '/topology',
  component: TopologyPage,
  validateSearch: (s: Record<string, unknown>): { only?: boolean } => ({
    only: s.only === true || undefined,
  }),
});
const simulator = createRoute({ ...under, path: '/simulator', component: SimulatorPage });
const executive = createRoute({
  ...under,
  path: '/executive',
  component: ExecutivePage,
  validateSearch: (s: Record<string, unknown>): { days?: 30 | 90 } => ({
    days: s.days === 30 || s.days === 90 ? s.days : undefined,
  }),
});
const slos = createRoute({ ...under, path: '/slos', component: SlosPage, validateSearch: texts('name') });
// Messages of alerts link to an objective by its path.
const sloLink = createRoute({
  ...under,
  path: '/slos/$name',
  beforeLoad: ({ params }) => {
    throw redirect({ to: '/slos', search: { name: params.name }, replace: true });
  },
});
// For developers: no page links to it.
const design = createRoute({ ...under, path: '/design', component: DesignPage });
const finding = createRoute({ ...under, path: '/findings/$id', component: FindingPage });
const reservations = createRoute({ ...under, path: '/reservations', component: ReservationsPage });
const quotas = createRoute({ ...under, path: '/quotas', component: QuotasPage });
const bulk = createRoute({ ...under, path: '/bulk', component: BulkNodesPage });
const whatif = createRoute({ ...under, path: '/whatif', component: WhatIfPage });
const silences = createRoute({ ...under, path: '/silences', component: SilencesPage });
const routing = createRoute({ ...under, path: '/routing', component: RoutingPage });
const policy = createRoute({ ...under, path: '/policy', component: PolicyPage });
const projects = createRoute({ ...under, path: '/projects', component: ProjectsPage });
const tokens = createRoute({ ...under, path: '/tokens', component: TokensPage });
const incident = createRoute({ ...under, path: '/incidents/$id', component: IncidentPage });
const runbooks = createRoute({
  ...under,
  path: '/runbooks',
  component: RunbooksPage,
  validateSearch: texts('mode', 'node', 'finding'),
});
const runbook = createRoute({
  ...under,
  path: '/runbooks/$name',
  component: RunbookPage,
  validateSearch: (s: Record<string, unknown>): RunbookSearch => ({
    ...texts('node', 'gpu', 'job', 'finding', 'incident', 'breaker')(s),
    step: whole(s.step),
  }),
});
const runbookRun = createRoute({ ...under, path: '/runbook-runs/$id', component: RunbookRunPage });

export const router = createRouter({
  routeTree: root.addChildren([
    fleet,
    oncall,
    work,
    usage,
    status,
    jobs,
    submit,
    compare,
    job,
    debug,
    nodes,
    node,
    gpu,
    events,
    output,
    topology,
    simulator,
    slos,
    sloLink,
    finding,
    executive,
    design,
    reservations,
    quotas,
    bulk,
    silences,
    routing,
    policy,
    whatif,
    projects,
    tokens,
    incident,
    runbooks,
    runbook,
    runbookRun,
  ]),
});

declare module '@tanstack/react-router' {
  interface Register {
    router: typeof router;
  }
}
