import { useQuery } from '@tanstack/react-query';
import { Link, useNavigate, useParams, useSearch } from '@tanstack/react-router';
import type { Schemas } from '../api/client';
import { History } from '../history/section';
import { useFleet } from '../live/context';
import { useRevision } from '../live/fleet';
import { Flag, NO_VALUE, NONE } from '../live/frame';
import { classColor, classOf, hazardWords } from '../map/colors';
import { NodeActions } from '../nodes/actions';
import { node as nodeQuery, telemetry, timeline } from '../queries';
import { useRights } from '../rights';
import { LeftPast } from '../time/left-past';
import { Chart } from '../ui/chart';
import { JobLink } from '../ui/links';
import {
  Ago,
  bytes,
  Clock,
  Empty,
  Fact,
  For,
  Loaded,
  NodeState,
  NotShown,
  Panel,
  State,
  spaced,
} from '../ui/parts';
import { num, Table } from '../ui/table';
import { useTheme } from '../ui/theme';
import { momentWord } from '../ui/zone';
import { gpusWords, standing, stateWhy } from '../words';
import { entryWords, kindWord } from './incident-words';
import { FindingItem, RemediationItem, WORST } from './oncall';

type Node = Schemas['Node'];

export function NodePage() {
  const { name } = useParams({ from: '/nodes/$name' });
  const { past } = useSearch({ from: '/nodes/$name' });
  const query = useQuery(nodeQuery(name));
  return (
    <main className="page" id="page">
      {past && <LeftPast at={past} what="node" open={`node:${name}`} />}
      <Loaded query={query}>{(n) => <Shown node={n} />}</Loaded>
    </main>
  );
}

function Shown({ node: n }: { node: Node }) {
  const l = n.location;
  const { line } = standing(n);
  const why = stateWhy(n);
  const { whole, project, operates } = useRights();
  return (
    <>
      <div className="head">
        <h1>{n.name}</h1>
        <NodeState of={n} />
        <span className="dim">
          {why}
          {n.state_since && (
            <>
              {why && ', '}
              {why ? <Ago at={n.state_since} /> : <For at={n.state_since} />}
            </>
          )}
        </span>
        {operates && <NodeActions node={n} />}
      </div>
      {line && <p>{line}</p>}
      <Gpus name={n.name} avoided={!!n.avoided} />
      <div className="columns wide-left">
        <div>
          {n.remediation_detail && (
            <Panel title="Remediation">
              <RemediationItem remediation={n.remediation_detail} />
            </Panel>
          )}
          <Panel
            title="Open findings"
            weight="primary"
            note={n.findings?.length ? `${n.findings.length}` : ''}
          >
            {n.findings?.length ? (
              n.findings
                .toSorted((a, b) => WORST[a.severity] - WORST[b.severity])
                .map((f) => <FindingItem key={f.id} finding={f} hideNode />)
            ) : (
              <NoFindings />
            )}
          </Panel>
          <Telemetry node={n} />
          <NodeHistory node={n} />
          {whole && <Timeline name={n.name} />}
          {whole === false && (
            <NotShown
              project={project}
              what="the node's versions, agent, hazard, timeline, tests and remediations, why it is out of service, and findings that are not about jobs of this project"
            />
          )}
        </div>
        <div>
          <Panel title="Jobs here" note={`${n.gpus_used} of ${n.gpus_total} GPUs allocated`}>
            {n.jobs.length === 0 ? (
              <Empty title="Nothing is allocated here">
                <p>
                  A job that is placed here is listed with its GPUs. <code>muster explain JOB</code> says
                  which nodes a queued one was tried on.
                </p>
              </Empty>
            ) : (
              <Table cards heads={['Job', 'Project', 'State', 'GPUs']}>
                {n.jobs.map((j) => (
                  <tr key={j.id + j.name}>
                    <td>{/^\d/.test(j.id) ? <JobLink id={j.id} name={j.name} /> : j.name}</td>
                    <td data-l="project">{j.project}</td>
                    <td>
                      <State word={j.state} />
                    </td>
                    <td className="mono" data-l="GPUs">
                      {j.gpus.join(' ')}
                    </td>
                  </tr>
                ))}
              </Table>
            )}
          </Panel>
          <Panel title="Node" weight="quiet">
            <div className="body">
              <dl className="facts">
                <Fact word="place">
                  {[l.region, l.cluster, l.spine, l.leaf, l.rack].join(' / ')}
                  {l.nvlink !== n.name && `, NVLink domain ${l.nvlink}`}, feed {l.feed}
                </Fact>
                <Fact word="GPUs">
                  {gpusWords(n)} {n.sku}
                  {n.gpus_excluded.length > 0 && `, ${n.gpus_excluded.join(', ')} excluded`}
                </Fact>
                <Fact word="processors">
                  {n.cpus_used} of {n.cpus_total} allocated
                </Fact>
                <Fact word="memory">
                  {size(n.memory_used)} of {size(n.memory_total)} allocated
                </Fact>
                <Fact word="role">
                  {n.role}, pool {n.pool || 'default'}
                  {n.inventory.simulated ? ', simulated' : ''}
                </Fact>
                {whole && <Fact word="hazard">{hazardWords(n.state, n.hazard, worstOf(n))}</Fact>}
                {Object.entries(n.inventory.versions ?? {}).map(([what, version]) => (
                  <Fact key={what} word={what}>
                    {String(version)}
                  </Fact>
                ))}
                {n.inventory.kernel && <Fact word="kernel">{n.inventory.kernel}</Fact>}
                {whole && (
                  <Fact word="agent">
                    {n.agent ? (
                      <>
                        {n.agent.version}, last heartbeat <Ago at={n.agent.last_heartbeat} />
                      </>
                    ) : (
                      'not connected'
                    )}
                  </Fact>
                )}
                {n.probation && <Fact word="probation until">{momentWord(n.probation)}</Fact>}
                <Fact word="joined">
                  <Ago at={n.enrolled_at} />
                </Fact>
              </dl>
            </div>
          </Panel>
          {whole && <Qualification node={n} />}
        </div>
      </div>
    </>
  );
}

