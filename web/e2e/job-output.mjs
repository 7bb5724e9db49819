// What jobs print, their attempts, their spec, and their list, mostly as a tenant: part of e2e/walk.mjs.
import { readFileSync } from 'node:fs';
import { base, call, PHONE, page, WIDE } from './browser.mjs';

const PROJECT = 'walk-prints';

/** Two ranks that say in which attempt they are, on stdout and on stderr. */
const PRINTS = 'echo rank $RANK of attempt $MUSTER_ATTEMPT; echo walkproblem of attempt $MUSTER_ATTEMPT >&2';
/** More lines than a page has at first. */
const LONG = 'seq 4000; while true; do sleep 1; done';
/** More lines than a window has at once, then one after the other for as long as it runs. */
const COUNTS = 'seq 300; while true; do echo more of it; sleep 1; done';

const spec = (name, command, more = {}) => ({
  kind: 'Job',
  name,
  gang: { nodes: 1, gpus_per_node: 1 },
  run: { command: ['sh', '-c', command] },
  tags: { walk: 'prints' },
  ...more,
});

export async function walkJobOutput({ chromium, check, must, until }) {
  await call('POST', '/v1/projects', { name: PROJECT });
  const made = await call('POST', '/v1/tokens', { name: PROJECT, role: 'user', project: PROJECT });
  const as = made.secret;
  const mine = (method, path, body) => call(method, path, body, as);
  const over = (id, attempts) =>
    until(`job ${id} is over`, async () => {
      const j = await mine('GET', `/v1/jobs/${id}`);
      return j.state === 'succeeded' && j.attempts === attempts;
    });
  const gang = { nodes: 1, gpus_per_node: 2, ranks_per_node: 2 };
  const { id } = await mine('POST', '/v1/jobs', spec('prints', PRINTS, { gang }));
  const counting = await mine('POST', '/v1/jobs', spec('counts', COUNTS, { time_limit: '2h' }));
  const p = await page(chromium, { ...WIDE, as, permissions: ['clipboard-read', 'clipboard-write'] });
  const dialog = p.getByRole('dialog');
  const saved = async (button) => {
    const [file] = await Promise.all([p.waitForEvent('download'), button.click()]);
    return { name: file.suggestedFilename(), text: readFileSync(await file.path(), 'utf8') };
  };
  const panel = (title) =>
    p.locator('section.panel').filter({ has: p.getByRole('heading', { name: title, exact: true }) });
  const lines = p.locator('.job-log .line');
  await over(id, 1);

  await check('a tenant submits a job that has ended again, and requeues it', async () => {
    await p.goto(`${base}/jobs/${id}`);
    await p.getByRole('button', { name: 'Submit again' }).click();
    await dialog.getByText('as a new job').waitFor();
    await Promise.all([
      p.waitForURL((url) => /^\/jobs\/\d+$/.test(url.pathname) && url.pathname !== `/jobs/${id}`),
      dialog.getByRole('button', { name: 'Submit' }).click(),
    ]);
    const other = new URL(p.url()).pathname.split('/').at(-1);
    await p.getByRole('heading', { name: `Job ${other} prints` }).waitFor();
    await over(other, 1);
    await p.goto(`${base}/jobs/${id}`);
    await p.getByRole('button', { name: 'Requeue' }).click();
    await dialog.getByRole('button', { name: 'Requeue' }).click();
    await over(id, 2);
  });

  await check('output is read by rank and attempt, stderr is marked, and words are found in it', async () => {
    await p.getByRole('heading', { name: 'Earlier attempts' }).waitFor();
    const shown = async (what, right) =>
      until(what, async () => right((await lines.allTextContents()).map((l) => l.trim())));
    await shown('two ranks', (all) => all.length === 4 && all.every((l) => l.includes('attempt 2')));
    const err = p.locator('.job-log .line.err');
    await until('two lines are marked as stderr', async () => (await err.count()) === 2);
    must((await err.first().locator('.by').textContent()).includes('err'), 'it is marked by colour alone');
    await p.getByLabel('rank', { exact: true }).fill('1');
    await shown('one rank', (all) => all.length === 2 && all.some((l) => l.includes('rank 1 of attempt 2')));
    await panel('Output').getByRole('combobox').selectOption('1');
    await shown('the first attempt', (all) => all.some((l) => l.includes('rank 1 of attempt 1')));
    must((await lines.filter({ hasText: 'attempt 2' }).count()) === 0, 'two attempts are mixed');
    await p.getByLabel('Find in the output').fill('WALKproblem');
    await p.getByText('1 of 2 lines with “WALKproblem”').waitFor();
    must((await lines.locator('mark').allTextContents()).join() === 'walkproblem', 'it is not marked');
    const file = await saved(panel('Output').getByRole('button', { name: 'Download' }));
    must(file.name === `job-${id}-rank-1.log`, file.name);
    const said = file.text.trim().split('\n').sort();
    must(said.join('|') === '1 1 err: walkproblem of attempt 1|1 1: rank 1 of attempt 1', file.text);
    await panel('Output').getByRole('link', { name: 'Search all of it' }).click();
    await p.waitForURL((url) => url.pathname === '/output' && url.searchParams.get('q').includes('WALK'));
  });

  await check('the spec of a job is copied and saved as the file that submits it', async () => {
    await p.goto(`${base}/jobs/${id}`);
    const text = await panel('Spec').locator('pre').textContent();
    must(text.includes('name: prints') && text.includes('walkproblem'), text);
    await Promise.all([
      p.getByText('Copied the spec').waitFor(),
      panel('Spec').getByRole('button', { name: 'Copy' }).click(),
    ]);
    must((await p.evaluate(() => navigator.clipboard.readText())) === text, 'it copies something else');
    const file = await saved(panel('Spec').getByRole('button', { name: 'Download' }));
    must(file.name === `job-${id}.yaml` && file.text === text, `${file.name}: ${file.text}`);
  });

  await check('the last two attempts are compared', async () => {
    await p.getByRole('link', { name: 'Compare the last two' }).click();
    await p.waitForURL((url) => url.searchParams.get('b') === JSON.stringify(`${id}.2`));
    const table = p.getByRole('region', { name: 'Side by side' });
    await table.getByRole('link', { name: `${id}.1 prints` }).waitFor();
    await table.getByRole('link', { name: `${id}.2 prints` }).waitFor();
    const started = table.getByRole('row', { name: /^started/ });
    must((await started.getAttribute('class')) === 'differs', 'both began at one time');
    const goodput = table.getByRole('row', { name: /^goodput/ });
    await until('the goodput of both attempts is there', async () =>
      /^goodput\s+[\d.]+ %\s+[\d.]+ %$/.test((await goodput.innerText()).trim()),
    );
    const step = await table.getByRole('row', { name: /^newest step/ }).innerText();
    must(step.includes('none reported'), `of work without steps: ${step}`);
    must((await p.locator('.spec-diff').count()) === 0, 'one job has two specs');
  });

  await check(
    'the end of output stays in sight until somebody scrolls up, and from the button on',
    async () => {
      await p.goto(`${base}/jobs/${counting.id}`);
      const box = p.locator('.job-log');
      await lines.filter({ hasText: 'more of it' }).first().waitFor();
      const rest = () => box.evaluate((b) => b.scrollHeight - b.scrollTop - b.clientHeight);
      const grown = async (from) => until('more lines', async () => (await lines.count()) > from);
      const button = p.getByRole('button', { name: 'To the end' });
      await grown(await lines.count());
      await until('the end is in sight', async () => (await rest()) < 2);
      must((await button.count()) === 0, 'it leads to where one is');
      await box.evaluate((b) => b.scrollTo(0, 20));
      await button.waitFor();
      await grown(await lines.count());
      must((await box.evaluate((b) => b.scrollTop)) === 20, 'new lines move what is read');
      await button.click();
      await button.waitFor({ state: 'detached' });
      await grown(await lines.count());
      await until('the end is in sight again', async () => (await rest()) < 2);
    },
  );

  await check(
    'earlier lines come when somebody scrolls to the first one, which stays in its place',
    async () => {
      const long = await mine('POST', '/v1/jobs', spec('long', LONG));
      await p.goto(`${base}/jobs/${long.id}`);
      const box = p.locator('.job-log');
      const line = (n) => lines.filter({ hasText: new RegExp(`^0${n}\\s*$`) });
      await line(4000).waitFor();
      await p.getByText('The newest 2,000 lines').waitFor();
      must((await line(2000).count()) === 0, 'all is shown at once');
      await box.evaluate((b) => b.scrollTo(0, 0));
      await p.getByText('The newest 4,000 lines').waitFor();
      await line(1).waitFor({ state: 'attached' });
      const top = await box.evaluate((b) => b.getBoundingClientRect().top);
      const first = await line(2001).evaluate((l) => l.getBoundingClientRect().top);
      must(Math.abs(first - top) < 60, `what was read is ${first - top} px away`);
      // All of it is there: nothing more is offered.
      await p.getByRole('button', { name: 'Load earlier lines' }).waitFor({ state: 'detached' });
      await mine('POST', `/v1/jobs/${long.id}/cancel`);
      await until('it is over', async () => (await mine('GET', `/v1/jobs/${long.id}`)).state === 'cancelled');
    },
  );

  await check('a tenant holds a queued job and releases it, on a phone', async () => {
    // More than is free, and nobody is to wait for it.
    const nodes = (await call('GET', '/v1/nodes')).items.filter((n) => n.gpus_total === 8).length;
    const large = spec('large', 'true', { gang: { nodes, gpus_per_node: 8 }, priority: 'low' });
    const { id: waits } = await mine('POST', '/v1/jobs', large);
    const phone = await page(chromium, { ...PHONE, as });
    await phone.goto(`${base}/jobs/${waits}`);
    for (const [word, done, held] of [
      ['Hold', 'is held', true],
      ['Release', 'is released', false],
    ]) {
      await phone.getByRole('button', { name: word, exact: true }).tap();
      await Promise.all([
        phone.getByText(`Job ${waits} ${done}`, { exact: true }).waitFor(),
        phone.getByRole('dialog').getByRole('button', { name: word, exact: true }).tap(),
      ]);
      must(Boolean((await mine('GET', `/v1/jobs/${waits}`)).held) === held, `it ${done}, and is not`);
    }
    await phone.getByRole('button', { name: 'Hold', exact: true }).waitFor();
    await mine('POST', `/v1/jobs/${waits}/cancel`);
    // The output of a job on a phone: found, by rank, nothing wider than the window.
    await phone.goto(`${base}/jobs/${id}`);
    await phone.getByLabel('rank', { exact: true }).fill('0');
    await phone.getByLabel('Find in the output').fill('walkproblem');
    await phone.getByText('1 of 2 lines with “walkproblem”').waitFor();
    const wide = await phone.evaluate(() => document.documentElement.scrollWidth);
    must(wide <= PHONE.width, `it is ${wide} px wide`);
    must(phone.problems.length === 0, phone.problems.join('\n'));
    await phone.context().close();
  });

  await check(
    'the list is narrowed by project, user, SKU and tag, and has the columns of choice',
    async () => {
      const q = await page(chromium);
      const rows = q.locator('a.grid-row');
      const all = async (what, right) => until(what, async () => right(await rows.allTextContents()));
      const prints = (texts) => texts.length === 3 && texts.every((t) => /prints|counts/.test(t));
      await q.goto(`${base}/jobs?state=all`);
      await q.locator('.job-filters summary').click();
      const field = (label) =>
        q.locator('.filter-fields > label').filter({ hasText: label }).locator('input, select');
      const column = (label) => q.getByRole('group', { name: 'Columns' }).getByLabel(label, { exact: true });
      await field('Project').selectOption(PROJECT);
      await q.waitForURL((url) => url.searchParams.get('project') === PROJECT);
      await all('those of the project', (texts) => texts.length === 5);
      const heads = () => q.locator('.virtual').getByRole('columnheader').allTextContents();
      must(!(await heads()).includes('User'), 'there is a column that nobody chose');
      await column('User').check();
      await until('a column of users', async () => (await heads()).includes('User'));
      await column('Project').uncheck();
      await until('no column of projects', async () => !(await heads()).includes('Project'));
      await q.reload();
      await until('the columns stay', async () => {
        const now = await heads();
        return now.includes('User') && !now.includes('Project');
      });
      await all('it is still narrowed', (texts) => texts.length === 5);
      // Field by field: each alone finds the same jobs.
      await q.goto(`${base}/jobs?state=succeeded,running&user=${PROJECT}`);
      await all('those of the user', prints);
      await q.goto(`${base}/jobs?state=succeeded,running&tag=walk%3Dprints`);
      await all('those with the tag', prints);
      await field('Tag').fill('walk=nobody');
      await q.getByText('No such jobs').waitFor();
      await field('Tag').fill('walk=prints');
      await all('those with the tag again', prints);
      const { sku } = (await call('GET', '/v1/nodes')).items.find((n) => n.gpus_total === 8);
      await field('SKU').selectOption(sku);
      await all('what has such GPUs now', (texts) => texts.length === 1 && texts[0].includes('counts'));
      must(q.problems.length === 0, q.problems.join('\n'));
      await q.context().close();
    },
  );

  await check('the timeline has a bar for what runs, up to its time limit, also on a phone', async () => {
    for (const how of [WIDE, PHONE]) {
      const q = await page(chromium, { ...how, as });
      await q.goto(`${base}/jobs`);
      await q.getByRole('button', { name: 'Timeline' }).click();
      await q.waitForURL((url) => url.searchParams.get('view') === 'timeline');
      const bars = q.getByRole('region', { name: 'Timeline of the queue' }).locator('li');
      await bars.getByRole('img', { name: /^started .*, time limit at / }).waitFor();
      must((await bars.getByRole('img').count()) === 1, 'there are jobs of others');
      const wide = await q.evaluate(() => document.documentElement.scrollWidth);
      must(wide <= how.width, `it is ${wide} px wide`);
      await bars.getByRole('link', { name: `${counting.id} counts` }).click();
      await q.waitForURL(`${base}/jobs/${counting.id}`);
      must(q.problems.length === 0, q.problems.join('\n'));
      await q.context().close();
    }
  });

  await check('nothing went wrong in the browser on what jobs print', async () => {
    must(p.problems.length === 0, p.problems.join('\n'));
    await p.context().close();
  });
  const active = async () => (await mine('GET', '/v1/jobs?state=active')).items;
  for (const j of await active()) await mine('POST', `/v1/jobs/${j.id}/cancel`).catch(() => null);
  await until('its jobs are over', async () => (await active()).length === 0);
  await call('DELETE', `/v1/tokens/${made.id}`);
}
