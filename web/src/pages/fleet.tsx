import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { Link, useNavigate, useSearch } from '@tanstack/react-router';
import { useEffect, useMemo, useRef, useState } from 'react';
import { useAvoided } from '../live/avoided';
import { useFleet } from '../live/context';
import { type Picture, past, type Standing, useRevision } from '../live/fleet';
import { MODES, painter, usage } from '../map/colors';
import { find } from '../map/find';
import { FleetMap } from '../map/fleet-map';
import { logBegins } from '../queries';
import { useRights } from '../rights';
import { pageNamed, pagesFor } from '../ui/pages';
import { age, count, Empty, Problem } from '../ui/parts';
import { useTheme } from '../ui/theme';
import { wall } from '../ui/zone';

/** Clocks differ a little: what is so close to now is now. */
const NEAR = 60_000;

/** Has this moment not come yet? `now`: by the server's clock, where that is known. */
export function ahead(at: string, now: number): boolean {
  return Date.parse(at) > Math.max(now, Date.now()) + NEAR;
}

/** Is this no moment at all? */
export function senseless(at: string | undefined): at is string {
  return at !== undefined && Number.isNaN(Date.parse(at));
}

const NOTHING: Picture = {
  layout: null,
  first: new Uint32Array(1),
  nodeOf: new Uint32Array(0),
  columns: null,
  tenants: [],
  versions: [],
};

