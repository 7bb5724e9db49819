// Reads what jobs print.
import { useEffect, useRef, useState } from 'react';
import { type Schemas, stream } from '../api/client';
import { keepReading, Output } from '../live/output';
import { CHARS, DEPTHS, deeper, type Line, Lines, tailOf } from './lines';

export interface Asked {
  rank: number | null;
  /** Null: the newest, and what follows it. */
  attempt: number | null;
}

/** Reads output once, or for as long as it comes. */
export async function readLog(
  id: string,
  { rank, attempt }: Asked,
  more: Record<string, string>,
  signal: AbortSignal | undefined,
  take: (pieces: Schemas['LogLine'][]) => void,
) {
  const query = new URLSearchParams(more);
  if (rank !== null) query.set('rank', String(rank));
  if (attempt !== null) query.set('attempt', String(attempt));
  const response = await stream(`/v1/jobs/${encodeURIComponent(id)}/logs?${query}`, {
    signal,
    headers: { Accept: 'application/x-ndjson' },
  });
  const reader = (response.body as ReadableStream<Uint8Array>)
    .pipeThrough(new TextDecoderStream() as unknown as TransformStream<Uint8Array, string>)
    .getReader();
  take([]);
  let rest = '';
  for (;;) {
    const { value, done } = await reader.read();
    if (done) break;
    const parts = (rest + value).split('\n');
    rest = parts.pop() ?? '';
    take(parts.filter(Boolean).map((p) => JSON.parse(p) as Schemas['LogLine']));
  }
}

interface Read {
  of: string;
  attempts: number;
  depth: number;
  reading: { output: Output; kept: Lines } | null;
}

/**
 * The newest output as lines, and what follows. What is shown stays when the connection is lost, until a new attempt
 * has printed something (`old` says that it is of the attempt before), and while earlier lines are read.
 */
export function useLog(id: string, asked: Asked, over: boolean, attempts: number, ranks: number) {
  const [lines, setLines] = useState<readonly Line[]>([]);
  const [error, setError] = useState('');
  const [lost, setLost] = useState(false);
  const [old, setOld] = useState(false);
  const [read, setRead] = useState(false);
  /** What is shown: of how many lines at most, and whether there are earlier ones that can be read. */
  const [shown, setShown] = useState({ depth: DEPTHS[0] as number, earlier: false, more: false });
  const { rank, attempt } = asked;
  const of = `${id} ${rank} ${attempt}`;
  const [wanted, setWanted] = useState({ of, depth: DEPTHS[0] as number });
  const depth: number = wanted.of === of ? wanted.depth : DEPTHS[0];
  const before = useRef<Read>({ of, attempts, depth, reading: null });
  // biome-ignore lint/correctness/useExhaustiveDependencies: a new attempt has other output
  useEffect(() => {
    const stop = new AbortController();
    const output = new Output();
    const kept = new Lines(depth, CHARS);
    const last = before.current;
    // Of the same output more is read: what is shown stays until as much is there.
    const goal = last.of === of && last.attempts === attempts && last.depth < depth ? last.reading : null;
    if (last.of !== of) {
      setLines([]);
      setOld(false);
      setRead(false);
    } else if (attempt === null && last.attempts !== attempts) setOld(true);
    before.current = { of, attempts, depth, reading: { output, kept } };
    setError('');
    setLost(false);
    // With their times, so that these can be shown without reading everything again.
    const more = { tail: String(tailOf(ranks, rank, depth)), follow: String(!over), timestamps: 'true' };
    // The server looks back a bounded way: where that brings no more lines, more of them are not asked for.
    let grown: boolean | null = goal === null || null;
    const show = () => {
      grown ??= kept.count > (goal?.kept.count ?? 0);
      const earlier = kept.dropped || output.cut();
      setLines(kept.all());
      setShown({ depth, earlier, more: earlier && grown });
      setOld(false);
      setRead(true);
    };
    const follow = () =>
      readLog(id, { rank, attempt }, more, stop.signal, (pieces) => {
        setLost(false);
        for (const piece of pieces) kept.add(piece, output.take(piece));
        if (pieces.length && (goal === null || output.reached(goal.output))) show();
      });
    keepReading(follow, {
      over,
      signal: stop.signal,
      lost: () => setLost(true),
      pause: () => new Promise((r) => setTimeout(r, 3000)),
    })
      // All was read: where the last attempt printed nothing, nothing is shown.
      .then(() => {
        if (!stop.signal.aborted) show();
      })
      .catch((e) => setError((e as Error).message));
    return () => stop.abort();
  }, [id, over, rank, attempt, attempts, ranks, depth]);
  const next = deeper(shown.depth);
  return {
    lines,
    error,
    lost,
    old,
    read,
    depth: shown.depth,
    /** There are lines before the first one. */
    earlier: shown.earlier,
    /** Earlier lines are being read. */
    loading: depth > shown.depth && error === '',
    /** Reads earlier lines; null where there are none, or as many are shown as a page can have. */
    load: shown.more && next !== null ? () => setWanted({ of, depth: next }) : null,
  };
}
