import { expect, test } from 'vitest';
import { domainWords, drainable, gpusWords, servesWords, startLead, stateWhy } from './words';

const node = (more: object) =>
  ({ name: 'n1', stage: 'ready', qualifying: null, ...more }) as Parameters<typeof servesWords>[0];

test('who uncordons a node reads what is still in the way', () => {
  expect(servesWords(node({}))).toBe('n1 takes work again');
  expect(servesWords(node({ stage: 'quarantined' }))).toBe(
    'n1 is no longer cordoned; it is still quarantined and gets no work',
  );
  expect(servesWords(node({ stage: 'quarantined', qualifying: { level: 'quick' } }))).toContain(
    'still being tested',
  );
});

test('a node that is out of service is not offered to be drained', () => {
  for (const stage of ['ready', 'suspect', 'enrolled']) expect(drainable(node({ stage }))).toBe(true);
  for (const stage of ['quarantined', 'repairing', 'retired']) expect(drainable(node({ stage }))).toBe(false);
});

test('a GPU that is off the bus is counted among those that the node is to have', () => {
  expect(gpusWords({ gpus_total: 8, gpus_missing: [] })).toBe('8');
  expect(gpusWords({ gpus_total: 7, gpus_missing: [3] })).toBe('7 of 8');
});

test('a node that is its own NVLink domain is named once', () => {
  expect(domainWords('eu/c1/s1/l1/rack11/hgx-0042/hgx-0042')).toBe('eu/c1/s1/l1/rack11/hgx-0042');
  expect(domainWords('eu/c1/s1')).toBe('eu/c1/s1');
});

test('only a reserved start is said to be a bound', () => {
  expect(startLead(true, true)).toBe('Starts between ');
  expect(startLead(false, true)).toBe('Starts at the latest ');
  expect(startLead(true, false)).toBe('Expected to start between ');
  expect(startLead(false, false)).toBe('Expected to start at the latest ');
});

test('a state that is no stage has a reason of its own', () => {
  const of = { cordon: 'fan', stage_why: 'its test passed' };
  expect(stateWhy({ ...of, state: 'cordoned' })).toBe('fan');
  expect(stateWhy({ ...of, state: 'lost' })).toBe('heartbeat lost');
  expect(stateWhy({ ...of, state: 'ready' })).toBe('its test passed');
});
