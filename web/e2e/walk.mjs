// The console in a real browser against a real site: node e2e/walk.mjs
// MUSTER_URL and MUSTER_TOKEN name a site of simulated nodes that nobody else uses.
import { readFileSync } from 'node:fs';
import { walkAway } from './away.mjs';
import { axe } from './axe.mjs';
import { base, browser, call, PHONE, page, sideways, token, WIDE } from './browser.mjs';
import { check, counted, must, until, walk } from './checks.mjs';
import { walkDesign } from './design.mjs';
import { walkHistory } from './history.mjs';
import { walkJobOutput } from './job-output.mjs';
import { walkJobs } from './jobs.mjs';
import { walkManage } from './manage.mjs';
import { walkManageActs } from './manage-acts.mjs';
import { walkManageForms } from './manage-forms.mjs';
import { walkMap } from './map.mjs';
import { walkNodeActs } from './node-acts.mjs';
import { walkOncall } from './oncall.mjs';
import { walkOncallActs } from './oncall-acts.mjs';
import { walkPrint } from './print.mjs';
import { tokensOfRoles, walkRoles } from './roles.mjs';
import { walkSearch } from './search.mjs';
import { square } from './squares.mjs';
import { walkTenant } from './tenant.mjs';
import { walkWhatIf } from './whatif.mjs';

const chromium = await browser();

const job = (name, nodes, more = {}) => ({
  kind: 'Job',
  name,
  gang: { nodes, gpus_per_node: 8 },
  simulate: { run: '4h', step: '0.5s', checkpoint: '10s' },
  checkpoint: { dir: `/checkpoints/${name}` },
  retries: { infrastructure: 20 },
  ...more,
});
const get = (id) => call('GET', `/v1/jobs/${id}`);

await until(
  'nodes',
  async () =>
    (await call('GET', '/v1/nodes')).items.filter((n) => n.state === 'ready' && n.gpus_total === 8).length >=
    8,
);
const { id } = await call('POST', '/v1/jobs', job('walk', 3));
const placed = await until('the job runs', async () => {
  const j = await get(id);
  return j.state === 'running' && j;
});
const [unhealthy, second] = placed.attempt.slots.map((s) => s.node);

await check('a wrong token is refused in words, the right one lets in', async () => {
  const p = await page(chromium, { loggedIn: false });
  await p.goto(base);
  await p.getByLabel('Token').fill('mst_nobody_nothing');
  await p.getByRole('button', { name: 'Log in' }).click();
  await p.getByRole('alert').filter({ hasText: 'token' }).waitFor();
  await p.getByLabel('Token').fill(token);
  await p.getByRole('button', { name: 'Log in' }).click();
  await p.locator('.standing.live').waitFor();
  await p.reload();
  await p.locator('.standing.live').waitFor();
  const kept = await p.evaluate(() =>
    JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie]),
  );
  must(!kept.includes('mst_') && !kept.includes('muster_session'), `scripts can read the session: ${kept}`);
  // A new tab of the same browser is logged in, and hears when the user logs out.
  const tab = await p.context().newPage();
  await tab.goto(`${base}/jobs`);
  await tab.locator('.standing.live').waitFor();
  await p.bringToFront();
  await p.getByRole('button', { name: 'Log out' }).click();
  await p.getByLabel('Token').waitFor();
  await tab.getByLabel('Token').waitFor();
  await p.reload();
  await p.getByLabel('Token').waitFor();
  await p.context().close();
});

await check('a session ends when its token is revoked', async () => {
  const made = await call('POST', '/v1/tokens', { name: 'walk-session', role: 'viewer' });
  const q = await page(chromium, { as: made.secret });
  await q.goto(base);
  await q.locator('.standing.live').waitFor();
  await call('DELETE', `/v1/tokens/${made.id}`);
  await q.getByLabel('Token').waitFor();
  await q.context().close();
});

const p = await page(chromium);

