// What somebody on call decides, as operator and also on a phone: part of e2e/walk.mjs.
import { createServer } from 'node:http';
import { base, call, PHONE, page, WIDE } from './browser.mjs';

/** A receiver of notifications; `got` has what came to each of its paths. */
async function receiver() {
  const got = {};
  const server = createServer((request, answer) => {
    let body = '';
    request.on('data', (part) => {
      body += part;
    });
    request.on('end', () => {
      got[request.url] = [...(got[request.url] ?? []), body];
      answer.end();
    });
  });
  await new Promise((listens) => server.listen(0, '127.0.0.1', listens));
  return { got, at: `http://127.0.0.1:${server.address().port}`, close: () => server.close() };
}

/** Keeps the titles of what the page notifies of, and notifies. Runs in the page. */
function recording() {
  window.notified = [];
  window.Notification = class extends window.Notification {
    constructor(title, more) {
      super(title, more);
      window.notified.push(`${title}: ${more.body}`);
    }
  };
}

/**
 * The idle nodes of a rack, three at least: what happens to all of them at once is one incident. What was decided of
 * earlier faults of a node counts for the next one: these have had none, whoever came back meanwhile.
 */
async function rackOf(until) {
  const treated = new Set((await call('GET', '/v1/remediations?limit=1000')).items.map((r) => r.node));
  return until('a rack with three idle nodes that had no fault', async () => {
    const { items } = await call('GET', '/v1/nodes?limit=200');
    const idle = items.filter(
      (n) =>
        n.state === 'ready' &&
        n.gpus_total === 8 &&
        !n.avoided &&
        !n.cordon &&
        n.jobs.length === 0 &&
        !treated.has(n.name),
    );
    const near = (a, b) => a.location.rack === b.location.rack && a.location.leaf === b.location.leaf;
    // What is pending of others in the rack would be of the same incident.
    const faults = (one) => items.filter((n) => near(n, one) && treated.has(n.name)).length;
    const racks = idle
      .map((one) => ({ faults: faults(one), names: idle.filter((n) => near(n, one)).map((n) => n.name) }))
      .filter((rack) => rack.names.length >= 3)
      .sort((a, b) => a.faults - b.faults || b.names.length - a.names.length);
    return racks[0]?.names;
  });
}

