import { useVirtualizer } from '@tanstack/react-virtual';
import { type CSSProperties, type ReactNode, useEffect, useRef, useSyncExternalStore } from 'react';

interface Props<T> {
  items: T[];
  columns: string;
  header: ReactNode;
  row: (item: T) => ReactNode;
  label: string;
  /** What the header is called where its cells are heads of columns that can be sorted. */
  heads?: string;
  /** Called when the end comes into sight. */
  more?: () => void;
}

/** As the style sheet has it: a line, or a card where the window is narrow. */
const [LINE, CARD] = [30, 92];
const narrow = () => window.matchMedia('(max-width: 720px)');

function subscribe(listener: () => void) {
  const query = narrow();
  query.addEventListener('change', listener);
  return () => query.removeEventListener('change', listener);
}

/** A list of which only the rows in sight exist. */
export function Rows<T>({ items, columns, header, row, label, heads, more }: Props<T>) {
  const box = useRef<HTMLDivElement>(null);
  const height = useSyncExternalStore(subscribe, () => narrow().matches) ? CARD : LINE;
  const rows = useVirtualizer({
    count: items.length,
    getScrollElement: () => box.current,
    estimateSize: () => height,
    overscan: 12,
  });
  // biome-ignore lint/correctness/useExhaustiveDependencies: rows of another height are laid anew
  useEffect(() => rows.measure(), [height]);
  const style = { '--columns': columns } as CSSProperties;
  const shown = rows.getVirtualItems();
  const last = shown[shown.length - 1]?.index ?? 0;
  useEffect(() => {
    if (more && items.length > 0 && last >= items.length - 20) more();
  }, [more, last, items.length]);
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls
    <section className="virtual" ref={box} tabIndex={0} aria-label={label} style={style}>
      {heads ? (
        // A head that says how it is sorted has to be in a row of a table.
        <div className="grid-row header" role="table" aria-label={heads}>
          {/* biome-ignore lint/a11y/useFocusableInteractive: the buttons in it are focused */}
          <div role="row" className="as-parts">
            {header}
          </div>
        </div>
      ) : (
        <div className="grid-row header">{header}</div>
      )}
      <div style={{ height: rows.getTotalSize(), position: 'relative' }}>
        {shown.map((v) => (
          <div
            key={v.key}
            style={{ position: 'absolute', top: 0, left: 0, right: 0, transform: `translateY(${v.start}px)` }}
          >
            {row(items[v.index])}
          </div>
        ))}
      </div>
    </section>
  );
}