await check('a GPU that falls off its bus turns red on the map, and a click leads to its cause', async () => {
  await p.goto(base);
  await p.locator('.standing.live').waitFor();
  const area = async () => JSON.stringify(await p.locator('.map-area').boundingBox());
  const before = await area();
  await call('POST', `/v1/nodes/${unhealthy}/inject`, { fault: 'xid', gpu: 3, code: 79 });
  const at = await until('a red square', () => square(p, 'unreachable or missing'));
  await p.mouse.move(at.x, at.y);
  await p.locator('.card').filter({ hasText: unhealthy }).waitFor();
  // What comes with a fault, a count beside On-call, moves nothing under the pointer.
  await p.locator('.top .count').waitFor();
  must((await area()) === before, `the map moved: ${before}, then ${await area()}`);
  await p.mouse.click(at.x, at.y);
  await p.waitForURL(`${base}/nodes/${unhealthy}`);
  await p.getByRole('heading', { name: unhealthy, exact: true }).waitFor();
  await p.getByText('critical').first().waitFor();
  await p.getByText(/Xid/).first().waitFor();
});

await check('the remediation is pending approval, gets it, and continues', async () => {
  await p.getByText('pending approval').first().waitFor();
  await p.getByRole('button', { name: 'Approve' }).click();
  // What is said is gone after a few seconds: whoever wants to see it looks before it is said.
  await Promise.all([
    p.getByText(/^Approved: /).waitFor(),
    p.getByRole('dialog').getByRole('button', { name: 'Approve' }).click(),
  ]);
  await until('the remediation goes on', async () => {
    const all = (await call('GET', '/v1/remediations?limit=50')).items.filter((r) => r.node === unhealthy);
    return all.some((r) => r.approved);
  });
});

await check('its job goes on elsewhere, and the page says why it moved', async () => {
  await until('the next attempt', async () => {
    const j = await get(id);
    return j.state === 'running' && j.attempts > 1;
  });
  await p.goto(`${base}/jobs/${id}`);
  await p.getByRole('heading', { name: 'Earlier attempts' }).waitFor();
  await p.getByText('infrastructure').first().waitFor();
  await p.getByRole('heading', { name: 'Attempt 2' }).waitFor();
});

await check('the debug page shows ranks side by side, and keeps a chosen one in its address', async () => {
  await until('steps and metrics of every rank', async () => {
    const t = await call('GET', `/v1/jobs/${id}/telemetry?fields=util`);
    const reported = (line) => line.some((v) => v !== null);
    // The first rank of a simulated node reports for all of them.
    const steps = t.lines.filter((l) => reported(l.step_ms)).length;
    return steps >= 3 && t.lines.every((l) => l.gpus.some((g) => reported(g.metrics[0])));
  });
  await p.goto(`${base}/jobs/${id}`);
  await p.getByRole('link', { name: 'Debug' }).click();
  await p.waitForURL(`${base}/debug/jobs/${id}`);
  await p.getByRole('heading', { name: 'Rank by rank' }).waitFor();
  await p.getByRole('heading', { name: /Step time/ }).waitFor();
  await p.getByText('attempt 2 was placed').waitFor();
  const map = p.locator('.heat canvas');
  await map.focus();
  await p.keyboard.press('ArrowDown');
  await p.keyboard.press('ArrowDown');
  await p.waitForURL((url) => url.searchParams.has('rank'));
  await p.getByLabel('show').selectOption('power');
  await p.waitForURL((url) => url.searchParams.get('by') === 'power');
  await p.getByRole('button', { name: 'Slowest first' }).click();
  await p.waitForURL((url) => url.searchParams.get('order') === 'slow');
  must((await p.title()).startsWith(`Debug job ${id}`), await p.title());
});

await check('the topology page shows links, and tests them', async () => {
  await p.goto(`${base}/topology`);
  await p.getByText('not tested since this server started').waitFor();
  await p.getByRole('button', { name: 'Test the network' }).click();
  await Promise.all([
    p.getByText('The test has begun').waitFor(),
    p.getByRole('dialog').getByRole('button', { name: 'Test', exact: true }).click(),
  ]);
  await p.getByLabel('only what is not healthy').check();
  await p.waitForURL((url) => url.searchParams.get('only') === 'true');
});

