// Pictures of every page, dark and light: node e2e/shots.mjs DIRECTORY [BEGINNING-OF-A-NAME]
// `pngquant --ext .png --force 200 DIRECTORY/*.png` makes them half as large.
// They are taken of `muster up --demo`, which has a week behind it.
import { spawnSync } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { base, browser, call, PHONE, page } from './browser.mjs';

// Charts need something to draw.
const SETTLES_MS = 90_000;

const out = process.argv[2] ?? 'shots';
const only = process.argv[3];
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
const nodes = (await call('GET', '/v1/nodes?limit=5')).items;
const node = unhealthy?.node ?? nodes.find((n) => n.gpus_total > 0)?.name;

// A day back, when the week of the demo was as busy as always.
const past = `${new Date(Date.now() - 26 * 3_600_000).toISOString().slice(0, 19)}Z`;

/** A token of a project with work of its own: what tenants see. */
async function tenant() {
  const mine = jobs.find((j) => j.state === 'queued' && j.project !== 'default') ?? running;
  if (!mine) throw new Error('no job is queued or runs: the pictures of a tenant need one');
  const name = mine.user.replace(/^user:/, '');
  const made = await call('POST', '/v1/tokens', { name, role: 'user', project: mine.project });
  return { as: made.secret };
}
const own = await tenant();

const SHOTS = [
  ['login', '/', { loggedIn: false }],
  ['fleet', '/'],
  ['fleet-util', '/?by=util', { once: true }],
  ['fleet-job', '/?by=job', { once: true }],
  ['past', `/?at=${past}&span=6h&open=node:${node}`],
  ['oncall', '/oncall'],
  ['oncall-phone', '/oncall', PHONE],
  ['jobs', '/jobs?state=all'],
  ['timeline', '/jobs?view=timeline'],
  running && ['job', `/jobs/${running.id}`],
  queued && ['job-waits', `/jobs/${queued.id}`],
  retried && ['job-retried', `/jobs/${retried.id}`],
  retried && ['compare', `/jobs/compare?a=${retried.id}.1&b=${retried.id}.2`],
  large && ['debug', `/debug/jobs/${large.id}`],
  ['submit', '/jobs/new'],
  ['nodes', '/nodes'],
  node && ['node', `/nodes/${node}`],
  node && ['gpu', `/nodes/${node}/gpus/${unhealthy?.gpu ?? 0}`],
  incident && ['incident', `/incidents/${incident.id}`],
  ['runbooks', '/runbooks'],
  ['runbook', '/runbooks/gpu-off-bus'],
  run && ['run', `/runbook-runs/${run.id}`],
  ['events', '/events'],
  ['topology', '/topology'],
  ['slos', '/slos'],
  ['executive', '/executive'],
  ['simulator', '/simulator', { reports: true }],
  ['reservations', '/reservations'],
  ['quotas', '/quotas'],
  ['bulk', '/bulk'],
  ['silences', '/silences'],
  ['routing', '/routing'],
  ['policy', '/policy'],
  ['whatif', '/whatif'],
  ['projects', '/projects'],
  ['tokens', '/tokens'],
  ['my-work', '/work', own],
  ['my-work-phone', '/work', { ...own, ...PHONE, once: true }],
  ['my-quota', '/quotas', own],
  ['my-usage', '/usage', own],
  ['status', '/status', own],
].filter(Boolean);

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
for (const scheme of ['dark', 'light']) {
  for (const [name, path, options] of SHOTS) {
    if (only && !name.startsWith(only)) continue;
    // One of the same page is enough.
    if (options?.once && scheme === 'light') continue;
    const p = await page(chromium, { scheme, ...options });
    await p.goto(base + path);
    await p.waitForLoadState('domcontentloaded');
    // The page is settled when the stream is live and nothing says that it loads.
    if (options?.loggedIn !== false) await p.locator('.standing.live').waitFor({ timeout: 20_000 });
    await p.waitForFunction(
      () => !/Loading…|[Rr]eading the log|Waiting for the first/.test(document.body.textContent),
      null,
      {
        timeout: 20_000,
      },
    );
    if (options?.reports) await load(p);
    await p.waitForTimeout(600);
    await p.screenshot({ path: `${out}/console-${name}-${scheme}.png` });
    const wide = await p.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    if (wide > 0) p.problems.push(`it is ${wide} px wider than the window`);
    for (const problem of p.problems) {
      wrong++;
      console.log(`${name} ${scheme}: ${problem}`);
    }
    await p.context().close();
  }
}
await chromium.close();
console.log(`${wrong} problems`);
process.exit(wrong ? 1 : 0);
