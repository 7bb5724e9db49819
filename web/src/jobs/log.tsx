import { Link } from '@tanstack/react-router';
import { memo, useEffect, useLayoutEffect, useMemo, useRef, useState } from 'react';
import { Output } from '../live/output';
import { useAct } from '../ui/act';
import { count, Empty, Panel } from '../ui/parts';
import { useUtc } from '../ui/zone';
import { save } from './files';
import { atBegin, atEnd, byTime, cameAt, cut, fileOf, found, type Line, Lines, saidBy } from './lines';
import { type Asked, readLog, useLog } from './log-read';

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
  const { lines, error, lost, old, read, depth, earlier, loading, load } = useLog(
    id,
    asked,
    over,
    attempts,
    ranks,
  );
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
            {earlier && !load && ' Older ones are not shown here: Download has all of them.'}
            {old && ' The new attempt has printed nothing yet: these are of the one before.'}
            {load && (
              <button type="button" disabled={loading} onClick={load}>
                {loading ? 'Loading earlier lines…' : 'Load earlier lines'}
              </button>
            )}
            {!atBottom && (
              <button type="button" onClick={() => setAtBottom(true)}>
                To the end
              </button>
            )}
          </p>
          <LogBox
            lines={shown}
            depth={depth}
            text={text}
            times={times}
            atBottom={atBottom}
            onScroll={setAtBottom}
            // Of the lines that have some words few may be there: their begin is in sight without anybody's doing.
            onBegin={text.trim() === '' && !loading ? load : null}
          />
        </>
      )}
    </Panel>
  );
}

interface Box {
  lines: readonly Line[];
  /** Grows when earlier lines come. */
  depth: number;
  text: string;
  /** Each line shows when it came. */
  times: boolean;
  atBottom: boolean;
  onScroll: (atBottom: boolean) => void;
  /** The first line came in sight. */
  onBegin: (() => void) | null;
}

/**
 * The end stays in sight when lines come, unless somebody has scrolled up; then what is read stays in its place when
 * earlier lines come before it.
 */
function LogBox({ lines, depth, text, times, atBottom, onScroll, onBegin }: Box) {
  // Another zone shows other times.
  const utc = useUtc();
  const box = useRef<HTMLPreElement>(null);
  // Where it was scrolled to, as far as is known: a line may come before the browser says that somebody scrolled up.
  const known = useRef(0);
  const before = useRef({ depth, height: 0 });
  // biome-ignore lint/correctness/useExhaustiveDependencies: lines and their times change the height
  useLayoutEffect(() => {
    const b = box.current;
    if (!b) return;
    if (depth > before.current.depth) {
      b.scrollTop += b.scrollHeight - before.current.height;
      known.current = b.scrollTop;
    }
    before.current = { depth, height: b.scrollHeight };
  }, [lines, depth, times, utc]);
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
    if (atBegin(b)) onBegin?.();
  };
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls
    <pre className="log job-log" ref={box} tabIndex={0} aria-label="Output" onScroll={scrolled}>
      {lines.map((line) => (
        <LogLine key={line.no} line={line} text={text} times={times} utc={utc} />
      ))}
    </pre>
  );
}

interface OneLine {
  line: Line;
  text: string;
  times: boolean;
  /** Another zone shows other times. */
  utc: boolean;
}

/** There may be thousands of lines, of which few change: each list has new ones of the same content. */
function sameLine(a: OneLine, b: OneLine): boolean {
  const [one, other] = [a.line, b.line];
  return (
    a.text === b.text &&
    a.times === b.times &&
    a.utc === b.utc &&
    one.text === other.text &&
    one.at === other.at &&
    one.rank === other.rank &&
    one.err === other.err &&
    one.note === other.note
  );
}

const LogLine = memo(function LogLine({ line, text, times }: OneLine) {
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
}, sameLine);