await check('reports of the twin are read in the browser, compared, and others refused', async () => {
  await p.goto(`${base}/simulator`);
  await p.getByText('No report yet').waitFor();
  const report = (more) =>
    Buffer.from(
      JSON.stringify({
        scenario: 'week',
        seed: 1,
        gpus: 512,
        jobs_completed: 90,
        goodput: 0.9,
        ettr: 0.95,
        wait_s: { mean: 60, p50: 10, p95: 300, p99: 900 },
        failures: { gpu: 3 },
        waterfall: { productive: 900, lost: 10, idle: 90 },
        log_digest: 'a1',
        ...more,
      }),
    );
  const file = (name, buffer) => ({ name, mimeType: 'application/json', buffer });
  const input = p.locator('input[type="file"]');
  await input.setInputFiles(file('bad.json', Buffer.from('{}')));
  await p.getByRole('alert').filter({ hasText: 'log_digest' }).waitFor();
  await input.setInputFiles(file('one.json', report({})));
  await p.getByRole('heading', { name: 'Results' }).waitFor();
  await input.setInputFiles(file('two.json', report({ goodput: 0.99, log_digest: 'b2' })));
  await p.getByText('+10.0 %, better').waitFor();
});

// The smallest one: a server gives it 25 s, which a slow machine needs for little more.
await check('a scenario of the library is run with two seeds, and compared', async () => {
  await p.goto(`${base}/simulator`);
  const run = p.getByRole('button', { name: 'Run', exact: true });
  await run.click();
  await p.getByRole('alert').filter({ hasText: 'Choose a scenario' }).waitFor();
  await p.getByLabel('Scenario', { exact: true }).selectOption('quota-war');
  await p.getByLabel('How much of it').fill('1h');
  await run.click();
  await p.getByRole('heading', { name: 'Results' }).waitFor();
  await p.getByLabel('Seed', { exact: true }).fill('2');
  await run.click();
  const column = (seed) => p.getByRole('columnheader', { name: `quota-war, 1h, seed ${seed}` }).first();
  await column(2).waitFor();
  await column(1).waitFor();
});

await check('a job is submitted by the form, which says before and after why it waits', async () => {
  // More than are free: some hold work, and one is out of service.
  const all = (await call('GET', '/v1/nodes')).items.filter((n) => n.sku !== 'cpu').length;
  await p.goto(`${base}/jobs`);
  await p.getByRole('link', { name: 'Submit a job' }).click();
  await p.getByLabel('Name', { exact: true }).fill('large');
  await p.getByText('there is free capacity').waitFor();
  await p.getByLabel('Nodes', { exact: true }).fill('9999');
  await p.getByText('asks for 9999 nodes').first().waitFor();
  must(await p.getByRole('button', { name: 'Submit' }).isDisabled(), 'what is refused can be submitted');
  await p.getByLabel('Nodes', { exact: true }).fill(String(all - 2));
  await p.getByText('waits for free capacity').first().waitFor();
  await p.getByText(`nodes: ${all - 2}`).waitFor();
  await p.getByRole('button', { name: 'Submit' }).click();
  await p.getByRole('heading', { name: 'Why it waits' }).waitFor();
  await p.getByText('Nodes left').waitFor();
  await p.getByRole('button', { name: 'Cancel', exact: true }).click();
  await p.getByRole('button', { name: 'Cancel the job' }).click();
  await p.getByText('cancelled').first().waitFor();
});

await check('a job that has ended is requeued by its button', async () => {
  await p.getByRole('button', { name: 'Requeue' }).click();
  await p.getByRole('dialog').getByText('runs again').waitFor();
  await Promise.all([
    p.getByText(/is requeued$/).waitFor(),
    p.getByRole('dialog').getByRole('button', { name: 'Requeue' }).click(),
  ]);
  await p.getByRole('heading', { name: 'Why it waits' }).waitFor();
  await p.getByRole('button', { name: 'Cancel', exact: true }).click();
  await p.getByRole('button', { name: 'Cancel the job' }).click();
  await p.locator('.head .word', { hasText: 'cancelled' }).waitFor();
});

