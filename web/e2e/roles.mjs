// Every page as each role, at two widths and in two time zones: part of e2e/walk.mjs.
import { axe } from './axe.mjs';
import { base, call, PHONE, page, token, WIDE, ZONES } from './browser.mjs';
import { counting, look, settled, visit } from './shown.mjs';

/** As in src/ui/pages.ts: pages for whoever sees the whole site, for operators, and for admins. */
const SITE = [
  '/jobs',
  '/',
  '/nodes',
  '/topology',
  '/simulator',
  '/oncall',
  '/slos',
  '/runbooks',
  '/reservations',
  '/quotas',
  '/policy',
  '/projects',
  '/executive',
  '/events',
];
const OPERATORS = ['/bulk', '/silences', '/routing', '/whatif'];
const ADMINS = ['/tokens'];
/** For whoever sees one project: the navigation, what is found by search and keys, and the rest. */
const TENANTS = ['/work', '/quotas', '/usage', '/status'];
const FOUND = ['/jobs', '/', '/nodes', '/topology', '/simulator', '/slos', '/reservations', '/events'];
const NOT_TENANTS = [
  '/oncall',
  '/executive',
  '/runbooks',
  '/runbooks/gpu-off-bus',
  '/policy',
  '/projects',
  ...OPERATORS,
  ...ADMINS,
];

/** As in src/rights.ts. `links`: the navigation. `barred`: pages that are not for this role. */
const ROLES = {
  admin: {
    may: ['submits', 'operates', 'administers'],
    links: [...SITE, ...OPERATORS, ...ADMINS],
    barred: [],
  },
  operator: { may: ['submits', 'operates'], links: [...SITE, ...OPERATORS], barred: ADMINS },
  viewer: { may: [], links: SITE, barred: [...OPERATORS, ...ADMINS] },
  tenant: { may: ['submits'], links: TENANTS, barred: NOT_TENANTS },
};

/** What is offered only to those who may do it. */
const CONTROLS = {
  submits: /^(Submit( a job| again)?|Clone|Hold|Release|Requeue|Cancel|Step by step|Run automatically)$/,
  operates: anyOf(
    'Approve.*|Acknowledge|Silence|Stop|Resume|Assign( to me)?|Unassign|Dry run|Test the network',
    'Cordon|Uncordon|Drain|Undrain|Qualify|End test|Simulate',
    'Repaired(: .+)?|Return (.+ )?to service|Retire|(Ex|In)clude GPU|Close (finding|incident)( .+)?',
    'New (reservation|maintenance window|silence)|(End|Delete)( .+)?',
  ),
  administers: /^(Edit( quotas)?|New (project|token)|Revoke .+)$/,
};

function anyOf(...names) {
  return new RegExp(`^(${names.join('|')})$`);
}

/** Tokens of all roles; that of the tenant is bound to the project. */
export async function tokensOfRoles(project) {
  const made = async (name, how) => {
    const { secret } = await call('POST', '/v1/tokens', { name: `roles-${name}`, ...how });
    return secret;
  };
  const secrets = {
    admin: token,
    operator: await made('operator', { role: 'operator' }),
    viewer: await made('viewer', { role: 'viewer' }),
    tenant: await made('tenant', { role: 'user', project }),
  };
  return Object.entries(ROLES).map(([name, role]) => ({ name, secret: secrets[name], ...role }));
}

