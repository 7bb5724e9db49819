// What is changed on the manage pages, as admin and as operator, also on a phone: part of e2e/walk.mjs.
import { base, call, PHONE, page, WIDE } from './browser.mjs';

export async function walkManageActs({ chromium, check, must, until }) {
  const made = await call('POST', '/v1/tokens', { name: 'walk-manage', role: 'operator' });
  await call('POST', '/v1/projects', { name: 'walk-owners' });
  const open = async (how, path) => {
    const p = await page(chromium, how);
    await p.goto(base + path);
    await p.locator('.standing.live').waitFor();
    return p;
  };
  const operator = (how, path) => open({ ...how, as: made.secret }, path);
  const closes = async (p) => {
    const { wide, of } = await p.evaluate(() => ({
      wide: document.documentElement.scrollWidth,
      of: window.innerWidth,
    }));
    must(wide <= of, `it is ${wide} px wide, of ${of}`);
    must(p.problems.length === 0, p.problems.join('\n'));
    await p.context().close();
  };
  const field = (p, label) => p.getByLabel(label, { exact: true });
  const reservation = async (name) =>
    (await call('GET', '/v1/reservations')).items.find((r) => r.name === name);
  const save = async (p, said) =>
    Promise.all([
      p.getByText(said, { exact: true }).waitFor(),
      p.getByRole('button', { name: 'Save', exact: true }).click(),
    ]);
  /** Idle nodes of one rack, and how the chooser calls it. */
  const rack = await until('a rack with idle nodes', async () => {
    const items = (await call('GET', '/v1/nodes?limit=200')).items.filter((n) => n.gpus_total > 0);
    const path = ({ location: l }) => [l.region, l.cluster, l.spine, l.leaf, l.rack].join('/');
    for (const one of items) {
      const all = items.filter((n) => path(n) === path(one));
      const idle = (n) => n.state === 'ready' && !n.cordon && !n.avoided && n.jobs.length === 0;
      if (all.every(idle)) return { path: path(one), nodes: all.map((n) => n.name) };
    }
    return null;
  });

  await check('a maintenance window is saved by an operator on a phone', async () => {
    const p = await operator(PHONE, '/reservations');
    await p.getByRole('button', { name: 'New maintenance window' }).tap();
    await field(p, 'Name').fill('walk-works');
    await field(p, 'Covers').selectOption('nodes');
    await field(p, 'Nodes').fill(rack.nodes[0]);
    await field(p, 'Length').fill('3h');
    await field(p, 'Reason').fill('new cables');
    await p.getByText('It covers 1 node').waitFor();
    await save(p, 'walk-works is created');
    const one = await reservation('walk-works');
    must(one.maintenance && one.length === '3h' && one.nodes.join() === rack.nodes[0], JSON.stringify(one));
    await closes(p);
  });

  await check('a reservation is moved by drag, and made longer by its end', async () => {
    const p = await operator(WIDE, '/reservations');
    await p.getByRole('button', { name: '3 days' }).click();
    const bar = p.getByRole('button', { name: /^walk-works, / });
    const before = await reservation('walk-works');
    const track = p.locator('.track').filter({ has: bar });
    const drag = async (from, hours) => {
      const all = await track.boundingBox();
      await p.mouse.move(from.x, from.y);
      await p.mouse.down();
      await p.mouse.move(from.x + (all.width / 72) * hours, from.y, { steps: 6 });
      await p.mouse.up();
    };
    const box = async () => {
      await bar.scrollIntoViewIfNeeded();
      return bar.boundingBox();
    };
    const middle = await box();
    await drag({ x: middle.x + middle.width / 2, y: middle.y + middle.height / 2 }, 12);
    await p.getByRole('heading', { name: 'Edit walk-works' }).waitFor();
    await until('the bar is where it was dragged', async () => (await box()).x > middle.x + 1);
    must((await reservation('walk-works')).start === before.start, 'a drag alone saves it');
    const end = await box();
    await drag({ x: end.x + end.width - 2, y: end.y + end.height / 2 }, 2);
    await until('it is longer', async () => (await field(p, 'Length').inputValue()) !== '3h');
    await p.getByText('It covers 1 node').waitFor();
    const begins = await p.evaluate((local) => Date.parse(local), await field(p, 'Begins').inputValue());
    const length = await field(p, 'Length').inputValue();
    await save(p, 'walk-works is changed');
    const after = await reservation('walk-works');
    must(begins > Date.parse(before.start), 'it was dragged to the right, and begins no later');
    must(Date.parse(after.start) === begins, `it begins at ${after.start}, the form had ${begins}`);
    must(after.length === length, `it is ${after.length} long, the form had ${length}`);
    await call('DELETE', '/v1/reservations/walk-works');
    await closes(p);
  });

  const stages = async () => Promise.all(rack.nodes.map((n) => call('GET', `/v1/nodes/${n}`)));
  const all = (what, right) => until(what, async () => (await stages()).every(right));
  await check('a whole rack is cordoned and uncordoned on a phone by an operator', async () => {
    const p = await operator(PHONE, '/bulk');
    await bulk(p, 'Cordon', 'cordoned', 'practice');
    await all('all are cordoned', (n) => n.cordon === 'practice');
    await bulk(p, 'Uncordon', 'uncordoned');
    await all('all are uncordoned', (n) => !n.cordon);
    await closes(p);
  });

  await check('a whole rack is drained, taken back and qualified by an operator', async () => {
    const p = await operator(WIDE, '/bulk');
    await bulk(p, 'Drain', 'being drained', 'practice');
    await all('all are drained', (n) => n.stage === 'drained');
    await bulk(p, 'Undrain', 'undrained');
    await all('all are ready', (n) => n.stage === 'ready');
    const tested = async () => (await stages()).map((n) => n.qualified?.ended_at ?? '');
    const before = await tested();
    await bulk(p, 'Qualify', 'being tested');
    await until('all are tested', async () => (await tested()).every((at, i) => at > before[i]));
    await all('all are ready again', (n) => n.stage === 'ready' && !n.qualifying);
    await closes(p);
  });

  /** One action on all nodes of the rack, chosen by its box. */
  async function bulk(p, word, done, reason) {
    await p.getByLabel('Find nodes and racks').fill(rack.path.split('/').at(-1));
    await p.getByLabel(`${rack.path} (${rack.nodes.length})`, { exact: true }).check();
    await p.getByText(`${rack.nodes.length} nodes chosen`).waitFor();
    await p.getByRole('button', { name: word, exact: true }).click();
    const dialog = p.getByRole('dialog');
    await dialog.getByText(rack.nodes.join(', ')).waitFor();
    if (reason) await dialog.getByLabel(/Reason/).fill(reason);
    await dialog.getByRole('button', { name: `${word} ${rack.nodes.length}`, exact: true }).click();
    await p.getByText(`${rack.nodes.length} nodes ${done}.`, { exact: true }).waitFor();
  }

  await check('a quota that is there is edited by an admin on a phone', async () => {
    const before = await call('GET', '/v1/quotas');
    const own = { name: 'walk-own', projects: ['walk-owners'], gpus: [{ nominal: 16 }] };
    await call('PUT', '/v1/quotas', { quotas: { tree: [...(before.quotas.tree ?? []), own] } });
    const p = await open(PHONE, '/quotas');
    await p.getByRole('button', { name: 'Edit quotas' }).tap();
    await p.getByRole('button', { name: 'Edit walk-own' }).tap();
    must((await p.getByLabel('GPUs that limit 1 owns').inputValue()) === '16', 'it is not filled in');
    await p.getByLabel('GPUs that limit 1 owns').fill('24');
    await p.getByLabel('GPUs that limit 1 may borrow').fill('8');
    await p.getByRole('button', { name: 'Change in the tree' }).tap();
    await p.locator('.spec-diff .more', { hasText: 'nominal: 24' }).waitFor();
    await save(p, 'The quotas are set');
    const { quotas } = await call('GET', '/v1/quotas');
    const now = quotas.tree.find((q) => q.name === 'walk-own');
    must(now.gpus[0].nominal === 24 && now.gpus[0].borrow === 8, JSON.stringify(now));
    must(now.projects.join() === 'walk-owners', 'its projects are lost');
    await closes(p);
    await call('PUT', '/v1/quotas', { quotas: before.quotas });
  });

  await check('the routing is saved, and its page shows the new route', async () => {
    const before = await call('GET', '/v1/routing');
    const p = await open(WIDE, '/routing');
    await p.getByRole('button', { name: 'Edit', exact: true }).click();
    const lines = [
      'receivers:',
      '  - name: chat',
      '    by:',
      '      webhook:',
      '        url: http://c.example/',
    ];
    await p
      .getByLabel('Routing as YAML')
      .fill([...lines, 'routes:', '  - to: [chat]', '    repeat: 2h', ''].join('\n'));
    await p.locator('.spec-diff .more', { hasText: 'c.example' }).waitFor();
    await save(p, 'The routing is set');
    await p.getByRole('cell', { name: 'chat', exact: true }).waitFor();
    const { routing } = await call('GET', '/v1/routing');
    must(
      routing.routes[0].to.join() === 'chat' && routing.routes[0].repeat === '2h',
      JSON.stringify(routing),
    );
    await call('PUT', '/v1/routing', { routing: before.routing });
    await closes(p);
  });

  await call('DELETE', `/v1/tokens/${made.id}`);
}
