// What is to be seen on a page of the console, and whether it may be: for e2e/roles.mjs.

/** Counts the reads that have no answer yet. Runs in the page, before its own scripts. */
export function counting() {
  window.asked = 0;
  const real = window.fetch;
  window.fetch = async (...given) => {
    // Streams are asked for by their path alone; they may have nothing to say for long.
    if (!(given[0] instanceof Request)) return real(...given);
    window.asked++;
    try {
      return await real(...given);
    } finally {
      window.asked--;
    }
  };
}

/** Waits until a page is there and nothing of it is being read. */
export async function settled(p) {
  await p.waitForFunction(() => {
    const main = document.querySelector('main');
    const reads = /Loading…|Waiting for the first|Checking…|Asking…|Searching…/;
    const done =
      main &&
      !('left' in main.dataset) &&
      window.asked === 0 &&
      document.querySelector('.standing.live') &&
      !reads.test(document.body.textContent);
    // For several pictures in a row: what has come may ask for more.
    window.quiet = done ? (window.quiet ?? 0) + 1 : 0;
    return window.quiet >= 3;
  });
}

/** Goes to another page as a link does: the console is not loaded anew. */
export async function visit(p, path) {
  await p.evaluate((to) => {
    document.querySelector('main').dataset.left = '';
    window.quiet = 0;
    window.history.pushState(null, '', to);
  }, path);
  await settled(p);
}

/** Runs in the page. */
function read() {
  const texts = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) texts.push(walker.currentNode.data);
  for (const e of document.querySelectorAll('[title], [aria-label]'))
    texts.push(e.getAttribute('title') ?? '', e.getAttribute('aria-label') ?? '');
  const seen = (selector) => [...document.querySelectorAll(selector)].filter((e) => e.checkVisibility());
  const name = (e) => (e.getAttribute('aria-label') ?? e.textContent).trim();
  // What stands out as the thing to do. A card of a list, such as one cause on call, is a view of its own.
  const views = () => {
    const of = new Map();
    for (const e of seen('main:not(.design) :is(button.main, a.button)')) {
      const view = e.closest('.item, dialog, main');
      of.set(view, [...(of.get(view) ?? []), e]);
    }
    return [...of.values()];
  };
  const bad = /\bundefined\b|\bNaN\b|Invalid Date|not a date|\[object Object\]/;
  return {
    bad: texts.filter((t) => bad.test(t)),
    offsets: texts.flatMap((t) => t.match(/UTC[+-]\d+(?::\d\d)?/g) ?? []),
    zones: seen('button[aria-label^="Times in "]').map(name),
    times: [...document.querySelectorAll('time[title]')].map((e) => [e.dateTime, e.title, e.textContent]),
    controls: seen('main button, main a').map(name),
    links: seen('nav a').map((a) => a.pathname),
    primary: views().map((all) => all.map(name)),
    wide: document.documentElement.scrollWidth,
    // The page of the design shows one to look at.
    errors: seen('main:not(.design) .error').map((e) => e.textContent.trim()),
  };
}

/** A moment on a clock of the zone, such as `2026-11-16 15:42:45 UTC-8`, without the console's own code. */
function exact(at, timeZone) {
  const moment = new Date(Math.floor(Date.parse(at) / 1000) * 1000);
  // Swedes write dates as ISO 8601 does.
  const format = new Intl.DateTimeFormat('sv-SE', { dateStyle: 'short', timeStyle: 'medium', timeZone });
  const local = format.format(moment);
  const hours = (Date.parse(`${local.replace(' ', 'T')}Z`) - moment.getTime()) / 3_600_000;
  return `${local} UTC${hours < 0 ? '' : '+'}${hours}`;
}

/** Offsets from UTC that a zone has in the course of a year. */
function offsets(zone) {
  const year = new Date().getUTCFullYear();
  return [1, 7].map((month) => exact(`${year}-0${month}-01T00:00:00Z`, zone).split(' ').at(-1));
}

const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];

/** Does an element say this moment? Words such as `3 min ago` are of no zone. */
function says([at, title, text], zone) {
  const right = exact(at, zone);
  const [year, month, day] = right.slice(0, 10).split('-').map(Number);
  const [date, minute] = [`${day} ${MONTHS[month - 1]}`, right.slice(11, 16)];
  const clocks = [right.slice(11, 19), `${date} ${minute}`, `${date} ${year} ${minute}`];
  return title === right && (/ago$|^in |^for |^now$/.test(text) || clocks.includes(text));
}

/** What is on the page, and what is wrong with it for somebody of this zone, in a window of this width. */
export async function look(p, zone, width) {
  const page = await p.evaluate(read);
  const wrong = page.bad.map((text) => `says “${text}”`);
  wrong.push(...page.errors.filter(Boolean).map((text) => `shows the error “${text}”`));
  for (const all of page.primary.filter((names) => names.length > 1))
    wrong.push(`has ${all.length} primary actions: ${all.join(', ')}`);
  if (page.wide > width) wrong.push(`is ${page.wide} px wide, of ${width}`);
  for (const time of page.times.filter((t) => !says(t, zone)))
    wrong.push(`shows ${time.join(' as ')} in ${zone}, where it is ${exact(time[0], zone)}`);
  const here = `Times in ${exact(new Date().toISOString(), zone).split(' ').at(-1)}`;
  if (page.zones.join() !== here) wrong.push(`names its zone as “${page.zones.join()}”, not “${here}”`);
  const others = page.offsets.filter((o) => !offsets(zone).includes(o));
  if (others.length > 0) wrong.push(`names other zones: ${others.join()}`);
  return { ...page, wrong };
}
