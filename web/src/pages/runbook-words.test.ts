import { expect, test } from 'vitest';
import { answerWords, follows, lookWords, sawWords } from './runbook-words';

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
    'Pass: continue with the next step; fail: the run ends: unresolved.',
  );
  expect(follows('act', '4', 'end')).toBe(
    'When it is done: go to step 4; when it is refused: the run ends: resolved.',
  );
  expect(follows('ask', 'next', 'next')).toBe('Continue with the next step.');
});

test('what a check found is a sentence without the names that the server has for it', () => {
  expect(sawWords('fleet.spares is 1; expected: is 0 or less')).toBe(
    'The number of idle spare nodes is 1; expected: 0 or less',
  );
  expect(sawWords('step 2: node.reachable is no; expected: is yes')).toBe(
    'Step 2: the node reports no heartbeats; expected: the node reports heartbeats',
  );
  expect(sawWords('node.state is ready; expected: is not drained or lost')).toBe(
    'The state of the node is ready; expected: not drained or lost',
  );
  expect(sawWords('node.test is unknown (no data); expected: is passed')).toContain('is unknown (no data)');
  for (const other of ['refused: it has a job', 'node.unheard is 1; expected: is 2', ''])
    expect(sawWords(other), 'what is new is shown as it is').toBe(other);
});

test('a notice says what was answered, not what the API calls it', () => {
  expect(answerWords('check', 'go')).toBe('checked');
  expect(answerWords('act', 'yes')).toBe('done manually');
  expect(answerWords('check', 'no')).toBe('fail');
  expect(answerWords('ask', 'choose', 'not soon')).toBe('not soon');
});
