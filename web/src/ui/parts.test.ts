import { createElement } from 'react';
import { renderToStaticMarkup } from 'react-dom/server';
import { expect, test, vi } from 'vitest';

vi.stubGlobal('sessionStorage', { getItem: () => null });
const { ApiError } = await import('../api/client');
const { exact, Problem } = await import('./parts');

const shown = (error: Error) => renderToStaticMarkup(createElement(Problem, { error, again: () => {} }));

test('what a token may not see is said calmly, without a button that cannot help', () => {
  const text = shown(
    new ApiError(403, 'not_allowed', 'this token is bound to project team-a', 'use another'),
  );
  expect(text).toContain('Not for this token: this token is bound to project team-a (use another)');
  expect(text).not.toContain('Try again');
  expect(text).not.toContain('class="error"');
});

test('what went wrong can be tried again', () => {
  expect(shown(new ApiError(500, 'internal', 'it broke', null))).toContain('Try again');
});

test('a moment carries its time zone', () => {
  expect(exact('2026-11-16T23:42:45Z', 'America/Los_Angeles')).toBe('2026-11-16 15:42:45 GMT-8');
  expect(exact('2026-11-16T20:00:00Z', 'Asia/Kolkata')).toBe('2026-11-17 01:30:00 GMT+5:30');
});
