import { useQuery } from '@tanstack/react-query';
import { Link, useNavigate, useSearch } from '@tanstack/react-router';
import { useMemo } from 'react';
import { api, once, type Schemas } from '../api/client';
import { type Avoided, useAvoided } from '../live/avoided';
import { useFleet } from '../live/context';
import { type Fleet, useRevision } from '../live/fleet';
import { Flag } from '../live/frame';
import { CLASS_WORDS, type Class, classColor, classOf } from '../map/colors';
import { fabric, linkFindings } from '../queries';
import { useRights } from '../rights';
import {
  links as gather,
  type Links,
  type Link as NetLink,
  pairWords,
  STANDING_WORDS,
  type Standing,
  tally,
} from '../topo/links';
import { tripped } from '../topo/tripped';
import { useAct } from '../ui/act';
import { useAsk } from '../ui/ask';
import { Page } from '../ui/page';
import { Ago, count, Empty, Panel } from '../ui/parts';
import { useTheme } from '../ui/theme';

interface Leaf {
  name: string;
  path: string;
  nodes: number;
  gpus: number;
  racks: { name: string; feed: string; nodes: number[] }[];
}
interface Spine {
  path: string;
  leaves: Leaf[];
  nodes: number;
  gpus: number;
}

function tree(fleet: Fleet): Spine[] {
  const out: Spine[] = [];
  fleet.layout?.nodes.forEach((n, i) => {
    const rack = (fleet.layout as NonNullable<Fleet['layout']>).racks[n.rack];
    const path = [rack.region, rack.cluster, rack.spine].join(' / ');
    let spine = out[out.length - 1];
    if (spine?.path !== path) {
      spine = { path, leaves: [], nodes: 0, gpus: 0 };
      out.push(spine);
    }
    let leaf = spine.leaves[spine.leaves.length - 1];
    if (leaf?.name !== rack.leaf) {
      const whole = [rack.region, rack.cluster, rack.spine, rack.leaf].join('/');
      leaf = { name: rack.leaf, path: whole, nodes: 0, gpus: 0, racks: [] };
      spine.leaves.push(leaf);
    }
    let last = leaf.racks[leaf.racks.length - 1];
    if (last?.name !== rack.rack) {
      last = { name: rack.rack, feed: rack.feed, nodes: [] };
      leaf.racks.push(last);
    }
    last.nodes.push(i);
    for (const at of [spine, leaf]) {
      at.nodes++;
      at.gpus += n.gpus;
    }
  });
  return out;
}

const ORDER: Class[] = [
  'lost',
  'out',
  'suspect',
  'testing',
  'away',
  'avoided',
  'allocated',
  'free',
  'unknown',
];

/** The worst that any GPU of a node is. */
function worst(fleet: Fleet, n: number, names: Avoided): Class {
  const { columns: c, layout, first } = fleet;
  if (!c || !layout) return 'unknown';
  const avoided = names.has(layout.nodes[n].name);
  let at = ORDER.length - 1;
  for (let i = first[n]; i < first[n + 1]; i++) {
    at = Math.min(at, ORDER.indexOf(classOf(layout.states[c.state[i]], c.flags[i], avoided)));
  }
  return ORDER[at];
}

const ILL: Standing[] = ['undecided', 'slow', 'down'];
const ill = (l: NetLink | undefined) => l !== undefined && ILL.includes(l.standing);
const says = (l: NetLink | undefined) =>
  l ? [STANDING_WORDS[l.standing], ...l.why].join('\n') : STANDING_WORDS.unknown;

