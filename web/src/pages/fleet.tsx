import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { Link, useNavigate, useSearch } from '@tanstack/react-router';
import { useEffect, useMemo, useRef, useState } from 'react';
import { useFleet } from '../live/context';
import { type Picture, past, useRevision } from '../live/fleet';
import { MODES, painter } from '../map/colors';
import { find } from '../map/find';
import { FleetMap } from '../map/fleet-map';
import { logBegins } from '../queries';
import { useRights } from '../rights';
import { pageNamed, pagesFor } from '../ui/pages';
import { Empty, exact, Problem, span } from '../ui/parts';
import { useTheme } from '../ui/theme';

export function FleetPage() {
  const live = useFleet();
  const revision = useRevision(live);
  const theme = useTheme();
  const search = useSearch({ from: '/' });
  const navigate = useNavigate({ from: '/' });
  const mode = search.by ?? 'state';
  const at = search.at;
  const then = useQuery({
    queryKey: ['past', at],
    queryFn: ({ signal }) => past(new Date(at ?? ''), signal),
    enabled: at !== undefined,
    placeholderData: keepPreviousData,
    gcTime: 10_000,
    retry: false,
  });
  const fleet: Picture = at !== undefined ? (then.data ?? live) : live;
  const box = useRef<HTMLInputElement>(null);
  const [words, setWords] = useState(search.find ?? '');
  // biome-ignore lint/correctness/useExhaustiveDependencies: the picture changes in place, with its revision
  const paint = useMemo(() => painter(fleet, mode, theme), [fleet, mode, theme, revision]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: as above
  const found = useMemo(() => (words ? find(fleet, words) : null), [fleet, words, revision]);

  useEffect(() => {
    if (search.search) box.current?.focus();
  }, [search.search]);

  const { whole } = useRights();
  const page = found?.gpus === 0 ? pageNamed(words, pagesFor(whole)) : null;
  const open = () => {
    if (page) void navigate({ to: page.to });
    else if (found?.nodes.length === 1) {
      const name = fleet.layout?.nodes[found.nodes[0]].name;
      if (name) void navigate({ to: '/nodes/$name', params: { name } });
    }
  };
  const total = fleet.columns?.state.length ?? 0;
  return (
    <main className="page full map" id="page">
      <div className="map-bar">
        <h1 className="skip">Fleet</h1>
        <div className="modes" role="group" aria-label="Colour by">
          {MODES.filter((m) => whole !== false || !m.site).map((m) => (
            <button
              key={m.mode}
              type="button"
              aria-pressed={mode === m.mode}
              title={m.what}
              onClick={() =>
                void navigate({
                  search: { ...search, by: m.mode === 'state' ? undefined : m.mode },
                  replace: true,
                })
              }
            >
              {m.label}
            </button>
          ))}
        </div>
        <input
          ref={box}
          type="search"
          className="search"
          aria-label="Search nodes, racks, projects, jobs and pages"
          placeholder="node, rack, project, job 42"
          value={words}
          onChange={(e) => {
            setWords(e.target.value);
            void navigate({
              search: { by: search.by, at, find: e.target.value || undefined },
              replace: true,
            });
          }}
          onKeyDown={(e) => {
            if (e.key === 'Enter') open();
            if (e.key === 'Escape') {
              setWords('');
              e.currentTarget.blur();
              void navigate({ search: { by: search.by, at }, replace: true });
            }
          }}
        />
        {found && (
          <span className="dim" role="status">
            {page
              ? `Enter opens ${page.label}`
              : found.gpus === 0
                ? 'nothing matches'
                : `${found.gpus.toLocaleString('en')} GPUs on ${found.nodes.length.toLocaleString('en')} nodes`}
            {found.nodes.length === 1 && ', Enter opens it'}
          </span>
        )}
      </div>
      <div className="legend-bar">{paint && <Legend paint={paint} />}</div>
      <TimeBar
        at={at}
        busy={then.isFetching}
        error={at !== undefined ? then.error : null}
        go={(to) => void navigate({ search: { ...search, at: to }, replace: true })}
      />
      {total > 0 && paint ? (
        <FleetMap fleet={fleet} paint={paint} match={found?.match ?? null} revision={revision} />
      ) : fleet.layout ? (
        <Empty title="No nodes yet">
          <p>
            A node appears here as soon as its agent has joined. On the machine:{' '}
            <code>muster agent run --join TOKEN</code>, with a token from{' '}
            <code>muster token create --join</code>. To try it without hardware:{' '}
            <code>muster up --nodes 16</code>.
          </p>
          <p>
            What happened so far is under <Link to="/events">Events</Link>.
          </p>
        </Empty>
      ) : live.error ? (
        <Problem error={live.error} />
      ) : (
        <p className="state" role="status">
          Waiting for the first picture…
        </p>
      )}
    </main>
  );
}

function Legend({ paint }: { paint: NonNullable<ReturnType<typeof painter>> }) {
  const { legend, scale } = paint;
  return (
    <ul className="legend" aria-label="Legend">
      {scale && (
        <li className="ramp">
          <span>
            {scale.from} {scale.unit}
          </span>
          <Ramp stops={scale.stops} />
          <span>
            {scale.to} {scale.unit}
          </span>
        </li>
      )}
      {legend.map((l) => (
        <li key={l.label}>
          <i style={{ background: l.color }} />
          {l.label}
          {l.count !== undefined && <span className="dim">{l.count.toLocaleString('en')}</span>}
        </li>
      ))}
    </ul>
  );
}

function Ramp({ stops }: { stops: string[] }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  useEffect(() => {
    const c = canvas.current;
    const g = c?.getContext('2d');
    if (!c || !g) return;
    const fill = g.createLinearGradient(0, 0, c.width, 0);
    stops.forEach((s, i) => {
      fill.addColorStop(i / (stops.length - 1), s);
    });
    g.fillStyle = fill;
    g.fillRect(0, 0, c.width, c.height);
  }, [stops]);
  return <canvas ref={canvas} width={140} height={10} aria-hidden="true" />;
}

/** What did it look like at 03:12? */
function TimeBar({
  at,
  busy,
  error,
  go,
}: {
  at: string | undefined;
  busy: boolean;
  error: Error | null;
  go: (to: string | undefined) => void;
}) {
  const begin = useQuery(logBegins());
  const now = Math.floor(Date.now() / 1000);
  const from = begin.data ? Math.ceil(Date.parse(begin.data) / 1000) : now;
  const [drawn, setDrawn] = useState<number | null>(null);
  const wanted = drawn ?? (at ? Math.floor(Date.parse(at) / 1000) : now);
  // The log is lived again when the hand rests, not at every pixel.
  useEffect(() => {
    if (drawn === null) return;
    const timer = setTimeout(() => {
      go(drawn >= Math.floor(Date.now() / 1000) - 1 ? undefined : new Date(drawn * 1000).toISOString());
      setDrawn(null);
    }, 180);
    return () => clearTimeout(timer);
  }, [drawn, go]);
  const d = new Date(wanted * 1000);
  const today = d.toDateString() === new Date().toDateString();
  const time = `${today ? '' : `${exact(d.getTime()).slice(0, 10)} `}${d.toLocaleTimeString('en-GB')}`;
  const past = at !== undefined || drawn !== null;
  return (
    <div className={past ? 'time-bar past' : 'time-bar'}>
      <button type="button" aria-pressed={!past} onClick={() => go(undefined)}>
        Live
      </button>
      <input
        type="range"
        aria-label="Time"
        aria-valuetext={past ? time : 'now'}
        min={from}
        max={now}
        step={1}
        value={wanted}
        onChange={(e) => setDrawn(Number(e.target.value))}
      />
      <output>{past ? `${time}, ${span((now - wanted) * 1000)} ago` : 'now'}</output>
      <span className="dim" role="status">
        {error
          ? error.message
          : past
            ? busy
              ? 'reading the log'
              : 'as the log has it; load, temperature and power only for the last ten minutes'
            : ''}
      </span>
    </div>
  );
}
