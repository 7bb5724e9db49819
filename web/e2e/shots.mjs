// Pictures of every page, dark and light: node e2e/shots.mjs DIRECTORY [BEGINNING-OF-A-NAME]
// `pngquant --ext .png --force 200 DIRECTORY/*.png` makes them half as large.
// They are taken of `muster up --demo`, which has a week behind it.
// With MUSTER_SHOTS=all each page is also taken as a phone has it, from its top to its end: to look at, not for the docs.
import { spawnSync } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { base, browser, call, PHONE, page } from './browser.mjs';

// Charts need something to draw.
const SETTLES_MS = 90_000;
/** A page that takes longer has something wrong. */
const SETTLED_MS = 60_000;

const out = process.argv[2] ?? 'shots';
const only = process.argv[3];
const all = process.env.MUSTER_SHOTS === 'all';
mkdirSync(out, { recursive: true });
if (!only) await new Promise((r) => setTimeout(r, SETTLES_MS));

const jobs = (await call('GET', '/v1/jobs?limit=500')).items;
const size = (j) => j.groups.reduce((n, g) => n + g.nodes * g.gpus, 0);
// The smallest gang of several nodes: its ranks can be distinguished on a picture.
const gangs = jobs.filter((j) => j.state === 'running' && size(j) >= 16).sort((a, b) => size(a) - size(b));
// One with many ranks, for the heat map.
const large = gangs.find((j) => size(j) >= 64) ?? gangs[0];
const running = gangs[0] ?? jobs.find((j) => j.state === 'running') ?? jobs[0];
const queued = jobs.find((j) => j.state === 'queued' && !j.held);
const retried = jobs.find((j) => j.past.length > 1 && size(j) >= 16) ?? jobs.find((j) => j.past.length > 0);
const findings = (await call('GET', '/v1/findings?limit=200')).items.filter((f) => f.state === 'open');
// A GPU that is there has figures to show; one off the bus has none.
const unhealthy =
  findings.find((f) => f.kind === 'driver-hang') ?? findings.find((f) => f.node && f.severity === 'critical');
const incident = (await call('GET', '/v1/incidents?limit=50')).items.find((i) => i.state === 'open');
const run = (await call('GET', '/v1/runbook-runs?limit=50')).items[0];
const nodes = (await call('GET', '/v1/nodes?limit=200')).items;
const node = unhealthy?.node ?? nodes.find((n) => n.gpus_total > 0)?.name;

// One on which a dialog may be opened: it serves, with jobs on it.
const quiet = nodes.find((n) => n.state === 'ready' && n.jobs.length > 0)?.name;

// A day back, when the week of the demo was as busy as always.
const past = `${new Date(Date.now() - 26 * 3_600_000).toISOString().slice(0, 19)}Z`;

/** A token of a project with work of its own: what tenants see. */
const mine = jobs.find((j) => j.state === 'queued' && j.project !== 'default') ?? running;
if (!mine) throw new Error('no job is queued or runs: the pictures of a tenant need one');
async function tenant() {
  const name = mine.user.replace(/^user:/, '');
  const made = await call('POST', '/v1/tokens', { name, role: 'user', project: mine.project });
  return { as: made.secret };
}
const own = await tenant();

/** Lines as a training run prints them, one of them of a fault. */
const PRINTS = `
echo "loading shard 3 of 8 from /data/tokens"
for step in $(seq 1200 10 1600); do
  echo "step $step loss 2.$((9000 - step * 3)) tokens/s 41$((200 + step % 97))"
done
echo "WARN checkpoint took 41 s, writes are slow" >&2
echo "NCCL WARN NET/IB : Got completion from peer with status=12 opcode=0" >&2
echo "resuming from step 1600"
while true; do sleep 5; done`;

/** A job that prints: what the simulated ones of the demo do not do. */
async function printing() {
  const name = 'llama-pretrain';
  const there = jobs.find((j) => j.name === name && j.state === 'running');
  if (there) return there;
  const spec = {
    kind: 'Job',
    name,
    project: mine.project,
    priority: 'high',
    time_limit: '2h',
    gang: { nodes: 1, gpus_per_node: 2, ranks_per_node: 2 },
    run: { command: ['sh', '-c', PRINTS] },
  };
  const { id } = await call('POST', '/v1/jobs', spec);
  return { id };
}
const prints = await printing();

