// The section as somebody sees it, from what the server answered.
import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { createElement } from 'react';
import { renderToStaticMarkup } from 'react-dom/server';
import { expect, test, vi } from 'vitest';
import { ApiError } from '../api/client';
import { dayWord } from '../ui/zone';
import { metricsOf, rangeOf } from './range';

vi.mock('@tanstack/react-router', async () => {
  const { createElement } = await import('react');
  return { Link: (p: { children: never }) => createElement('a', null, p.children) };
});
vi.mock('./chart', async () => {
  const { createElement } = await import('react');
  return {
    HistoryChart: (p: { title: string; lines: object | null }) =>
      createElement('figure', null, `${p.title}: ${p.lines ? 'drawn' : 'no data'}`),
  };
});

const { History, Refused } = await import('./section');
const { history, historyBegins, historyEvents, historyMetrics } = await import('./queries');

const HOUR = 3_600_000;
const from = Date.parse('2030-01-31T03:00:00Z');
const search = { from: new Date(from).toISOString(), to: new Date(from + HOUR).toISOString() };
const subject = { node: 'n1' };
const asked = { node: 'n1', gpu: undefined, job: undefined };
const points = history(asked, rangeOf(search, '1h', 0), metricsOf(undefined), 400, null).queryKey;
const kept = { source: 'builtin', items: [{ name: 'util', title: 'Utilisation', unit: '%' }] };
const answer = (values: (number[] | null)[]) => ({
  from,
  to: from + HOUR,
  step_ms: 10_000,
  source: 'builtin',
  series: [{ metric: 'util', unit: '%', node: 'n1', gpu: 0, gpus: 1, points: values }],
});

function shown(known: [readonly unknown[], unknown][], more: object = {}): string {
  const queries = new QueryClient();
  for (const [key, data] of known) queries.setQueryData(key, data);
  const section = createElement(History, { subject, visible: true, search, show: () => {}, ...more });
  return renderToStaticMarkup(createElement(QueryClientProvider, { client: queries }, section));
}

const metrics: [readonly unknown[], unknown] = [historyMetrics().queryKey, kept];

test('charts stand in place of a skeleton once they are read, and a metric without samples has no data', () => {
  expect(shown([metrics])).toContain('skeleton');
  const charts = shown([metrics, [points, answer([[1, 2, 3]])]]);
  expect(charts).toContain('Utilisation: drawn');
  expect(charts).toContain('power: no data');
  expect(charts).not.toContain('skeleton');
  expect(charts).not.toContain('Nothing is stored');
  // The day is that of the zone of whoever looks.
  const half = from + HOUR / 2;
  const short = shown([metrics, [points, { ...answer([[1, 2, 3]]), known_from: half }]]);
  expect(short).toContain(`Nothing is stored from before ${dayWord(half)} `);
});

test('a job has a chart of its steps where its ranks reported some', () => {
  const job = { node: undefined, gpu: undefined, job: '7' };
  const key = history(job, rangeOf(search, 'whole', 0), metricsOf(undefined, true), 400, null).queryKey;
  const util = answer([[1, 2, 3]]);
  const step = { metric: 'step_time', unit: 'ms', node: null, gpu: null, gpus: 0, points: [[1, 2, 3]] };
  const of = (data: object) => shown([metrics, [key, data]], { subject: { job: '7' } });
  expect(of(util)).toContain('Utilisation: drawn');
  expect(of(util)).not.toContain('step_time: no data');
  expect(of({ ...util, series: [step, ...util.series] })).toContain('step_time: drawn');
});

test('events of the time are listed in words', () => {
  const lost = { at: search.from, cursor: '1', kind: 'node_lost', actor: 'system', data: { node: 'n1' } };
  const events = historyEvents('node:n1', from, from + HOUR).queryKey;
  const all = shown([metrics, [points, answer([[1, 2, 3]])], [events, { items: [lost], cursor: 'x' }]]);
  expect(all).toContain('node lost');
  expect(all).toContain('1 event in this time (of the newest 200 only)');
});

test('a time without samples says since when there are any, and how to switch them on where they are off', () => {
  const begins = historyBegins(asked, metricsOf(undefined)).queryKey;
  const since = (at: number | null) => shown([metrics, [points, answer([null, null])], [begins, at]]);
  const first = from + 2 * HOUR;
  expect(since(first)).toContain(`The history of these metrics begins at ${dayWord(first)} `);
  expect(since(null)).toContain('No sample of these metrics is stored here yet.');
  expect(since(null), 'it is switched on').not.toContain('--history on');
  const off = shown([[historyMetrics().queryKey, { source: 'off', items: [] }]]);
  expect(off).toContain('switched off');
  expect(off).toContain('MUSTER_HISTORY=on');
});

test('what a token may not see is no data, and is not asked for', () => {
  expect(shown([metrics, [points, answer([[1, 2, 3]])]], { visible: false })).toContain('<h2>No data</h2>');
  expect(shown([], { visible: null })).toBe('');
});

test('what the server refuses to this token is no data, other refusals are errors', () => {
  const refused = (status: number) => {
    const error = new ApiError(status, 'x', 'no such GPU', 'ask with job=ID');
    return renderToStaticMarkup(createElement(Refused, { error, again: () => {} }));
  };
  expect(refused(403)).toContain('<h2>No data</h2><p>no such GPU (ask with job=ID)</p>');
  expect(refused(400)).toContain('role="alert"');
});

test('a range that is none says what is wrong and what to write', () => {
  const bad = shown([metrics], { search: { range: '2h' } });
  expect(bad).toContain('there are 1h, 6h, 1d, 7d, 90d');
  expect(bad).toContain('Reset');
});
