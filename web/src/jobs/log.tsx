import { Link } from '@tanstack/react-router';
import { useEffect, useMemo, useRef, useState } from 'react';
import { type Schemas, stream } from '../api/client';
import { keepReading, Output } from '../live/output';
import { useAct } from '../ui/act';
import { count, Empty, Panel } from '../ui/parts';
import { useUtc } from '../ui/zone';
import { save } from './files';
import { atEnd, byTime, cameAt, cut, fileOf, found, type Line, Lines, saidBy, tailOf } from './lines';

const KEPT = 2000;
/** Of larger gangs one rank is shown first: all of them may print more than a page can follow. */
const ALL_SHOWN = 64;

const TIMES = 'muster.log.times';

/** Were times of lines shown last? Another zone draws the whole page anew, and nothing in it is kept. */
function keptTimes(): boolean {
  try {
    return localStorage.getItem(TIMES) === 'yes';
  } catch {
    return false;
  }
}

function keepTimes(yes: boolean) {
  try {
    localStorage.setItem(TIMES, yes ? 'yes' : 'no');
  } catch {
    // It holds for this page only.
  }
}

interface Asked {
  rank: number | null;
  /** Null: the newest, and what follows it. */
  attempt: number | null;
}

/** Reads output once, or for as long as it comes. */
async function readLog(
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

/**
 * The newest output as lines, and what follows. What is shown stays when the connection is lost, and until a new attempt
 * has printed something; `old` says that it is of the attempt before.
 */
function useLog(id: string, asked: Asked, over: boolean, attempts: number, ranks: number) {
  const [lines, setLines] = useState<readonly Line[]>([]);
  const [error, setError] = useState('');
  const [lost, setLost] = useState(false);
  const [old, setOld] = useState(false);
  const [read, setRead] = useState(false);
  const { rank, attempt } = asked;
  const of = `${id} ${rank} ${attempt}`;
  const before = useRef({ of, attempts });
  // biome-ignore lint/correctness/useExhaustiveDependencies: a new attempt has other output
  useEffect(() => {
    const stop = new AbortController();
    const output = new Output();
    const kept = new Lines(KEPT);
    if (before.current.of !== of) {
      setLines([]);
      setOld(false);
      setRead(false);
    } else if (attempt === null && before.current.attempts !== attempts) setOld(true);
    before.current = { of, attempts };
    setError('');
    setLost(false);
    // With their times, so that these can be shown without reading everything again.
    const more = { tail: String(tailOf(ranks, rank, KEPT)), follow: String(!over), timestamps: 'true' };
    const show = () => {
      setLines(kept.all());
      setOld(false);
      setRead(true);
    };
    const follow = () =>
      readLog(id, { rank, attempt }, more, stop.signal, (pieces) => {
        setLost(false);
        for (const piece of pieces) kept.add(piece, output.take(piece));
        if (pieces.length) show();
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
  }, [id, over, rank, attempt, attempts, ranks]);
  return { lines, error, lost, old, read };
}

/** What the ranks of a job print: of one or all of them, of any attempt. */
export function JobLog(props: {
  id: string;
  over: boolean;
  attempts: number;
  ranks: number;
  /** It starts no process. */
  simulated: boolean;
}) {
  const { id, attempts, ranks, simulated } = props;
  const [asked, setAsked] = useState<Asked>({ rank: ranks > ALL_SHOWN ? 0 : null, attempt: null });
  const [text, setText] = useState('');
  const [times, setTimes] = useState(keptTimes);
  const [atBottom, setAtBottom] = useState(true);
  const { act, busy } = useAct();
  // Of an attempt that is chosen, and is not the newest, nothing more comes.
  const over = props.over || (asked.attempt !== null && asked.attempt < attempts);
  const { lines, error, lost, old, read } = useLog(id, asked, over, attempts, ranks);
  // Without times nobody could see why a line is where it is.
  const ordered = useMemo(() => (times ? byTime(lines) : lines), [lines, times]);
  const shown = found(ordered, text);
  const showTimes = (yes: boolean) => {
    setTimes(yes);
    keepTimes(yes);
  };
  const download = () =>
    act(async () => {
      const all = new Lines();
      const output = new Output();
      await readLog(id, asked, { timestamps: String(times) }, undefined, (pieces) => {
        for (const piece of pieces) all.add(piece, output.take(piece));
      });
      const of = asked.rank === null ? '' : `-rank-${asked.rank}`;
      save(`job-${id}${of}.log`, fileOf(times ? byTime(all.all()) : all.all(), times));
    }, `Saved the output of job ${id}`);
  return (
    <Panel
      title="Output"
      note={lost ? 'the connection is lost, trying again' : over ? '' : 'as it comes'}
      actions={
        <span className="log-tools">
          <label className="dim">
            rank{' '}
            <input
              type="number"
              min={0}
              max={Math.max(0, ranks - 1)}
              placeholder="all"
              className="short"
              value={asked.rank ?? ''}
              onChange={(e) => {
                const rank = Number.parseInt(e.target.value, 10);
                setAsked({ ...asked, rank: Number.isNaN(rank) ? null : Math.max(0, rank) });
              }}
            />
          </label>
          {attempts > 1 && (
            <label className="dim">
              attempt{' '}
              <select
                value={asked.attempt ?? ''}
                onChange={(e) => setAsked({ ...asked, attempt: Number(e.target.value) || null })}
              >
                <option value="">newest</option>
                {Array.from({ length: attempts }, (_, i) => attempts - i).map((no) => (
                  <option key={no}>{no}</option>
                ))}
              </select>
            </label>
          )}
          <label className="dim">
            <input type="checkbox" checked={times} onChange={(e) => showTimes(e.target.checked)} /> Timestamps
          </label>
          <input
            type="search"
            aria-label="Find in the output"
            placeholder="Find in output"
            value={text}
            onChange={(e) => setText(e.target.value)}
          />
          <button type="button" disabled={busy || lines.length === 0} onClick={() => void download()}>
            Download
          </button>
          <Link to="/output" search={{ job: id, q: text.trim() || undefined }}>
            Search all of it
          </Link>
        </span>
      }
    >
      {error && <p className="state">{error}</p>}
      {lines.length === 0 ? (
        !error && (
          <Empty
            title={`No output${asked.rank === null ? '' : ' of this rank'}${over && read ? '' : ' yet'}`}
          >
            {simulated && <p>A simulated job prints nothing.</p>}
          </Empty>
        )
      ) : (
        <>
          <p className="log-bar dim">
            {text.trim() === ''
              ? `The newest ${count(lines.length, 'line')}`
              : `${shown.length.toLocaleString('en')} of ${count(lines.length, 'line')} with “${text.trim()}”`}
            , each after its rank; <b>err</b> is stderr.
            {old && ' The new attempt has printed nothing yet: these are of the one before.'}
            {!atBottom && (
              <button type="button" onClick={() => setAtBottom(true)}>
                To the end
              </button>
            )}
          </p>
          <LogBox lines={shown} text={text} times={times} atBottom={atBottom} onScroll={setAtBottom} />
        </>
      )}
    </Panel>
  );
}

interface Box {
  lines: readonly Line[];
  text: string;
  /** Each line shows when it came. */
  times: boolean;
  atBottom: boolean;
  onScroll: (atBottom: boolean) => void;
}

/** The end stays in sight when lines come, unless somebody has scrolled up. */
function LogBox({ lines, text, times, atBottom, onScroll }: Box) {
  // Another zone shows other times.
  useUtc();
  const box = useRef<HTMLPreElement>(null);
  // Where it was scrolled to, as far as is known: a line may come before the browser says that somebody scrolled up.
  const known = useRef(0);
  // biome-ignore lint/correctness/useExhaustiveDependencies: more lines move the end, and so do longer ones
  useEffect(() => {
    const b = box.current;
    if (!b || !atBottom || b.scrollTop < known.current) return;
    b.scrollTop = b.scrollHeight;
    known.current = b.scrollTop;
  }, [lines, times, atBottom]);
  const scrolled = ({ currentTarget: b }: { currentTarget: HTMLPreElement }) => {
    known.current = b.scrollTop;
    onScroll(atEnd(b));
  };
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls
    <pre className="log job-log" ref={box} tabIndex={0} aria-label="Output" onScroll={scrolled}>
      {lines.map((line) => (
        <LogLine key={line.no} line={line} text={text} times={times} />
      ))}
    </pre>
  );
}

function LogLine({ line, text, times }: { line: Line; text: string; times: boolean }) {
  const parts = cut(line.text, text);
  let at = 0;
  return (
    <span className={line.note ? 'line note' : line.err ? 'line err' : 'line'}>
      <span className="by">{saidBy(line)}</span>
      {times && <span className="at">{cameAt(line)}</span>}
      <span>
        {parts.map((part, i) => {
          const key = at;
          at += part.length + 1;
          return i % 2 === 1 ? <mark key={key}>{part}</mark> : <span key={key}>{part}</span>;
        })}
      </span>
      {'\n'}
    </span>
  );
}