/** Racks under leaves under spines, and how the links between them stand. */
export function TopologyPage() {
  const fleet = useFleet();
  const revision = useRevision(fleet);
  const theme = useTheme();
  const { only } = useSearch({ from: '/topology' });
  const { whole, project, operates } = useRights();
  const layout = fleet.layout;
  const avoided = useAvoided();
  const tests = useQuery({ ...fabric(), enabled: operates });
  const found = useQuery(linkFindings());
  // biome-ignore lint/correctness/useExhaustiveDependencies: the tree follows the layout
  const spines = useMemo(() => tree(fleet), [layout]);
  const known: Links = useMemo(() => {
    const leaf = new Map<string, string>();
    for (const s of spines)
      for (const l of s.leaves)
        for (const r of l.racks) for (const n of r.nodes) leaf.set(layout?.nodes[n].name ?? '', l.path);
    return gather((n) => leaf.get(n) ?? null, found.data?.items ?? [], tests.data?.newest ?? null);
  }, [spines, layout, found.data, tests.data]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the picture changes in place, with its revision
  const kinds = useMemo(
    () => (layout ? layout.nodes.map((_, n) => worst(fleet, n, avoided)) : []),
    [layout, avoided, revision],
  );
  if (!layout)
    return (
      <main className="page" id="page">
        <p className="state" role="status">
          Waiting for the first snapshot…
        </p>
      </main>
    );
  const wrong = (l: Leaf) =>
    ill(known.leaves.get(l.path)) ||
    l.racks.some((r) =>
      r.nodes.some((n) => {
        const name = layout.nodes[n].name;
        return ill(known.nodes.get(name)) || known.inside.has(name) || ORDER.indexOf(kinds[n]) < 3;
      }),
    );
  const shown = only ? spines.map((s) => ({ ...s, leaves: s.leaves.filter(wrong) })) : spines;
  return (
    <Page
      title="Topology"
      about={
        <span className="dim">
          {count(spines.length, 'spine')},{' '}
          {count(
            spines.reduce((n, s) => n + s.leaves.length, 0),
            'leaf',
            'leaves',
          )}
          , {count(layout.racks.length, 'rack')}, {count(layout.nodes.length, 'node')}
        </span>
      }
    >
      {layout.nodes.length === 0 ? (
        <Empty title="No nodes yet">
          <p>
            <code>muster topology apply FILE</code> sets the location of nodes, also before they join. Without
            a file each node is where its agent reports, or alone.
          </p>
        </Empty>
      ) : (
        <>
          <Health
            known={known}
            nodes={layout.nodes.length}
            tests={tests}
            barred={whole !== null && !operates}
            kinds={kinds}
          />
          {shown
            .filter((s) => s.leaves.length > 0)
            .map((s) => (
              <section className="panel spine" key={s.path}>
                <header>
                  <h2>{s.path}</h2>
                  <span className="grow">
                    {count(s.leaves.length, 'leaf', 'leaves')}, {count(s.nodes, 'node')},{' '}
                    {count(s.gpus, 'GPU')}
                  </span>
                </header>
                <div className="leaves">
                  {s.leaves.map((l) => (
                    <LeafBox key={l.path} leaf={l} fleet={fleet} known={known} kinds={kinds} theme={theme} />
                  ))}
                </div>
              </section>
            ))}
          {only && shown.every((s) => s.leaves.length === 0) && (
            <Empty
              title={
                project
                  ? 'No node is out of service. The state of links is not shown to this token.'
                  : 'Every link and every node is healthy, as far as is known'
              }
            />
          )}
        </>
      )}
    </Page>
  );
}

function LeafBox({
  leaf: l,
  fleet,
  known,
  kinds,
  theme,
}: {
  leaf: Leaf;
  fleet: Fleet;
  known: Links;
  kinds: Class[];
  theme: 'dark' | 'light';
}) {
  const layout = fleet.layout as NonNullable<Fleet['layout']>;
  const flags = fleet.columns?.flags;
  const open = tripped(l.racks, (n) => !!flags && (flags[fleet.first[n]] & Flag.breaker) !== 0);
  const up = known.leaves.get(l.path);
  return (
    <div className={open.whole ? 'leaf tripped' : 'leaf'}>
      <span className={`uplink link-${up?.standing ?? 'unknown'}`} title={says(up)} />
      <h3>
        <Link to="/" search={{ find: l.name }}>
          {l.name}
        </Link>{' '}
        <span className="dim">
          {count(l.nodes, 'node')}
          {open.count > 0
            ? `, a breaker is open${open.whole ? '' : ` for ${count(open.count, 'node')}`}`
            : ''}
          {ill(up) ? `, ${STANDING_WORDS[up?.standing ?? 'slow']}` : ''}
        </span>
      </h3>
      <div className="racks">
        {l.racks.map((r) => (
          <div className={open.racks.has(r.name) ? 'rack tripped' : 'rack'} key={r.name}>
            <span className="dim cut" title={r.feed ? `feed ${r.feed}` : undefined}>
              {r.name}
            </span>
            {r.nodes.map((n) => {
              const name = layout.nodes[n].name;
              const link = known.nodes.get(name);
              const inside = known.inside.get(name);
              return (
                <Link
                  key={n}
                  to="/nodes/$name"
                  params={{ name }}
                  className={open.nodes.has(n) ? 'tripped' : undefined}
                  style={{ borderLeftColor: classColor(kinds[n] ?? 'unknown', theme) }}
                  title={`${name}: ${CLASS_WORDS[kinds[n] ?? 'unknown']}\nlink: ${says(link)}${inside ? `\nNVLink: ${says(inside)}` : ''}`}
                >
                  <span className="cut">{name}</span>
                  {inside && <b className={`nv link-${inside.standing}`}>NV</b>}
                  <i className={`tick link-${link?.standing ?? 'unknown'}`} />
                </Link>
              );
            })}
          </div>
        ))}
      </div>
    </div>
  );
}

type Tests = ReturnType<typeof useQuery<{ newest: Schemas['FabricTest'] | null; going: number }>>;

/** Legend, counts, the last test, and a button for the next. */
function Health({
  known,
  nodes,
  tests,
  barred,
  kinds,
}: {
  known: Links;
  nodes: number;
  tests: Tests;
  /** This token may not know of them. */
  barred: boolean;
  kinds: Class[];
}) {
  const { only } = useSearch({ from: '/topology' });
  const navigate = useNavigate({ from: '/topology' });
  const theme = useTheme();
  const { operates } = useRights();
  const ask = useAsk();
  const { act, busy } = useAct();
  const newest = tests.data?.newest ?? null;
  const states = ORDER.filter((c) => kinds.includes(c));
  return (
    <Panel
      title="Links"
      note={
        barred ? (
          'tests of the network are for operators'
        ) : tests.data?.going ? (
          'a test runs'
        ) : newest ? (
          <>
            tested <Ago at={newest.ended_at ?? newest.asked_at} /> by {newest.by.replace(/^user:/, '')}:{' '}
            {count(newest.pairs.length, 'pair')}, {count(newest.paths.length, 'slow path')}
          </>
        ) : (
          'not tested since this server started'
        )
      }
      actions={
        <>
          <label className="row">
            <input
              type="checkbox"
              checked={!!only}
              onChange={(e) =>
                void navigate({ search: { only: e.target.checked || undefined }, replace: true })
              }
            />
            only what is not healthy
          </label>
          {operates && (
            <button
              type="button"
              disabled={busy || !!tests.data?.going}
              onClick={async () => {
                const yes = await ask({
                  title: 'Test the network',
                  text: 'Idle nodes send to each other in pairs, round by round. Nodes with work are left alone.',
                  act: 'Test',
                });
                if (yes === null) return;
                await act(
                  () => api.POST('/v1/fabric/tests', { params: { header: once() } }),
                  'The test has begun',
                );
                void tests.refetch();
              }}
            >
              Test the network
            </button>
          )}
        </>
      }
    >
      <div className="body">
        <ul className="legend">
          {tally(known.nodes.values(), nodes).map(([s, n]) => (
            <li key={s}>
              <i className={`tick link-${s}`} />
              {STANDING_WORDS[s]} <span className="dim">{count(n, 'node')}</span>
            </li>
          ))}
          {known.inside.size > 0 && (
            <li>
              <b className="nv link-slow">NV</b> links between its GPUs fail{' '}
              <span className="dim">{count(known.inside.size, 'node')}</span>
            </li>
          )}
          <li className="dim">
            right edge of a node: its link; line into a leaf: its way to the other leaves
          </li>
        </ul>
        <ul className="legend">
          {states.map((c) => (
            <li key={c}>
              <i style={{ background: classColor(c, theme) }} />
              {CLASS_WORDS[c]}{' '}
              <span className="dim">{count(kinds.filter((k) => k === c).length, 'node')}</span>
            </li>
          ))}
          <li className="dim">left edge: the worst of its GPUs</li>
        </ul>
        {known.paths.length > 0 && (
          <ul className="evidence">
            {known.paths.slice(0, 8).map((p) => (
              <li key={`${p.a} ${p.b}`}>
                {p.a} to {p.b} ({p.class}): {pairWords(p)}
              </li>
            ))}
            {known.paths.length > 8 && <li>and {known.paths.length - 8} more</li>}
          </ul>
        )}
        {newest?.error && <p className="dim">The last test could not be done: {newest.error}</p>}
      </div>
    </Panel>
  );
}
