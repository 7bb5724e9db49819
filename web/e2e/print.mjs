// The executive page on paper: real PDFs of A4 and of Letter. Part of e2e/walk.mjs.
import { inflateSync } from 'node:zlib';
import { base, page } from './browser.mjs';

/** Sizes of paper, in points of 1/72 inch. */
const PAPERS = [
  { format: 'A4', width: 595, height: 842 },
  { format: 'Letter', width: 612, height: 792 },
];
/** The margin of the style sheet: 12 mm. */
const MARGIN = (12 / 25.4) * 72;
/** More than these would be a page that is broken off somewhere. */
const PAGES_MAX = 6;

/** Objects of a PDF as Chromium writes it, by their number: what they say, and what is packed in them. */
function objectsOf(pdf) {
  const text = pdf.toString('latin1');
  const objects = new Map();
  for (const m of text.matchAll(/(?:^|\n)(\d+) 0 obj\r?\n/g)) {
    const begin = m.index + m[0].length;
    const end = text.indexOf('endobj', begin);
    const body = text.slice(begin, end);
    const packed = /\bstream\r?\n/.exec(body);
    if (!packed) {
      objects.set(m[1], { head: body, data: null });
      continue;
    }
    const head = body.slice(0, packed.index);
    const from = begin + packed.index + packed[0].length;
    const length = Number(/\/Length (\d+)/.exec(head)?.[1] ?? 0);
    const bytes = pdf.subarray(from, from + length);
    const data = /FlateDecode/.test(head) ? inflateSync(bytes).toString('latin1') : bytes.toString('latin1');
    objects.set(m[1], { head, data });
  }
  return objects;
}

/** How the codes of a font are read: its table from codes to characters. */
function lettersOf(cmap) {
  const letters = new Map();
  const word = (hex) => Buffer.from(hex, 'hex').swap16().toString('utf16le');
  for (const [, block] of cmap.matchAll(/beginbfchar([\s\S]*?)endbfchar/g))
    for (const [, code, to] of block.matchAll(/<([0-9A-Fa-f]+)>\s*<([0-9A-Fa-f]+)>/g))
      letters.set(Number.parseInt(code, 16), word(to));
  for (const [, block] of cmap.matchAll(/beginbfrange([\s\S]*?)endbfrange/g))
    for (const [, low, high, to] of block.matchAll(
      /<([0-9A-Fa-f]+)>\s*<([0-9A-Fa-f]+)>\s*<([0-9A-Fa-f]+)>/g,
    )) {
      const first = Number.parseInt(low, 16);
      for (let code = first; code <= Number.parseInt(high, 16); code++)
        letters.set(code, String.fromCharCode(Number.parseInt(to, 16) + code - first));
    }
  return letters;
}

const times = ([a, b, c, d, e, f], [g, h, i, j, k, l]) => [
  a * g + b * i,
  a * h + b * j,
  c * g + d * i,
  c * h + d * j,
  e * g + f * i + k,
  e * h + f * j + l,
];

