import { useEffect, useRef, useState } from 'react';
import { session, stream } from '../api/client';
import { type EventSearch, type LogEvent, streamQuery } from './events';

/** Events that are kept of those that come; older ones are on the pages. */
const KEPT = 1000;
const AGAIN_MS = 2000;

export interface Tail {
  /** What came since, newest first. */
  fresh: LogEvent[];
  error: Error | null;
  live: boolean;
}

/** Gives whole events out of pieces of a stream. */
export async function readEvents(
  body: ReadableStream<Uint8Array>,
  take: (fresh: LogEvent[]) => void,
): Promise<void> {
  const reader = body
    .pipeThrough(new TextDecoderStream() as unknown as TransformStream<Uint8Array, string>)
    .getReader();
  let rest = '';
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const blocks = (rest + value).split('\n\n');
    rest = blocks.pop() ?? '';
    const fresh: LogEvent[] = [];
    for (const block of blocks) {
      const data = block.split('\n').find((l) => l.startsWith('data: '));
      if (data) fresh.push(JSON.parse(data.slice(6)) as LogEvent);
    }
    if (fresh.length) take(fresh);
  }
}

/** Events as they come behind a place; nothing while there is none. `lost`: the place is there no more. */
export function useTail(search: EventSearch, end: string | null, lost: () => void): Tail {
  const [tail, setTail] = useState<Tail>({ fresh: [], error: null, live: false });
  const query = streamQuery(search);
  const onLost = useRef(lost);
  onLost.current = lost;
  useEffect(() => {
    setTail({ fresh: [], error: null, live: false });
    if (end === null) return;
    const stop = new AbortController();
    let last = end;
    const follow = async () => {
      const headers = { Accept: 'text/event-stream', 'Last-Event-ID': last };
      const response = await stream(`/v1/events${query}`, { signal: stop.signal, headers });
      setTail((t) => ({ ...t, error: null, live: true }));
      await readEvents(response.body as ReadableStream<Uint8Array>, (fresh) => {
        last = fresh[fresh.length - 1].cursor;
        setTail((t) => ({ ...t, fresh: [...fresh.toReversed(), ...t.fresh].slice(0, KEPT) }));
      });
    };
    const run = async () => {
      while (!stop.signal.aborted && session.open()) {
        let error: Error | null = null;
        try {
          await follow();
        } catch (e) {
          if (stop.signal.aborted) return;
          error = e as Error;
          const status = (e as { status?: number }).status;
          // Archived meanwhile, or another log: what is shown is read anew.
          if (status === 410 || status === 400) return onLost.current();
        }
        setTail((t) => ({ ...t, error, live: false }));
        await new Promise((r) => setTimeout(r, AGAIN_MS));
      }
    };
    void run();
    return () => stop.abort();
  }, [query, end]);
  return tail;
}
