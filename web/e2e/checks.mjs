// How the walks check, wait and count.

const counts = { passed: 0, failed: 0 };
const slowest = [];

function fails(name, e) {
  counts.failed++;
  console.log(`FAILED  ${name}\n        ${String(e.stack ?? e).replaceAll('\n', '\n        ')}`);
}

export async function check(name, work) {
  const began = Date.now();
  try {
    await work();
    const seconds = (Date.now() - began) / 1000;
    counts.passed++;
    slowest.push({ name, seconds });
    console.log(`ok      ${name}${seconds < 5 ? '' : ` (${seconds.toFixed(0)} s)`}`);
  } catch (e) {
    fails(name, e);
  }
}

/** One of the walks. What breaks between its checks is one failure, and the other walks go on. */
export async function walk(name, work) {
  try {
    return await work();
  } catch (e) {
    fails(`the walk ${name} broke off`, e);
    return null;
  }
}

export function must(truth, what) {
  if (!truth) throw new Error(what);
}

/**
 * Does something, and waits for what the page says then. That is gone after a few seconds: whoever wants to see it looks
 * before it is said.
 */
export const says = (words, act) => Promise.all([words.waitFor(), act()]);

/** Asks again until it is so; the machine may be slow. */
export async function until(what, ask, ms = 300_000) {
  const end = Date.now() + ms;
  for (;;) {
    const answer = await ask();
    if (answer) return answer;
    if (Date.now() > end) throw new Error(`${what}: not within ${ms / 1000} s`);
    await new Promise((r) => setTimeout(r, 500));
  }
}

/** The slowest steps, and the last line of a run; gives its exit code. */
export function counted() {
  slowest.sort((a, b) => b.seconds - a.seconds);
  console.log('the slowest steps');
  for (const { name, seconds } of slowest.slice(0, 10))
    console.log(`${seconds.toFixed(1).padStart(7)} s  ${name}`);
  console.log(`${counts.passed} passed, ${counts.failed} failed`);
  return counts.failed ? 1 : 0;
}
