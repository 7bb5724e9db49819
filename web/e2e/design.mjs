// Time, the map by keys, the executive page and the page of the design in a real browser: part of e2e/walk.mjs.
import { base, call, PHONE, page } from './browser.mjs';
import { square } from './squares.mjs';

/** `placed`: a job that ran, and when. */
export async function walkDesign({ chromium, check, must, until, placed }) {
  const p = await page(chromium);
  const at = new Date(Date.parse(placed.started_at) + 200).toISOString();
  const [{ node }] = placed.attempt.slots;

  await check('any minute is reached by its time, and what is no time says what to write', async () => {
    await p.goto(base);
    await p.locator('.standing.live').waitFor();
    const field = p.getByLabel(/^Go to a time/);
    await field.fill('soon');
    await field.press('Enter');
    await p.getByRole('alert').filter({ hasText: 'write 03:12' }).waitFor();
    must(!new URL(p.url()).searchParams.has('at'), 'a time that is none was gone to');
    must((await p.locator('.map-area').count()) === 0, 'a map is shown of a time that is none');
    await p.getByRole('button', { name: 'Live' }).click();
    await p.locator('.map-area').waitFor();
    must((await p.getByText('write 03:12').count()) === 0, 'what was refused is still said');
    await field.fill(at);
    await field.press('Enter');
    await p.waitForURL((url) => url.searchParams.get('at') === at);
    await p.getByText('as the log has it').waitFor();
    await field.fill('now');
    await field.press('Enter');
    await p.waitForURL((url) => !url.searchParams.has('at'));
  });

  await check('the slider steps from event to event, and its length is in the address', async () => {
    await p.goto(`${base}/?at=${at}`);
    await p.getByText('as the log has it').waitFor();
    await p.getByLabel('Events that are stepped to').selectOption('all');
    await p.getByTitle('Previous event').click();
    await p.waitForURL((url) => Date.parse(url.searchParams.get('at')) < Date.parse(at));
    await until('the event is said', async () => (await p.locator('.time-event').textContent()).length > 3);
    const before = new URL(p.url()).searchParams.get('at');
    await p.getByTitle('Next event').click();
    await p.waitForURL((url) => Date.parse(url.searchParams.get('at')) > Date.parse(before));
    // A site of minutes has no slider of an hour: all of it is shown.
    await p.goto(`${base}/?at=${at}&span=1h`);
    await p.getByText('as the log has it').waitFor();
    await p.getByRole('group', { name: 'Length of the slider' }).getByRole('button', { name: 'All' }).click();
    await p.waitForURL((url) => !url.searchParams.has('span'));
  });

  await check(
    'what is opened on a map of the past is as it was, and leaves it only with a word',
    async () => {
      await p.goto(`${base}/?at=${at}&open=node:${node}`);
      const panel = p.getByRole('complementary', { name: `${node} as it was` });
      await panel.getByText('as it was at').waitFor();
      await panel.getByText('8 allocated').waitFor();
      await panel.getByRole('button', { name: 'GPU 0', exact: true }).click();
      await p.waitForURL((url) => url.searchParams.get('open') === `gpu:${node}/0`);
      const gpu = p.getByRole('complementary', { name: `${node} GPU 0 as it was` });
      await gpu.getByText('none open').waitFor();
      await gpu.getByRole('button', { name: `job ${placed.id}`, exact: true }).click();
      const job = p.getByRole('complementary', { name: `Job ${placed.id} as it was` });
      await job.getByText('24 on 3 nodes').waitFor();
      await job.getByText(/^attempt 1/).waitFor();
      await p.keyboard.press('Escape');
      await p.waitForURL((url) => !url.searchParams.has('open') && url.searchParams.get('at') === at);
      // A page of its own is of now, and says so.
      await p.goto(`${base}/jobs/${placed.id}?past=${at}`);
      await p.getByText('This is the job as it is now').waitFor();
      await p.getByRole('link', { name: 'Back to the map of then' }).click();
      await p.waitForURL((url) => url.searchParams.get('open') === `job:${placed.id}`);
    },
  );

  await check('a square of a map of the past that is clicked opens as it was', async () => {
    await p.goto(`${base}/?at=${at}`);
    await p.getByText('as the log has it').waitFor();
    const there = await until('a square of the job', () => square(p, 'allocated, healthy'));
    await p.mouse.click(there.x, there.y);
    await p.waitForURL((url) => url.searchParams.get('open')?.startsWith('gpu:'));
    must(new URL(p.url()).searchParams.get('at') === at, 'the map is of another moment now');
    const [name, gpu] = new URL(p.url()).searchParams.get('open').slice(4).split('/');
    const panel = p.getByRole('complementary', { name: `${name} GPU ${gpu} as it was` });
    await panel.getByText('as it was at').waitFor();
    await panel.getByRole('button', { name: `job ${placed.id}`, exact: true }).waitFor();
    must(
      placed.attempt.slots.some((s) => s.node === name && s.gpus.includes(Number(gpu))),
      `job ${placed.id} was not on GPU ${gpu} of ${name}`,
    );
  });

  await check('a time is typed on a phone, and a square of then opens by a tap', async () => {
    const phone = await page(chromium, PHONE);
    await phone.goto(base);
    await phone.locator('.standing.live').waitFor();
    const field = phone.getByLabel(/^Go to a time/);
    await field.fill('soon');
    await phone.getByRole('button', { name: 'Go', exact: true }).tap();
    await phone.getByRole('alert').filter({ hasText: 'write 03:12' }).waitFor();
    await field.fill(at);
    await phone.getByRole('button', { name: 'Go', exact: true }).tap();
    await phone.waitForURL((url) => url.searchParams.get('at') === at);
    await phone.getByText('as the log has it').waitFor();
    const there = await until('a square of the job', () => square(phone, 'allocated, healthy'));
    await phone.touchscreen.tap(there.x, there.y);
    await phone.waitForURL((url) => url.searchParams.get('open')?.startsWith('gpu:'));
    await phone.getByText('as it was at').waitFor();
    const wide = await phone.evaluate(() => document.documentElement.scrollWidth);
    must(wide <= PHONE.width, `it is ${wide} px wide`);
    must(phone.problems.length === 0, phone.problems.join('\n'));
    await phone.context().close();
  });

  await check('a GPU is chosen and opened by keys alone', async () => {
    await p.goto(base);
    await p.locator('.standing.live').waitFor();
    const map = p.locator('canvas.over');
    await map.focus();
    const said = p.locator('.map-area p[role="status"]');
    // Before the map is drawn there is nothing to choose.
    await until('it is said', async () => {
      if (/ GPU \d/.test(await said.textContent())) return true;
      await p.keyboard.press('ArrowRight');
      return false;
    });
    const first = await said.textContent();
    await p.locator('.card').waitFor();
    await until('the next one', async () => {
      await p.keyboard.press('ArrowLeft');
      return (await said.textContent()) !== first;
    });
    const name = (await said.textContent()).split(' GPU ')[0];
    await p.keyboard.press('Enter');
    await p.waitForURL(`${base}/nodes/${name}`);
  });

  await check('the map takes the width of the window, and squares have words from near', async () => {
    await p.goto(base);
    await p.locator('.map-area').waitFor();
    const inked = () =>
      p.evaluate(() => {
        const canvas = document.querySelector('canvas.over');
        const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
        let n = 0;
        for (let i = 3; i < data.length; i += 4) if (data[i] > 0) n++;
        return n;
      });
    await until('the map is drawn', async () => (await inked()) > 0);
    const far = await inked();
    for (let i = 0; i < 6; i++) await p.getByRole('button', { name: 'Zoom in' }).click();
    await until('words are drawn', async () => (await inked()) !== far);
    await p.getByRole('button', { name: 'Fit' }).click();
  });

  await check(
    'the executive page answers in the order that is asked, each number with its definition',
    async () => {
      await p.goto(`${base}/executive`);
      await p.getByRole('heading', { name: 'Is the fleet used?' }).waitFor();
      const questions = await p.locator('.answer > h2').allTextContents();
      must(
        questions.join() ===
          'Is the fleet used?,Are we reliable?,Is there enough capacity?,What did incidents cost?',
        questions.join(),
      );
      await until('each tile has its period', async () => {
        const tiles = await p.locator('.answer .tile').count();
        return tiles > 0 && (await p.locator('.answer .tile .over:not(:empty)').count()) === tiles;
      });
      await p.getByRole('button', { name: 'Definition of goodput' }).focus();
      await p.keyboard.press('Enter');
      await p.getByRole('tooltip').filter({ hasText: 'productive GPU-hours' }).waitFor();
    },
  );

  await check('the page of the design shows both themes, and fits a phone', async () => {
    await p.goto(`${base}/design`);
    await p.getByRole('heading', { name: 'Colours, dark' }).waitFor();
    await p.getByRole('heading', { name: 'Colours, light' }).waitFor();
    const grounds = await p
      .locator('.design-theme')
      .evaluateAll((all) => all.map((e) => getComputedStyle(e).backgroundColor));
    must(new Set(grounds).size === 2, grounds.join());
    must((await p.locator('nav a[href="/design"]').count()) === 0, 'it is in the navigation');
    const phone = await page(chromium, PHONE);
    await phone.goto(`${base}/design`);
    await phone.getByRole('heading', { name: 'Design' }).waitFor();
    const wide = await phone.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
    must(wide <= 0, `${wide} px too wide`);
    await phone.context().close();
  });

  await check('the map of the past has metrics of the history', async () => {
    const moment = await until('samples of the node', async () => {
      const got = await call('GET', `/v1/metrics/history?node=${node}&metrics=util&points=2000`);
      const some = got.series.find((s) => s.points.some((one) => one !== null));
      if (!some) return null;
      return got.from + got.step_ms * (some.points.findIndex((one) => one !== null) + 1);
    });
    await p.goto(`${base}/?by=util&at=${new Date(moment).toISOString()}`);
    await p.getByText('metrics from the history').waitFor();
  });

  await check('nothing went wrong in the browser on these', async () => {
    must(p.problems.length === 0, p.problems.join('\n'));
    await p.context().close();
  });
}
