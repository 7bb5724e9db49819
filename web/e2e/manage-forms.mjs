// The forms of the policy and of the routing, field by field, also on a phone: part of e2e/walk.mjs.
import { axe } from './axe.mjs';
import { base, call, PHONE, page, sideways, WIDE } from './browser.mjs';
import { says } from './checks.mjs';

export async function walkManageForms({ chromium, check, must }) {
  const open = async (how, path) => {
    const p = await page(chromium, how);
    await p.goto(base + path);
    await p.locator('.standing.live').waitFor();
    await p.getByRole('button', { name: 'Edit', exact: true }).click();
    await p.getByRole('heading', { name: 'What would change' }).waitFor();
    return p;
  };
  const field = (p, label) => p.getByLabel(label, { exact: true });
  /** A group of the policy's form, opened. */
  const group = async (p, name) => {
    const inside = p.getByRole('group', { name, exact: true, includeHidden: true });
    const one = p.locator('details.group').filter({ has: inside });
    await one.locator('summary').click();
    return one;
  };
  const added = (p, text) => p.locator('.spec-diff .more', { hasText: text }).first().waitFor();
  const save = async (p, said) =>
    says(p.getByText(said, { exact: true }), () =>
      p.getByRole('button', { name: 'Save', exact: true }).click(),
    );
  const fits = async (p) => {
    const wide = await sideways(p);
    must(wide.length === 0, `it scrolls sideways: ${wide.join('; ')}`);
  };
  const closes = async (p) => {
    // Refusals that the walk asked for are written to the console by the browser itself.
    const own = p.problems.filter((t) => !/Failed to load resource/.test(t));
    must(own.length === 0, own.join('\n'));
    await p.context().close();
  };
  /** What a field says below it. */
  const refused = (p, words) => p.locator('.field-problem').filter({ hasText: words }).first();

  await check('modes, limits and probation of automation are set in the form of the policy', async () => {
    const before = await call('GET', '/v1/policy');
    const p = await open(WIDE, '/policy');
    await group(p, 'Who decides, by action');
    await field(p, 'Reboot').selectOption('automatic');
    const automation = await group(p, 'Automation');
    must((await automation.getByText('Default: 1d.').count()) === 1, 'the default is not said');
    await field(p, 'Probation').fill('2d');
    await automation.getByText('1 not as by default').waitFor();
    await group(p, 'Limits of automation');
    await field(p, 'The fleet: at a time, in percent').fill('10');
    for (const text of ['reboot: automatic', 'probation: "2d"', 'total: 10']) await added(p, text);
    must((await axe(p)).length === 0, (await axe(p)).join('\n'));
    await save(p, 'The policy is set');
    const { remediations: r } = (await call('GET', '/v1/policy')).policy;
    must(
      r.modes.reboot === 'automatic' && r.probation === '2d' && r.limits.fleet.total === 10,
      JSON.stringify(r),
    );
    // The rest of the policy stays as it was.
    must(r.limits.fleet.per_hour === before.policy.remediations.limits.fleet.per_hour, JSON.stringify(r));
    await call('PUT', '/v1/policy', { policy: before.policy });
    await closes(p);
  });

  await check('what the server refuses of the policy is said at its field, in its group', async () => {
    const p = await open(PHONE, '/policy');
    const group_ = await group(p, 'Automation');
    await field(p, 'Probation').fill('soon');
    await group_.locator('.field-problem', { hasText: 'is not a length of time' }).waitFor();
    must((await p.getByText(/at line 1/).count()) === 0, 'it names a place in the request');
    must(await p.getByRole('button', { name: 'Save', exact: true }).isDisabled(), 'it can be saved');
    await field(p, 'Probation').fill('');
    await p.getByText('Nothing would change').waitFor();
    // A refusal of all of a group of numbers stands with them, though the text was edited by hand.
    const text = p.getByLabel('Policy as YAML');
    await text.fill((await text.inputValue()).replace('storm_percent: 25', 'storm_percent: 250'));
    await field(p, 'Storm from').waitFor();
    await refused(p, 'not a share of a fleet').waitFor();
    await fits(p);
    await closes(p);
  });

  await check('a rule for findings and a budget of power are added in the form', async () => {
    const before = await call('GET', '/v1/policy');
    const p = await open(WIDE, '/policy');
    await group(p, 'Rules for findings');
    await p.getByRole('button', { name: 'Add a rule' }).click();
    await field(p, 'Failure mode').fill('no-such-mode');
    await refused(p, 'there is no failure mode').waitFor();
    await field(p, 'Failure mode').fill('ecc-*');
    await field(p, 'drain').check();
    await field(p, 'Who decides').selectOption('approve');
    await group(p, 'Power');
    await field(p, 'Name: Power feed').fill('walk-feed');
    await field(p, 'Watts: Power feed').fill('120000');
    await field(p, 'Add: Power feed').click();
    for (const text of ['kind: ecc-*', 'steps: [watch, drain]', 'walk-feed: 120000']) await added(p, text);
    await save(p, 'The policy is set');
    const now = (await call('GET', '/v1/policy')).policy;
    const [rule] = now.remediations.rules;
    must(rule.steps.join() === 'watch,drain' && rule.mode === 'approve', JSON.stringify(rule));
    must(now.power.feeds['walk-feed'] === 120000, JSON.stringify(now.power));
    await call('PUT', '/v1/policy', { policy: before.policy });
    await closes(p);
  });

  await check('a receiver and a route are made in the form of the routing, and saved', async () => {
    const before = await call('GET', '/v1/routing');
    const p = await open(WIDE, '/routing');
    await p.getByRole('button', { name: 'Add a receiver' }).click();
    await field(p, 'Name of the receiver').fill('walk-chat');
    await field(p, 'Address').fill('nowhere');
    await refused(p, 'it is no address').waitFor();
    await field(p, 'Address').fill('http://c.example/');
    await p.getByRole('button', { name: 'Close receiver walk-chat' }).click();
    await p.getByRole('button', { name: 'Add a route' }).click();
    const route = p.getByRole('group', { name: /^route \d+$/ });
    must(await route.getByLabel('walk-chat', { exact: true }).isChecked(), 'the receiver is not chosen');
    await field(p, 'Urgency').selectOption('page');
    await field(p, 'Repeated every').fill('10s');
    await refused(p, 'is too often').waitFor();
    await field(p, 'Repeated every').fill('2h');
    await p.getByRole('button', { name: 'Add an escalation' }).click();
    const step = p.getByRole('group', { name: 'escalation 1' });
    await step.getByLabel('After', { exact: true }).fill('20m');
    await step.getByLabel('walk-chat', { exact: true }).check();
    for (const text of ['urgency: page', 'repeat: "2h"', 'after: "20m"']) await added(p, text);
    must((await axe(p)).length === 0, (await axe(p)).join('\n'));
    await save(p, 'The routing is set');
    await p.getByRole('cell', { name: 'walk-chat', exact: true }).waitFor();
    const { routing } = await call('GET', '/v1/routing');
    const made = routing.routes.at(-1);
    must(
      made.to.join() === 'walk-chat' && made.repeat === '2h' && made.escalate[0].after === '20m',
      JSON.stringify(routing),
    );
    await call('PUT', '/v1/routing', { routing: before.routing });
    await closes(p);
  });

  await check('on a phone routes are put in order, and follow a receiver that is renamed', async () => {
    const before = await call('GET', '/v1/routing');
    const by = (name) => ({ name, by: { webhook: { url: `http://${name}.example/` } } });
    await call('PUT', '/v1/routing', {
      routing: {
        receivers: [by('walk-a'), by('walk-b')],
        routes: [{ to: ['walk-a'] }, { match: { urgency: 'page' }, to: ['walk-b'] }],
      },
    });
    const p = await open(PHONE, '/routing');
    await p.getByRole('button', { name: 'Move route 2 up' }).tap();
    await p.getByRole('button', { name: 'Edit receiver walk-a' }).tap();
    await field(p, 'Name of the receiver').fill('walk-team');
    await p.getByText('all alerts: to walk-team').waitFor();
    await field(p, 'Reached by').selectOption('smtp');
    await refused(p, 'it is no address').waitFor();
    await fits(p);
    await field(p, 'Mail server').fill('mail.example.org:587');
    await field(p, 'From').fill('muster@example.org');
    await field(p, 'Mail to').fill('a@example.org, b@example.org');
    await added(p, 'walk-team');
    await save(p, 'The routing is set');
    const { routing } = await call('GET', '/v1/routing');
    must(routing.routes.map((r) => r.to.join()).join() === 'walk-b,walk-team', JSON.stringify(routing));
    must(routing.receivers[0].by.smtp.to.length === 2, JSON.stringify(routing.receivers));
    await call('PUT', '/v1/routing', { routing: before.routing });
    await closes(p);
  });
}