const tools = { chromium, check, must, until };
// Two at a time: the smallest machine that runs this has two processors. Neither needs what the other changes.
await Promise.all([
  walk('of jobs', async () => {
    await walkJobs(tools);
    await walkJobOutput(tools);
  }),
  walk('of the history and the design', async () => {
    await walkHistory({ ...tools, node: second, job: id });
    await walkDesign({ ...tools, placed });
    await walkMap(tools);
    await walkPrint(tools);
  }),
]);
await walk('of a tenant', () => walkTenant(tools));

await check(
  'a token of one project sees its events, no false all-clear, and no button it may not press',
  async () => {
    const { project } = await get(id);
    const made = await call('POST', '/v1/tokens', { name: 'walk-tenant', role: 'user', project });
    const t = await page(chromium, { as: made.secret });
    await t.goto(`${base}/events`);
    await t.locator('.standing.live').waitFor();
    await t.getByRole('button', { name: 'job submitted' }).first().waitFor();
    for (const name of ['My work', 'My quota', 'My usage', 'Status'])
      await t.getByRole('link', { name, exact: true }).waitFor();
    const sections = await t.getByRole('link', { name: 'Health', exact: true }).count();
    must(sections === 0, 'sections of the site are offered');
    await t.goto(`${base}/oncall`);
    await t.getByText('Not shown to this token').first().waitFor();
    must(
      (await t.getByText('Nothing is open', { exact: true }).count()) === 0,
      'it says that nothing is open',
    );
    must((await t.getByRole('link', { name: 'Runbooks' }).count()) === 0, 'runbooks are offered');
    await t.goto(`${base}/nodes/${unhealthy}`);
    await t.getByText('Not shown to this token').first().waitFor();
    for (const name of ['Cordon', 'Drain', 'Qualify', 'Try again'])
      must((await t.getByRole('button', { name, exact: true }).count()) === 0, `${name} is offered`);
    await t.goto(`${base}/topology`);
    await t.getByText('tests of the network are for operators').waitFor();
    // What it may not have is not asked for: the browser would call each answer an error.
    must(t.problems.length === 0, t.problems.join('\n'));
    await t.goto(`${base}/incidents/1`);
    await t.getByText('Not for this token').waitFor();
    must((await t.getByRole('button', { name: 'Try again' }).count()) === 0, 'Try again is offered');
    await t.context().close();
  },
);

await check('events are chosen in the address, on the server, and saved as a file', async () => {
  await p.goto(`${base}/events`);
  await p.locator('table.cards tbody tr').first().waitFor();
  await p.getByLabel('Kinds').fill('job_submitted');
  await p.keyboard.press('Enter');
  await p.waitForURL((url) => url.searchParams.get('kind') === 'job_submitted');
  await until('only these are listed', async () => {
    const kinds = await p.locator('table.cards tbody td:nth-child(2)').allTextContents();
    return kinds.length > 0 && kinds.every((k) => k === 'job submitted');
  });
  const [file] = await Promise.all([
    p.waitForEvent('download'),
    p.getByRole('button', { name: 'Download CSV' }).click(),
  ]);
  const text = readFileSync(await file.path(), 'utf8');
  must(text.startsWith('at,event,job,node'), text.slice(0, 80));
  must(text.includes(',job_submitted,'), text.slice(0, 400));
  // What comes is chosen too.
  const { id: fresh } = await call('POST', '/v1/jobs', job('fresh', 1, { hold: true }));
  await p.getByRole('link', { name: fresh, exact: true }).waitFor();
  await call('POST', `/v1/jobs/${fresh}/cancel`);
  await p.goto(`${base}/events?object=job%3A${id}&actor=nobody`);
  await p.getByText('Nothing matches so far').waitFor();
  await p.getByRole('button', { name: 'Show all' }).click();
  await p.waitForURL(`${base}/events`);
});

await check('a node is drained and taken back by its buttons', async () => {
  const idle = (await call('GET', '/v1/nodes')).items.find(
    (n) => n.state === 'ready' && n.gpus_total === 8 && n.jobs.length === 0,
  );
  await p.goto(`${base}/nodes/${idle.name}`);
  await p.getByRole('button', { name: 'Drain', exact: true }).click();
  await p.getByLabel(/Reason/).fill('practice');
  await p.getByRole('dialog').getByRole('button', { name: 'Drain' }).click();
  await p.getByText('drained').first().waitFor();
  await p.getByRole('button', { name: 'Undrain' }).click();
  await p.getByRole('dialog').getByRole('button', { name: 'Undrain' }).click();
  await p.locator('.head .word', { hasText: 'ready' }).waitFor();
});

