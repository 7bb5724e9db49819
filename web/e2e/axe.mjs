// What axe finds on a page.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

const source = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/** Every rule that the page breaks, of whatever grade, with the first elements that break it. */
export async function axe(p) {
  if (!(await p.evaluate(() => 'axe' in window))) await p.evaluate(source);
  const { violations } = await p.evaluate(() => window.axe.run(document, { resultTypes: ['violations'] }));
  const places = (v) => v.nodes.slice(0, 3).map((n) => n.html);
  return violations.map((v) => `${v.id} (${v.impact}): ${v.help}: ${places(v).join(' ')}`);
}
