// The Markdown of runbooks as far as their texts use it: paragraphs, `code` and links. No React here.

export type Piece =
  | { text: string }
  | { code: string }
  | { text: string; book: string }
  | { text: string; href: string };

const MARK = /`([^`]+)`|\[([^\]]+)\]\(([^)\s]+)\)/g;

/** A link leads to another runbook (`name.md`) or to a page of the web; any other is shown as its text. */
function link(text: string, to: string): Piece {
  const [, book] = /^(?:\.\/)?([a-z0-9][a-z0-9-]*)\.md(?:#.*)?$/.exec(to) ?? [];
  if (book) return { text, book };
  return /^https?:\/\//.test(to) ? { text, href: to } : { text };
}

/** The pieces of one paragraph. What is not read as Markdown stays as it is. */
export function pieces(paragraph: string): Piece[] {
  const out: Piece[] = [];
  let end = 0;
  for (const m of paragraph.matchAll(MARK)) {
    const [whole, code, text = '', to = ''] = m;
    const at = m.index ?? end;
    if (at > end) out.push({ text: paragraph.slice(end, at) });
    out.push(code === undefined ? link(text, to) : { code });
    end = at + whole.length;
  }
  if (end < paragraph.length) out.push({ text: paragraph.slice(end) });
  return out;
}

/** Paragraphs: an empty line is between them. */
export const paragraphs = (text: string): string[] =>
  text
    .split(/\n\s*\n/)
    .map((p) => p.trim())
    .filter(Boolean);
