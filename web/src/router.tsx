import { createRootRoute, createRoute, createRouter, Link, redirect } from '@tanstack/react-router';
import type { EventSearch } from './find/events';
import { type OutputSearch, rangeOf } from './find/output';
import type { HistorySearch } from './history/range';
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
import { MODES, type Mode } from './map/colors';
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
import { StatusPage } from './tenant/status';
import { UsagePage } from './tenant/usage';
import { WorkPage } from './tenant/work';
import { SPANS, type TimeSpan } from './time/window';
import { Empty, Problem } from './ui/parts';
import { Shell } from './ui/shell';

const root = createRootRoute({
  component: Shell,
  notFoundComponent: () => (
    <main className="page" id="page">
      <h1 className="skip">No such page</h1>
      <Empty title="There is no such page">
        <p>
          <Link to="/">The fleet</Link> is a good place to begin.
        </p>
      </Empty>
    </main>
  ),
  errorComponent: ({ error, reset }) => (
    <main className="page" id="page">
      <Problem error={error} again={reset} />
    </main>
  ),
});

const text = (v: unknown) => (typeof v === 'string' && v ? v : typeof v === 'number' ? String(v) : undefined);

const whole = (v: unknown) => (Number.isInteger(v) && (v as number) >= 0 ? (v as number) : undefined);

/** `past`: the moment of the map that somebody comes from. */
const historySearch = (s: Record<string, unknown>): HistorySearch & { past?: string } => ({
  past: text(s.past),
  range: text(s.range),
  from: text(s.from),
  to: text(s.to),
  metrics: text(s.metrics),
});

