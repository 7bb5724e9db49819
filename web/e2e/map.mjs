// The map from far and from near, and steps along its past: part of e2e/walk.mjs, on a site of simulated nodes.
import { base, page, WIDE } from './browser.mjs';

/** Small enough that squares have no words at first, however few nodes the site has. */
const SMALL = { width: 760, height: 640 };

/** Collects the words of each picture that is drawn. Runs in the page, before its own scripts. */
function drawnWords() {
  window.drawnWords = [];
  const { clearRect, fillText } = CanvasRenderingContext2D.prototype;
  CanvasRenderingContext2D.prototype.clearRect = function (...given) {
    if (this.canvas.matches('.map-area canvas')) window.drawnWords = [];
    return clearRect.apply(this, given);
  };
  CanvasRenderingContext2D.prototype.fillText = function (text, ...given) {
    if (this.canvas.matches('.map-area canvas')) window.drawnWords.push(text);
    return fillText.call(this, text, ...given);
  };
}

/** What the squares of the newest picture say. Runs in the page, once what was asked for before is drawn. */
const level = (p) =>
  p.evaluate(
    () =>
      new Promise((done) => {
        const next = (then) => requestAnimationFrame(() => requestAnimationFrame(then));
        next(() => {
          const some = (form) => window.drawnWords.some((w) => form.test(w));
          const use = some(/^(#\d+|free)$/);
          const load = some(/^\d+ %$/);
          const heat = some(/^\d+ °C$/);
          done(`${use ? 'use ' : ''}${load ? 'load ' : ''}${heat ? 'heat' : ''}`.trim());
        });
      }),
  );

const [SQUARES, WORDS, ALL] = ['', 'use load', 'use load heat'];

/** How many points of the canvas with the words are not empty. */
const inked = (p) =>
  p.evaluate(() => {
    const canvas = document.querySelector('.map-area canvas.over');
    const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
    let n = 0;
    for (let i = 3; i < data.length; i += 4) if (data[i] > 0) n++;
    return n;
  });

export async function walkMap({ chromium, check, must, until }) {
  const p = await page(chromium, SMALL);
  await p.addInitScript(drawnWords);

  /** Does something again and again until the squares say this; gives all that they said on the way. */
  const goes = async (to, act) => {
    const seen = [await level(p)];
    for (let turns = 0; seen.at(-1) !== to; turns++) {
      must(turns < 60, `it stays at “${seen.at(-1)}”, not “${to}”`);
      await act();
      const now = await level(p);
      if (now !== seen.at(-1)) seen.push(now);
    }
    return seen;
  };
  const order = (seen, wanted) =>
    must(JSON.stringify(seen) === JSON.stringify(wanted), `squares said ${JSON.stringify(seen)}`);

  const open = async () => {
    await p.goto(base);
    await p.locator('.standing.live').waitFor();
    const map = p.locator('.map-area canvas.over');
    await map.waitFor();
    await until('the map is drawn', async () => (await inked(p)) > 0);
    return map;
  };

  for (const [how, nearer, farther] of [
    ['the wheel', () => p.mouse.wheel(0, -80), () => p.mouse.wheel(0, 80)],
    ['the keyboard', () => p.keyboard.press('+'), () => p.keyboard.press('-')],
  ]) {
    await check(`by ${how} squares say their job and utilisation, nearer their temperature`, async () => {
      const map = await open();
      await map.scrollIntoViewIfNeeded();
      const box = await map.boundingBox();
      // A GPU is described in full from far, too: by its card and to screen readers.
      await map.focus();
      await p.keyboard.press('ArrowRight');
      const card = p.locator('.map-area .card');
      await card.waitFor();
      const said = p.locator('.map-area [role="status"]');
      const name = await said.textContent();
      must(/ GPU \d+: .*\d+ %, \d+ °C/.test(name), `a GPU is described as “${name}”`);
      if (how === 'the wheel') await p.mouse.move(box.x + box.width / 2, box.y + box.height / 3);
      const far = await inked(p);
      await goes(SQUARES, farther);
      order(await goes(ALL, nearer), [SQUARES, WORDS, ALL]);
      must((await inked(p)) !== far, 'words are asked for and not drawn');
      order(await goes(SQUARES, farther), [ALL, WORDS, SQUARES]);
      await goes(WORDS, nearer);
      await map.focus();
      await p.keyboard.press('0');
      must((await level(p)) === SQUARES, 'all of it has words');
    });
  }

  await check('a step to an event says where events are archived, and steps to what is stored', async () => {
    // A site that has archived something is large: here the server's answers are those of one.
    const at = new Date(Date.now() - 60_000).toISOString();
    const lost = { cursor: '50001', seq: 50_001, at, kind: 'node_lost', origin: 'input', actor: 'system' };
    const event = { ...lost, project: null, data: { node: 'n1', reason: 'heartbeat lost' } };
    await p.route('**/v1/events?*', (route) => {
      const q = new URL(route.request().url()).searchParams;
      const [from, to] = [q.get('from'), q.get('to')];
      const within = (!from || from <= at) && (!to || to > at);
      return route.fulfill({ json: { items: within ? [event] : [], cursor: null } });
    });
    await p.setViewportSize(WIDE);
    await open();
    const said = p.locator('.time-event');
    await p.getByRole('button', { name: 'Previous event' }).click();
    await p.waitForURL((url) => url.searchParams.get('at') === at);
    await said.filter({ hasText: 'node lost' }).waitFor();
    await p.getByRole('button', { name: 'Previous event' }).click();
    await said.filter({ hasText: /no previous event is stored: those before .* are archived/ }).waitFor();
    const before = new Date(Date.parse(at) - 5000).toISOString();
    await p.goto(`${base}/?at=${before}`);
    await p.getByRole('button', { name: 'Next event' }).click();
    await p.waitForURL((url) => url.searchParams.get('at') === at);
    await said
      .filter({ hasText: /^oldest stored event \(those before .* are archived\): node lost/ })
      .waitFor();
    await p.unroute('**/v1/events?*');
  });

  await check('nothing went wrong in the browser on the map', async () => {
    must(p.problems.length === 0, p.problems.join('\n'));
    await p.context().close();
  });
}
