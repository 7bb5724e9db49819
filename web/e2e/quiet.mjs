// What the on-call page asks for while nobody acts: node e2e/quiet.mjs [SECONDS] [--json]
// Where nothing happens on the site these are the requests of an open page, and nothing else.
import { base, browser, page, WIDE } from './browser.mjs';

const words = process.argv.slice(2).filter((a) => !a.startsWith('--'));
const [seconds = 120] = words.map(Number);
/** What a page reads when it opens, and what the site did just before, is over by then. */
const SETTLED = 15_000;

const chromium = await browser();
const p = await page(chromium, WIDE);
await Promise.all([
  p.waitForResponse((r) => new URL(r.url()).pathname === '/v1/causes' && r.ok()),
  p.goto(`${base}/oncall`),
]);
await p.waitForTimeout(SETTLED);
const asked = new Map();
let count = 0;
p.on('request', (r) => {
  const { pathname } = new URL(r.url());
  count += 1;
  asked.set(pathname, (asked.get(pathname) ?? 0) + 1);
});
await p.waitForTimeout(seconds * 1000);
const perMinute = (count * 60) / seconds;
for (const [path, n] of [...asked].sort((a, b) => b[1] - a[1])) console.log(`${n} x ${path}`);
console.log(`${count} requests in ${seconds} s, ${perMinute.toFixed(1)} a minute`);
if (process.argv.includes('--json')) console.log(JSON.stringify({ requests_per_minute: perMinute }));
for (const problem of p.problems) console.log(problem);
await chromium.close();
