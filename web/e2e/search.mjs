// Whatever can be found, in a real browser: part of e2e/walk.mjs, on a site of simulated nodes.
import { base, call, PHONE, page, WIDE } from './browser.mjs';

const [OWN, OTHER] = ['walk-finds', 'walk-hides'];
/** A word that nothing else prints. */
const WORD = 'walkneedle';

/** `incident`: one that was opened. */
export async function walkSearch({ chromium, check, must, until, incident }) {
  const tenants = {};
  for (const project of [OWN, OTHER]) {
    await call('POST', '/v1/projects', { name: project });
    tenants[project] = await call('POST', '/v1/tokens', { name: project, role: 'user', project });
  }
  const prints = (project) =>
    call(
      'POST',
      '/v1/jobs',
      {
        kind: 'Job',
        name: `says-${project}`,
        gang: { nodes: 1, gpus_per_node: 1 },
        run: { command: ['sh', '-c', `echo ${WORD} of ${project}; echo nothing else`] },
      },
      tenants[project].secret,
    );
  const [own, other] = [await prints(OWN), await prints(OTHER)];
  const { name: node } = (await call('GET', '/v1/nodes')).items.find((n) => n.gpus_total === 8);
  const { inventory } = await call('GET', `/v1/nodes/${node}`);
  const { serial } = inventory.gpus[3];

  /** Opens the palette, types, and gives the option that begins so once it is listed. */
  const find = async (p, words, option) => {
    await p.keyboard.press('Control+k');
    await p.getByRole('combobox', { name: 'Find anything' }).waitFor();
    await p.keyboard.type(words);
    // What is listed meanwhile is of the first letters.
    await p.getByText('Searching…').waitFor({ state: 'detached' });
    const one = p.getByRole('option', { name: option });
    await one.first().waitFor();
    return one.first();
  };

  await check(
    'the palette opens a job, a GPU by its serial, a user, a project, a runbook and an incident',
    async () => {
      const p = await page(chromium, WIDE);
      await p.goto(`${base}/events`);
      await p.locator('.standing.live').waitFor();
      const finds = [
        [`says-${OWN}`, /^job /, `/jobs/${own.id}`],
        [String(serial), /^gpu /, `/nodes/${node}/gpus/3`],
        [OTHER, /^user /, '/jobs', { user: OTHER }],
        [OTHER, /^events /, '/events', { actor: OTHER }],
        [OWN, /^project /, '/jobs', { project: OWN }],
        [OWN, /^quota /, '/quotas'],
        ['gpu-off-bus', /^runbook /, '/runbooks/gpu-off-bus'],
        [incident, /^incident /, `/incidents/${incident}`],
      ];
      for (const [words, option, path, narrowed = {}] of finds) {
        await (await find(p, words, option)).click();
        const chosen = (url) => Object.entries(narrowed).every(([k, v]) => url.searchParams.get(k) === v);
        await p.waitForURL((url) => url.pathname === path && chosen(url));
        await p.locator('main h1').waitFor();
      }
      must(p.problems.length === 0, p.problems.join('\n'));
      await p.context().close();
    },
  );

  await check('of others a tenant finds nothing in the palette', async () => {
    const p = await page(chromium, { ...PHONE, as: tenants[OWN].secret });
    await p.goto(`${base}/work`);
    await p.locator('.standing.live').waitFor();
    await find(p, 'says-walk', /^job /);
    const jobs = await p.getByRole('option', { name: /^job / }).allTextContents();
    must(jobs.length === 1 && jobs[0].includes(`says-${OWN}`), jobs.join());
    await p.keyboard.press('Escape');
    await find(p, OTHER, /^output /);
    const found = await p.getByRole('option').allTextContents();
    must(found.length === 1, `it finds ${found.join()}`);
    must(p.problems.length === 0, p.problems.join('\n'));
    await p.context().close();
  });

  await check(
    'a word that a job printed is found on the page of output, by a tenant in their own',
    async () => {
      const lines = async (as) => {
        const { items } = await call('GET', `/v1/search/output?q=${WORD}`, undefined, as);
        return items.length;
      };
      // What is printed is searched as soon as it is indexed.
      await until('both lines are indexed', async () => (await lines()) === 2);
      const search = async (how, job, project) => {
        const p = await page(chromium, how);
        await p.goto(`${base}/output`);
        await p.locator('.standing.live').waitFor();
        await p.getByLabel('Words').fill(WORD.toUpperCase());
        await p.getByRole('button', { name: 'Search', exact: true }).click();
        await p.waitForURL((url) => url.searchParams.has('q'));
        const rows = p.locator('table.cards tbody tr');
        const line = rows.filter({ hasText: `${WORD} of ${project}` });
        await line.waitFor();
        must((await line.getByRole('link').textContent()).includes(job), 'it leads to another job');
        return { p, rows, line };
      };
      const wide = await search(WIDE, other.id, OTHER);
      must((await wide.rows.count()) === 2, 'not both jobs are found');
      await wide.p.getByLabel('Project').fill(OWN);
      await wide.p.keyboard.press('Enter');
      await until('one is left', async () => (await wide.rows.count()) === 1);
      await wide.p.getByLabel('Words').fill(`${WORD} nobody`);
      await wide.p.keyboard.press('Enter');
      await wide.p.getByText('No line has these words').waitFor();
      const mine = await search({ ...PHONE, as: tenants[OWN].secret }, own.id, OWN);
      must((await mine.rows.count()) === 1, 'it finds what others print');
      must((await mine.p.getByLabel('Project').count()) === 0, 'a tenant chooses among projects');
      await mine.line.getByRole('link').click();
      await mine.p.waitForURL(`${base}/jobs/${own.id}`);
      for (const { p } of [wide, mine]) {
        must(p.problems.length === 0, p.problems.join('\n'));
        await p.context().close();
      }
    },
  );

  await check('events are narrowed to a range of time, which is in the address', async () => {
    const p = await page(chromium, WIDE);
    await p.goto(`${base}/events?find=${OWN}`);
    const rows = p.locator('table.cards tbody tr');
    await rows.filter({ hasText: 'job submitted' }).first().waitFor();
    const all = await rows.count();
    await p.getByLabel('Range').selectOption({ label: 'last hour' });
    await p.waitForURL((url) => url.searchParams.has('from') && url.searchParams.get('find') === OWN);
    await until('all of it was in the last hour', async () => (await rows.count()) >= all);
    must((await p.getByLabel('From').inputValue()) !== '', 'the field does not say from when');
    const hour = new Date(Date.now() - 3_600_000);
    // As somebody types it: the same hour of yesterday, when there was no site.
    const typed = (at) => new Date(at - hour.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
    await p.getByLabel('From').fill(typed(hour.getTime() - 90_000_000));
    await p.getByLabel('Until').fill(typed(hour.getTime() - 86_400_000));
    await p.getByRole('button', { name: 'Show', exact: true }).click();
    await p.waitForURL((url) => url.searchParams.has('to'));
    await p.getByText('Nothing matches so far').waitFor();
    must((await p.getByText('as they come').count()) === 0, 'a range that has ended is called live');
    await p.getByRole('button', { name: 'Show all' }).click();
    await rows.first().waitFor();
    must(p.problems.length === 0, p.problems.join('\n'));
    await p.context().close();
  });

  for (const { id } of Object.values(tenants)) await call('DELETE', `/v1/tokens/${id}`);
}
