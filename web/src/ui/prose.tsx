import { Link } from '@tanstack/react-router';
import { type Piece, paragraphs, pieces } from './markdown';

function One({ piece }: { piece: Piece }) {
  if ('code' in piece) return <code>{piece.code}</code>;
  if ('book' in piece)
    return (
      <Link to="/runbooks/$name" params={{ name: piece.book }}>
        {piece.text}
      </Link>
    );
  if ('href' in piece) return <a href={piece.href}>{piece.text}</a>;
  return piece.text;
}

/** A text of a runbook with its code and its links. */
export function Prose({ text }: { text: string | undefined }) {
  return paragraphs(text ?? '').map((p, n) => (
    // biome-ignore lint/suspicious/noArrayIndexKey: a text does not change its order
    <p key={n}>
      {pieces(p).map((piece, i) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: nor does a paragraph
        <One key={i} piece={piece} />
      ))}
    </p>
  ));
}
