// The on-call page in a real browser: part of e2e/walk.mjs, on a site of simulated nodes that nobody else uses.
import { axe } from './axe.mjs';
import { base, call, PHONE, page, sideways, WIDE } from './browser.mjs';

/** A fault for each node, each of another kind and in another rack: together they are no common cause. */
const CODES = [48, 64, 119];

const cards = (p, text) => p.locator('.cause').filter({ hasText: text });

async function fits(p, must) {
  const wide = await sideways(p);
  must(wide.length === 0, wide.join(', '));
}

export async function walkOncall({ chromium, check, must, until }) {
  // Stopped, it holds every remediation back: they stay pending for as long as this takes.
  await call('POST', '/v1/automation/stop', { reason: 'the on-call page is tested' });
  // What was decided of earlier faults of a node counts for the next one: these have had none. A
  // job under which other nodes have failed would be suspected of these too: a free node is better.
  const treated = new Set((await call('GET', '/v1/remediations?limit=1000')).items.map((r) => r.node));
  const nodes = await until('nodes of three racks that had no fault', async () => {
    const racks = new Map(
      (await call('GET', '/v1/nodes?limit=200')).items
        .filter((n) => n.state === 'ready' && n.gpus_total === 8 && !n.avoided && !treated.has(n.name))
        .sort((a, b) => b.gpus_used - a.gpus_used || a.name.localeCompare(b.name))
        .map((n) => [`${n.location.leaf} ${n.location.rack}`, n.name]),
    );
    return racks.size >= CODES.length && [...racks.values()].slice(-CODES.length);
  });
  for (const [i, name] of nodes.entries())
    await call('POST', `/v1/nodes/${name}/inject`, { fault: 'xid', gpu: 2, code: CODES[i] });
  const pending = async () => {
    const { items } = await call('GET', '/v1/causes');
    return items.flatMap((c) => c.remediations.filter((r) => c.pending.includes(r.id) && !r.approved));
  };
  const of = async (name) => (await pending()).filter((r) => r.node === name);
  await until(`remediations of ${nodes.join(', ')} are pending`, async () => {
    const at = new Set((await pending()).map((r) => r.node));
    return nodes.every((n) => at.has(n));
  }).catch(async (e) => {
    const { items } = await call('GET', '/v1/findings?limit=100');
    const open = items.map((f) => `${f.entity} ${f.kind} ${f.state}`).join('; ');
    throw new Error(`${e.message}; findings: ${open}`);
  });
  const [first, second, third] = nodes;
  const open = async (how) => {
    const p = await page(chromium, how);
    await p.goto(`${base}/oncall`);
    await p.locator('.standing.live').waitFor();
    await cards(p, first).first().waitFor();
    return p;
  };

  await check('a remediation is approved from its card, which names the affected jobs', async () => {
    const p = await open(WIDE);
    await p.locator('.strip').getByText('to approve').waitFor();
    const card = cards(p, first).filter({ has: p.getByRole('button', { name: /^Approve( \d+)?$/ }) });
    await card
      .getByRole('button', { name: /^Approve( \d+)?$/ })
      .first()
      .click();
    await p
      .getByRole('dialog')
      .getByText(/Affected jobs: |No job runs on this node/)
      .first()
      .waitFor();
    await Promise.all([
      p.getByText(/^Approved: /).waitFor(),
      p.getByRole('dialog').getByRole('button', { name: 'Approve' }).click(),
    ]);
    await until('it is approved', async () => (await of(first)).length === 0);
    must(p.problems.length === 0, p.problems.join('\n'));
    await p.context().close();
  });

  await check('several remediations are approved at once, on a phone', async () => {
    const p = await open(PHONE);
    for (const name of [second, third]) {
      const card = cards(p, name).filter({ has: p.getByRole('checkbox') });
      await card.getByRole('checkbox').first().check();
    }
    await p.getByRole('button', { name: 'Approve selected' }).tap();
    const dialog = p.getByRole('dialog');
    for (const name of [second, third])
      await dialog
        .locator('li')
        .filter({ hasText: name })
        .getByText(/Affected jobs: |No job runs on this node/)
        .first()
        .waitFor();
    await Promise.all([
      p.getByText(/^Approved: /).waitFor(),
      dialog.getByRole('button', { name: /^Approve/ }).tap(),
    ]);
    await until('they are approved', async () => {
      return (await of(second)).length === 0 && (await of(third)).length === 0;
    });
    await fits(p, must);
    must(p.problems.length === 0, p.problems.join('\n'));
    await p.context().close();
  });

  const silences = async () =>
    (await call('GET', '/v1/silences')).items.filter((s) => s.name.startsWith('console-'));
  for (const [how, choice, length] of [
    [WIDE, '30 minutes', '30m'],
    [PHONE, 'Custom', '45m'],
  ]) {
    await check(`an alert is silenced from its card for ${length}, at ${how.width} px`, async () => {
      const p = await open(how);
      const card = cards(p, 'automation has stopped').first();
      await card.getByRole('button', { name: 'Silence' }).click();
      const dialog = p.getByRole('dialog');
      await dialog.getByLabel(choice, { exact: true }).check();
      if (choice === 'Custom') await dialog.getByLabel('Custom length').fill(length);
      await dialog.getByLabel(/Reason/).fill('practice');
      await Promise.all([
        p.getByText(`Silenced for ${length}`).waitFor(),
        dialog.getByRole('button', { name: 'Silence' }).click(),
      ]);
      const made = await silences();
      must(
        made.some((s) => s.length.startsWith(length) && s.why === 'practice'),
        JSON.stringify(made),
      );
      await card.getByText('silenced by console-').waitFor();
      for (const s of made) await call('DELETE', `/v1/silences/${s.name}`);
      await fits(p, must);
      must(p.problems.length === 0, p.problems.join('\n'));
      await p.context().close();
      await until('it is loud again', async () => {
        const { items } = await call('GET', '/v1/alerts?open=true');
        return items.some((a) => a.kind === 'automation-stopped' && !a.silenced);
      });
    });
  }

  await check('a runbook is opened from a card at its step, with the node filled in', async () => {
    const p = await open(WIDE);
    // Cards change places meanwhile: which of them was opened, the address says afterwards.
    await p.locator('.cause a[href*="/runbooks/"][href*="node="][href*="step="]').first().click();
    await p.locator('[aria-current="step"]').waitFor();
    const opened = new URL(p.url()).searchParams.get('node');
    const node = p.getByLabel('node', { exact: true });
    must(opened && (await node.inputValue()) === opened, `the node ${opened} is not filled in`);
    must(p.problems.length === 0, p.problems.join('\n'));
    await p.context().close();
  });

  await check('a stale on-call page says from when its data is, and its actions are off', async () => {
    const p = await page(chromium, WIDE);
    await p.route('**/v1/console/frames', (route) => route.abort());
    await p.goto(`${base}/oncall`);
    await p.locator('.stale-note').filter({ hasText: 'Last data' }).waitFor();
    const silence = p.locator('.cause').getByRole('button', { name: 'Silence' }).first();
    must(await silence.isDisabled(), 'an alert can be silenced on a server that is away');
    await p.context().close();
  });

  for (const how of [WIDE, PHONE]) {
    for (const scheme of ['dark', 'light']) {
      await check(`axe finds nothing on the on-call page, ${how.width} px, ${scheme}`, async () => {
        const p = await open({ ...how, scheme });
        // Cards come and go meanwhile: those that are there now are opened at once.
        await p.locator('.cause details.more').evaluateAll((all) => {
          for (const more of all) more.open = true;
        });
        const found = await axe(p);
        must(found.length === 0, found.join('\n'));
        await fits(p, must);
        await p.context().close();
      });
    }
  }

  for (const name of nodes) await call('POST', `/v1/nodes/${name}/inject`, { fault: 'repair' });
  await call('POST', '/v1/automation/resume');
}
