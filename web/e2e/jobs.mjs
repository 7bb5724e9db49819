// Jobs in a real browser: part of e2e/walk.mjs, on a site of simulated nodes that nobody else uses.
import { readFileSync } from 'node:fs';
import { base, call, PHONE, page, sideways, token, WIDE } from './browser.mjs';

const spec = (name, more = {}) => ({
  kind: 'Job',
  name,
  gang: { nodes: 1, gpus_per_node: 8 },
  simulate: { run: '4h' },
  tags: { walk: 'jobs' },
  hold: true,
  ...more,
});

/**
 * A job that needs the nodes that are free and all those that run for these walks: a start is reserved for it at the time
 * limit of what runs. Nobody is to wait for it. A node that comes back meanwhile, tested and well, is not enough for it to
 * start: two more nodes have work of the same length.
 */
async function waitingJob(until) {
  const { id: works } = await call(
    'POST',
    '/v1/jobs',
    spec('walk-works', { hold: false, gang: { nodes: 2, gpus_per_node: 8 }, time_limit: '4h' }),
  );
  await until('it runs', async () => (await call('GET', `/v1/jobs/${works}`)).state === 'running');
  const one = spec('walk-waits', { hold: false, priority: 'low', time_limit: '1h' });
  const left = (await call('POST', '/v1/jobs?dry_run=true', one)).constraints.at(-1).nodes_left;
  const gang = { nodes: left + 3, gpus_per_node: 8 };
  const { id } = await call('POST', '/v1/jobs', { ...one, gang });
  await until('it has a reserved start', async () => (await call('GET', `/v1/jobs/${id}`)).reserved_start);
  return { waits: id, works };
}

