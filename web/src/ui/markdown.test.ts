import { expect, test } from 'vitest';
import { paragraphs, pieces } from './markdown';

test('code and links of a runbook are found in its text', () => {
  expect(pieces('closes ([breaker-open](breaker-open.md)). Write `muster breakers`.')).toEqual([
    { text: 'closes (' },
    { text: 'breaker-open', book: 'breaker-open' },
    { text: '). Write ' },
    { code: 'muster breakers' },
    { text: '.' },
  ]);
  expect(pieces('see [the page](https://example.com/a)')).toEqual([
    { text: 'see ' },
    { text: 'the page', href: 'https://example.com/a' },
  ]);
});

test('a link that leads to neither is its text, and what is no Markdown stays', () => {
  expect(pieces('[x](javascript:alert(1))')[0]).toEqual({ text: 'x' });
  expect(pieces('[x](../a/b.md)')).toEqual([{ text: 'x' }]);
  expect(pieces('one ` alone, [two]')).toEqual([{ text: 'one ` alone, [two]' }]);
  expect(pieces('`[a](b.md)`')).toEqual([{ code: '[a](b.md)' }]);
});

test('an empty line is between paragraphs', () => {
  expect(paragraphs('one\ntwo\n\n three\n')).toEqual(['one\ntwo', 'three']);
  expect(paragraphs('')).toEqual([]);
});
