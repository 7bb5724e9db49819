import type { ReactNode } from 'react';
import { Scroll } from './parts';

interface Column {
  word: ReactNode;
  className?: string;
  title?: string;
}

/** The head of a column; one that is false or undefined is not there. */
export type Head = string | Column | false | undefined;

/** The head of a column of numbers; `title` says how they are computed. */
export const num = (word: string, title?: string): Column => ({ word, className: 'num', title });

/** The head of a column whose cells need no word above them: it is read out, and not seen. */
export const unseen = (word: string): Column => ({ word: <span className="skip">{word}</span> });

/** A table with its heads. With a label it scrolls by itself; `cards`: its rows are cards on a phone. */
export function Table({
  label,
  tall,
  cards,
  heads,
  children,
}: {
  label?: string;
  tall?: boolean;
  cards?: boolean;
  heads: readonly Head[];
  children: ReactNode;
}) {
  const table = (
    <table className={cards ? 'cards' : undefined}>
      <thead>
        <tr>
          {heads.map((head, i) => {
            if (head === false || head === undefined) return null;
            const { word, ...rest }: Column = typeof head === 'string' ? { word: head } : head;
            return (
              // biome-ignore lint/suspicious/noArrayIndexKey: a column is known by its place
              <th key={i} {...rest}>
                {word}
              </th>
            );
          })}
        </tr>
      </thead>
      <tbody>{children}</tbody>
    </table>
  );
  if (label === undefined) return table;
  return (
    <Scroll label={label} tall={tall}>
      {table}
    </Scroll>
  );
}