function NodeHistory({ node: n }: { node: Node }) {
  const search = useSearch({ from: '/nodes/$name' });
  const navigate = useNavigate({ from: '/nodes/$name' });
  const { whole } = useRights();
  return (
    <History
      subject={{ node: n.name }}
      visible={whole === false ? seesGpu(n) : whole}
      search={search}
      show={(part) => void navigate({ search: (old) => ({ ...old, ...part }), resetScroll: false })}
    />
  );
}

/**
 * Does a token that is bound to a project see GPUs of this node? A project sees those that are allocated to it;
 * jobs of others have no number for it.
 */
export function seesGpu(n: Pick<Node, 'jobs'>, gpu?: number): boolean {
  return n.jobs.some(
    (j) => /^\d/.test(j.id) && (gpu === undefined ? j.gpus.length > 0 : j.gpus.includes(gpu)),
  );
}

/** How bad the worst open finding of a node is. */
const worstOf = (n: Node) => (n.findings?.some((f) => f.severity === 'critical') ? 'critical' : null);

/** No finding is shown: what that means depends on what the token is shown. */
export function NoFindings() {
  const { whole, project } = useRights();
  if (whole === null) return null;
  return (
    <Empty
      title={whole ? 'Nothing is known to be wrong here' : `Nothing is known about jobs of ${project} here`}
    />
  );
}

function size(v: unknown): string {
  return typeof v === 'number' ? bytes(v) : spaced(String(v));
}

/** The GPUs of a node, live. */
function Gpus({ name, avoided }: { name: string; avoided: boolean }) {
  const fleet = useFleet();
  useRevision(fleet);
  const theme = useTheme();
  const { layout, columns: c } = fleet;
  const n = fleet.byName.get(name);
  if (!layout || !c || n === undefined || layout.nodes[n].gpus === 0) return null;
  const figure = (v: number, none: number, unit: string) => (v === none ? '–' : `${v}${unit}`);
  const all = [];
  for (let i = fleet.first[n]; i < fleet.first[n + 1]; i++) {
    const g = i - fleet.first[n];
    const word = layout.states[c.state[i]] ?? 'unknown';
    const color = classColor(classOf(word, c.flags[i], avoided), theme);
    all.push(
      <Link
        key={g}
        to="/nodes/$name/gpus/$gpu"
        params={{ name, gpu: String(g) }}
        style={{ borderLeftColor: color }}
        title={`${word}${c.flags[i] & Flag.allocated ? ', allocated' : ''}`}
      >
        <b>GPU {g}</b>
        {word === 'missing' ? (
          <span className="dim">missing</span>
        ) : (
          <span className="dim">
            {figure(c.util[i], NO_VALUE, '%')} {figure(c.temp[i], NO_VALUE, '°')}
            <br />
            {figure(c.power[i], NONE, ' W')}
          </span>
        )}
      </Link>,
    );
  }
  return (
    <Panel title="GPUs" note="now: load, temperature, power">
      <div className="body gpus">{all}</div>
    </Panel>
  );
}

const SERIES: { column: string; title: string; unit: string; most?: number }[] = [
  { column: 'util', title: 'Utilisation', unit: '%', most: 100 },
  { column: 'temp', title: 'Temperature', unit: '°C' },
  { column: 'power', title: 'Power', unit: 'W' },
  { column: 'mem_used', title: 'Memory used', unit: 'MiB' },
];

