// The page that simulates changes, in a real browser: part of e2e/walk.mjs, on a site of simulated nodes.
import { axe } from './axe.mjs';
import { base, call, PHONE, page } from './browser.mjs';

export async function walkWhatIf({ chromium, check, must }) {
  const p = await page(chromium);
  const field = (label) => p.getByLabel(label, { exact: true });
  const simulate = p.getByRole('button', { name: 'Simulate', exact: true });
  const column = (name) => p.getByRole('columnheader', { name: new RegExp(`^${name}: \\d+ pair`) });
  const nodes = async () => (await call('GET', '/v1/nodes')).items.length;

  await check('more nodes are simulated, and the command that asks the same is shown', async () => {
    const before = await nodes();
    await p.goto(`${base}/whatif`);
    await p.getByText('No what-if yet').waitFor();
    await field('How many more').fill('many');
    await simulate.click();
    await p.getByRole('alert').filter({ hasText: 'such as 64' }).waitFor();
    await field('How many more').fill('3');
    await field('Pairs of runs').fill('2');
    await field('How far ahead').fill('6h');
    // A slow machine needs it for one pair.
    await field('Time for it').selectOption('20s');
    const command = 'muster whatif --from server --change nodes=+3 --seeds 2 --horizon 6h --budget 20s';
    await p.getByText(command).waitFor();
    await simulate.click();
    await column('3 more nodes').waitFor();
    await p.getByRole('cell', { name: 'Mean wait' }).waitFor();
    await p.getByRole('cell', { name: 'Goodput' }).waitFor();
    must((await nodes()) === before, 'nodes were added to the site itself');
  });

  await check('a second answer is next to the first, and both stay when one looks elsewhere', async () => {
    await field('What changes').selectOption('fewer');
    await field('How many fewer').fill('1');
    await p.getByRole('button', { name: 'Add another change' }).click();
    await field('Spare nodes in all').fill('1');
    await simulate.click();
    await column('1 fewer node and 1 spare').waitFor();
    must((await column('3 more nodes').count()) === 1, 'the first answer is gone');
    const pages = p.getByRole('navigation', { name: 'Pages of Manage' });
    await pages.getByRole('link', { name: 'Policy' }).click();
    await p.getByRole('heading', { name: 'Policy', level: 1 }).waitFor();
    await pages.getByRole('link', { name: 'What-if' }).click();
    await column('3 more nodes').waitFor();
    await column('1 fewer node and 1 spare').waitFor();
  });

  await check('what the server refuses is said, and what was typed stays', async () => {
    await field('What changes').selectOption('policy');
    await field('Field').fill('backfill.mod');
    await field('Value').fill('easy');
    await simulate.click();
    await p.getByRole('alert').filter({ hasText: 'backfill.mod' }).waitFor();
    must((await field('Field').inputValue()) === 'backfill.mod', 'what was typed is lost');
  });

  await check('a simulation is cancelled', async () => {
    // It would be over before anybody could press the button.
    await p.route('**/v1/whatif', () => {});
    await field('Field').fill('backfill.mode');
    await simulate.click();
    await p.getByRole('progressbar', { name: 'Time used' }).waitFor();
    await p.getByRole('button', { name: 'Cancel' }).click();
    await simulate.waitFor();
    const focused = await simulate.evaluate((b) => b === document.activeElement);
    must(focused, 'the focus is lost');
    await p.getByRole('status').filter({ hasText: 'Cancelled' }).waitFor();
    must((await p.locator('.field-problem, p.error').count()) === 0, 'a cancel is called a failure');
    await p.unroute('**/v1/whatif');
  });

  await check('axe finds nothing on it, and nothing is wider than a phone', async () => {
    const found = await axe(p);
    await p.setViewportSize({ width: PHONE.width, height: PHONE.height });
    found.push(...(await axe(p)));
    must(found.length === 0, found.join('\n'));
    const wide = await p.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
    must(wide <= 0, `${wide} px too wide`);
    await p.getByRole('button', { name: 'Remove 3 more nodes' }).click();
    await p.getByRole('button', { name: /^Remove 3 more/ }).waitFor({ state: 'detached' });
  });

  await check('nothing went wrong in the browser on the what-if page', async () => {
    // The refusal that the walk asked for is written to the console by the browser itself.
    const own = p.problems.filter((t) => !/Failed to load resource/.test(t));
    must(own.length === 0, own.join('\n'));
    await p.context().close();
  });
}
