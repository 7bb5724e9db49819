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

  await check('nothing went wrong in the browser on the charts of a history', async () => {
    must(p.problems.length === 0, p.problems.join('\n'));
    await p.context().close();
  });
}
