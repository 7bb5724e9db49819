import { expect, test } from 'vitest';
import { yaml } from './yaml';

test('a spec is written as people write it', () => {
  const text = yaml({
    kind: 'Job',
    name: 'train',
    project: undefined,
    gang: { nodes: 2, gpus_per_node: 8 },
    run: { script: 'set -e\npython3 train.py\n', env: { LR: '0.1' } },
    tags: [],
    after: ['ok:42'],
  });
  expect(text).toBe(
    'kind: Job\nname: train\ngang:\n  nodes: 2\n  gpus_per_node: 8\nrun:\n  script: |\n    set -e\n    python3 train.py\n  env:\n    LR: "0.1"\ntags: []\nafter: [ok:42]\n',
  );
});

test('what would be read as something else is quoted', () => {
  for (const word of ['yes', '12', '-x', 'a: b', '', ' x', 'null', '1d', '#']) {
    expect(yaml({ v: word })).toBe(`v: ${JSON.stringify(word)}\n`);
  }
  expect(yaml({ v: 'plain words' })).toBe('v: plain words\n');
});

test('a text of several lines keeps its first spaces and its end', () => {
  expect(yaml({ v: 'a\nb' })).toBe('v: |-\n  a\n  b\n');
  expect(yaml({ v: '  a\nb\n' })).toBe('v: |2\n    a\n  b\n');
  expect(yaml({ v: 'a\n\n' })).toBe('v: |+\n  a\n  \n');
});

test('what has nothing in it is not null', () => {
  expect(yaml({ gang: {}, run: { env: {} } })).toBe('gang: {}\nrun:\n  env: {}\n');
});
