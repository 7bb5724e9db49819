import { useVirtualizer } from '@tanstack/react-virtual';
import { type ReactNode, useEffect, useRef } from 'react';

interface Props<T> {
  items: T[];
  columns: string;
  header: ReactNode;
  row: (item: T) => ReactNode;
  label: string;
  /** Called when the end comes into sight. */
  more?: () => void;
}

/** A list of which only the rows in sight exist. */
export function Rows<T>({ items, columns, header, row, label, more }: Props<T>) {
  const box = useRef<HTMLDivElement>(null);
  const rows = useVirtualizer({
    count: items.length,
    getScrollElement: () => box.current,
    estimateSize: () => 30,
    overscan: 12,
  });
  const shown = rows.getVirtualItems();
  const last = shown[shown.length - 1]?.index ?? 0;
  useEffect(() => {
    if (more && items.length > 0 && last >= items.length - 20) more();
  }, [more, last, items.length]);
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls
    <section className="virtual" ref={box} tabIndex={0} aria-label={label}>
      <div className="grid-row header" style={{ gridTemplateColumns: columns }}>
        {header}
      </div>
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