await check('the slider shows the map as it was before the fault, and goes back to now', async () => {
  await p.goto(base);
  await p.locator('.standing.live').waitFor();
  await p.locator('.legend li', { hasText: 'allocated, healthy' }).waitFor();
  // A moment at which the job ran and nothing was wrong.
  const at = new Date(Date.parse(placed.started_at) + 200).toISOString();
  await p.goto(`${base}/?at=${at}`);
  await p.getByText('as the log has it').waitFor();
  await p.locator('.legend li', { hasText: '24 allocated' }).waitFor();
  must(
    (await p.locator('.legend li', { hasText: 'unreachable' }).count()) === 0,
    'the fault is seen before it happened',
  );
  const slider = p.getByRole('slider', { name: 'Time' });
  await slider.focus();
  await p.keyboard.press('Home');
  await p.waitForURL((url) => url.searchParams.get('at') !== at);
  await p.getByRole('button', { name: 'Live' }).click();
  await p.waitForURL(`${base}/`);
});

await check('pages are in four sections, and the open page is marked in its own', async () => {
  await p.goto(base);
  await p.locator('.standing.live').waitFor();
  const sections = await p.getByRole('navigation', { name: 'Sections' }).getByRole('link').allTextContents();
  const names = sections.map((s) => s.replace(/\d+$/, ''));
  must(names.join() === 'Work,Fleet,Health,Manage', names.join());
  // Its name ends with how much is to approve, where there is something.
  await p
    .getByRole('navigation', { name: 'Sections' })
    .getByRole('link', { name: /^Health/ })
    .click();
  await p.waitForURL(`${base}/oncall`);
  const pages = p.getByRole('navigation', { name: 'Pages of Health' });
  await pages.getByRole('link', { name: 'Events' }).click();
  await p.waitForURL(`${base}/events`);
  const marked = await pages.locator('[aria-current="page"]').textContent();
  must(marked === 'Events', `${marked} is marked as open`);
});

await check('the keyboard goes to pages, searches and helps', async () => {
  await p.goto(base);
  await p.locator('.standing.live').waitFor();
  // The second key must follow the first soon, which a slow machine may not manage at once.
  const goes = async (key, to) => {
    await until(`g ${key} goes to ${to}`, async () => {
      await p.keyboard.press('g');
      await p.keyboard.press(key);
      try {
        await p.waitForURL(to, { timeout: 5000 });
        return true;
      } catch {
        return false;
      }
    });
  };
  await goes('j', `${base}/jobs`);
  await p.keyboard.press('?');
  await p.getByRole('dialog', { name: 'Keyboard' }).waitFor();
  await p.keyboard.press('Escape');
  await goes('f', `${base}/`);
  // It may be on another page, which has to come first: what is typed before that is lost.
  const search = async (words) => {
    await p.keyboard.press('/');
    await p.waitForFunction(() => document.activeElement?.matches('input[type="search"]'));
    await p.keyboard.type(words);
  };
  await p.locator('.map-bar input[type="search"]').waitFor();
  await search(second);
  await p.getByText('on 1 node, Enter opens it').waitFor();
  await p.keyboard.press('Enter');
  // The address is another one before the page is, and the old one takes what is typed.
  await p.getByRole('heading', { name: second, exact: true }).waitFor();
  await search('simul');
  await p.getByText('Enter opens Simulator').waitFor();
  await p.keyboard.press('Enter');
  await p.waitForURL(`${base}/simulator`);
});

