// Names of nodes as people type them: `hgx-[0001-0004], gpu7`. No React here.

/** Most names that one text stands for. */
const MOST = 10_000;

/** The names that a text stands for; what is wrong with it otherwise. */
export function expandNames(text: string): { names: string[] } | { problem: string } {
  const out = new Set<string>();
  // Commas between names, not those within brackets.
  for (const part of text.split(/[\s,]+(?![^[]*\])/).filter(Boolean)) {
    const [, before, inside, after] = /^([^[\]]*)(?:\[([^[\]]*)\])?([^[\]]*)$/.exec(part) ?? [];
    if (before === undefined)
      return { problem: `${part}: write one range at most, like hgx-[0001-0004,0007]` };
    if (inside === undefined) {
      out.add(part);
      continue;
    }
    for (const range of inside.split(',')) {
      const [, first, last = first] = /^\s*(\d{1,9})(?:-(\d{1,9}))?\s*$/.exec(range) ?? [];
      if (first === undefined) return { problem: `${part}: ${range || 'nothing'} is no range of numbers` };
      const [from, to] = [Number(first), Number(last)];
      if (to < from) return { problem: `${part}: ${range} ends before it begins` };
      if (to - from + out.size >= MOST)
        return { problem: `${part}: this names more than ${MOST.toLocaleString('en')} nodes` };
      for (let n = from; n <= to; n++) out.add(`${before}${String(n).padStart(first.length, '0')}${after}`);
    }
  }
  return { names: [...out] };
}
