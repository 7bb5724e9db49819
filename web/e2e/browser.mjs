// A real Chromium, as Debian has it.
import { existsSync } from 'node:fs';
import { chromium } from 'playwright-core';

const PLACES = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];

// A machine may be slow; it only keeps a broken walk from hanging.
const PATIENCE = 300_000;

export const base = process.env.MUSTER_URL ?? 'http://127.0.0.1:7070';
export const token = process.env.MUSTER_TOKEN ?? '';

/** The windows that every page must fit. */
export const WIDE = { width: 1366, height: 768 };
export const PHONE = { width: 390, height: 844, isMobile: true, hasTouch: true, deviceScaleFactor: 2 };
/** Time zones that every page must be right in: one west of Greenwich, one east of it. */
export const ZONES = ['America/Los_Angeles', 'Asia/Tokyo'];

export async function browser() {
  const executablePath = process.env.CHROMIUM ?? PLACES.find((p) => existsSync(p));
  if (!executablePath) throw new Error('no Chromium: apt install chromium, or set CHROMIUM');
  return chromium.launch({
    executablePath,
    timeout: PATIENCE,
    args: [
      '--no-sandbox',
      '--disable-gpu',
      '--disable-quic',
      '--no-first-run',
      '--disable-background-networking',
      '--disable-component-update',
      '--disable-sync',
    ],
  });
}

/** The cookie of a session of this token. */
async function cookie(of) {
  const answer = await fetch(`${base}/v1/session`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${of}` },
  });
  if (!answer.ok) throw new Error(`POST /v1/session: ${answer.status} ${await answer.text()}`);
  const [name, value] = answer.headers.getSetCookie()[0].split(';')[0].split(/=(.*)/s);
  return { name, value, url: base, httpOnly: true, sameSite: 'Strict' };
}

/** A page of a window of this size that is logged in; `problems` collects what goes wrong on it. */
export async function page(
  of,
  { width = 1366, height = 768, scheme = 'dark', loggedIn = true, as = token, ...more } = {},
) {
  const context = await of.newContext({ viewport: { width, height }, colorScheme: scheme, ...more });
  if (loggedIn) {
    await context.addCookies([await cookie(as)]);
  }
  context.setDefaultTimeout(PATIENCE);
  const p = await context.newPage();
  p.problems = [];
  p.on('console', (m) => {
    // Only these tests read a canvas back; the console does not.
    if (m.text().includes('willReadFrequently')) return;
    if (m.type() === 'error' || m.type() === 'warning') p.problems.push(`${m.type()}: ${m.text()}`);
  });
  p.on('pageerror', (e) => p.problems.push(`error: ${e.message}`));
  return p;
}

/** The JSON of a call to the API. */
export async function call(method, path, body, as = token) {
  const answer = await fetch(base + path, {
    method,
    headers: { Authorization: `Bearer ${as}`, ...(body && { 'Content-Type': 'application/json' }) },
    body: body && JSON.stringify(body),
  });
  const text = await answer.text();
  if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`);
  return text ? JSON.parse(text) : null;
}

/**
 * What of a page is wider than its place: the page, a list, what scrolls, or a table in its panel. What has just come may
 * need a moment for its place: only what stays too wide counts.
 */
export async function sideways(p) {
  const wide = () =>
    p.evaluate(() => {
      const boxes = document.querySelectorAll('main.page, .virtual, .scroll-x, .panel');
      return [document.documentElement, ...boxes]
        .filter((e) => e.scrollWidth > e.clientWidth + 1)
        .map((e) => `${e.tagName} ${e.className}: ${e.scrollWidth} of ${e.clientWidth} px`);
    });
  for (let looks = 20; looks > 0; looks--) {
    if ((await wide()).length === 0) return [];
    await p.waitForTimeout(250);
  }
  return wide();
}