await check('anything is found by the keyboard alone, and the focus goes back', async () => {
  await p.goto(`${base}/jobs`);
  await p.locator('.standing.live').waitFor();
  await p.keyboard.press('Control+k');
  const box = p.getByRole('combobox', { name: 'Find anything' });
  await box.waitFor();
  await until('the box has the focus', () => box.evaluate((e) => e === document.activeElement));
  // Pages and commands are listed before anything is typed.
  await p.getByRole('option', { name: /Quotas/ }).waitFor();
  await p.keyboard.type(second);
  await p.getByRole('option', { name: new RegExp(`^node ${second}`) }).waitFor();
  await until('the node is chosen', async () => {
    const id = await box.getAttribute('aria-activedescendant');
    return (await p.locator(`#${id}`).textContent()).startsWith(`node${second}`);
  });
  const found = await axe(p);
  must(found.length === 0, found.join('\n'));
  await p.keyboard.press('Enter');
  await p.waitForURL(`${base}/nodes/${second}`);
  await p.getByRole('button', { name: 'Find', exact: true }).click();
  await box.waitFor();
  await p.keyboard.press('Escape');
  await until('the focus is back', () => p.evaluate(() => document.activeElement?.textContent === 'Find'));
  await p.keyboard.press('Control+k');
  await box.waitFor();
  await p.keyboard.type('submit a');
  await until('the command is chosen', async () => {
    const id = await box.getAttribute('aria-activedescendant');
    return id && (await p.locator(`#${id}`).textContent()).includes('Submit a job');
  });
  await p.keyboard.press('Enter');
  await p.waitForURL(`${base}/jobs/new`);
});

await check('of a moment before the log, or one that has not come, no map is shown', async () => {
  // A moment that is refused is an error in the browser's own console: this page is not asked for those.
  const q = await page(chromium);
  await q.goto(`${base}/?at=2001-01-01T00:00:00Z`);
  await q.getByText('There is no map of this moment').waitFor();
  must((await q.locator('.map-area').count()) === 0, 'a map is shown');
  await q.goto(`${base}/?at=nonsense`);
  await q.getByText('“nonsense” in the address is no moment').waitFor();
  must((await q.locator('.map-area').count()) === 0, 'a map is shown');
  await q.goto(`${base}/?at=2099-01-01T00:00:00Z`);
  await q.getByText('This moment has not come yet').waitFor();
  must((await q.locator('.map-area').count()) === 0, 'a map is shown');
  must(!(await q.locator('.time-bar output').textContent()).includes('ago'), 'the future is called past');
  await q.getByRole('button', { name: 'Live' }).click();
  await q.locator('.map-area').waitFor();
  await q.context().close();
});

await check('all times are in one zone, which the page names', async () => {
  const q = await page(chromium, { timezoneId: 'America/Los_Angeles' });
  const title = async () => (await q.locator('main time').first().getAttribute('title')) ?? '';
  await q.goto(`${base}/events`);
  await q.getByRole('button', { name: /^Times in UTC-[78]$/ }).waitFor();
  must(/ UTC-[78]$/.test(await title()), await title());
  await q.getByRole('button', { name: /^Times in/ }).click();
  await q.getByRole('button', { name: 'Times in UTC', exact: true }).waitFor();
  await until('times in UTC', async () => / UTC$/.test(await title()));
  await q.goto(`${base}/executive`);
  await q.locator('.head .dim', { hasText: ', UTC' }).waitFor();
  must(q.problems.length === 0, q.problems.join('\n'));
  await q.context().close();
});

await check('without frames pages are dimmed, and their actions are off until they come', async () => {
  const q = await page(chromium);
  const frames = '**/v1/console/frames';
  const look = () =>
    q.locator('main').evaluate((m) => {
      const { opacity, filter } = getComputedStyle(m);
      return `${opacity} ${filter}`;
    });
  for (const [path, name] of [
    ['/oncall', 'Stop'],
    [`/jobs/${id}`, 'Cancel'],
    [`/nodes/${second}`, 'Drain'],
  ]) {
    await q.route(frames, (route) => route.abort());
    await q.goto(base + path);
    await q.getByText('The server is away.').waitFor();
    const action = q.getByRole('button', { name, exact: true });
    await action.waitFor();
    must(await action.isDisabled(), `${name} is on while the server is away`);
    must((await look()) === '0.85 grayscale(1)', `${path} is not dimmed: ${await look()}`);
    await q.unroute(frames);
    await q.locator('.standing.live').waitFor();
    await until(`${name} is lit`, () => action.isEnabled());
    must((await look()) === '1 none', `${path} is still dimmed: ${await look()}`);
    must((await q.getByText('The server is away.').count()) === 0, 'it still says that the server is away');
  }
  await q.context().close();
});

