// How the map moves: node e2e/perf.mjs [--json]
// Frames while panning and zooming (the browser's own clock), time to the first picture, memory.
import { readFileSync } from 'node:fs';
import { base, browser, page } from './browser.mjs';

const chromium = await browser();
const p = await page(chromium, {});
const began = Date.now();
await p.goto(base);
await p.locator('.map-area canvas.over').waitFor({ timeout: 60_000 });
await p.waitForFunction(() => performance.getEntriesByName('map-drawn').length > 0, null, {
  timeout: 60_000,
});
const first = await p.evaluate(() => performance.getEntriesByName('map-drawn')[0].startTime);
const gpus = await p.evaluate(() =>
  document.querySelector('.map-area canvas.over').getAttribute('aria-label'),
);

// Lets frames and moves go on together, and notes how long each frame took.
await p.evaluate(() => {
  window.frames_ = [];
  let last = performance.now();
  const tick = (now) => {
    window.frames_.push(now - last);
    last = now;
    requestAnimationFrame(tick);
  };
  requestAnimationFrame(tick);
});
const box = await p.locator('.map-area').boundingBox();
const [cx, cy] = [box.x + box.width / 2, box.y + box.height / 2];
const worst = [];
const measure = async (what, moves) => {
  await p.evaluate(() => {
    window.frames_.length = 0;
  });
  await moves();
  const all = await p.evaluate(() => window.frames_.slice(1).sort((a, b) => a - b));
  const at = (q) => all[Math.min(all.length - 1, Math.floor(all.length * q))]?.toFixed(1);
  worst.push(Number(at(0.95)));
  console.log(`${what}: ${all.length} frames, median ${at(0.5)} ms, p95 ${at(0.95)} ms, worst ${at(1)} ms`);
};
const pan = async (steps) => {
  await p.mouse.move(cx, cy);
  await p.mouse.down();
  for (let i = 0; i < steps; i++) {
    await p.mouse.move(cx + Math.sin(i / 9) * 300, cy + Math.cos(i / 7) * 150);
    await p.waitForTimeout(12);
  }
  await p.mouse.up();
};
await measure('panning, all in sight', () => pan(200));
await measure('zooming', async () => {
  await p.mouse.move(cx, cy);
  for (let i = 0; i < 160; i++) {
    await p.mouse.wheel(0, i % 80 < 40 ? -120 : 120);
    await p.waitForTimeout(12);
  }
});
await measure('panning, zoomed in', async () => {
  for (let i = 0; i < 12; i++) await p.mouse.wheel(0, -120);
  await pan(200);
});
await p.waitForTimeout(2000);
const session = await p.context().newCDPSession(p);
await session.send('HeapProfiler.collectGarbage');
const memory = await p.evaluate(() => performance.memory.usedJSHeapSize);
console.log(gpus);
console.log(
  `first picture after ${first.toFixed(0)} ms (${Date.now() - began} ms of this run), heap ${(memory / 1e6).toFixed(0)} MB`,
);
// The tab's own process, with its share of what it shares with others.
const owner = await chromium.newBrowserCDPSession();
const { processInfo } = await owner.send('SystemInfo.getProcessInfo');
const held = processInfo
  .filter((i) => i.type === 'renderer')
  .map((i) => Number(/^Pss:\s+(\d+)/m.exec(readFileSync(`/proc/${i.id}/smaps_rollup`, 'utf8'))?.[1] ?? 0));
if (process.argv.includes('--json'))
  console.log(
    JSON.stringify({
      gpus: Number(/[\d,]+/.exec(gpus ?? '')?.[0].replaceAll(',', '') ?? 0),
      first_paint_ms: first,
      frame_p95_ms: Math.max(...worst),
      tab_mib: Math.max(...held) / 1024,
      heap_mib: memory / 2 ** 20,
    }),
  );
for (const problem of p.problems) console.log(problem);
await chromium.close();
