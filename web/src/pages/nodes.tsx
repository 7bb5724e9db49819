import { useInfiniteQuery } from '@tanstack/react-query';
import { Link, useNavigate, useSearch } from '@tanstack/react-router';
import type { Schemas } from '../api/client';
import { hazardWords } from '../map/colors';
import { nodes } from '../queries';
import { Choice } from '../ui/choice';
import { useMore } from '../ui/paged';
import { Empty, Loaded, NodeState } from '../ui/parts';
import { Rows } from '../ui/virtual';
import { gpusWords, probationWords, standing } from '../words';

const STATES = [
  '',
  'ready',
  'cordoned',
  'draining',
  'drained',
  'suspect',
  'quarantined',
  'repairing',
  'qualifying',
  'lost',
];
const COLUMNS = 'minmax(120px, 0.8fr) 170px 130px 70px minmax(180px, 1fr) 100px minmax(160px, 2.6fr)';

type Reasons = Pick<
  Schemas['Node'],
  'state' | 'avoided' | 'no_new_work' | 'stage_why' | 'cordon' | 'probation'
>;

export const why = (n: Reasons) =>
  // Of a node that serves the stage says how it came back, which is on its page: nothing is wrong.
  standing(n).why ?? (n.state === 'ready' ? probationWords(n) : n.stage_why) ?? n.cordon ?? '';

export function NodesPage() {
  const search = useSearch({ from: '/nodes' });
  const navigate = useNavigate({ from: '/nodes' });
  const state = search.state ?? '';
  const query = useInfiniteQuery(nodes(state));
  const more = useMore(query);
  return (
    <main className="page full list" id="page">
      <div className="map-bar">
        <h1>Nodes</h1>
        <Choice
          label="Which nodes"
          of={STATES.map((s) => [s, s || 'all'] as const)}
          chosen={state}
          choose={(s) => void navigate({ search: { state: s || undefined }, replace: true })}
        />
      </div>
      <Loaded query={query}>
        {(data) => {
          const items = data.pages.flatMap((p) => p.items);
          if (items.length === 0)
            return (
              <Empty title={state ? `No node is ${state}` : 'No nodes yet'}>
                {!state && (
                  <p>
                    A node appears as soon as its agent has joined: <code>muster agent run --join TOKEN</code>
                    .
                  </p>
                )}
              </Empty>
            );
          return (
            <Rows
              items={items}
              columns={COLUMNS}
              label="Nodes"
              more={more}
              header={
                <>
                  <span>Node</span>
                  <span>State</span>
                  <span>GPUs</span>
                  <span>Allocated</span>
                  <span>Place</span>
                  <span>Hazard</span>
                  <span>Why</span>
                </>
              }
              row={(n) => (
                <Link to="/nodes/$name" params={{ name: n.name }} className="grid-row">
                  <span className="cut" title={n.name}>
                    {n.name}
                  </span>
                  <span>
                    <NodeState of={n} />
                    {n.role === 'spare' && <span className="dim"> spare</span>}
                  </span>
                  <span className="cut" title={`${gpusWords(n)} ${n.sku}`}>
                    {gpusWords(n)} {n.sku}
                  </span>
                  <span data-l="allocated">{n.gpus_used}</span>
                  <span
                    className="cut dim"
                    title={`${n.location.spine} / ${n.location.leaf} / ${n.location.rack}`}
                  >
                    <span className="wide">{n.location.spine} / </span>
                    {n.location.leaf} / {n.location.rack}
                  </span>
                  <span data-l="hazard">{hazardWords(n.state, n.hazard, null)}</span>
                  <span className="cut dim" title={why(n)}>
                    {why(n)}
                  </span>
                </Link>
              )}
            />
          );
        }}
      </Loaded>
    </main>
  );
}
