// Metrics over time in a real browser: part of e2e/walk.mjs, on a site of simulated nodes.
import { base, call, PHONE, page } from './browser.mjs';

export async function walkHistory({ chromium, check, must, until, node, job }) {
  const p = await page(chromium);
  const charts = p.locator('.history-chart');
  const first = charts.first().locator('.u-over');

  await check(
    'the history of a node is charted, zoomed by a drag, and all of it is in the address',
    async () => {
      await until('samples of the node', async () => {
        const answer = await call('GET', `/v1/metrics/history?node=${node}&metrics=util`);
        return answer.series.some((s) => s.points.filter((point) => point !== null).length >= 2);
      });
      await p.goto(`${base}/nodes/${node}`);
      await first.waitFor();
      await until('four charts', async () => (await charts.count()) === 4);
      await p.getByRole('button', { name: '6 h', exact: true }).click();
      await p.waitForURL((url) => url.searchParams.get('range') === '6h');
      await p.locator('.history:not(.busy)').waitFor();
      await first.scrollIntoViewIfNeeded();
      let [box, y] = [null, 0];
      // One crosshair: every chart says the same moment. New samples draw a chart anew, without one until the pointer moves.
      await until('all charts say the moment', async () => {
        box = await first.boundingBox();
        y = box.y + box.height / 2;
        await p.mouse.move(box.x + box.width * 0.5 - 2, y);
        await p.mouse.move(box.x + box.width * 0.5, y);
        return (await charts.locator('h3 > span').count()) === 4;
      });
      await p.mouse.down();
      await p.mouse.move(box.x + box.width * 0.7, y, { steps: 4 });
      await p.mouse.up();
      await p.waitForURL((url) => url.searchParams.has('from') && url.searchParams.has('to'));
      await p.getByRole('button', { name: 'Reset zoom' }).click();
      await p.waitForURL((url) => !url.searchParams.has('from') && url.searchParams.get('range') === '6h');
    },
  );

  await check('a range that is none says what to write, and a time without samples says so', async () => {
    await p.goto(`${base}/nodes/${node}?range=2h`);
    await p.getByRole('alert').filter({ hasText: 'there are 1h' }).waitFor();
    await p.getByRole('button', { name: 'Reset', exact: true }).click();
    await first.waitFor();
    await p.goto(`${base}/nodes/${node}?from=2020-01-01T00:00:00Z&to=2020-01-02T00:00:00Z`);
    await p.getByText('No samples between').waitFor();
    await p.getByText('The history of these metrics begins').waitFor();
  });

  await check('a GPU and a job have a history too, also on a phone without scrolling sideways', async () => {
    const phone = await page(chromium, PHONE);
    for (const path of [`/nodes/${node}/gpus/0`, `/jobs/${job}`]) {
      await phone.goto(`${base}${path}`);
      await phone.locator('.history-chart .u-over').first().waitFor();
      const wide = await phone.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
      must(wide <= 0, `${path} is ${wide} pixels too wide`);
    }
    await phone.context().close();
  });

  await check('metrics of two attempts are beside each other, from the start of each on', async () => {
    const { attempt } = await call('GET', `/v1/jobs/${job}`);
    const from = Date.parse(attempt.started_at);
    await until('samples of the attempt', async () => {
      const time = `from=${from}&to=${Date.now()}`;
      const answer = await call('GET', `/v1/metrics/history?job=${job}&metrics=util,step_time&${time}`);
      const sampled = (s) => s.points.filter((point) => point !== null).length >= 3;
      return answer.series.length === 2 && answer.series.every(sampled);
    });
    await p.goto(`${base}/jobs/compare?a=${job}&b=${job}.${attempt.no}`);
    const heads = charts.locator('h3');
    await until('three metrics of both', async () => (await charts.locator('.u-over').count()) === 6);
    const titles = await heads.allTextContents();
    const names = [`${job}: `, `${job}.${attempt.no}: `];
    must(
      titles.every((t, i) => t.startsWith(names[i % 2])),
      `not beside each other: ${titles.join(', ')}`,
    );
    await first.scrollIntoViewIfNeeded();
    let said = [];
    // New samples draw a chart anew, without a crosshair until the pointer moves.
    await until('all charts say the moment', async () => {
      const box = await first.boundingBox();
      const y = box.y + box.height / 2;
      await p.mouse.move(box.x + box.width * 0.1 - 2, y);
      await p.mouse.move(box.x + box.width * 0.1, y);
      said = await charts.locator('h3 > span').allTextContents();
      return said.length === 6;
    });
    must(
      said.every((s) => / at .* after the start$/.test(s)),
      said.join(),
    );
    const lines = await charts.locator('.u-cursor-x:not(.u-off)').count();
    must(lines === 6, `${lines} of 6 charts have the crosshair`);
  });

  await check('a job without samples says why, beside one that has some', async () => {
    const held = { kind: 'Job', name: 'history-held', hold: true, simulate: { run: '1m' } };
    const { id } = await call('POST', '/v1/jobs', { ...held, gang: { nodes: 1, gpus_per_node: 1 } });
    await p.goto(`${base}/jobs/compare?a=${job}&b=${id}`);
    await p.getByText(`${id} has no samples: it has not started.`).waitFor();
    await until('charts of the other', async () => (await charts.locator('.u-over').count()) === 3);
    must((await charts.filter({ hasText: 'no data' }).count()) === 3, 'its charts do not say that');
    await p.goto(`${base}/jobs/compare?a=${id}&b=${id}`);
    await p.getByRole('heading', { name: 'No samples of either' }).waitFor();
    await call('POST', `/v1/jobs/${id}/cancel`);
  });

  await check('nothing went wrong in the browser on the charts of a history', async () => {
    must(p.problems.length === 0, p.problems.join('\n'));
    await p.context().close();
  });
}
