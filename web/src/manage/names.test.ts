import { expect, test } from 'vitest';
import { expandNames } from './names';

test('names and ranges stand for nodes, each once', () => {
  expect(expandNames('a, b\nc a')).toEqual({ names: ['a', 'b', 'c'] });
  expect(expandNames('hgx-[0009-0011]')).toEqual({ names: ['hgx-0009', 'hgx-0010', 'hgx-0011'] });
  expect(expandNames('n[1,3-4]x,z')).toEqual({ names: ['n1x', 'n3x', 'n4x', 'z'] });
  expect(expandNames('  ')).toEqual({ names: [] });
});

test('what is no range is refused with why', () => {
  const problem = (text: string) => (expandNames(text) as { problem: string }).problem;
  expect(problem('n[4-1]')).toContain('ends before it begins');
  expect(problem('n[a]')).toContain('no range');
  expect(problem('n[]')).toContain('nothing');
  expect(problem('n[1][2]')).toContain('one range at most');
  expect(problem('n[1-999999999]')).toContain('more than 10,000');
});