const fleet = createRoute({
  getParentRoute: () => root,
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
const oncall = createRoute({ getParentRoute: () => root, path: '/oncall', component: OncallPage });
const jobs = createRoute({
  getParentRoute: () => root,
  path: '/jobs',
  component: JobsPage,
  validateSearch: (s: Record<string, unknown>): JobSearch => ({
    state: text(s.state),
    // Addresses that were kept name a whole name.
    prefix: text(s.prefix) ?? text(s.name),
    project: text(s.project),
    user: text(s.user),
    sku: text(s.sku),
    tag: text(s.tag),
    view: s.view === 'timeline' ? 'timeline' : undefined,
  }),
});
// Pages of one project, for tokens that see no more.
const work = createRoute({
  getParentRoute: () => root,
  path: '/work',
  component: WorkPage,
  validateSearch: (s: Record<string, unknown>): { of?: 'project' } => ({
    of: s.of === 'project' ? 'project' : undefined,
  }),
});
const usage = createRoute({
  getParentRoute: () => root,
  path: '/usage',
  component: UsagePage,
  validateSearch: (s: Record<string, unknown>): { days?: 30 | 90 } => ({
    days: s.days === 30 || s.days === 90 ? s.days : undefined,
  }),
});
const status = createRoute({ getParentRoute: () => root, path: '/status', component: StatusPage });
const submit = createRoute({
  getParentRoute: () => root,
  path: '/jobs/new',
  component: SubmitPage,
  validateSearch: (s: Record<string, unknown>): { from?: string } => ({ from: text(s.from) }),
});
const compare = createRoute({
  getParentRoute: () => root,
  path: '/jobs/compare',
  component: ComparePage,
  validateSearch: (s: Record<string, unknown>): { a?: string; b?: string } => ({
    a: text(s.a),
    b: text(s.b),
  }),
});
const job = createRoute({
  getParentRoute: () => root,
  path: '/jobs/$id',
  component: JobPage,
  validateSearch: historySearch,
});
const debug = createRoute({
  getParentRoute: () => root,
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
const nodes = createRoute({
  getParentRoute: () => root,
  path: '/nodes',
  component: NodesPage,
  validateSearch: (s: Record<string, unknown>): { state?: string } => ({ state: text(s.state) }),
});
const node = createRoute({
  getParentRoute: () => root,
  path: '/nodes/$name',
  component: NodePage,
  validateSearch: historySearch,
});
const gpu = createRoute({
  getParentRoute: () => root,
  path: '/nodes/$name/gpus/$gpu',
  component: GpuPage,
  validateSearch: historySearch,
});
const events = createRoute({
  getParentRoute: () => root,
  path: '/events',
  component: EventsPage,
  validateSearch: (s: Record<string, unknown>): EventSearch => ({
    find: text(s.find),
    from: text(s.from),
    to: text(s.to),
    kind: text(s.kind),
    actor: text(s.actor),
    object: text(s.object),
  }),
});
const output = createRoute({
  getParentRoute: () => root,
  path: '/output',
  component: OutputPage,
  validateSearch: (s: Record<string, unknown>): OutputSearch => ({
    q: text(s.q),
    project: text(s.project),
    job: text(s.job),
    range: rangeOf(s.range),
  }),
});
const topology = createRoute({
  getParentRoute: () => root,
  path: '/topology',
  component: TopologyPage,
  validateSearch: (s: Record<string, unknown>): { only?: boolean } => ({
    only: s.only === true || undefined,
  }),
});
const simulator = createRoute({ getParentRoute: () => root, path: '/simulator', component: SimulatorPage });
const executive = createRoute({
  getParentRoute: () => root,
  path: '/executive',
  component: ExecutivePage,
  validateSearch: (s: Record<string, unknown>): { days?: 30 | 90 } => ({
    days: s.days === 30 || s.days === 90 ? s.days : undefined,
  }),
});
const slos = createRoute({
  getParentRoute: () => root,
  path: '/slos',
  component: SlosPage,
  validateSearch: (s: Record<string, unknown>): { name?: string } => ({ name: text(s.name) }),
});
// Messages of alerts link to an objective by its path.
const sloLink = createRoute({
  getParentRoute: () => root,
  path: '/slos/$name',
  beforeLoad: ({ params }) => {
    throw redirect({ to: '/slos', search: { name: params.name }, replace: true });
  },
});
// For developers: no page links to it.
const design = createRoute({ getParentRoute: () => root, path: '/design', component: DesignPage });
const finding = createRoute({ getParentRoute: () => root, path: '/findings/$id', component: FindingPage });
const reservations = createRoute({
  getParentRoute: () => root,
  path: '/reservations',
  component: ReservationsPage,
});
const quotas = createRoute({ getParentRoute: () => root, path: '/quotas', component: QuotasPage });
const bulk = createRoute({ getParentRoute: () => root, path: '/bulk', component: BulkNodesPage });
const silences = createRoute({ getParentRoute: () => root, path: '/silences', component: SilencesPage });
const routing = createRoute({ getParentRoute: () => root, path: '/routing', component: RoutingPage });
const policy = createRoute({ getParentRoute: () => root, path: '/policy', component: PolicyPage });
const projects = createRoute({ getParentRoute: () => root, path: '/projects', component: ProjectsPage });
const tokens = createRoute({ getParentRoute: () => root, path: '/tokens', component: TokensPage });
const incident = createRoute({ getParentRoute: () => root, path: '/incidents/$id', component: IncidentPage });
const runbooks = createRoute({
  getParentRoute: () => root,
  path: '/runbooks',
  component: RunbooksPage,
  validateSearch: (s: Record<string, unknown>): { mode?: string; node?: string; finding?: string } => ({
    mode: text(s.mode),
    node: text(s.node),
    finding: text(s.finding),
  }),
});
const runbook = createRoute({
  getParentRoute: () => root,
  path: '/runbooks/$name',
  component: RunbookPage,
  validateSearch: (
    s: Record<string, unknown>,
  ): {
    node?: string;
    gpu?: string;
    job?: string;
    finding?: string;
    incident?: string;
    breaker?: string;
    step?: number;
  } => ({
    node: text(s.node),
    gpu: text(s.gpu),
    job: text(s.job),
    finding: text(s.finding),
    incident: text(s.incident),
    breaker: text(s.breaker),
    step: whole(s.step),
  }),
});
const runbookRun = createRoute({
  getParentRoute: () => root,
  path: '/runbook-runs/$id',
  component: RunbookRunPage,
});

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