/** What of some elements lies outside the window. */
const outside = (p, selector) =>
  p.evaluate(
    (selector) =>
      [...document.querySelectorAll(selector)]
        .map((e) => ({ text: e.textContent, box: e.getBoundingClientRect() }))
        .filter(
          ({ box }) =>
            box.width > 0 && (box.left < 0 || box.right > document.documentElement.clientWidth + 1),
        )
        .map(({ text, box }) => `${text}: ${Math.round(box.left)} to ${Math.round(box.right)} px`),
    selector,
  );

await check('while the server is away nothing is cut off, and pages say why they are empty', async () => {
  for (const how of [PHONE, WIDE]) {
    const q = await page(chromium, how);
    await q.goto(base);
    await q.locator('.standing.live').waitFor();
    await q.route('**/v1/**', (route) => route.abort());
    await q.goto(`${base}/?at=2001-01-01T00:00:00Z`);
    await q.getByText('The server is away.').waitFor();
    const cut = await outside(q, '.top > *, .time-bar output');
    must(cut.length === 0, cut.join(', '));
    // On a phone the colours are switched on the line of the sections.
    const rows = await q.evaluate(() =>
      [...document.querySelectorAll('.top > button:not(.colours), .top > .standing, .top > .brand')]
        .filter((e) => e.offsetWidth > 0)
        .map((e) => Math.round(e.getBoundingClientRect().top / 30)),
    );
    must(new Set(rows).size === 1, `the bar wraps: ${rows}`);
    await q.getByRole('link', { name: 'Nodes' }).click();
    await q.getByText('the server cannot be reached').first().waitFor();
    await q.context().close();
  }
});

await check('on a phone the open page is seen in the bar, and nothing is too small to read', async () => {
  const phone = await page(chromium, PHONE);
  await phone.goto(`${base}/executive`);
  await phone.locator('.standing.live').waitFor();
  await phone.locator('main h1').waitFor();
  await until('the bar shows it', async () => (await outside(phone, 'nav [aria-current]')).length === 0);
  await until('words of plots are large enough', () =>
    phone.evaluate(() =>
      [...document.querySelectorAll('.plot svg')].every(
        (s) => s.getBoundingClientRect().width >= s.viewBox.baseVal.width - 1,
      ),
    ),
  );
  await phone.goto(base);
  await phone.locator('.standing.live').waitFor();
  const hidden = await outside(phone, '.modes button');
  must(hidden.length === 0, hidden.join(', '));
  await phone.context().close();
});

await check('on a phone rows are cards, and nothing scrolls sideways', async () => {
  const phone = await page(chromium, PHONE);
  const { items } = await call('GET', '/v1/incidents?limit=1');
  const incident = items.map((i) => `/incidents/${i.id}`);
  const own = [`/jobs/${id}`, `/nodes/${unhealthy}`, `/nodes/${second}`];
  for (const path of ['/jobs?state=all', '/nodes', '/events', '/quotas', '/oncall', ...own, ...incident]) {
    await phone.goto(base + path);
    await phone.locator('.standing.live').waitFor();
    await phone.waitForFunction(() => !/Loading…/.test(document.body.textContent));
    // A site without quotas, causes or jobs on a node has none to list.
    const rows = '.virtual a.grid-row, table.cards tbody tr, .cause, .panel .state h2';
    await phone.locator(rows).first().waitFor();
    const plain = await phone.locator('main table:not(.cards)').count();
    must(plain === 0, `${path}: ${plain} tables are no cards`);
    const wide = await sideways(phone);
    must(wide.length === 0, `${path}: ${wide.join(', ')}`);
  }
  must(phone.problems.length === 0, phone.problems.join('\n'));
  await phone.context().close();
});

