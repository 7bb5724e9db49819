// What is decided about a node, a GPU and a finding, and commands of the palette: part of e2e/walk.mjs.
import { base, call, PHONE, page, sideways, WIDE } from './browser.mjs';

/** A fault that the driver reports once, and after which people replace a part. */
const REPLACED = 64;
/** What only operators are offered on the pages of a node and of a finding. */
const ACTS = /^(Repaired|Return to service|Retire|(Ex|In)clude GPU|Close finding)$/;

export async function walkNodeActs({ chromium, check, must, until }) {
  await call('POST', '/v1/projects', { name: 'walk-node-acts' });
  const made = {};
  for (const [role, how] of Object.entries({
    operator: { role: 'operator' },
    viewer: { role: 'viewer' },
    tenant: { role: 'user', project: 'walk-node-acts' },
  }))
    made[role] = await call('POST', '/v1/tokens', { name: `walk-acts-${role}`, ...how });
  const read = (name) => call('GET', `/v1/nodes/${name}`);
  // What was decided of earlier faults of a node counts for the next one: these have had none.
  const treated = new Set((await call('GET', '/v1/remediations?limit=1000')).items.map((r) => r.node));
  const [node, second, third] = await until('three idle nodes that had no fault', async () => {
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
    return idle.length >= 3 && idle.slice(-3).map((n) => n.name);
  });

  const open = async (how, path, as = made.operator) => {
    const p = await page(chromium, { ...how, as: as.secret });
    await p.goto(base + path);
    await p.locator('.standing.live').waitFor();
    return p;
  };
  const closes = async (p) => {
    const wide = await sideways(p);
    must(wide.length === 0, wide.join(', '));
    must(p.problems.length === 0, p.problems.join('\n'));
    await p.context().close();
  };
  const button = (p, name) => p.locator('main').getByRole('button', { name, exact: true });
  const reason = (p) => p.getByRole('dialog').getByLabel(/\(.*goes into the log\)$/);
  /** Says yes in the dialog, and waits for what the page says then. */
  const decide = (p, act, said) =>
    Promise.all([
      p.getByText(said, { exact: true }).waitFor(),
      p.getByRole('dialog').getByRole('button', { name: act, exact: true }).click(),
    ]);
  /** A node in repair: its fault is found, and what people are to do is approved. */
  const inRepair = async (name) => {
    await call('POST', `/v1/nodes/${name}/inject`, { fault: 'xid', gpu: 4, code: REPLACED });
    const found = await until(`a remediation of ${name}`, async () => {
      const r = (await read(name)).remediation_detail;
      return r && ['proposed', 'approval'].includes(r.step) && r;
    });
    await call('POST', `/v1/remediations/${found.id}/approve`);
    await until(`${name} is in repair`, async () => (await read(name)).stage === 'repairing');
  };

  await check('a GPU is excluded on the page of its node, and included on its own', async () => {
    const p = await open(WIDE, `/nodes/${node}`);
    await button(p, 'Exclude GPU').click();
    const dialog = p.getByRole('dialog');
    await dialog.getByRole('combobox').selectOption({ label: 'GPU 3' });
    await dialog.getByText('No job runs on it.').waitFor();
    await dialog.getByRole('button', { name: 'Exclude GPU', exact: true }).click();
    must(await dialog.isVisible(), 'it needs no reason');
    await reason(p).fill('practice');
    await decide(p, 'Exclude GPU', `GPU 3 of ${node} gets no new work`);
    must((await read(node)).gpus_excluded.join() === '3', 'another GPU is excluded');
    await closes(p);
    const phone = await open(PHONE, `/nodes/${node}/gpus/3`);
    await button(phone, 'Include GPU').tap();
    await decide(phone, 'Include GPU', `GPU 3 of ${node} gets work again`);
    must((await read(node)).gpus_excluded.length === 0, 'it is still excluded');
    await button(phone, 'Exclude GPU').waitFor();
    await closes(phone);
  });

  await check('a node that people repaired is tested and returns, from its page on a phone', async () => {
    await inRepair(node);
    await call('POST', `/v1/nodes/${node}/inject`, { fault: 'repair' });
    const p = await open(PHONE, `/nodes/${node}`);
    await button(p, 'Repaired').tap();
    await p.getByRole('dialog').getByText('No job runs on this node.').waitFor();
    await reason(p).fill('GPU 4 replaced');
    await decide(p, 'Repaired', `${node} is being tested, and returns when it passes`);
    await until('it is ready again', async () => (await read(node)).stage === 'ready');
    await p.locator('.head .word', { hasText: 'ready' }).waitFor();
    await button(p, 'Repaired').waitFor({ state: 'detached' });
    await closes(p);
  });

  await check('what is out of service is offered to be changed to operators alone', async () => {
    await inRepair(second);
    const names = async (p) => {
      await p.getByRole('heading', { name: second, exact: true }).waitFor();
      const all = await p.locator('main').getByRole('button').allTextContents();
      return all.filter((name) => ACTS.test(name));
    };
    for (const role of ['viewer', 'tenant']) {
      const p = await open(WIDE, `/nodes/${second}?do=retire`, made[role]);
      const offered = await names(p);
      must(offered.length === 0, `${role} is offered ${offered.join(', ')}`);
      must((await p.getByRole('dialog').count()) === 0, 'a dialog opens');
      await closes(p);
    }
    const p = await open(WIDE, `/nodes/${second}`);
    const all = ['Repaired', 'Return to service', 'Retire', 'Exclude GPU', 'Close finding'];
    await until('all of it is offered to an operator', async () => {
      const offered = await names(p);
      return all.every((name) => offered.includes(name));
    });
    await button(p, 'Retire').click();
    await p.getByRole('dialog').getByText('It is removed from the site').waitFor();
    await p.getByRole('dialog').getByRole('button', { name: 'Cancel', exact: true }).click();
    must((await read(second)).stage === 'repairing', 'it is retired without an answer');
    await closes(p);
  });

  await check('a node is returned to service without a test only with a reason', async () => {
    await call('POST', `/v1/nodes/${second}/inject`, { fault: 'repair' });
    const p = await open(WIDE, `/nodes/${second}`);
    await button(p, 'Return to service').click();
    const dialog = p.getByRole('dialog');
    await dialog.getByText(/without a test, and is on probation/).waitFor();
    await dialog.getByRole('button', { name: 'Return to service', exact: true }).click();
    must(await dialog.isVisible(), 'it needs no reason');
    await reason(p).fill('practice');
    await decide(p, 'Return to service', `${second} is returned to service without a test`);
    // The fault may have been reported once more before its repair was.
    await until('it is ready, without findings', async () => {
      const after = await read(second);
      return after.stage === 'ready' && after.findings.length === 0;
    });
    await closes(p);
  });

  await check('the palette opens a finding on its own page, where it is closed with a reason', async () => {
    await call('POST', `/v1/nodes/${third}/inject`, { fault: 'xid', gpu: 4, code: REPLACED });
    const { id } = await until('its finding', async () => (await read(third)).findings[0]);
    const p = await open(WIDE, '/events');
    await p.keyboard.press('Control+k');
    await p.getByRole('combobox', { name: 'Find anything' }).waitFor();
    await p.keyboard.type(id);
    // What is listed meanwhile is of the first letters.
    await p.getByText('Searching…').waitFor({ state: 'detached' });
    await p
      .getByRole('option', { name: /^finding / })
      .first()
      .click();
    await p.waitForURL(`${base}/findings/${id}`);
    await button(p, 'Close finding').click();
    await p.getByRole('dialog').getByText('No job is affected.').waitFor();
    await p.getByRole('dialog').getByRole('button', { name: 'Close the finding', exact: true }).click();
    must(await p.getByRole('dialog').isVisible(), 'it needs no reason');
    await reason(p).fill('practice');
    await decide(p, 'Close the finding', `Finding ${id} is closed`);
    await button(p, 'Close finding').waitFor({ state: 'detached' });
    must((await call('GET', `/v1/findings/${id}`)).state === 'closed', 'it is open');
    await closes(p);
  });

  await check(
    'a command of the palette opens the page of its node with the dialog, for operators',
    async () => {
      const type = async (p, words) => {
        await p.keyboard.press('Control+k');
        await p.getByRole('combobox', { name: 'Find anything' }).waitFor();
        await p.keyboard.type(words);
        await p.getByText('Searching…').waitFor({ state: 'detached' });
      };
      const p = await open(WIDE, '/jobs');
      await type(p, `cordon ${node}`);
      await p.getByRole('option', { name: `command Cordon ${node}` }).click();
      const dialog = p.getByRole('dialog');
      await dialog.getByRole('heading', { name: `Cordon ${node}`, exact: true }).waitFor();
      // The address is without the command: loaded again, it asks nothing.
      await p.waitForURL(`${base}/nodes/${node}`);
      await reason(p).fill('practice');
      await decide(p, 'Cordon', `${node} gets no new work`);
      must((await read(node)).cordon === 'practice', 'it is not cordoned');
      await call('POST', `/v1/nodes/${node}/uncordon`);
      await closes(p);
      const viewer = await open(WIDE, '/nodes', made.viewer);
      await type(viewer, node);
      await viewer.getByRole('option', { name: new RegExp(`^node ${node}`) }).waitFor();
      const commands = await viewer.getByRole('option', { name: /^command / }).count();
      must(commands === 0, `a viewer is offered ${commands} commands`);
      await closes(viewer);
    },
  );

  await call('POST', `/v1/nodes/${third}/inject`, { fault: 'repair' });
  // A finding that is closed may leave what it had begun, which waits: nothing of it is left for the next walk. It may
  // end by itself meanwhile.
  const left = (await read(third)).remediation_detail;
  if (left && left.step !== 'ended')
    await call('POST', `/v1/remediations/${left.id}/undo`, { reason: 'practice' }).catch(() => null);
  for (const { id } of Object.values(made)) await call('DELETE', `/v1/tokens/${id}`);
}
