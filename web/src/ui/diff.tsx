import { changesOnly, diff } from '../jobs/differ';
import { count, Empty } from './parts';

/** Two texts line by line, with marks that do not rest on colour alone. */
export function DiffLines({
  first,
  second,
  same,
  what,
}: {
  first: string;
  second: string;
  /** Said where nothing differs. */
  same: string;
  /** What is compared, for where it is too long. */
  what: string;
}) {
  const lines = diff(first, second);
  if (lines === null) return <Empty title={`${what} is too long to be compared line by line`} />;
  if (!lines.some((l) => l.side !== ' ')) return <Empty title={same} />;
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls
    <pre className="log spec-diff" tabIndex={0} aria-label="What differs">
      {changesOnly(lines).map((l, i) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: lines never move, and may be the same
        <span key={i} className={l.side === '-' ? 'less' : l.side === '+' ? 'more' : undefined}>
          {l.side === '…' ? `… ${count(l.count, 'line')} the same\n` : `${l.side} ${l.text}\n`}
        </span>
      ))}
    </pre>
  );
}
