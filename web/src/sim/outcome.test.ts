import { expect, test } from 'vitest';
import { difference, FIGURES, NotAReport, read, seconds, seedWords } from './outcome';

const run = (more: object = {}) =>
  JSON.stringify({
    scenario: 'week',
    seed: 7,
    jobs: 10,
    jobs_completed: 9,
    goodput: 0.9,
    ettr: 0.95,
    wait_s: { mean: 10, p50: 5, p95: 30, p99: 60 },
    mtbi_s: null,
    failures: { gpu: 2, node: 1 },
    waterfall: { productive: 100, lost: 1 },
    log_digest: 'abc',
    ...more,
  });

test('a report is read, and what a replay leaves out is not made up', () => {
  const o = read(run({ jct_s: null }));
  expect([o.scenario, o.jobs_completed, o.goodput, o.mtbi_s, o.jct_s]).toEqual(['week', 9, 0.9, null, null]);
  expect(o.waterfall).toEqual({ productive: 100, lost: 1 });
  expect(read(run({ waterfall: undefined })).waterfall).toBeNull();
});

test('other files are refused in words', () => {
  for (const bad of ['', 'nonsense', '[]', '{}', '{"jobs_completed": 3}', run({ log_digest: 5 })]) {
    expect(() => read(bad)).toThrow(NotAReport);
  }
  expect(() => read('{"runs": []}')).toThrow(/single run/);
});

test('two runs are compared by which way is better', () => {
  const [a, b] = [read(run()), read(run({ goodput: 0.99, wait_s: { mean: 20, p50: 5, p95: 1, p99: 1 } }))];
  const of = (name: string) => {
    const f = FIGURES.find((f) => f.name === name);
    return f && difference(f, a, b);
  };
  expect(of('goodput')).toEqual({ text: '+10.0 %', good: true });
  expect(of('wait, mean')).toEqual({ text: '+100.0 %', good: false });
  expect(of('jobs done')).toEqual({ text: 'same', good: null });
  expect(of('time between interruptions')).toBeNull();
});

test('seconds are said as people say them', () => {
  expect([12, 600, 7200, 864_000].map(seconds)).toEqual(['12 s', '10.0 min', '2.0 h', '10.0 d']);
});

test('the seed is shown once', () => {
  expect(seedWords('week, 7d, seed 1', { seed: 1 })).toBe('');
  expect(seedWords('week.json', { seed: 1 })).toBe('seed 1');
  expect(seedWords('week, 7d, seed 1', { seed: null })).toBe('');
});

test('memory that was not measured is not none', () => {
  const of = (more: object) => FIGURES.find((f) => f.name === 'memory it took')?.of(read(run(more)));
  expect([of({}), of({ peak_rss_bytes: 0 }), of({ peak_rss_bytes: 3 << 20 })]).toEqual([null, null, 3]);
});
