import { Link } from '@tanstack/react-router';
import { useMemo } from 'react';
import { useFleet } from '../live/context';
import { type Fleet, useRevision } from '../live/fleet';
import { Flag } from '../live/frame';
import { type Class, classColor, classOf } from '../map/colors';
import { count, Empty } from '../ui/parts';
import { useTheme } from '../ui/theme';

interface Leaf {
  name: string;
  nodes: number;
  gpus: number;
  racks: { name: string; nodes: number[] }[];
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
      leaf = { name: rack.leaf, nodes: 0, gpus: 0, racks: [] };
      spine.leaves.push(leaf);
    }
    let last = leaf.racks[leaf.racks.length - 1];
    if (last?.name !== rack.rack) {
      last = { name: rack.rack, nodes: [] };
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

/** The worst that any GPU of a node is. */
function worst(fleet: Fleet, n: number): Class {
  const { columns: c, layout, first } = fleet;
  if (!c || !layout) return 'unknown';
  const order: Class[] = ['lost', 'out', 'suspect', 'testing', 'away', 'held', 'free', 'unknown'];
  let at = order.length - 1;
  for (let i = first[n]; i < first[n + 1]; i++) {
    at = Math.min(at, order.indexOf(classOf(layout.states[c.state[i]], c.flags[i])));
  }
  return order[at];
}

/** Racks under leaves under spines. */
export function TopologyPage() {
  const fleet = useFleet();
  const revision = useRevision(fleet);
  const theme = useTheme();
  const layout = fleet.layout;
  // biome-ignore lint/correctness/useExhaustiveDependencies: the tree follows the layout
  const spines = useMemo(() => tree(fleet), [layout]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the picture changes in place, with its revision
  const kinds = useMemo(
    () => (layout ? layout.nodes.map((_, n) => worst(fleet, n)) : []),
    [layout, revision],
  );
  if (!layout)
    return (
      <main className="page" id="page">
        <p className="state" role="status">
          Waiting for the first picture…
        </p>
      </main>
    );
  return (
    <main className="page" id="page">
      <div className="head">
        <h1>Topology</h1>
        <span className="dim">
          {count(spines.length, 'spine')},{' '}
          {count(
            spines.reduce((n, s) => n + s.leaves.length, 0),
            'leaf',
            'leaves',
          )}
          , {count(layout.racks.length, 'rack')}, {count(layout.nodes.length, 'node')}. A node has the colour
          of the worst of its GPUs.
        </span>
      </div>
      {layout.nodes.length === 0 && (
        <Empty title="No nodes yet">
          <p>
            <code>muster topology apply FILE</code> says where nodes stand, also before they join.
          </p>
        </Empty>
      )}
      {spines.map((s) => (
        <section className="panel" key={s.path}>
          <header>
            <h2>{s.path}</h2>
            <span className="grow">
              {count(s.leaves.length, 'leaf', 'leaves')}, {count(s.nodes, 'node')}, {count(s.gpus, 'GPU')}
            </span>
          </header>
          <div className="leaves">
            {s.leaves.map((l) => {
              const open =
                fleet.columns &&
                l.racks.some((r) =>
                  r.nodes.some(
                    (n) =>
                      (fleet.columns as NonNullable<Fleet['columns']>).flags[fleet.first[n]] & Flag.breaker,
                  ),
                );
              return (
                <div className={open ? 'leaf tripped' : 'leaf'} key={l.name}>
                  <h3>
                    <Link to="/" search={{ find: l.name }}>
                      {l.name}
                    </Link>{' '}
                    <span className="dim">
                      {count(l.nodes, 'node')}
                      {open ? ', a breaker is open' : ''}
                    </span>
                  </h3>
                  <div className="racks">
                    {l.racks.map((r) => (
                      <div className="rack" key={r.name}>
                        <span className="dim cut">{r.name}</span>
                        {r.nodes.map((n) => (
                          <Link
                            key={n}
                            to="/nodes/$name"
                            params={{ name: layout.nodes[n].name }}
                            style={{ borderLeftColor: classColor(kinds[n] ?? 'unknown', theme) }}
                            className="cut"
                            title={`${layout.nodes[n].name}: ${kinds[n] ?? ''}`}
                          >
                            {layout.nodes[n].name}
                          </Link>
                        ))}
                      </div>
                    ))}
                  </div>
                </div>
              );
            })}
          </div>
        </section>
      ))}
    </main>
  );
}
