import { useCallback } from 'react';

/** A query that is read page by page. */
interface Paged {
  hasNextPage: boolean;
  isFetchingNextPage: boolean;
  fetchNextPage: () => Promise<unknown>;
}

/** Reads the next page, where there is one and it is not being read. */
export function useMore({ hasNextPage, isFetchingNextPage, fetchNextPage }: Paged): () => void {
  return useCallback(() => {
    if (hasNextPage && !isFetchingNextPage) void fetchNextPage();
  }, [fetchNextPage, hasNextPage, isFetchingNextPage]);
}

/** The button at the end of a list that is read page by page. */
export function LoadMore({ of, what }: { of: Paged; what: string }) {
  if (!of.hasNextPage) return null;
  return (
    <p>
      <button type="button" disabled={of.isFetchingNextPage} onClick={() => void of.fetchNextPage()}>
        {of.isFetchingNextPage ? 'Loading…' : 'Load more'}
      </button>{' '}
      <span className="dim">{what}</span>
    </p>
  );
}