export function Telemetry({ node: n, gpu }: { node: Pick<Node, 'name' | 'jobs'>; gpu?: number }) {
  const { whole, project } = useRights();
  const reported = whole || seesGpu(n);
  const query = useQuery({ ...telemetry(n.name), enabled: whole !== null && reported });
  if (whole === false && !reported)
    return (
      <Panel title="Telemetry">
        <Empty title={`${project} has no GPU here`} />
      </Panel>
    );
  return (
    <Panel title="Telemetry" note="the last ten minutes, as far as this server received them">
      <Loaded query={query}>
        {(t) =>
          t.rows.length < 2 ? (
            <Empty title="No metrics yet">
              <p>
                Nodes send a row every ten seconds. These are stored in memory for ten minutes; History shows
                what is stored for longer.
              </p>
            </Empty>
          ) : (
            <div className="charts">
              {SERIES.filter((s) => t.gpu_columns.includes(s.column)).map((s) => {
                const at = t.gpu_columns.indexOf(s.column);
                const x = t.rows.map((r) => Date.parse(r.at) / 1000);
                const reported = [...Array(Math.max(...t.rows.map((r) => r.gpus.length))).keys()];
                const shown = gpu === undefined ? reported : reported.filter((g) => g === gpu);
                const lines = shown.map((g) => ({
                  label: `GPU ${g}`,
                  values: t.rows.map((r) => r.gpus[g]?.[at] ?? null),
                }));
                return (
                  <Chart key={s.column} title={s.title} unit={s.unit} most={s.most} x={x} lines={lines} />
                );
              })}
            </div>
          )
        }
      </Loaded>
    </Panel>
  );
}

export function Timeline({ name, gpu }: { name: string; gpu?: number }) {
  const query = useQuery(timeline(name));
  return (
    <Panel title="Timeline" note="newest first">
      <Loaded query={query}>
        {(page) => {
          const items = page.items.filter((e) => gpu === undefined || e.gpu === gpu);
          return items.length === 0 ? (
            <Empty title="No events are stored">
              <p>
                Findings, tests, remediations and changes of its state are listed here. Older ones may be in
                the log: <code>muster events --object node:{name}</code>.
              </p>
            </Empty>
          ) : (
            // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls
            <ol className="timeline tall" tabIndex={0} aria-label="Timeline">
              {items.map((e, i) => (
                // biome-ignore lint/suspicious/noArrayIndexKey: entries have no id of their own
                <li key={`${e.at}${i}`}>
                  <Clock at={e.at} />
                  <span>
                    {e.severity ? (
                      <State word={e.severity} />
                    ) : (
                      <span className="dim">{kindWord(e.what)}</span>
                    )}
                  </span>
                  <span>
                    {e.gpu !== null && e.gpu !== undefined && gpu === undefined && (
                      <span className="dim">GPU {e.gpu} </span>
                    )}
                    {entryWords(e)}
                  </span>
                </li>
              ))}
            </ol>
          );
        }}
      </Loaded>
    </Panel>
  );
}

function Qualification({ node: n }: { node: Node }) {
  const q = n.qualified;
  const { operates } = useRights();
  return (
    <Panel
      title="Qualification"
      note={
        q ? (
          <>
            {q.level}, <Ago at={q.ended_at} />
          </>
        ) : (
          ''
        )
      }
    >
      {n.qualifying && (
        <div className="item">
          Being tested
          {n.qualifying.progress && (
            <>
              : {n.qualifying.progress.doing} ({n.qualifying.progress.done} of {n.qualifying.progress.of})
            </>
          )}
        </div>
      )}
      {!q ? (
        <Empty title="Never tested">
          <p>
            A test measures what this node can do, against what its SKU should.
            {operates && (
              <>
                {' '}
                Drain it, then press Qualify, or <code>muster node qualify {n.name}</code>.
              </>
            )}
          </p>
        </Empty>
      ) : (
        <Table label="Checks" tall cards heads={['Check', num('Measured'), num('Expected'), 'Result']}>
          {q.checks.map((c, i) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: checks repeat by GPU, in order
            <tr key={`${c.name}${i}`}>
              <td>
                {c.name}
                {c.gpu !== null && c.gpu !== undefined && <span className="dim"> GPU {c.gpu}</span>}
              </td>
              <td className="num" data-l="measured">
                {measured(c)}
              </td>
              <td className="num dim" data-l="expected">
                {expected(c)}
              </td>
              <td>
                <State word={c.outcome} /> {c.note && <span className="dim">{c.note}</span>}
              </td>
            </tr>
          ))}
        </Table>
      )}
    </Panel>
  );
}

type Check = Schemas['Check'];
const figure = (v: number | null | undefined, unit = '') =>
  v === null || v === undefined ? '–' : `${v.toLocaleString('en', { maximumFractionDigits: 1 })} ${unit}`;
const measured = (c: Check) => figure(c.value, c.unit);
const expected = (c: Check) => figure(c.expected ?? c.floor, c.unit);
