import { createElement } from 'react';
import { renderToStaticMarkup } from 'react-dom/server';
import { expect, test, vi } from 'vitest';

vi.stubGlobal('sessionStorage', { getItem: () => null });
const { ApiError } = await import('../api/client');
const { age, exact, Loaded, NodeState, Problem, span, ticksOf, when } = await import('./parts');

const shown = (error: Error) => renderToStaticMarkup(createElement(Problem, { error, again: () => {} }));

test('what a token may not see is said calmly, without a button that cannot help', () => {
  const text = shown(
    new ApiError(403, 'not_allowed', 'this token is bound to project team-a', 'use another'),
  );
  expect(text).toContain('Not for this token: this token is bound to project team-a (use another)');
  expect(text).not.toContain('Try again');
  expect(text).not.toContain('class="error"');
});

test('two distances from now in seconds are of the same second', () => {
  const now = Date.parse('2026-11-19T12:00:00Z');
  expect(ticksOf('2026-11-19T11:59:18Z', now)).toBe(1000);
  expect([ticksOf('2026-11-19T11:50:00Z', now), ticksOf(null, now)]).toEqual([10_000, 10_000]);
});

test('what went wrong can be tried again', () => {
  expect(shown(new ApiError(500, 'internal', 'it broke', null))).toContain('Try again');
});

test('what cannot be read yet says so, instead of loading for ever', () => {
  const of = (failureReason: Error | null) => {
    const query = { data: undefined, isError: false, failureReason } as never;
    return renderToStaticMarkup(Loaded({ query, children: () => 'read' }));
  };
  expect(of(null)).toContain('Loading…');
  const away = of(new ApiError(0, 'unreachable', 'the server cannot be reached', null));
  expect(away).toContain('Nothing read yet: the server cannot be reached. It is tried again.');
});

test('a node that new work stays away from is not shown as plainly ready', () => {
  const state = (of: object) =>
    renderToStaticMarkup(createElement(NodeState, { of: { state: 'ready', ...of } }));
  expect(state({ avoided: null, no_new_work: null })).toBe('<span class="word ok">ready</span>');
  expect(state({ avoided: 'critical finding 12 (gpu-off-bus)' })).toBe(
    '<span class="word warn" title="critical finding 12 (gpu-off-bus)">ready, avoided</span>',
  );
  expect(state({ no_new_work: 'breaker node:n1 is not closed' })).toBe(
    '<span class="word warn" title="breaker node:n1 is not closed">ready, no new work</span>',
  );
  // Another state says it already.
  expect(state({ state: 'lost', no_new_work: 'lost' })).toBe('<span class="word worst">lost</span>');
});

test('a moment carries its time zone', () => {
  expect(exact('2026-11-16T23:42:45Z', 'America/Los_Angeles')).toBe('2026-11-16 15:42:45 UTC-8');
  expect(exact('2026-11-16T20:00:00Z', 'Asia/Kolkata')).toBe('2026-11-17 01:30:00 UTC+5:30');
});

test('an age and a length of time have the same words, and are rounded', () => {
  const day = 86_400_000;
  expect(age(4.7 * day)).toBe('5 d');
  expect(age(1.99 * day)).toBe('48 h');
  expect(age(39.8 * 60_000)).toBe('40 min');
  expect(age(59_999)).toBe('59 s');
  expect(age(-5)).toBe('0 s');
  for (const ms of [6_960_000, 7_198_000, 90_000_000, 5 * day]) expect(age(ms)).toBe(span(ms));
  expect(when(-7_198_000)).toBe('in 2 h');
  expect(when(6_960_000)).toBe('2 h ago');
});

test('a length of time is never negative', () => {
  expect(span(-30_217_498_000)).toBe('0 ms');
  expect(span(250)).toBe('250 ms');
});
