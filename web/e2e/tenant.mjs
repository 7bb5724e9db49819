// The console of a token that is bound to a project, in a real browser: part of e2e/walk.mjs.
import { axe } from './axe.mjs';
import { base, call, PHONE, page } from './browser.mjs';

const PROJECT = 'walk-home';
const OWN = ['/work', '/quotas', '/usage', '/status'];

const spec = (name, more = {}) => ({
  kind: 'Job',
  name,
  gang: { nodes: 1, gpus_per_node: 8 },
  simulate: { run: '4h' },
  ...more,
});

/** The JSON of a call to the API with a token of its own. */
async function callAs(secret, method, path, body) {
  const answer = await fetch(base + path, {
    method,
    headers: { Authorization: `Bearer ${secret}`, ...(body && { 'Content-Type': 'application/json' }) },
    body: body && JSON.stringify(body),
  });
  const text = await answer.text();
  if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`);
  return text ? JSON.parse(text) : null;
}

/** A page that remembers what the server refused. */
async function opened(chromium, how) {
  const p = await page(chromium, how);
  p.refused = [];
  p.on('response', (r) => {
    if (r.status() >= 400) p.refused.push(`${r.status()} ${r.url()}`);
  });
  return p;
}

async function settled(p) {
  await p.locator('.standing.live').waitFor();
  await p.waitForFunction(() => !/Loading…/.test(document.body.textContent));
}

export async function walkTenant({ chromium, check, must, until }) {
  await call('POST', '/v1/projects', { name: PROJECT });
  const made = await call('POST', '/v1/tokens', { name: PROJECT, role: 'user', project: PROJECT });
  const seer = await call('POST', '/v1/tokens', { name: 'walk-seer', role: 'viewer', project: PROJECT });
  const as = made.secret;
  const mine = (method, path, body) => callAs(as, method, path, body);
  const p = await opened(chromium, { as });
  const panel = (title) =>
    p.locator('section.panel').filter({ has: p.getByRole('heading', { name: title, exact: true }) });

  await check('a tenant begins with their own work, and is taught the first command', async () => {
    await p.goto(base);
    await p.waitForURL(`${base}/work`);
    await settled(p);
    await p.getByRole('heading', { name: 'Your first job' }).waitFor();
    await p.getByText(`muster run --project ${PROJECT} --gpus 1`).waitFor();
    await p.getByText(`No quota applies to ${PROJECT}`).waitFor();
    await p.getByText(`No GPU was allocated to ${PROJECT}`).waitFor();
    await p.locator('.service .word').waitFor();
    const tabs = await p.getByRole('navigation', { name: 'Sections' }).getByRole('link').allTextContents();
    must(tabs.join() === 'My work,My quota,My usage,Status', tabs.join());
    must((await p.locator('main a.button, main button.main').count()) === 1, 'not one primary action');
    // The map is a key away, and stays.
    await until('g f goes to the map', async () => {
      await p.keyboard.press('g');
      await p.keyboard.press('f');
      return new URL(p.url()).pathname === '/';
    });
    await p.locator('.map-bar').waitFor();
    await p.locator('.top .brand').click();
    await p.waitForURL(`${base}/work`);
  });

  const runs = await mine('POST', '/v1/jobs', spec('walk-runs'));
  await mine('POST', '/v1/jobs', spec('walk-held', { hold: true }));
  const ready = (await call('GET', '/v1/nodes')).items.filter(
    (n) => n.state === 'ready' && n.gpus_total === 8,
  ).length;
  await until('it runs', async () => (await mine('GET', `/v1/jobs/${runs.id}`)).state === 'running');

  await check('what runs, what waits and what ended stand there, each with its reason', async () => {
    const gang = { nodes: ready, gpus_per_node: 8 };
    const large = await mine('POST', '/v1/jobs', spec('walk-large', { gang }));
    await p.goto(`${base}/work`);
    await settled(p);
    await panel('Running')
      .getByRole('link', { name: `${runs.id} walk-runs` })
      .waitFor();
    const held = panel('Held').locator('.item');
    await held.filter({ hasText: 'walk-held' }).getByText('after somebody releases it').waitFor();
    await panel('Waiting')
      .locator('.item')
      .filter({ hasText: 'walk-large' })
      .getByText(
        /Starts (between|at the latest)|Expected to start|No start can be estimated|cannot start as it is/,
      )
      .waitFor();
    await mine('POST', `/v1/jobs/${large.id}/cancel`);
    const over = panel('Ended lately').locator('.item').filter({ hasText: 'walk-large' });
    await over.getByText('cancelled by').waitFor();
    await over.getByRole('link', { name: 'Clone' }).click();
    await p.getByText(`Filled from job ${large.id}`).waitFor();
    // The tab of one's work stays marked on the pages of jobs.
    const marked = await p.locator('.top nav [aria-current="true"]').textContent();
    must(marked === 'My work', `${marked} is marked`);
    await p.goto(`${base}/work?of=project`);
    await panel('Running')
      .getByRole('link', { name: `${runs.id} walk-runs` })
      .waitFor();
  });

  await check('a tenant is refused nothing on the pages that are offered', async () => {
    for (const path of [...OWN, '/jobs', '/jobs/new', `/jobs/${runs.id}`, '/reservations', '/events']) {
      await p.goto(base + path);
      await settled(p);
    }
    await p.goto(`${base}/status`);
    await p.getByText('Not shown to this token').first().waitFor();
    await p.getByText(/\d+ of \d+ ready/).waitFor();
    must(p.refused.length === 0, p.refused.join('\n'));
    must(p.problems.length === 0, p.problems.join('\n'));
  });

  await check('axe finds nothing on the pages of a tenant', async () => {
    for (const scheme of ['dark', 'light']) {
      const q = await opened(chromium, { as, scheme });
      for (const path of OWN) {
        await q.goto(base + path);
        await settled(q);
        const found = await axe(q);
        must(found.length === 0, `${path}, ${scheme}: ${found.join(', ')}`);
      }
      await q.context().close();
    }
  });

  await check('on a phone the pages of a tenant do not scroll sideways', async () => {
    const phone = await opened(chromium, { ...PHONE, as });
    for (const path of OWN) {
      await phone.goto(base + path);
      await settled(phone);
      const wide = await phone.evaluate(() =>
        [document.documentElement, ...document.querySelectorAll('main.page, .scroll-x, .top nav')]
          .filter((e) => e.scrollWidth > e.clientWidth + 1)
          .map((e) => `${e.tagName} ${e.className}: ${e.scrollWidth} of ${e.clientWidth} px`),
      );
      must(wide.length === 0, `${path}: ${wide.join(', ')}`);
    }
    await phone.goto(`${base}/work`);
    const submit = phone.getByRole('link', { name: 'Submit a job' });
    await submit.waitFor();
    const { height } = await submit.boundingBox();
    must(height >= 36, `the button is ${height} px high`);
    must(phone.problems.length === 0, phone.problems.join('\n'));
    await phone.context().close();
  });

  await check('who may only look is offered no submission, and the whole site is elsewhere', async () => {
    const q = await opened(chromium, { as: seer.secret });
    await q.goto(`${base}/work`);
    await settled(q);
    await q.getByRole('link', { name: `${runs.id} walk-runs` }).waitFor();
    must((await q.getByRole('link', { name: 'Submit a job' }).count()) === 0, 'a viewer may submit');
    must(q.refused.length === 0, q.refused.join('\n'));
    await q.context().close();
    const whole = await page(chromium);
    await whole.goto(`${base}/work`);
    await whole.waitForURL(`${base}/`);
    await whole.locator('.map-bar').waitFor();
    await whole.context().close();
  });

  // Also what a check left behind that failed: the next walks need the nodes.
  const active = async () => (await mine('GET', '/v1/jobs?state=active')).items;
  for (const { id } of await active()) await mine('POST', `/v1/jobs/${id}/cancel`).catch(() => null);
  await until('its jobs are over', async () => (await active()).length === 0);
  for (const { id } of [made, seer]) await call('DELETE', `/v1/tokens/${id}`);
  await p.context().close();
}