const panel = (p, title) =>
  p.locator('section.panel').filter({ has: p.getByRole('heading', { name: title, exact: true }) });
const field = (p, label) => p.getByLabel(label, { exact: true });
const press = (p, name) => p.getByRole('button', { name, exact: true }).first().click();
const toTop = (of) => of.first().evaluate((e) => e.scrollIntoView({ block: 'start' }));

/** Forms and answers: what has to be asked for first. */
const ACTS = {
  palette: async (p) => {
    await p.keyboard.press('Control+k');
    await field(p, 'Find anything').waitFor();
    await p.keyboard.type(node.slice(-4));
    await p.locator('#palette-list [role="option"]').first().waitFor();
  },
  output: async (p) => {
    await toTop(panel(p, 'Output'));
    await p.locator('.job-log .line').first().waitFor();
  },
  reserved: async (p) => {
    await field(p, 'Name').fill('llama-70b');
    await field(p, 'Nodes').fill('32');
    await field(p, 'Time limit').fill('12h');
    await p.getByText('256 GPUs').first().waitFor();
  },
  policy: async (p) => {
    await press(p, 'Edit');
    await field(p, 'Half-life of past use').fill('3d');
    await field(p, 'Backfill').selectOption('easy');
    await p.locator('.spec-diff').first().waitFor();
  },
  reservation: async (p) => {
    await press(p, 'New reservation');
    await field(p, 'Name').fill('atlas-eval');
  },
  quotas: async (p) => {
    await press(p, 'Edit quotas');
  },
  token: async (p) => {
    await press(p, 'New token');
  },
  silence: async (p) => {
    await press(p, 'New silence');
  },
  routing: async (p) => {
    await press(p, 'Edit');
  },
  drain: async (p) => {
    await press(p, 'Drain');
    await p.getByRole('dialog').waitFor();
  },
  whatif: async (p) => {
    await field(p, 'How many more').fill('8');
    await field(p, 'Pairs of runs').fill('4');
    await field(p, 'How far ahead').fill('6h');
    await press(p, 'Simulate');
    await p.getByRole('columnheader', { name: /^8 more nodes/ }).waitFor();
    await toTop(panel(p, 'Compared'));
  },
};

/** Name, address, what is different: `once` in the dark theme only, `do` before it is taken, `look` only with all. */
const SHOTS = [
  ['login', '/', { loggedIn: false }],
  ['fleet', '/'],
  ['fleet-util', '/?by=util', { once: true }],
  ['fleet-job', '/?by=job', { once: true }],
  ['past', `/?at=${past}&span=6h&open=node:${node}`],
  ['palette', '/', { do: ACTS.palette }],
  ['oncall', '/oncall'],
  ['oncall-phone', '/oncall', PHONE],
  ['jobs', '/jobs?state=all'],
  ['queue', '/jobs', { look: true }],
  ['timeline', '/jobs?view=timeline'],
  running && ['job', `/jobs/${running.id}`],
  queued && ['job-waits', `/jobs/${queued.id}`],
  retried && ['job-retried', `/jobs/${retried.id}`],
  ['job-output', `/jobs/${prints.id}`, { do: ACTS.output }],
  retried && ['compare', `/jobs/compare?a=${retried.id}.1&b=${retried.id}.2`],
  large && ['debug', `/debug/jobs/${large.id}`],
  ['submit', '/jobs/new'],
  ['submit-waits', '/jobs/new', { do: ACTS.reserved, look: true }],
  ['nodes', '/nodes'],
  node && ['node', `/nodes/${node}`],
  node && ['node-drain', `/nodes/${quiet ?? node}`, { do: ACTS.drain, look: true }],
  node && ['gpu', `/nodes/${node}/gpus/${unhealthy?.gpu ?? 0}`],
  unhealthy && ['finding', `/findings/${unhealthy.id}`],
  incident && ['incident', `/incidents/${incident.id}`],
  ['runbooks', '/runbooks'],
  ['runbook', '/runbooks/gpu-off-bus'],
  run && ['run', `/runbook-runs/${run.id}`],
  ['events', '/events'],
  ['output', '/output?q=step', { found: true }],
  ['topology', '/topology'],
  ['slos', '/slos'],
  ['executive', '/executive'],
  ['simulator', '/simulator', { reports: true }],
  ['reservations', '/reservations'],
  ['reservation-new', '/reservations', { do: ACTS.reservation, look: true }],
  ['quotas', '/quotas'],
  ['quotas-edit', '/quotas', { do: ACTS.quotas, look: true }],
  ['bulk', '/bulk'],
  ['silences', '/silences'],
  ['silence-new', '/silences', { do: ACTS.silence, look: true }],
  ['routing', '/routing'],
  ['routing-edit', '/routing', { do: ACTS.routing, look: true }],
  ['policy', '/policy'],
  ['policy-edit', '/policy', { do: ACTS.policy }],
  ['whatif', '/whatif', { do: ACTS.whatif }],
  ['projects', '/projects'],
  ['tokens', '/tokens'],
  ['token-new', '/tokens', { do: ACTS.token, look: true }],
  ['design', '/design'],
  ['my-work', '/work', own],
  ['my-work-phone', '/work', { ...own, ...PHONE, once: true }],
  ['my-quota', '/quotas', own],
  ['my-usage', '/usage', own],
  ['my-jobs', '/jobs', { ...own, look: true }],
  ['my-fleet', '/', { ...own, look: true }],
  ['status', '/status', own],
  ['nothing', '/nowhere', { look: true }],
].filter((shot) => shot && (all || !shot[2]?.look));

