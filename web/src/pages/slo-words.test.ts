import { expect, test } from 'vitest';
import type { Schemas } from '../api/client';
import { alertWords } from './slo-words';

const rule = {
  factor: 14.4,
  long: '1h',
  short: '5m',
  urgency: 'page',
  long_rate: 20,
  short_rate: 20,
} as const;
const page = {
  id: '00ff',
  topic: 'finding' as Schemas['Topic'],
  summary: 'gpu:n1/3: gpu-off-bus; affects SLO goodput',
  silenced: null,
};

test('an objective that burns because of hardware names the alert that covers it', () => {
  const burns = { state: 'burning', firing: [rule], alert: '00ff' };
  expect(alertWords(burns, [page])).toBe(
    'Part of the alert about the hardware that it burns because of: gpu:n1/3: gpu-off-bus; affects SLO goodput.',
  );
  const own = { ...page, topic: 'objective' as Schemas['Topic'] };
  expect(alertWords(burns, [own])).toBeUndefined();
  expect(alertWords(burns, [{ ...own, silenced: 'works' }])).toBe('Its alert is silenced by works.');
});

test('an objective that asks for no alert, or whose alert is not shown, says nothing of one', () => {
  expect(alertWords({ state: 'met', firing: [], alert: '00ff' }, [page])).toBeUndefined();
  expect(alertWords({ state: 'burning', firing: [rule], alert: null }, [page])).toBeUndefined();
  expect(alertWords({ state: 'exhausted', firing: [], alert: '0a0a' }, [page])).toBeUndefined();
});
