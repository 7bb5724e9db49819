// The server killed and started again under open pages: part of e2e/walk.mjs, and its end.
// MUSTER_PID names the server's process, which must be of this machine.
import { spawn } from 'node:child_process';
import { openSync, readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { base, PHONE, page, WIDE, ZONES } from './browser.mjs';

/** The state and the parent of a process; nothing of one that is gone. */
function stat(pid) {
  try {
    const [state, parent] = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1).split(' ');
    return { state, parent: Number(parent) };
  } catch {
    return null;
  }
}

const runs = (pid) => !['Z', 'X', undefined].includes(stat(pid)?.state);

/** How a process was started, to start it again. */
function startOf(pid) {
  const parts = (file) => readFileSync(`/proc/${pid}/${file}`, 'utf8').split('\0').slice(0, -1);
  const [program, ...args] = parts('cmdline');
  const env = Object.fromEntries(parts('environ').map((line) => line.split(/=(.*)/s).slice(0, 2)));
  return { program, args, env, cwd: readlinkSync(`/proc/${pid}/cwd`) };
}

/** Starts it as it was; whoever made its directory ends what runs there. */
function start({ program, args, env, cwd }) {
  const log = openSync(`${cwd}/server.again.log`, 'a');
  const child = spawn(program, args, { cwd, env, detached: true, stdio: ['ignore', log, log] });
  child.unref();
  return child;
}

/** A page of each role at each width, with both zones for each role. */
async function openAll(chromium, roles, job) {
  const all = [];
  for (const [i, who] of roles.entries()) {
    for (const [j, size] of [WIDE, PHONE].entries()) {
      const zone = ZONES[(i + j) % 2];
      const p = await page(chromium, { ...size, as: who.secret, timezoneId: zone });
      await p.goto(`${base}/jobs/${job}`);
      await p.locator('.standing.live').waitFor();
      await p.locator('main h1').waitFor();
      const cancel = p.getByRole('button', { name: 'Cancel', exact: true });
      if (who.may.includes('submits')) await cancel.waitFor();
      all.push({ p, who, zone, cancel, size, name: `${who.name}, ${size.width} px, ${zone}` });
    }
  }
  return all;
}

export async function walkAway({ chromium, check, must, until, roles, job }) {
  const pid = Number(process.env.MUSTER_PID ?? 0);
  if (pid === 0) {
    console.log('skipped: the server is not killed, because MUSTER_PID does not name it');
    return;
  }
  let open = [];
  let again = null;

  await check('when the server is killed every page says so, and its buttons are off', async () => {
    open = await openAll(chromium, roles, job);
    again = startOf(pid);
    const own = readdirSync('/proc').filter((one) => /^\d+$/.test(one) && stat(one)?.parent === pid);
    process.kill(pid, 'SIGKILL');
    // The process of the simulated nodes ends with it.
    await until('all of it has ended', () => ![pid, ...own].some(runs));
    for (const { p, who, zone, cancel, size, name } of open) {
      const bar = p.locator('.away-bar');
      await bar.waitFor();
      const offset = zone === ZONES[0] ? / UTC-[78],/ : / UTC\+9,/;
      must(offset.test(await bar.textContent()), `${name}: ${await bar.textContent()}`);
      if (who.may.includes('submits')) must(await cancel.isDisabled(), `${name}: Cancel is on`);
      const wide = await p.evaluate(() => document.documentElement.scrollWidth);
      must(wide <= size.width, `${name}: ${wide} px wide`);
    }
  });

  if (again === null) return;
  await check('when the server is there again every page is live, without a new login', async () => {
    const child = start(again);
    await until('the server is ready', async () => {
      must(child.exitCode === null, `it ended with ${child.exitCode}: see server.again.log`);
      const answer = await fetch(`${base}/readyz`).catch(() => null);
      return answer?.ok;
    });
    for (const { p, who, cancel, name } of open) {
      await p.locator('.standing.live').waitFor();
      await p.locator('.away-bar').waitFor({ state: 'detached' });
      if (who.may.includes('submits')) await until(`${name}: Cancel is on`, () => cancel.isEnabled());
      // That the server did not answer is written to the console by the browser itself.
      const own = p.problems.filter((t) => !/Failed to load resource|net::ERR_/.test(t));
      must(own.length === 0, `${name}: ${own.join('\n')}`);
      await p.context().close();
    }
  });
}
