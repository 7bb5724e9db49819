import type { Rights } from '../rights';

/**
 * Pages of the bar, with the letter that follows `g`. `needs`: who has nothing to do there does not see it. `site`: of
 * the whole site; `bound`: of one project, for who sees no more.
 */
export const PAGES = [
  { to: '/work', key: 'w', label: 'My work', also: 'home mine queue', bound: true },
  { to: '/usage', key: 'y', label: 'My usage', also: 'gpu-hours goodput report', bound: true },
  { to: '/status', key: 'h', label: 'Status', also: 'health service maintenance problems', bound: true },
  { to: '/', key: 'f', label: 'Fleet', also: 'map gpus' },
  { to: '/oncall', key: 'o', label: 'On-call', also: 'oncall incidents', site: true },
  { to: '/runbooks', key: 'b', label: 'Runbooks', also: 'steps playbook', site: true },
  { to: '/jobs', key: 'j', label: 'Jobs', also: 'queue' },
  { to: '/nodes', key: 'n', label: 'Nodes', also: 'machines' },
  { to: '/slos', key: 's', label: 'SLOs', also: 'alerts burn budget objectives' },
  {
    to: '/executive',
    key: 'x',
    label: 'Executive',
    also: 'report utilisation capacity forecast inventory',
    site: true,
  },
  { to: '/topology', key: 't', label: 'Topology', also: 'racks leaves links network' },
  { to: '/reservations', key: 'r', label: 'Reservations', also: 'maintenance calendar' },
  { to: '/quotas', key: 'q', label: 'Quotas', also: 'shares' },
  { to: '/bulk', key: 'u', label: 'Bulk actions', also: 'cordon drain qualify nodes', needs: 'operates' },
  { to: '/silences', key: 'i', label: 'Silences', also: 'mute alerts', needs: 'operates' },
  { to: '/routing', key: 'a', label: 'Routing', also: 'alerts receivers notifications', needs: 'operates' },
  { to: '/policy', key: 'p', label: 'Policy', also: 'scheduling settings', site: true },
  { to: '/whatif', key: 'v', label: 'What-if', also: 'simulate predict capacity nodes', needs: 'operates' },
  { to: '/projects', key: 'c', label: 'Projects', also: 'tenants', site: true },
  { to: '/tokens', key: 'k', label: 'Tokens', also: 'keys users access', needs: 'administers' },
  { to: '/events', key: 'e', label: 'Events', also: 'log audit' },
  { to: '/simulator', key: 'm', label: 'Simulator', also: 'digital-twin what-if scenario' },
] as const;

export type Page = (typeof PAGES)[number];

type To = Page['to'];

/** Pages that belong together. */
export interface Group {
  label: string;
  pages: Page[];
}

/** Named as the groups of `muster --help` are, where both have one. */
const GROUPS: { label: string; pages: To[] }[] = [
  { label: 'Work', pages: ['/work', '/jobs', '/usage', '/status'] },
  { label: 'Fleet', pages: ['/', '/nodes', '/topology', '/executive', '/simulator'] },
  { label: 'Health', pages: ['/oncall', '/slos', '/runbooks', '/events'] },
  {
    label: 'Manage',
    pages: [
      '/reservations',
      '/quotas',
      '/bulk',
      '/silences',
      '/routing',
      '/policy',
      '/whatif',
      '/projects',
      '/tokens',
    ],
  },
];

/**
 * What a token that is bound to a project comes for. `also`: pages that are reached from there. The others are there by
 * search and by key.
 */
export const TENANT: { to: To; label: string; also?: To }[] = [
  { to: '/work', label: 'My work', also: '/jobs' },
  { to: '/quotas', label: 'My quota' },
  { to: '/usage', label: 'My usage' },
  { to: '/status', label: 'Status', also: '/oncall' },
];

/** Pages of one project alone. */
const OWN: readonly string[] = ['/work', '/usage', '/status'];

/**
 * Where else somebody begins; null to stay. Who sees one project begins with its work, not with a map of which most is
 * hidden (`bare`: the address named nothing else). Who sees the whole site has nothing on the pages of one project,
 * where another user may have left the browser.
 */
export function homeOf(whole: boolean | null, path: string, bare: boolean): '/' | '/work' | null {
  if (whole === false && bare) return '/work';
  return whole === true && OWN.includes(path) ? '/' : null;
}

/** The groups with those of these pages that are in them; none that would be empty. */
export function groupsOf(pages: readonly Page[]): Group[] {
  return GROUPS.map(({ label, pages: tos }) => ({
    label,
    pages: tos.flatMap((to) => pages.find((p) => p.to === to) ?? []),
  })).filter((g) => g.pages.length > 0);
}

const UNDER: Record<string, To> = {
  debug: '/jobs',
  output: '/jobs',
  incidents: '/oncall',
  findings: '/oncall',
  'runbook-runs': '/runbooks',
};

/** The page of the bar that an address belongs to. */
export function pageOf(path: string): To | null {
  const first = path.split('/')[1] ?? '';
  return UNDER[first] ?? PAGES.find((p) => p.to === `/${first}`)?.to ?? null;
}

/** Those that a token has something on: what is the whole site's is not for one project. */
export function pagesFor({ whole, operates, administers }: Omit<Rights, 'project' | 'submits'>): Page[] {
  const may = { operates, administers };
  return PAGES.filter((p) => {
    const seen = whole === false ? !('site' in p) : !('bound' in p);
    return seen && (!('needs' in p) || may[p.needs]);
  });
}

/** The page that words typed into the search mean, if they mean one. */
export function pageNamed(words: string, pages: readonly Page[] = PAGES): Page | null {
  const w = words.trim().toLowerCase();
  if (w.length < 2) return null;
  return (
    pages.find((p) => p.label.toLowerCase().startsWith(w)) ??
    pages.find((p) => p.also.split(' ').some((a) => a.startsWith(w) && w.length > 3)) ??
    null
  );
}

/** What stands in the browser's tab. */
export function title(path: string): string {
  const parts = path.split('/').filter(Boolean).map(decodeURIComponent);
  const [first, second, third, fourth] = parts;
  if (first === 'jobs' && second === 'new') return 'Submit a job';
  if (first === 'jobs' && second === 'compare') return 'Compare jobs';
  if (first === 'jobs' && second) return `Job ${second}`;
  if (first === 'debug' && third) return `Debug job ${third}`;
  if (first === 'nodes' && third === 'gpus') return `${second} GPU ${fourth}`;
  if (first === 'nodes' && second) return second;
  if (first === 'incidents' && second) return `Incident ${second}`;
  if (first === 'findings' && second) return `Finding ${second}`;
  if (first === 'runbooks' && second) return `Runbook ${second}`;
  if (first === 'runbook-runs' && second) return `Run ${second}`;
  if (first === 'output') return 'Search in job output';
  if (first === 'design') return 'Design';
  return PAGES.find((p) => p.to === `/${first ?? ''}`)?.label ?? 'No such page';
}