await check('on a phone the colours are switched, and switched back', async () => {
  const phone = await page(chromium, PHONE);
  await phone.goto(base);
  await phone.locator('.standing.live').waitFor();
  const shown = () => phone.evaluate(() => document.documentElement.dataset.theme);
  const before = await shown();
  for (let i = 0; i < 2; i++) {
    const other = (await shown()) === 'dark' ? 'light' : 'dark';
    await phone.getByRole('button', { name: other === 'light' ? 'Light' : 'Dark', exact: true }).tap();
    await until(`the colours are ${other}`, async () => (await shown()) === other);
  }
  must((await shown()) === before, 'the colours are not as they were');
  const wide = await sideways(phone);
  must(wide.length === 0, wide.join(', '));
  await phone.context().close();
});

await check('on a phone the on-call page fits, and approves', async () => {
  const phone = await page(chromium, PHONE);
  await call('POST', `/v1/nodes/${second}/inject`, { fault: 'xid', gpu: 1, code: 79 });
  await phone.goto(`${base}/oncall`);
  const approve = phone
    .locator('.cause')
    .filter({ hasText: second })
    .getByRole('button', { name: /^Approve( \d+)?$/ })
    .first();
  await approve.waitFor();
  const { wide, seen } = await phone.evaluate(() => ({
    wide: document.documentElement.scrollWidth,
    seen: window.visualViewport.width,
  }));
  must(wide <= 390 && seen <= 390, `it is ${wide} px wide, ${seen} of them seen`);
  await approve.tap();
  await Promise.all([
    phone.getByText(/^Approved: /).waitFor(),
    phone.getByRole('dialog').getByRole('button', { name: 'Approve' }).tap(),
  ]);
  must(phone.problems.length === 0, phone.problems.join('\n'));
  await phone.context().close();
});

const PAGES = [
  `/?at=${placed.started_at}`,
  `/?at=${placed.started_at}&open=job:${id}`,
  '/',
  '/?by=util',
  '/oncall',
  '/runbooks',
  '/runbooks/gpu-off-bus',
  '/jobs?state=all',
  '/jobs?view=timeline',
  '/jobs/new',
  `/jobs/${id}`,
  `/jobs/compare?a=${id}.1&b=${id}.2`,
  '/nodes',
  `/nodes/${unhealthy}`,
  `/nodes/${unhealthy}/gpus/0`,
  '/events',
  `/debug/jobs/${id}`,
  '/topology',
  '/simulator',
  '/executive',
  '/design',
  '/slos',
  '/reservations',
  '/quotas',
  '/bulk',
  '/silences',
  '/routing',
  '/policy',
  '/whatif',
  '/projects',
  '/tokens',
  '/nonsense',
];
for (const scheme of ['dark', 'light']) {
  await check(`axe finds nothing, ${scheme}`, async () => {
    const q = await page(chromium, { scheme });
    const found = [];
    for (const path of PAGES) {
      await q.goto(base + path);
      await q.locator('.standing.live').waitFor();
      await q.waitForFunction(() => !/Loading…|Waiting for the first/.test(document.body.textContent));
      for (const problem of await axe(q)) found.push(`${path}: ${problem}`);
    }
    must(found.length === 0, found.join('\n'));
    must(q.problems.length === 0, q.problems.join('\n'));
    await q.context().close();
  });
}

const roles = await walk('that makes tokens of roles', async () => tokensOfRoles((await get(id)).project));
if (roles) await walk('of roles', () => walkRoles({ ...tools, roles, job: id }));
await walk('of the manage pages', () => walkManage(tools));
await walk('of what is changed there', () => walkManageActs(tools));
await walk('of the forms of the policy and the routing', () => walkManageForms(tools));
// An incident is seen only while little else is wrong: it is the first of the two.
const incident = await walk('of what is decided on call', () => walkOncallActs(tools));
await walk('of the on-call page', () => walkOncall(tools));
await walk('of what is decided about a node', () => walkNodeActs(tools));
await Promise.all([
  walk('of the what-if page', () => walkWhatIf(tools)),
  walk('of what is found', () => walkSearch({ ...tools, incident })),
]);

await check('nothing went wrong in the browser', async () => {
  must(p.problems.length === 0, p.problems.join('\n'));
  await p.context().close();
});
if (roles) await walk('of a server that is away', () => walkAway({ ...tools, roles, job: id }));
await chromium.close();
process.exit(counted());