/** Two reports of the twin, made here by the binary itself where it can be found. */
async function load(p) {
  const files = reports();
  if (files.length === 0) return;
  await p.locator('input[type="file"]').setInputFiles(files);
  await p.getByRole('heading', { name: 'Results' }).waitFor();
}

let made = null;
function reports() {
  if (made) return made;
  made = [];
  const [binary, scenario] = [process.env.MUSTER_BINARY, process.env.MUSTER_SCENARIO];
  if (!binary || !scenario) return made;
  for (const seed of ['1', '2']) {
    const ran = spawnSync(binary, ['sim', 'run', scenario, '--seed', seed, '-o', 'json'], {
      maxBuffer: 1 << 28,
    });
    if (ran.status === 0)
      made.push({ name: `seed-${seed}.json`, mimeType: 'application/json', buffer: ran.stdout });
  }
  return made;
}

const chromium = await browser();
let wrong = 0;

async function take(name, path, scheme, { do: act, found, reports: loads, ...how }, full) {
  const p = await page(chromium, { scheme, ...how });
  p.setDefaultTimeout(SETTLED_MS);
  try {
    await p.goto(base + path);
    await p.waitForLoadState('domcontentloaded');
    // The page is settled when the stream is live and nothing says that it loads.
    if (how.loggedIn !== false) await p.locator('.standing.live').waitFor();
    await p.waitForFunction(
      () => !/Loading…|[Rr]eading the log|Waiting for the first/.test(document.body.textContent),
    );
    if (loads) await load(p);
    if (found) await p.getByText('resuming').or(p.locator('mark')).first().waitFor();
    if (act) await act(p);
  } catch (e) {
    p.problems.push(e.message.split('\n')[0]);
  }
  if (full) {
    // Pages scroll, not the window.
    const more = await p.evaluate(() => {
      const main = document.querySelector('main.page');
      return main ? main.scrollHeight - main.clientHeight : 0;
    });
    await p.setViewportSize({ width: how.width, height: Math.min(how.height + more, 4000) });
  }
  await p.waitForTimeout(600);
  await p.screenshot({ path: `${out}/console-${name}-${scheme}.png` });
  const wide = await p.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  if (wide > 0) p.problems.push(`it is ${wide} px wider than the window`);
  // Whoever is not logged in is refused: the browser notes it.
  const refused = (text) => how.loggedIn === false && text.includes('401');
  for (const problem of p.problems.filter((text) => !refused(text))) {
    wrong++;
    console.log(`${name} ${scheme}: ${problem}`);
  }
  await p.context().close();
}

for (const scheme of ['dark', 'light']) {
  for (const [name, path, options = {}] of SHOTS) {
    if (only && !name.startsWith(only)) continue;
    const { once, look, ...how } = options;
    // One of the same page is enough.
    if (!once || scheme === 'dark') await take(name, path, scheme, how, false);
    if (all && !how.isMobile) await take(`${name}-390`, path, scheme, { ...how, ...PHONE }, true);
  }
}
await chromium.close();
console.log(`${wrong} problems`);
process.exit(wrong ? 1 : 0);
