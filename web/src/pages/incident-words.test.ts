import { expect, test } from 'vitest';
import { entryWords, kindWord } from './incident-words';

test('entries of a timeline are sentences', () => {
  expect(kindWord('stage')).toBe('node state');
  expect(kindWord('finding')).toBe('finding');
  expect(entryWords({ what: 'stage', text: 'suspect: XID 79' })).toBe('is now suspect: XID 79');
  expect(entryWords({ what: 'stage', text: 'connected again, boot 2' })).toBe('connected again, boot 2');
  expect(entryWords({ what: 'act', text: 'ticket done: tickets/7.json' })).toBe(
    'the ticket was opened (tickets/7.json)',
  );
  expect(entryWords({ what: 'act', text: 'power_cycle was requested' })).toBe(
    'the power cycle was requested',
  );
  expect(entryWords({ what: 'act', text: 'reboot failed: no BMC' })).toBe('the reboot failed (no BMC)');
  expect(entryWords({ what: 'job', text: 'attempt 4.1 failed here' })).toBe('attempt 4.1 failed here');
});
