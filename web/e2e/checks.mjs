// How the walks check, wait and count.

const counts = { passed: 0, failed: 0 };

function fails(name, e) {
  counts.failed++;
  console.log(`FAILED  ${name}\n        ${String(e.stack ?? e).replaceAll('\n', '\n        ')}`);
}

export async function check(name, work) {
  try {
    await work();
    counts.passed++;
    console.log(`ok      ${name}`);
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

/** Asks again until it is so; the machine may be slow. */
export async function until(what, ask, ms = 120_000) {
  const end = Date.now() + ms;
  for (;;) {
    const answer = await ask();
    if (answer) return answer;
    if (Date.now() > end) throw new Error(`${what}: not within ${ms / 1000} s`);
    await new Promise((r) => setTimeout(r, 500));
  }
}

/** The last line of a run; gives its exit code. */
export function counted() {
  console.log(`${counts.passed} passed, ${counts.failed} failed`);
  return counts.failed ? 1 : 0;
}