/** What a page says, and where its texts begin, in points from its lower left corner. */
function pageText(objects, head) {
  const content = objects.get(/\/Contents (\d+) 0 R/.exec(head)[1]).data;
  const given = /\/Resources (\d+) 0 R/.exec(head);
  const resources = given ? objects.get(given[1]).head : head;
  const named = /\/Font\s*<<([\s\S]*?)>>/.exec(resources)?.[1] ?? '';
  const fonts = new Map();
  for (const [, name, id] of named.matchAll(/\/(\w+) (\d+) 0 R/g)) {
    const cmap = /\/ToUnicode (\d+) 0 R/.exec(objects.get(id).head);
    if (cmap) fonts.set(name, lettersOf(objects.get(cmap[1]).data));
  }
  const stack = [];
  let [own, line, letters, text] = [[1, 0, 0, 1, 0, 0], [1, 0, 0, 1, 0, 0], new Map(), ''];
  let operands = [];
  const begins = [];
  const say = (hex) => {
    for (let i = 0; i + 4 <= hex.length; i += 4)
      text += letters.get(Number.parseInt(hex.slice(i, i + 4), 16)) ?? '';
  };
  const began = () => {
    const [, , , , x, y] = times(line, own);
    begins.push({ x, y });
  };
  for (const [token] of content.matchAll(/\[[^\]]*\]|<[0-9A-Fa-f\s]*>|\/[\w.]+|-?[\d.]+|[A-Za-z'"*]+/g)) {
    if (/^[-\d.[</]/.test(token)) {
      operands.push(token);
      continue;
    }
    const numbers = operands.map(Number);
    if (token === 'q') stack.push(own);
    else if (token === 'Q') own = stack.pop() ?? own;
    else if (token === 'cm') own = times(numbers.slice(-6), own);
    else if (token === 'BT') line = [1, 0, 0, 1, 0, 0];
    else if (token === 'Tm') line = numbers.slice(-6);
    else if (token === 'Td') line = times([1, 0, 0, 1, ...numbers.slice(-2)], line);
    else if (token === 'Tf') letters = fonts.get(operands.at(-2)?.slice(1)) ?? new Map();
    else if (token === 'Tj' || token === 'TJ') {
      began();
      for (const [, hex] of (operands.at(-1) ?? '').matchAll(/<([0-9A-Fa-f\s]*)>/g))
        say(hex.replace(/\s/g, ''));
    }
    operands = [];
  }
  return { text, begins };
}

/** Without what may be between letters on paper: spaces, line breaks, soft hyphens. */
const bare = (text) => text.normalize('NFKC').replace(/[\s\u00ad\u200b]/g, '');

/** What has to be on the paper: headings, names and values of the figures, and the words of the tables. */
const figures = (p) =>
  p.evaluate(() =>
    [...document.querySelectorAll('.answer > h2, .answer h3, .tile b, .answer td, .answer th')]
      .filter((e) => e.checkVisibility() && e.getBoundingClientRect().width > 1)
      .map((e) => e.innerText)
      .filter((t) => t.trim() !== ''),
  );

/** What of the answers is wider or higher than the box that shows it: on paper nobody scrolls. */
const cut = (p) =>
  p.evaluate(() =>
    [...document.querySelectorAll('.answer *')]
      .filter((e) => e instanceof HTMLElement && e.checkVisibility())
      .filter((e) => /hidden|clip|auto|scroll/.test(getComputedStyle(e).overflow))
      .filter((e) => e.scrollWidth > e.clientWidth + 1 || e.scrollHeight > e.clientHeight + 1)
      .map((e) => `${e.tagName} ${e.className}: ${e.textContent.slice(0, 40)}`),
  );

export async function walkPrint({ chromium, check, must, until }) {
  const p = await page(chromium);

  await check('the executive page is printed on A4 and on Letter, with all of its figures', async () => {
    await p.goto(`${base}/executive`);
    await until('each tile has its period', async () => {
      const tiles = await p.locator('.answer .tile').count();
      return tiles > 0 && (await p.locator('.answer .tile .over:not(:empty)').count()) === tiles;
    });
    // What has not come yet would not be looked for on paper.
    await p.waitForFunction(
      () => !/Loading…/.test(document.body.textContent) && !document.querySelector('.answer .skeleton'),
    );
    await p.emulateMedia({ media: 'print' });
    // What is left of the paper between its margins, in pixels of 1/96 inch. Charts take their new width a moment later.
    const counted = [];
    for (const paper of PAPERS) {
      const width = Math.floor(((paper.width - 2 * MARGIN) / 72) * 96);
      await p.setViewportSize({ width, height: 1000 });
      await until(`it fits ${paper.format}`, () =>
        p.evaluate(() => document.documentElement.scrollWidth <= window.innerWidth),
      );
      const hidden = await cut(p);
      must(hidden.length === 0, `cut off on ${paper.format}: ${hidden.join(', ')}`);
      const wanted = await figures(p);
      must(wanted.length > 12, `${wanted.length} figures`);
      counted.push(wanted.length);
      const pdf = await p.pdf({ format: paper.format, printBackground: true });
      const objects = objectsOf(pdf);
      const pages = [...objects.values()].filter((o) => /\/Type \/Page\b(?!s)/.test(o.head));
      must(pages.length >= 1 && pages.length <= PAGES_MAX, `${pages.length} pages of ${paper.format}`);
      let all = '';
      for (const [i, { head }] of pages.entries()) {
        const [, w, h] = /\/MediaBox \[\s*0 0 ([\d.]+) ([\d.]+)/.exec(head).map(Number);
        const size = `${Math.round(w)} by ${Math.round(h)}`;
        must(Math.abs(w - paper.width) < 2 && Math.abs(h - paper.height) < 2, `${paper.format} is ${size}`);
        const { text, begins } = pageText(objects, head);
        must(text.trim() !== '', `page ${i + 1} of ${paper.format} is empty`);
        const off = begins.filter(({ x, y }) => x < 0 || x > w || y < 0 || y > h);
        must(off.length === 0, `${off.length} texts of page ${i + 1} begin outside ${paper.format}`);
        all += text;
      }
      const said = bare(all);
      const missing = wanted.filter((t) => t.split('\n').some((part) => !said.includes(bare(part))));
      must(missing.length === 0, `not on ${paper.format}: ${missing.join(' | ')}`);
    }
    must(new Set(counted).size === 1, `figures on A4 and on Letter: ${counted.join(' and ')}`);
    await p.emulateMedia({ media: null });
  });

  await check('nothing went wrong in the browser on what is printed', async () => {
    must(p.problems.length === 0, p.problems.join('\n'));
    await p.context().close();
  });
}
