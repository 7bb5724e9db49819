import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { Link, useNavigate, useSearch } from '@tanstack/react-router';
import { useCallback, useEffect, useMemo, useRef, useState } from 'react';
import { useAvoided } from '../live/avoided';
import { useFleet } from '../live/context';
import { NOTHING, type Picture, past, useRevision } from '../live/fleet';
import { MODES, painter, usage } from '../map/colors';
import { find } from '../map/find';
import { FleetMap } from '../map/fleet-map';
import { useRights } from '../rights';
import { REFUSAL, TimeBar } from '../time/bar';
import { ahead, senseless } from '../time/moment';
import { PastPanel } from '../time/panel';
import { knownMetrics, openedOf, openText } from '../time/then';
import { Choice } from '../ui/choice';
import { pageNamed, pagesFor } from '../ui/pages';
import { count, Empty, Problem } from '../ui/parts';
import { Skeleton } from '../ui/skeleton';
import { useTheme } from '../ui/theme';

export function FleetPage() {
  const live = useFleet();
  const revision = useRevision(live);
  const theme = useTheme();
  const search = useSearch({ from: '/' });
  const navigate = useNavigate({ from: '/' });
  const mode = search.by ?? 'state';
  const at = search.at;
  const future = at !== undefined && ahead(at, live.at);
  // Of a time that was typed and cannot be shown; it holds until another is gone to.
  const [said, say] = useState<{ at: string | undefined; why: string } | null>(null);
  const refused = said && said.at === at ? said.why : null;
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
  const shown = refused === null ? mapOf(at, none, then, live) : undefined;
  const fleet = shown ?? NOTHING;
  // What waited then is not reported of a moment that has passed.
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
  const openNode = (n: number) => {
    const name = fleet.layout?.nodes[n]?.name;
    if (!name) return;
    // A node of a map of the past opens as it was.
    if (at !== undefined) void navigate({ search: { ...search, open: `node:${name}` } });
    else void navigate({ to: '/nodes/$name', params: { name } });
  };
  const openGpu = (gpu: number) => {
    const n = fleet.nodeOf[gpu];
    const node = fleet.layout?.nodes[n];
    if (at === undefined || !node || node.gpus === 0) openNode(n);
    else void navigate({ search: { ...search, open: `gpu:${node.name}/${gpu - fleet.first[n]}` } });
  };
  const open = () => {
    if (page) void navigate({ to: page.to });
    else if (found?.nodes.length === 1) openNode(found.nodes[0]);
  };
  // What was opened stays open from moment to moment; live, pages of their own are opened.
  const go = useCallback(
    (to: string | undefined) => {
      say(null);
      void navigate({
        search: (old) => ({ ...old, at: to, ...(to === undefined && { open: undefined }) }),
        replace: true,
      });
    },
    [navigate],
  );
  const opened = at === undefined ? null : openedOf(search.open);
  const total = fleet.columns?.state.length ?? 0;
  return (
    <main className="page full map" id="page">
      <div className="map-bar">
        <h1 className="skip">Fleet</h1>
        <Choice
          label="Colour by"
          of={MODES.filter((m) => whole !== false || !m.site).map((m) => [m.mode, m.label, m.what] as const)}
          chosen={mode}
          choose={(m) =>
            void navigate({ search: { ...search, by: m === 'state' ? undefined : m }, replace: true })
          }
        />
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
              search: { ...search, search: undefined, find: e.target.value || undefined },
              replace: true,
            });
          }}
          onKeyDown={(e) => {
            if (e.key === 'Enter') open();
            if (e.key === 'Escape') {
              setWords('');
              e.currentTarget.blur();
              void navigate({ search: { ...search, search: undefined, find: undefined }, replace: true });
            }
          }}
        />
        {found && (
          <span className="dim" role="status">
            {page
              ? `Enter opens ${page.label}`
              : found.gpus === 0
                ? 'nothing matches: type part of a node, rack, leaf, project or SKU, job 42, or a state such as ready'
                : `${count(found.gpus, 'GPU')} on ${count(found.nodes.length, 'node')}`}
            {found.nodes.length === 1 && ', Enter opens it'}
          </span>
        )}
      </div>
      <div className="legend-bar">{paint && <Legend paint={paint} use={usage(fleet)} />}</div>
      <TimeBar
        at={at}
        span={search.span}
        note={pastNote(at, shown, then)}
        standing={live.standing}
        seen={live.at}
        go={go}
        stretch={(span) => void navigate({ search: { ...search, span }, replace: true })}
        refused={refused}
        refuse={(why) => say(why === null ? null : { at, why })}
      />
      {refused !== null ? (
        <Empty title="There is no map of this moment">
          <p id={REFUSAL} role="alert">
            {refused}
          </p>
          <p>Press Live for the map of now.</p>
        </Empty>
      ) : at !== undefined && shown === undefined ? (
        <NoMoment at={at} error={none ? null : then.error} />
      ) : total > 0 && paint ? (
        <div className="map-row">
          <FleetMap
            fleet={fleet}
            paint={paint}
            match={found?.match ?? null}
            avoided={now}
            revision={revision}
            open={openGpu}
          />
          {opened && at !== undefined && (
            <PastPanel
              fleet={then.isPlaceholderData ? undefined : then.data}
              at={at}
              opened={opened}
              show={(next) =>
                void navigate({ search: { ...search, open: next ? openText(next) : undefined } })
              }
            />
          )}
        </div>
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
        <Skeleton lines={8} say="Waiting for the first snapshot…" />
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

/** What is said beside the time: of when the map is, and where its metrics come from. */
export function pastNote(
  at: string | undefined,
  shown: Picture | undefined,
  then: { data?: Picture; isFetching: boolean; isPlaceholderData: boolean },
): string {
  if (at === undefined || !shown) return '';
  if (then.isFetching) {
    const other = then.isPlaceholderData ? 'another moment' : then.data ? null : 'now';
    return `reading the log${other ? `; the map still shows ${other}` : ''}`;
  }
  const metrics =
    knownMetrics(shown) > 0 ? 'metrics from the history' : 'no metrics are stored of this moment';
  return `as the log has it; ${metrics}`;
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
        {number(use.allocated)} allocated, {number(use.free)} free
        {use.spare > 0 && `, ${number(use.spare)} spare`}
        <span className="dim">of {number(use.allocated + use.free + use.spare + use.neither)} GPUs</span>
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
