import { expect, test } from 'vitest';
import { about, kindWords } from './event-words';

const event = (kind: string, data: object) =>
  about({ cursor: '1', at: '2030-01-31T00:00:00Z', kind, origin: 'input', actor: 'a', data } as never);

test("an agent's key is no job", () => {
  expect(event('node_enrolled', { node: 'n1', key: 'ab12', machine: 'm' })).toMatchObject({
    job: undefined,
    node: 'n1',
  });
  expect(event('node_enrolled', { node: 'n1', key: null }).job).toBeUndefined();
  expect(event('job_placed', { key: { job: 42, attempt: 1 } }).job).toBe('42');
  expect(event('job_submitted', { id: 7, name: 'train' })).toMatchObject({ job: '7', text: 'train' });
});

test('acts, alerts and incidents name what they are about', () => {
  expect(
    event('act_asked', { act: { id: 9, act: { what: 'reset_gpu', node: 'n3', gpu: 2 }, at: 0, until: 1 } }),
  ).toEqual({ job: undefined, node: 'n3', text: 'reset gpu, GPU 2' });
  expect(event('act_asked', { act: { act: { what: 'page', title: 'n3 is away', detail: '' } } }).text).toBe(
    'page, n3 is away',
  );
  expect(event('act_ended', { id: 9, ok: true, message: 'done' }).text).toBe('act 9, done');
  expect(
    event('alert_opened', {
      alert: { id: 'x', kind: 'gpu-off-bus', cause: 'gpu:n3/2', summary: 'GPU 2 is gone' },
    }),
  ).toMatchObject({ node: 'n3', text: 'gpu-off-bus, GPU 2 is gone' });
  expect(
    event('incident_opened', {
      incident: { id: 4, kind: 'link-down', cause: 'leaf:eu/c1/s1/l2', summary: '8 nodes' },
    }).text,
  ).toBe('link-down, 8 nodes, leaf:eu/c1/s1/l2');
  expect(event('finding_opened', { finding: { id: 3, kind: 'hang', entity: 'job:42' } })).toMatchObject({
    job: '42',
    text: 'hang',
  });
  expect(event('receiver_failed', { receiver: 'slack', error: 'no route' }).text).toBe('slack, no route');
});

test('kinds are plain words, and a placement says where', () => {
  expect(kindWords('slot_ended')).toBe('ranks ended on a node');
  expect(kindWords('job_placed')).toBe('job placed');
  const placed = (nodes: string[]) =>
    event('job_placed', {
      key: { job: 42, attempt: 1 },
      placement: { slots: nodes.map((node) => ({ node })), domain: 'eu/c1/s1' },
    }).text;
  expect(placed(['n1', 'n1', 'n2'])).toBe('on n1, n2');
  expect(placed(['n1', 'n2', 'n3', 'n4'])).toBe('on 4 nodes in eu/c1/s1');
});