export function FleetPage() {
  const live = useFleet();
  const revision = useRevision(live);
  const theme = useTheme();
  const search = useSearch({ from: '/' });
  const navigate = useNavigate({ from: '/' });
  const mode = search.by ?? 'state';
  const at = search.at;
  const future = at !== undefined && ahead(at, live.at);
  const none = future || senseless(at);
  const then = useQuery({
    queryKey: ['past', at],
    queryFn: ({ signal }) => past(new Date(at ?? ''), signal),
    enabled: at !== undefined && !none,
    placeholderData: keepPreviousData,
    gcTime: 10_000,
    retry: false,
  });
  // Until the log is read the map stays, and the bar says of when it is. Of a moment that cannot be shown there is none.
  const shown = mapOf(at, none, then, live);
  const fleet = shown ?? NOTHING;
  // What waited then is not told of a moment that has passed.
  const avoided = useAvoided();
  const now = fleet === live ? avoided : undefined;
  const box = useRef<HTMLInputElement>(null);
  const [words, setWords] = useState(search.find ?? '');
  // biome-ignore lint/correctness/useExhaustiveDependencies: the picture changes in place, with its revision
  const paint = useMemo(() => painter(fleet, mode, theme, now), [fleet, mode, theme, now, revision]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: as above
  const found = useMemo(() => (words ? find(fleet, words) : null), [fleet, words, revision]);

  useEffect(() => {
    if (search.search) box.current?.focus();
  }, [search.search]);

  const rights = useRights();
  const { whole } = rights;
  const page = found?.gpus === 0 ? pageNamed(words, pagesFor(rights)) : null;
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
                : `${count(found.gpus, 'GPU')} on ${count(found.nodes.length, 'node')}`}
            {found.nodes.length === 1 && ', Enter opens it'}
          </span>
        )}
      </div>
      <div className="legend-bar">{paint && <Legend paint={paint} use={usage(fleet)} />}</div>
      <TimeBar
        at={at}
        shown={shown !== undefined}
        busy={then.isFetching}
        other={then.isPlaceholderData ? 'another moment' : then.data ? null : 'now'}
        standing={live.standing}
        seen={live.at}
        go={(to) => void navigate({ search: { ...search, at: to }, replace: true })}
      />
      {at !== undefined && shown === undefined ? (
        <NoMoment at={at} error={none ? null : then.error} />
      ) : total > 0 && paint ? (
        <FleetMap
          fleet={fleet}
          paint={paint}
          match={found?.match ?? null}
          avoided={now}
          revision={revision}
          past={at}
        />
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

/** Which map is shown at a moment that is asked for: never that of now once it is known that there is none of then. */
export function mapOf(
  at: string | undefined,
  none: boolean,
  then: { data?: Picture; isError: boolean },
  live: Picture,
): Picture | undefined {
  if (at === undefined) return live;
  if (none) return undefined;
  return then.data ?? (then.isError ? undefined : live);
}

/** Why there is no map of the moment that is asked for: null when it has not come yet. */
function NoMoment({ at, error }: { at: string; error: Error | null }) {
  const why = senseless(at)
    ? `“${at}” in the address is no moment: write it as in ?at=2030-01-31T03:12:00Z`
    : error?.message;
  return (
    <Empty title={why ? 'There is no map of this moment' : 'This moment has not come yet'}>
      {why && <p>{why}</p>}
      <p>Press Live for the map of now.</p>
    </Empty>
  );
}

function Legend({
  paint,
  use,
}: {
  paint: NonNullable<ReturnType<typeof painter>>;
  use: ReturnType<typeof usage>;
}) {
  const { legend, scale } = paint;
  const number = (n: number) => n.toLocaleString('en');
  return (
    <ul className="legend" aria-label="Legend">
      <li title="Allocated: a job has it, whatever is wrong there. Free: no job has it and new work may go there. Spare: waits to replace a node that fails.">
        {number(use.held)} allocated, {number(use.free)} free
        {use.spare > 0 && `, ${number(use.spare)} spare`}
        <span className="dim">of {number(use.held + use.free + use.spare + use.neither)} GPUs</span>
      </li>
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
          {l.count !== undefined && <span className="dim">{number(l.count)}</span>}
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

/** The moment in words: never `now` when nothing comes, nor `ago` when it is ahead. */
export function momentWords(wanted: number, now: number): string {
  const { date, time } = wall(wanted);
  const day = date === wall(now).date ? '' : `${date} `;
  const far = wanted > now + NEAR ? `in ${age(wanted - now)}` : `${age(now - wanted)} ago`;
  return `${day}${time}, ${far}`;
}

/** What did it look like at 03:12? */
function TimeBar({
  at,
  shown,
  busy,
  other,
  standing,
  seen,
  go,
}: {
  at: string | undefined;
  /** A map is shown. */
  shown: boolean;
  busy: boolean;
  /** The map that is shown meanwhile. */
  other: string | null;
  standing: Standing;
  /** When the newest frame was made. */
  seen: number;
  go: (to: string | undefined) => void;
}) {
  const begin = useQuery(logBegins());
  const now = Math.floor(Date.now() / 1000);
  const from = begin.data ? Math.ceil(Date.parse(begin.data) / 1000) : now;
  const [drawn, setDrawn] = useState<number | null>(null);
  const wanted = drawn ?? (at && !senseless(at) ? Math.floor(Date.parse(at) / 1000) : now);
  // The log is lived again when the hand rests, not at every pixel.
  useEffect(() => {
    if (drawn === null) return;
    const timer = setTimeout(() => {
      go(drawn >= Math.floor(Date.now() / 1000) - 1 ? undefined : new Date(drawn * 1000).toISOString());
      setDrawn(null);
    }, 180);
    return () => clearTimeout(timer);
  }, [drawn, go]);
  const past = at !== undefined || drawn !== null;
  const stale = standing === 'away';
  const words =
    drawn === null && senseless(at)
      ? 'no moment'
      : past
        ? momentWords(wanted * 1000, now * 1000)
        : !stale
          ? 'now'
          : seen > 0
            ? `not now: as of ${momentWords(seen, now * 1000)}`
            : 'nothing read yet';
  return (
    <div className={past ? 'time-bar past' : stale ? 'time-bar stale' : 'time-bar'}>
      <button type="button" aria-pressed={!past} onClick={() => go(undefined)}>
        Live
      </button>
      <input
        type="range"
        aria-label="Time"
        aria-valuetext={words}
        min={from}
        max={now}
        step={1}
        value={wanted}
        onChange={(e) => setDrawn(Number(e.target.value))}
      />
      <output>{words}</output>
      <span className="dim" role="status">
        {!past || !shown
          ? ''
          : busy
            ? `reading the log${other ? `; the map still shows ${other}` : ''}`
            : 'as the log has it; load, temperature and power only for the last ten minutes'}
      </span>
    </div>
  );
}