export async function walkJobs({ chromium, check, must, until }) {
  const { id } = await call('POST', '/v1/jobs', spec('walk-clone', { time_limit: '2h' }));
  const get = () => call('GET', `/v1/jobs/${id}`);
  const p = await page(chromium);
  const dialog = p.getByRole('dialog');

  await check('a held job is released and given another time limit, each in a dialog', async () => {
    await p.goto(`${base}/jobs/${id}`);
    await p.getByRole('button', { name: 'Time limit' }).click();
    await dialog.getByLabel('Time limit of one attempt').fill('forever');
    await dialog.getByRole('button', { name: 'Change' }).click();
    must((await get()).spec.time_limit === '2h', 'what is no length of time was sent');
    await dialog.getByLabel('Time limit of one attempt').fill('3h');
    await dialog.getByRole('button', { name: 'Change' }).click();
    await until('the limit is changed', async () => (await get()).spec.time_limit === '3h');
    await p.getByRole('button', { name: 'Release' }).click();
    await dialog.getByRole('button', { name: 'Release' }).click();
    await until('it is released', async () => !(await get()).held);
    must((await p.locator('.head button.main').count()) <= 1, 'there is more than one primary action');
  });

  await check('the time limit of a running job is extended by an operator', async () => {
    await until('it runs', async () => (await get()).state === 'running');
    await p.getByRole('button', { name: 'Time limit' }).click();
    await dialog.getByText('Reserved starts of other jobs').waitFor();
    await dialog.getByLabel('Time limit of one attempt').fill('5h');
    await dialog.getByRole('button', { name: 'Change' }).click();
    const j = await until('the limit is changed', async () => {
      const now = await get();
      return now.spec.time_limit === '5h' && now;
    });
    const runs = Date.parse(j.attempt.deadline) - Date.parse(j.attempt.started_at);
    must(runs === 5 * 3_600_000, `its attempt ends after ${runs} ms`);
  });

  await check('a clone is filled from the spec, and what has no field is kept', async () => {
    await p.getByRole('link', { name: 'Clone' }).click();
    await p.waitForURL(`${base}/jobs/new?from=*`);
    await p.getByText(`Filled from job ${id}`).waitFor();
    const name = p.getByLabel('Name', { exact: true });
    must((await name.inputValue()) === 'walk-clone', 'the name is not filled');
    await name.fill('walk-copy');
    await p.getByText('walk: jobs').waitFor();
    await p.getByRole('button', { name: 'Submit' }).click();
    await p.getByRole('heading', { name: /walk-copy/ }).waitFor();
    const { items } = await call('GET', '/v1/jobs?prefix=walk-copy&tag=walk%3Djobs');
    must(items.length === 1 && items[0].spec.time_limit === '5h', 'it is another job');
  });

  await check('the list is narrowed by its address, and saved as a table', async () => {
    await p.goto(`${base}/jobs?state=all&prefix=walk-c&tag=walk%3Djobs`);
    await until('both are listed, and nothing else', async () => {
      const names = await p.locator('a.grid-row > span:nth-child(2)').allTextContents();
      return names.sort().join() === 'walk-clone,walk-copy';
    });
    await p.getByLabel('Name begins with').fill('walk-copy');
    await p.waitForURL(/prefix=walk-copy/);
    await until('one is left', async () => (await p.locator('a.grid-row').count()) === 1);
    const [file] = await Promise.all([
      p.waitForEvent('download'),
      p.getByRole('button', { name: 'CSV' }).click(),
    ]);
    const text = readFileSync(await file.path(), 'utf8');
    must(text.split('\r\n').length === 3 && text.includes('walk-copy'), text);
  });

  await check('the list is sorted by a click on the head of a column', async () => {
    await p.goto(`${base}/jobs?state=all&prefix=walk-c&tag=walk%3Djobs`);
    const head = p.getByRole('columnheader', { name: 'Name' });
    const names = async () => (await p.locator('a.grid-row > span:nth-child(2)').allTextContents()).join();
    await head.getByRole('button').click();
    await p.waitForURL(/sort=name/);
    await until('it is sorted', async () => (await names()) === 'walk-clone,walk-copy');
    must((await head.getAttribute('aria-sort')) === 'ascending', 'the head does not say so');
    await head.getByRole('button').click();
    await p.waitForURL(/sort=-name/);
    await until('it is turned round', async () => (await names()) === 'walk-copy,walk-clone');
    must((await head.getAttribute('aria-sort')) === 'descending', 'the head does not say so');
  });

  await check('two jobs are compared', async () => {
    const { items } = await call('GET', '/v1/jobs?prefix=walk-copy&tag=walk%3Djobs');
    await p.goto(`${base}/jobs/compare?a=${id}&b=${items[0].id}`);
    await p.getByRole('heading', { name: 'Side by side' }).waitFor();
    await p.locator('.spec-diff .less', { hasText: 'name: walk-clone' }).waitFor();
    await p.locator('.spec-diff .more', { hasText: 'name: walk-copy' }).waitFor();
    for (const j of items) await call('POST', `/v1/jobs/${j.id}/cancel`);
  });

  await check(
    'the timeline has what runs and a reserved start, is zoomed, and says what a bar is',
    async () => {
      const { waits, works } = await waitingJob(until);
      for (const how of [WIDE, PHONE]) {
        const q = await page(chromium, how);
        await q.goto(`${base}/jobs?view=timeline&tag=walk%3Djobs`);
        const lines = q.getByRole('region', { name: 'Timeline of the queue' });
        const bar = (job) =>
          lines.locator('li', {
            has: q.getByRole('link', {
              name: `${job} ${job === id ? 'walk-clone' : 'walk-waits'}`,
              exact: true,
            }),
          });
        await bar(waits)
          .getByRole('img', { name: /^reserved start .*, time limit at / })
          .waitFor();
        await bar(waits).locator('.bar.reserved').waitFor();
        await bar(id)
          .getByRole('img', { name: /^started .*, time limit at / })
          .waitFor();
        const runs = bar(id).locator('.bar.runs');
        const before = (await runs.boundingBox()).width;
        for (const head of ['Running', 'With a reserved start'])
          await lines.getByRole('heading', { name: head }).waitFor();
        // By the buttons, then by a drag; both are in the address.
        await q.getByRole('button', { name: 'Zoom in' }).click();
        await q.waitForURL((url) => url.searchParams.has('from') && url.searchParams.has('to'));
        await until('the bar is longer', async () => (await runs.boundingBox()).width > before);
        if (how === WIDE) {
          const first = q.url();
          const box = await bar(waits).getByRole('img').boundingBox();
          const y = box.y + box.height / 2;
          await q.mouse.move(box.x + box.width * 0.5, y);
          await q.mouse.down();
          await q.mouse.move(box.x + box.width * 0.7, y, { steps: 4 });
          await q.mouse.up();
          await q.waitForURL((url) => url.href !== first && url.searchParams.has('from'));
        }
        await q.getByRole('button', { name: 'Reset zoom' }).click();
        await q.waitForURL((url) => !url.searchParams.has('from'));
        const track = bar(waits).getByRole('img');
        await (how === WIDE ? track.hover() : track.tap());
        const card = q.getByRole('tooltip');
        for (const words of [`${waits} walk-waits`, 'Project', 'Why it waits', 'x 8 GPUs'])
          await card.getByText(words).first().waitFor();
        const wide = await sideways(q);
        must(wide.length === 0, wide.join(', '));
        // Of what has ended there are no bars, and the page leads to what has some.
        await q.getByRole('button', { name: 'failed', exact: true }).click();
        await q.getByRole('button', { name: 'Show active jobs' }).click();
        await lines.locator('.bar').first().waitFor();
        must(q.problems.length === 0, q.problems.join('\n'));
        await q.context().close();
      }
      for (const job of [waits, works]) await call('POST', `/v1/jobs/${job}/cancel`);
    },
  );

  await check('output shows when it came where that is asked for, in the zone of the page', async () => {
    const printing = await call('POST', '/v1/jobs', {
      kind: 'Job',
      name: 'walk-times',
      gang: { gpus: 1 },
      run: {
        command: ['sh', '-c', 'echo first line; sleep 0.3; echo a problem >&2; sleep 0.3; echo last line'],
      },
    });
    await until('it is over', async () => {
      const { state } = await call('GET', `/v1/jobs/${printing.id}`);
      return state === 'succeeded';
    });
    await p.goto(`${base}/jobs/${printing.id}`);
    const line = p.locator('.job-log .line', { hasText: 'first line' });
    await line.waitFor();
    await until('all of it is shown', async () => (await p.locator('.job-log .line').count()) === 3);
    must((await p.locator('.job-log .at').count()) === 0, 'times are shown that nobody asked for');
    await p.getByLabel('Timestamps').check();
    const shown = await line.locator('.at').textContent();
    must(/^\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2}\.\d$/.test(shown), `it shows ${shown}`);
    const reply = await fetch(`${base}/v1/jobs/${printing.id}/logs?rank=0&timestamps=true`, {
      headers: { authorization: `Bearer ${token}`, accept: 'application/x-ndjson' },
    });
    const pieces = (await reply.text())
      .split('\n')
      .filter(Boolean)
      .map((l) => JSON.parse(l));
    const { at } = pieces.find((piece) => piece.text?.includes('first line'));
    const wall = await p.evaluate((t) => {
      const two = { hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23' };
      return new Date(t).toLocaleTimeString('en', two);
    }, at);
    must(shown.includes(` ${wall}.`), `${shown} is not ${at} on this page`);
    const order = await p.locator('.job-log .line').allTextContents();
    const came = await p.locator('.job-log .at').allTextContents();
    must(came.length === 3 && came.join() === [...came].sort().join(), `not in order: ${order.join('')}`);
    const marked = order.filter((one) => one.startsWith('0 err'));
    must(marked.length === 1 && marked[0].includes('a problem'), `of stderr: ${marked.join('')}`);
    await p.getByLabel('Timestamps').uncheck();
    must((await p.locator('.job-log .at').count()) === 0, 'the times stay');
  });

  await check('on a phone the page of a job, its form and a comparison do not scroll sideways', async () => {
    const phone = await page(chromium, PHONE);
    for (const path of [`/jobs/${id}`, `/jobs/new?from=${id}`, `/jobs/compare?a=${id}&b=${id}.1`]) {
      await phone.goto(base + path);
      await phone.locator('.standing.live').waitFor();
      await phone.waitForFunction(() => !/Loading…/.test(document.body.textContent));
      const wide = await sideways(phone);
      must(wide.length === 0, `${path}: ${wide.join(', ')}`);
    }
    must(phone.problems.length === 0, phone.problems.join('\n'));
    await phone.context().close();
  });

  await call('POST', `/v1/jobs/${id}/cancel`);
  await check('nothing went wrong in the browser on the pages of jobs', async () => {
    must(p.problems.length === 0, p.problems.join('\n'));
    await p.context().close();
  });
}
