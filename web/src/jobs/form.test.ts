import { expect, test } from 'vitest';
import { commandOf, FIRST, formOf, keepsGang, type Spec, specOf, specYaml } from './form';

const plain = (s: object) => JSON.parse(JSON.stringify(s));

test('a job that is cloned without a change is the same job', () => {
  const spec = {
    kind: 'Job',
    name: 'train',
    project: 'nlp',
    gang: { nodes: 4, gpus_per_node: 8, ranks_per_node: 8, sku: 'h100-sxm' },
    topology: { required: 'spine', segment: 2 },
    priority: 'high',
    tier: 'on-demand',
    time_limit: '12h',
    retries: { infrastructure: 5, application: 1 },
    checkpoint: { dir: '/ckpt' },
    tags: { team: 'nlp' },
    secrets: ['wandb'],
    run: { script: 'python3 train.py\n', env: { LR: '0.1' } },
  } as unknown as Spec;
  expect(plain(specOf(formOf(spec), spec))).toEqual(spec);
  const longer = plain(specOf({ ...formOf(spec), limit: '24h', nodes: '8' }, spec));
  expect(longer).toEqual({ ...spec, time_limit: '24h', gang: { ...spec.gang, nodes: 8 } });
});

test('what the form has no field for is kept', () => {
  const groups = { gang: { groups: [{ name: 'a', nodes: 1 }] } } as unknown as Spec;
  expect(keepsGang(groups)).toBe(true);
  expect(plain(specOf(formOf(groups), groups)).gang).toEqual(groups.gang);
  const command = { gang: { gpus: 2 }, run: { command: ['python3', 'a.py'] } } as unknown as Spec;
  expect(commandOf(command)).toEqual(['python3', 'a.py']);
  const same = plain(specOf(formOf(command), command));
  expect(same.run).toEqual({ command: ['python3', 'a.py'] });
  expect(same.gang).toEqual({ nodes: 1, gpus_per_node: 2 });
  const script = plain(specOf({ ...formOf(command), script: 'exit 0\n' }, command));
  expect(script.run).toEqual({ script: 'exit 0\n' });
  const simulated = { simulate: { run: '4h', step: '0.5s' } } as unknown as Spec;
  expect(plain(specOf({ ...formOf(simulated), length: '1h' }, simulated)).simulate).toEqual({
    run: '1h',
    step: '0.5s',
  });
});

test('a new job says only what was chosen', () => {
  expect(plain(specOf(FIRST))).toEqual({
    kind: 'Job',
    name: 'hello',
    gang: { nodes: 1, gpus_per_node: 8 },
    run: { script: FIRST.script },
  });
  expect(specYaml(specOf({ ...FIRST, retries: '3', within: 'rack' }))).toContain(
    'topology:\n  required: rack\n',
  );
});
