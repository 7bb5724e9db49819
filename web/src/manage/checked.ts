import { useEffect, useRef, useState } from 'react';
import { isPassing } from './errors';

/** After how long something is asked again that the server did not answer. */
const AGAIN = 3000;

export type Checked<T> =
  | { state: 'asking' }
  | { state: 'ok'; answer: T }
  | { state: 'refused'; error: Error };

/**
 * Asks the server whether something could be set, a moment after the last change of `asked`, which stands for all
 * that is sent; null asks nothing. An answer to an earlier question is never given for a later one. What
 * the server could not answer is asked again.
 */
export function useChecked<T>(
  asked: string | null,
  ask: (signal: AbortSignal) => Promise<T>,
): Checked<T> | null {
  const [known, setKnown] = useState<{ asked: string; result: Checked<T> } | null>(null);
  const latest = useRef(ask);
  useEffect(() => {
    latest.current = ask;
  });
  useEffect(() => {
    if (asked === null) return;
    const stop = new AbortController();
    const put = async () => {
      try {
        const answer = await latest.current(stop.signal);
        if (!stop.signal.aborted) setKnown({ asked, result: { state: 'ok', answer } });
      } catch (error) {
        if (stop.signal.aborted) return;
        setKnown({ asked, result: { state: 'refused', error: error as Error } });
        if (isPassing(error)) timer = setTimeout(put, AGAIN);
      }
    };
    let timer = setTimeout(put, 350);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [asked]);
  if (asked === null) return null;
  return known?.asked === asked ? known.result : { state: 'asking' };
}