/** Pages of single things, and where a control must be offered to those who may use it. */
async function things(id, until) {
  const { attempt } = await until('the job runs', async () => {
    const j = await call('GET', `/v1/jobs/${id}`);
    return j.state === 'running' && j;
  });
  const [{ node, gpus }] = attempt.slots;
  const first = async (list, as) => (await call('GET', `/v1/${list}?limit=1`, undefined, as)).items[0]?.id;
  const offers = [
    ['/jobs', 'Submit a job', 'submits'],
    [`/jobs/${id}`, 'Cancel', 'submits'],
    [`/nodes/${node}`, 'Drain', 'operates'],
    [`/nodes/${node}`, 'Exclude GPU', 'operates'],
    [`/nodes/${node}/gpus/${gpus[0]}`, 'Exclude GPU', 'operates'],
    ['/oncall', 'Stop', 'operates'],
    ['/topology', 'Test the network', 'operates'],
    ['/reservations', 'New reservation', 'operates'],
    ['/bulk', 'Cordon', 'operates'],
    ['/silences', 'New silence', 'operates'],
    ['/whatif', 'Simulate', 'operates'],
    ['/simulator', 'Run', 'operates'],
    ['/quotas', 'Edit quotas', 'administers'],
    ['/routing', 'Edit', 'administers'],
    ['/policy', 'Edit', 'administers'],
    ['/projects', 'New project', 'administers'],
    ['/tokens', 'New token', 'administers'],
  ];
  const incident = await first('incidents');
  const pagesOf = async ({ name, secret, may, links, barred }) => {
    const tenant = name === 'tenant';
    const finding = await first('findings', secret);
    const incidents = incident ? [`/incidents/${incident}`] : [];
    const own = [...links, ...(tenant ? FOUND : ['/runbooks/gpu-off-bus', ...incidents])];
    own.push(`/jobs/${id}`, `/debug/jobs/${id}`, `/nodes/${node}`, `/nodes/${node}/gpus/${gpus[0]}`);
    own.push('/output', '/design', ...(finding ? [`/findings/${finding}`] : []));
    if (may.includes('submits')) own.push('/jobs/new');
    return { own, barred: tenant ? [...barred, ...incidents] : barred };
  };
  return { offers, pagesOf };
}

/** Goes through all pages of a role, and gives what is wrong with them. */
async function tour(p, { who, zone, width, pages, offers, graded }) {
  const [wrong, links, answers] = [[], new Set(), []];
  let barred = false;
  p.on('response', (r) => {
    // What is barred may be refused, and nothing else.
    if (r.status() >= 400 && !(barred && r.status() === 403)) answers.push(`${r.status()} for ${r.url()}`);
  });
  const judge = async (path) => {
    const seen = await look(p, zone, width);
    const found = [...seen.wrong];
    for (const link of seen.links) links.add(link);
    for (const [right, names] of Object.entries(CONTROLS))
      if (!who.may.includes(right))
        found.push(...seen.controls.filter((c) => names.test(c)).map((c) => `offers “${c}”`));
    for (const [at, name, right] of offers)
      if (at === path && who.may.includes(right) && !seen.controls.includes(name))
        found.push(`does not offer “${name}”`);
    // A page that is refused has no more than the words that say so.
    if (graded && !barred) found.push(...(await axe(p)));
    const said = p.problems.splice(0).filter((t) => !(barred && t.includes('status of 403')));
    wrong.push(...[...found, ...said, ...answers.splice(0)].map((what) => `${path}: ${what}`));
  };
  const [first, ...rest] = pages.own;
  await p.goto(base + first);
  await settled(p);
  await judge(first);
  for (const path of rest) {
    await visit(p, path);
    await judge(path);
  }
  barred = true;
  for (const path of pages.barred) {
    await visit(p, path);
    await judge(path);
  }
  const [has, needs] = [[...links].sort().join(' '), [...who.links].sort().join(' ')];
  if (has !== needs) wrong.push(`the navigation has ${has}, not ${needs}`);
  return wrong;
}

export async function walkRoles({ chromium, check, must, until, roles, job }) {
  const { offers, pagesOf } = await things(job, until);
  const tours = [];
  for (const who of roles) {
    const pages = await pagesOf(who);
    for (const size of [WIDE, PHONE]) {
      for (const zone of ZONES) {
        // Once for each role and width: it takes longer than all the rest.
        const graded = zone === ZONES[size === WIDE ? 0 : 1];
        tours.push({ who, zone, size, width: size.width, pages, offers, graded });
      }
    }
  }
  const next = async () => {
    for (let t = tours.shift(); t; t = tours.shift()) {
      const { who, zone, size } = t;
      await check(`every page as ${who.name}, ${size.width} px, ${zone}`, async () => {
        const p = await page(chromium, { ...size, as: who.secret, timezoneId: zone });
        try {
          await p.addInitScript(counting);
          const wrong = await tour(p, t);
          must(wrong.length === 0, wrong.join('\n'));
        } finally {
          await p.context().close();
        }
      });
    }
  };
  // Two at a time: the smallest machine that runs this has two processors.
  await Promise.all([next(), next()]);
}
