import { Link, useNavigate, useSearch } from '@tanstack/react-router';
import { useEffect, useMemo, useRef, useState } from 'react';
import { useFleet } from '../live/context';
import { useRevision } from '../live/fleet';
import { MODES, painter } from '../map/colors';
import { find } from '../map/find';
import { FleetMap } from '../map/fleet-map';
import { Empty, Problem } from '../ui/parts';
import { useTheme } from '../ui/theme';

export function FleetPage() {
  const fleet = useFleet();
  const revision = useRevision(fleet);
  const theme = useTheme();
  const search = useSearch({ from: '/' });
  const navigate = useNavigate({ from: '/' });
  const mode = search.by ?? 'state';
  const box = useRef<HTMLInputElement>(null);
  const [words, setWords] = useState(search.find ?? '');
  // biome-ignore lint/correctness/useExhaustiveDependencies: the picture changes in place, with its revision
  const paint = useMemo(() => painter(fleet, mode, theme), [fleet, mode, theme, revision]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: as above
  const found = useMemo(() => (words ? find(fleet, words) : null), [fleet, words, revision]);

  useEffect(() => {
    if (search.search) box.current?.focus();
  }, [search.search]);

  const open = () => {
    if (found?.nodes.length === 1) {
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
          {MODES.map((m) => (
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
          aria-label="Search nodes, racks, projects and jobs"
          placeholder="node, rack, project, job 42"
          value={words}
          onChange={(e) => {
            setWords(e.target.value);
            void navigate({ search: { by: search.by, find: e.target.value || undefined }, replace: true });
          }}
          onKeyDown={(e) => {
            if (e.key === 'Enter') open();
            if (e.key === 'Escape') {
              setWords('');
              e.currentTarget.blur();
              void navigate({ search: { by: search.by }, replace: true });
            }
          }}
        />
        {found && (
          <span className="dim" role="status">
            {found.gpus === 0
              ? 'nothing matches'
              : `${found.gpus.toLocaleString('en')} GPUs on ${found.nodes.length.toLocaleString('en')} nodes`}
            {found.nodes.length === 1 && ', Enter opens it'}
          </span>
        )}
      </div>
      <div className="legend-bar">{paint && <Legend paint={paint} />}</div>
      {total > 0 && paint ? (
        <FleetMap paint={paint} match={found?.match ?? null} revision={revision} />
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
      ) : fleet.error ? (
        <Problem error={fleet.error} />
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
