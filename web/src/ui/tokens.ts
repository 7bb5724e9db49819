// The names of what styles/tokens.css defines, for /design and for tests. No React here.

export const SIZES = ['--text-xs', '--text-sm', '--text-md', '--text-lg', '--text-xl', '--text-2xl'] as const;
export const WEIGHTS = ['--weight-normal', '--weight-medium', '--weight-strong'] as const;
export const SPACES = ['--space-1', '--space-2', '--space-3', '--space-4', '--space-6'] as const;
/** What words stand on. */
export const GROUNDS = ['--bg', '--panel', '--raised'] as const;
/** What words are written in: each can be read on every ground. */
export const INKS = ['--text', '--dim', '--accent', '--ok', '--warn', '--bad', '--worst', '--note'] as const;
/** Words on a colour: the word's, the ground's. */
export const PAIRS = [
  ['--accent-text', '--accent'],
  ['--bad-text', '--bad'],
] as const;

/** The custom properties of each rule of a style sheet, by its selector. */
export function tokensOf(css: string): Map<string, Map<string, string>> {
  const out = new Map<string, Map<string, string>>();
  const bare = css.replace(/\/\*[\s\S]*?\*\//g, '');
  for (const [, selectors, body] of bare.matchAll(/([^{}]+)\{([^{}]*)\}/g)) {
    const tokens = [...body.matchAll(/(--[a-z0-9-]+):\s*([^;]+);/g)];
    for (const selector of selectors.split(',').map((s) => s.trim())) {
      const known = out.get(selector) ?? new Map<string, string>();
      for (const [, name, value] of tokens) known.set(name, value.trim());
      out.set(selector, known);
    }
  }
  return out;
}
