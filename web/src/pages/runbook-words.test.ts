import { expect, test } from 'vitest';
import { follows, lookWords } from './runbook-words';

test('what a step checks is a sentence', () => {
  expect(lookWords('check', 'node.approval is yes')).toBe(
    'Check that the remediation of the node is pending approval.',
  );
  expect(lookWords('wait', 'node.state is ready or drained, for 10m at most')).toBe(
    'Wait until the state of the node is ready or drained, for 10m at most.',
  );
  expect(lookWords('wait', 'node.cordoned is no, for 1h at most')).toBe(
    'Wait until the node may get new work, for 1h at most.',
  );
  expect(lookWords('check', 'node.findings of kind gpu-hot is 0 or less')).toBe(
    'Check that the number of open findings about the node of kind gpu-hot is 0 or less.',
  );
  expect(lookWords('check', 'telemetry.gpu.temp is 80 or less')).toContain('metric gpu.temp of the node');
  expect(lookWords('check', 'node.unheard is yes'), 'what is new is shown as it is').toBeNull();
  expect(lookWords('act', 'drain node=$node')).toBeNull();
});

test('what follows a step is a sentence', () => {
  expect(follows('check', 'next', 'give-up')).toBe(
    'If this is so: continue with the next step; otherwise: the run ends: unresolved.',
  );
  expect(follows('act', '4', 'end')).toBe(
    'When it is done: go to step 4; when it is refused: the run ends: resolved.',
  );
  expect(follows('ask', 'next', 'next')).toBe('Continue with the next step.');
});
