import { expect, test } from 'vitest';
import { forEach, type Node, outcomesOf, planOf, racksOf, whyNot } from './bulk';

const node = (name: string, more: Partial<Node> = {}): Node =>
  ({ name, stage: 'ready', state: 'ready', cordon: null, qualifying: null, jobs: [], ...more }) as Node;
const job = (id: string) => ({ id, name: 'train', project: 'nlp', state: 'running', gpus: [0] }) as never;

test('an action is done where it changes something and would not be refused', () => {
  expect(whyNot('cordon', node('a'))).toBeNull();
  expect(whyNot('cordon', node('a', { cordon: 'fans' }))).toBe('cordoned already');
  expect(whyNot('uncordon', node('a'))).toBe('not cordoned');
  // The reason may be empty.
  expect(whyNot('uncordon', node('a', { cordon: '' }))).toBeNull();
  expect(whyNot('drain', node('a', { stage: 'quarantined' }))).toBe('quarantined');
  expect(whyNot('drain', node('a', { stage: 'drained' }))).toBe('drained');
  expect(whyNot('undrain', node('a', { stage: 'draining' }))).toBeNull();
  expect(whyNot('qualify', node('a', { jobs: [job('7')] }))).toContain('drain it first');
});

test('a plan names each job once, and only those of nodes on which it is done', () => {
  const plan = planOf('drain', [
    node('a', { jobs: [job('7'), job('8')] }),
    node('b', { jobs: [job('7')] }),
    node('c', { stage: 'drained', jobs: [job('9')] }),
  ]);
  expect(plan.on).toEqual(['a', 'b']);
  expect(plan.skipped).toEqual([{ name: 'c', why: 'drained' }]);
  expect(plan.jobs.map((j) => j.id)).toEqual(['7', '8']);
});

test('what is refused for one does not keep the others from it, and no more go at once than said', async () => {
  let [now, most] = [0, 0];
  const got = await forEach(['a', 'b', 'c', 'd'], 2, async (name) => {
    most = Math.max(most, ++now);
    await Promise.resolve();
    now--;
    if (name === 'b') throw new Error('no');
    return name;
  });
  expect(got.map((g) => g.answer ?? g.error?.message)).toEqual(['a', 'no', 'c', 'd']);
  expect(most).toBe(2);
  expect(await forEach([], 4, async () => 1)).toEqual([]);
});

test('racks of one name stay apart, and found by a node or by their path', () => {
  const at = { region: 'eu', cluster: 'c1', spine: 's1', feed: 'A' };
  const layout = {
    racks: [
      { ...at, leaf: 'l1', rack: 'r1' },
      { ...at, leaf: 'l2', rack: 'r1' },
    ],
    nodes: [
      { name: 'n1', gpus: 8, rack: 0 },
      { name: 'n2', gpus: 8, rack: 0 },
      { name: 'm1', gpus: 8, rack: 1 },
    ],
  };
  expect(racksOf(layout, '').map((g) => [g.path, g.nodes.length])).toEqual([
    ['eu/c1/s1/l1/r1', 2],
    ['eu/c1/s1/l2/r1', 1],
  ]);
  expect(racksOf(layout, 'N2').map((g) => g.nodes)).toEqual([['n2']]);
  expect(racksOf(layout, 'l2/').map((g) => g.nodes)).toEqual([['m1']]);
  expect(racksOf(layout, 'zzz')).toEqual([]);
});

test('a rack with several power feeds is one group', () => {
  const rack = { region: 'eu', cluster: 'c1', spine: 's1', leaf: 'l1', rack: 'r1' };
  const layout = {
    racks: [
      { ...rack, feed: 'A' },
      { ...rack, feed: 'B' },
    ],
    nodes: [
      { name: 'n1', gpus: 8, rack: 0 },
      { name: 'n2', gpus: 8, rack: 1 },
    ],
  };
  expect(racksOf(layout, '')).toEqual([{ path: 'eu/c1/s1/l1/r1', rack: 'r1', nodes: ['n1', 'n2'] }]);
});

test('nodes that could not be read are refused', () => {
  const read = [{ name: 'a' }, { name: 'b', error: new Error('away') }, { name: 'c' }];
  const done = [{ name: 'a' }, { name: 'c', error: new Error('no') }];
  expect(outcomesOf(read, done)).toEqual([
    { name: 'a', refused: null },
    { name: 'c', refused: 'no' },
    { name: 'b', refused: 'away' },
  ]);
});
