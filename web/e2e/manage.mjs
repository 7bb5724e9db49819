// The manage pages in a real browser: part of e2e/walk.mjs, on a site of simulated nodes that nobody else uses.
import { axe } from './axe.mjs';
import { base, call, page } from './browser.mjs';
import { says } from './checks.mjs';

export async function walkManage({ chromium, check, must, until }) {
  const p = await page(chromium);
  const dialog = p.getByRole('dialog');
  const field = (label) => p.getByLabel(label, { exact: true });
  /** Saves a reservation; jobs that it would stop are named in a dialog first. */
  const save = async (what, isSaved) => {
    await p.getByRole('button', { name: 'Save' }).click();
    const confirm = dialog.getByRole('button', { name: 'Save' });
    await until(what, async () => {
      // It may go while it is pressed for the second time.
      if ((await confirm.count()) > 0) await confirm.click({ timeout: 5000 }).catch(() => null);
      return isSaved();
    });
    await p.getByRole('heading', { name: 'Dry run' }).waitFor({ state: 'detached' });
  };
  const night = async () =>
    (await call('GET', '/v1/reservations')).items.find((r) => r.name === 'walk-night');

  await check('a project is created, and a name that is taken is refused at its field', async () => {
    await p.goto(`${base}/projects`);
    const create = async () => {
      await p.getByRole('button', { name: 'New project' }).click();
      await field('Name').fill('walk-team');
      await p.getByRole('button', { name: 'Create' }).click();
    };
    await create();
    await p.locator('td', { hasText: 'walk-team' }).waitFor();
    // The list may be there before the answer, with which the form goes.
    await field('Name').waitFor({ state: 'detached' });
    await create();
    await p.getByRole('alert').filter({ hasText: 'walk-team' }).first().waitFor();
    must((await field('Name').inputValue()) === 'walk-team', 'what was typed is lost');
  });

  await check('a time is dragged on the calendar, dry run, and saved as a reservation', async () => {
    await p.goto(`${base}/reservations`);
    const track = p.locator('.track.choose');
    await track.waitFor();
    const box = await track.boundingBox();
    const y = box.y + box.height / 2;
    await p.mouse.move(box.x + box.width * 0.5, y);
    await p.mouse.down();
    await p.mouse.move(box.x + box.width * 0.55, y, { steps: 4 });
    await p.mouse.up();
    await p.getByRole('heading', { name: 'New reservation' }).waitFor();
    must((await field('Length').inputValue()) !== '', 'the length is not filled');
    await field('Name').fill('walk-night');
    await p.getByLabel('walk-team').check();
    await field('Length').fill('soon');
    await p.getByRole('alert').filter({ hasText: 'such as 90m' }).first().waitFor();
    await field('Length').fill('4h');
    await p.getByText('It covers 1 node').waitFor();
    must(!(await night()), 'a dry run made it');
    await save('it is created', async () => Boolean(await night()));
    const made = await night();
    must(made.length === '4h' && made.projects.join() === 'walk-team', JSON.stringify(made));
  });

  await check('it is moved with the keyboard, and a name that is taken is a conflict', async () => {
    const before = await night();
    await p.getByRole('button', { name: /^walk-night, / }).focus();
    await p.keyboard.press('ArrowRight');
    await p.getByRole('heading', { name: 'Edit walk-night' }).waitFor();
    await p.getByText('It covers 1 node').waitFor();
    await save('it is changed', async () => (await night()).start !== before.start);
    const after = await night();
    const by = Date.parse(after.start) - Date.parse(before.start);
    must(by === 3_600_000, `it moved by ${by} ms`);
    await p.getByRole('button', { name: 'New maintenance window' }).click();
    await field('Name').fill('walk-night');
    await field('Covers').selectOption('nodes');
    await field('Nodes').fill(after.nodes[0]);
    await p.getByRole('alert').filter({ hasText: 'Conflict: ' }).first().waitFor();
    must(await p.getByRole('button', { name: 'Save' }).isDisabled(), 'a conflict can be saved');
    await p.getByRole('button', { name: 'Cancel' }).click();
    await p.getByRole('button', { name: 'Delete walk-night' }).click();
    await dialog.getByText('walk-team').waitFor();
    await says(p.getByText('walk-night is deleted'), () =>
      dialog.getByRole('button', { name: 'Delete' }).click(),
    );
  });

  await check('a quota is added to the tree, checked, compared and saved', async () => {
    const before = await call('GET', '/v1/quotas');
    await p.goto(`${base}/quotas`);
    await p.getByRole('button', { name: 'Edit quotas' }).click();
    await p.getByRole('button', { name: 'Add a quota' }).click();
    await field('Name').fill('walk-lab');
    await p.getByLabel('walk-team').check();
    await p.getByRole('button', { name: 'Add a limit' }).click();
    await p.getByLabel('GPUs that limit 1 owns').fill('many');
    await p.getByRole('button', { name: 'Add to the tree' }).click();
    await p.getByRole('alert').filter({ hasText: 'whole numbers' }).first().waitFor();
    await p.getByLabel('GPUs that limit 1 owns').fill('8');
    await p.getByRole('button', { name: 'Add to the tree' }).click();
    await p.locator('.spec-diff .more', { hasText: 'name: walk-lab' }).waitFor();
    await p.getByText('0 / 8').waitFor();
    must((await call('GET', '/v1/quotas')).version === before.version, 'a change in the form was saved');
    await says(p.getByText('The quotas are set'), () => p.getByRole('button', { name: 'Save' }).click());
    const { quotas } = await call('GET', '/v1/quotas');
    must(
      quotas.tree.some((q) => q.name === 'walk-lab' && q.gpus[0].nominal === 8),
      JSON.stringify(quotas),
    );
    // Owned, used, borrowed, and what is left of a root that nobody uses: it borrows nothing.
    const table = p.getByRole('region', { name: 'Quotas', exact: true });
    const cells = table.getByRole('row', { name: /^walk-lab/ }).locator('td');
    await until('its numbers are shown', async () => {
      const shown = await cells.allTextContents();
      return [3, 4, 6, 7].map((i) => shown[i]).join() === '8,0,0,8';
    });
    await call('PUT', '/v1/quotas', { quotas: before.quotas });
  });

  await check(
    'the policy is changed by its form, and what is wrong with it is said before it is saved',
    async () => {
      const before = await call('GET', '/v1/policy');
      await p.goto(`${base}/policy`);
      await p.getByRole('button', { name: 'Edit' }).click();
      await p.locator('summary', { hasText: /^Queue/ }).click();
      await field('Half-life of past use').fill('1s');
      await p.getByText('Look at: fair_share.half_life').waitFor();
      must(await p.getByRole('button', { name: 'Save' }).isDisabled(), 'it can be saved');
      await field('Half-life of past use').fill('3d');
      await p.locator('.spec-diff .more', { hasText: 'half_life: "3d"' }).waitFor();
      const text = p.getByLabel('Policy as YAML');
      must((await text.inputValue()).includes('half_life: "3d"'), 'the text does not follow the form');
      await says(p.getByText('The policy is set'), () => p.getByRole('button', { name: 'Save' }).click());
      must((await call('GET', '/v1/policy')).policy.fair_share.half_life === '3d', 'it is not set');
      await call('PUT', '/v1/policy', { policy: before.policy });
    },
  );

  await check(
    'the routing is edited as YAML; what somebody else changed is not replaced unseen',
    async () => {
      const before = await call('GET', '/v1/routing');
      await p.goto(`${base}/routing`);
      await p.getByRole('button', { name: 'Edit' }).click();
      const text = p.getByLabel('Routing as YAML');
      await text.fill('receivers: [\n');
      await p.getByRole('alert').filter({ hasText: 'line ' }).first().waitFor();
      await text.fill('routes:\n  - to: [nobody]\n');
      await p.getByText('Look at: routes[0].to').waitFor();
      const good =
        'receivers:\n  - name: chat\n    by:\n      webhook:\n        url: http://chat.example/hook\nroutes:\n  - to: [chat]\n';
      await text.fill(good);
      await p.locator('.spec-diff .more', { hasText: 'chat.example' }).waitFor();
      await call('PUT', '/v1/routing', {
        routing: {
          receivers: [{ name: 'other', by: { webhook: { url: 'http://o.example/' } } }],
          routes: [],
        },
      });
      await p.getByText('It was changed by somebody else meanwhile').waitFor();
      must((await text.inputValue()) === good, 'what was typed is lost');
      await call('PUT', '/v1/routing', { routing: before.routing });
    },
  );

  await check('a silence is created with a length of choice, and ended', async () => {
    await p.goto(`${base}/silences`);
    await p.getByRole('button', { name: 'New silence' }).click();
    await p.getByRole('button', { name: 'Silence', exact: true }).click();
    await p.getByRole('alert').filter({ hasText: 'Give it a name' }).first().waitFor();
    await field('Name').fill('walk-quiet');
    await field('Why').fill('practice');
    await field('Topic').selectOption('drift');
    await field('Kind').fill('walk-*');
    await field('Or another length').fill('45m');
    await says(p.getByText('walk-quiet is set for 45m'), () =>
      p.getByRole('button', { name: 'Silence', exact: true }).click(),
    );
    const { items } = await call('GET', '/v1/silences');
    const made = items.find((s) => s.name === 'walk-quiet');
    must(made?.length === '45m' && made.match.topic === 'drift', JSON.stringify(items));
    await p.getByText('topic drift (a version or setting that differs), kind walk-*').waitFor();
    await p.getByRole('button', { name: 'End walk-quiet' }).click();
    await says(p.getByText('walk-quiet is over'), () =>
      dialog.getByRole('button', { name: 'End the silence' }).click(),
    );
  });

  let operator = '';
  await check('a token is created, its secret shown once, and revoked', async () => {
    await p.goto(`${base}/tokens`);
    await p.getByRole('button', { name: 'New token' }).click();
    await field('Name').fill('walk-op');
    await field('Role').selectOption('operator');
    await field('Project').selectOption('all projects');
    await field('Expires after').fill('1h');
    await p.getByRole('button', { name: 'Create' }).click();
    operator = await p.locator('code.secret').textContent();
    must(operator.startsWith('mst_'), 'there is no secret');
    await p.getByRole('button', { name: 'I have saved it' }).click();
    await p.locator('code.secret').waitFor({ state: 'detached' });
    must(!(await p.content()).includes(operator), 'the secret is still on the page');
  });

  await check('an operator has no tokens page and no button that only an admin may press', async () => {
    const o = await page(chromium, { as: operator });
    await o.goto(`${base}/reservations`);
    const pages = o.getByRole('navigation', { name: 'Pages of Manage' });
    await pages.getByRole('link', { name: 'Bulk actions' }).waitFor();
    must((await pages.getByRole('link', { name: 'Tokens' }).count()) === 0, 'there is a link to tokens');
    for (const path of ['/policy', '/routing', '/quotas', '/projects']) {
      await o.goto(base + path);
      await o.locator('.standing.live').waitFor();
      await o.waitForFunction(() => !/Loading…/.test(document.body.textContent));
      const n = await o.getByRole('button', { name: /^(Edit|Edit quotas|New project)$/ }).count();
      must(n === 0, `${path} offers an admin's button`);
    }
    must(o.problems.length === 0, o.problems.join('\n'));
    await o.context().close();
    // The question names the token and its role; of the own one it warns. No leaves it as it was.
    await p
      .locator('tr', { hasText: '(this session)' })
      .getByRole('button', { name: /^Revoke / })
      .click();
    await dialog.getByText('you are logged out').waitFor();
    await dialog.getByRole('button', { name: 'Cancel' }).click();
    await p.getByRole('button', { name: /^Revoke walk-op / }).click();
    await dialog.getByText(/^Token walk-op \(.+; role operator, all projects\)/).waitFor();
    must((await dialog.getByText('you are logged out').count()) === 0, 'it warns of another token');
    await says(p.getByText('walk-op is revoked'), () =>
      dialog.getByRole('button', { name: 'Revoke' }).click(),
    );
  });

  await check(
    'nodes are cordoned and uncordoned together, with the jobs on them named before a drain',
    async () => {
      const { items } = await call('GET', '/v1/nodes');
      const ready = items.filter((n) => n.state === 'ready' && !n.cordon && n.gpus_total > 0);
      const idle = ready.filter((n) => n.jobs.length === 0).slice(0, 2);
      const held = ready.find((n) => n.jobs.length > 0);
      const stage = async (name) => call('GET', `/v1/nodes/${name}`);
      await p.goto(`${base}/bulk`);
      for (const n of idle) await p.getByLabel(n.name, { exact: true }).check();
      await p.getByRole('button', { name: 'Cordon', exact: true }).click();
      await dialog.getByText('No job is allocated').waitFor();
      await dialog.getByLabel(/Reason/).fill('practice');
      await dialog.getByRole('button', { name: `Cordon ${idle.length}` }).click();
      for (const n of idle)
        await until(`${n.name} is cordoned`, async () => (await stage(n.name)).cordon === 'practice');
      // What was done is chosen no more; the server knows of it before the page does.
      const nothing = p.getByRole('button', { name: 'Clear', disabled: true });
      await nothing.waitFor();
      for (const n of idle) await p.getByLabel(n.name, { exact: true }).check();
      await p.getByRole('button', { name: 'Uncordon' }).click();
      await dialog.getByRole('button', { name: `Uncordon ${idle.length}` }).click();
      for (const n of idle) await until(`${n.name} is uncordoned`, async () => !(await stage(n.name)).cordon);
      if (held) {
        await nothing.waitFor();
        await p.getByLabel(held.name, { exact: true }).check();
        await p.getByRole('button', { name: 'Drain', exact: true }).click();
        await dialog.getByText(new RegExp(`${held.jobs[0].id} ${held.jobs[0].name}`)).waitFor();
        await dialog.getByRole('button', { name: 'Cancel' }).click();
        must((await stage(held.name)).stage === 'ready', 'it was drained without consent');
      }
    },
  );

  await check('axe finds nothing in the forms of manage pages, and each has one primary action', async () => {
    const found = [];
    const forms = [
      ['/reservations', 'New reservation'],
      ['/quotas', 'Edit quotas'],
      ['/silences', 'New silence'],
      ['/policy', 'Edit'],
      ['/routing', 'Edit'],
      ['/tokens', 'New token'],
    ];
    for (const [path, button] of forms) {
      await p.goto(base + path);
      await p.getByRole('button', { name: button, exact: true }).click();
      await p.waitForFunction(() => !/Loading…|Checking…|Asking…/.test(document.body.textContent));
      for (const problem of await axe(p)) found.push(`${path}: ${problem}`);
      const primary = await p.locator('main button.main:visible').allTextContents();
      if (primary.length !== 1) found.push(`${path} has not one primary action: ${primary.join(', ')}`);
    }
    must(found.length === 0, found.join('\n'));
  });

  await check('nothing went wrong in the browser on the manage pages', async () => {
    // Refusals that the walk asked for are written to the console by the browser itself.
    const own = p.problems.filter((t) => !/Failed to load resource/.test(t));
    must(own.length === 0, own.join('\n'));
    await p.context().close();
  });
}