/** Gives the incident that was decided about. */
export async function walkOncallActs({ chromium, check, must, until }) {
  const made = await call('POST', '/v1/tokens', { name: 'walk-oncall', role: 'operator' });
  const before = await call('GET', '/v1/routing');
  const hook = await receiver();
  const webhook = (name) => ({ name, by: { webhook: { url: `${hook.at}/${name}` } } });
  await call('PUT', '/v1/routing', {
    routing: {
      receivers: [webhook('first'), webhook('second')],
      routes: [{ to: ['first'], wait: '0s', escalate: [{ after: '8h', to: ['second'] }] }],
    },
  });
  // Stopped, it holds every remediation back: they stay pending for as long as this takes.
  await call('POST', '/v1/automation/stop', { reason: 'what is decided on call is tested' });
  const nodes = await rackOf(until);

  const open = async (how, path = '/oncall') => {
    const p = await page(chromium, { ...how, as: made.secret });
    await p.goto(base + path);
    await p.locator('.standing.live').waitFor();
    return p;
  };
  const closes = async (p) => {
    const { wide, of } = await p.evaluate(() => ({
      wide: document.documentElement.scrollWidth,
      of: window.innerWidth,
    }));
    must(wide <= of, `it is ${wide} px wide, of ${of}`);
    must(p.problems.length === 0, p.problems.join('\n'));
    await p.context().close();
  };
  /** The card of an incident, with everything that can be done about it in sight. */
  const cardOf = async (p, id) => {
    const card = p.locator('.cause').filter({ has: p.getByRole('link', { name: `Incident ${id}` }) });
    await card.getByText('More actions').click();
    return card;
  };
  /** Says yes in the dialog, and waits for what the page says then. */
  const decide = (p, button, said) =>
    Promise.all([
      p.getByText(said, { exact: true }).waitFor(),
      p.getByRole('dialog').getByRole('button', { name: button, exact: true }).click(),
    ]);
  const incident = async (id) => call('GET', `/v1/incidents/${id}`);
  let id = '';

  await check('a new page is a desktop notification on every page, also after a reload', async () => {
    const p = await page(chromium, { ...WIDE, as: made.secret, permissions: ['notifications'] });
    await p.addInitScript(recording);
    await p.goto(`${base}/oncall`);
    await p.locator('.standing.live').waitFor();
    await p.getByRole('heading', { name: 'Causes' }).waitFor();
    await p.getByRole('button', { name: 'Desktop notifications' }).click();
    await p.getByRole('button', { name: 'Desktop notifications are on', pressed: true }).waitFor();
    // Asked for on the on-call page, it is on in this browser from then.
    await p.goto(`${base}/jobs`);
    await p.locator('.standing.live').waitFor();
    await Promise.all([p.waitForResponse((r) => r.url().endsWith('/v1/causes') && r.ok()), p.reload()]);
    await p.locator('.standing.live').waitFor();
    // Of another alert, which may be raised at any time, it may notify.
    const old = await p.evaluate(() => window.notified.filter((n) => n.startsWith('Page: gpu-off-bus: ')));
    must(old.length === 0, `it notifies of what was there before: ${old.join('; ')}`);
    for (const name of nodes)
      await call('POST', `/v1/nodes/${name}/inject`, { fault: 'xid', gpu: 5, code: 79 });
    const found = await until('an incident of the rack', async () => {
      const { items } = await call('GET', '/v1/incidents?limit=50');
      for (const { id: one } of items.filter((i) => i.state === 'open')) {
        const at = (await incident(one)).findings.map((f) => f.node);
        if (nodes.every((n) => at.includes(n))) return one;
      }
      return null;
    });
    id = found;
    await p.waitForFunction(() => window.notified.some((n) => n.startsWith('Page: gpu-off-bus: ')));
    await closes(p);
  });
  if (!id) throw new Error('there is no incident to decide about');

  await check('an alert is escalated to the next receiver, and acknowledged with a note', async () => {
    const p = await open(WIDE);
    const card = await cardOf(p, id);
    await card.getByRole('button', { name: 'Escalate' }).click();
    await decide(p, 'Escalate', 'Escalated');
    await card.getByText('escalation step 1').waitFor();
    await until('the next receiver is notified', () => hook.got['/second']?.length > 0);
    await card.getByRole('button', { name: 'Acknowledge' }).click();
    await p
      .getByRole('dialog')
      .getByLabel(/Reason/)
      .fill('looking at the rack');
    await decide(p, 'Acknowledge', 'Acknowledged');
    await card.getByText(/Acknowledged by walk-oncall .*: looking at the rack/).waitFor();
    must((await card.getByRole('button', { name: 'Acknowledge' }).count()) === 0, 'it is offered again');
    await closes(p);
  });

  await check('an incident is assigned to oneself on its page, on a phone', async () => {
    const p = await open(PHONE, `/incidents/${id}`);
    await Promise.all([
      p.getByText(`Incident ${id} is assigned to you`).waitFor(),
      p.getByRole('button', { name: 'Assign to me' }).tap(),
    ]);
    await p.getByText('Assigned to walk-oncall').waitFor();
    must((await incident(id)).owner === 'user:walk-oncall', 'it has another owner');
    await closes(p);
  });

  await check('an incident is assigned to somebody else, and to nobody, from its card', async () => {
    const p = await open(WIDE);
    const card = await cardOf(p, id);
    const press = (name) => card.getByRole('button', { name, exact: true }).click();
    await press(`Assign incident ${id}`);
    const owner = p.getByRole('dialog').getByLabel(/^Owner/);
    // Nobody is chosen by an empty field.
    await owner.fill('');
    await p.getByRole('dialog').getByRole('button', { name: 'Assign', exact: true }).click();
    must(await owner.isVisible(), 'an empty field is taken');
    await owner.fill('user:ann');
    await decide(p, 'Assign', `Incident ${id} is assigned to user:ann`);
    await card.getByText('assigned to ann').waitFor();
    await press(`Unassign incident ${id}`);
    await decide(p, 'Unassign', `Incident ${id} is assigned to nobody`);
    await card.getByText('not assigned').waitFor();
    must(!(await incident(id)).owner, 'it has an owner');
    await closes(p);
  });

  const remediation = async (node) => {
    const { items } = await call('GET', '/v1/remediations?limit=200');
    return items.filter((r) => r.node === node).at(-1);
  };
  for (const [how, word, done, node] of [
    [PHONE, 'Deny', 'Denied', nodes[0]],
    [WIDE, 'Withdraw', 'Withdrawn', nodes[1]],
  ]) {
    await check(`a remediation gets “${word}” only with a reason, at ${how.width} px`, async () => {
      const p = await open(how);
      const card = await cardOf(p, id);
      const { id: one } = await remediation(node);
      await card.getByRole('button', { name: `${word} on ${node}` }).click();
      const dialog = p.getByRole('dialog');
      // Whoever withdraws it reads what stays wrong there.
      if (word === 'Withdraw') await dialog.getByText(/critical finding stays open: /).waitFor();
      await dialog.getByRole('button', { name: word, exact: true }).click();
      must(await dialog.isVisible(), 'it needs no reason');
      await dialog.getByLabel(/Reason/).fill('practice');
      await decide(p, word, new RegExp(`^${done} on ${node}`));
      await card.getByRole('button', { name: `${word} on ${node}` }).waitFor({ state: 'detached' });
      const ended = await call('GET', `/v1/remediations/${one}`);
      must(ended.step === 'ended', JSON.stringify(ended));
      await closes(p);
    });
  }

  await check('an incident is closed with a reason when nothing is pending, and its card goes', async () => {
    // What is pending of it keeps it open: each remediation is decided first.
    for (const name of nodes.slice(2)) {
      const left = await remediation(name);
      if (left.step !== 'ended')
        await call('POST', `/v1/remediations/${left.id}/deny`, { reason: 'practice' });
    }
    const p = await open(PHONE);
    const card = await cardOf(p, id);
    await card.getByRole('button', { name: `Close incident ${id}` }).tap();
    await p
      .getByRole('dialog')
      .getByLabel(/Reason/)
      .fill('practice is over');
    await decide(p, 'Close the incident', `Incident ${id} is closed`);
    await card.waitFor({ state: 'detached' });
    const closed = await incident(id);
    must(closed.state === 'closed', `it is ${closed.state}`);
    const notes = closed.notes.map((n) => `${n.by} ${n.text}`);
    must(notes.includes('user:walk-oncall closed: practice is over'), notes.join());
    await closes(p);
  });

  for (const name of nodes) await call('POST', `/v1/nodes/${name}/inject`, { fault: 'repair' });
  await call('POST', '/v1/automation/resume');
  await call('PUT', '/v1/routing', { routing: before.routing });
  await call('DELETE', `/v1/tokens/${made.id}`);
  hook.close();
  return id;
}
