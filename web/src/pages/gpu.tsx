import { useQuery } from '@tanstack/react-query';
import { Link, useNavigate, useParams, useSearch } from '@tanstack/react-router';
import { History } from '../history/section';
import { GpuActions } from '../nodes/actions';
import { node as nodeQuery } from '../queries';
import { useRights } from '../rights';
import { LeftPast } from '../time/left-past';
import { NodeLink } from '../ui/links';
import { Empty, Loaded, NodeState, NotShown, Panel, State, spaced } from '../ui/parts';
import { NoFindings, seesGpu, Telemetry, Timeline } from './node';
import { FindingItem, WORST } from './oncall';

export function GpuPage() {
  const { name, gpu: text } = useParams({ from: '/nodes/$name/gpus/$gpu' });
  const gpu = Number(text);
  const search = useSearch({ from: '/nodes/$name/gpus/$gpu' });
  const navigate = useNavigate({ from: '/nodes/$name/gpus/$gpu' });
  const query = useQuery(nodeQuery(name));
  const { whole, project, operates } = useRights();
  return (
    <main className="page" id="page">
      {search.past && <LeftPast at={search.past} what="GPU" open={`gpu:${name}/${gpu}`} />}
      <Loaded query={query}>
        {(n) => {
          const here = n.inventory.gpus?.find((g) => g.index === gpu);
          const job = n.jobs.find((j) => j.gpus.includes(gpu));
          const found = (n.findings ?? [])
            .filter((f) => f.gpu === gpu || f.gpu === null || f.gpu === undefined)
            .sort((a, b) => WORST[a.severity] - WORST[b.severity]);
          const facts = here?.facts;
          const rows: [string, string | number | null | undefined][] = [
            ['SKU', here?.sku],
            ['product', facts?.product],
            ['UUID', here?.uuid || null],
            ['serial', here?.serial],
            [
              'memory',
              here?.memory === undefined
                ? null
                : spaced(String(here.memory)).replace(/^\d+/, (n) => Number(n).toLocaleString('en')),
            ],
            ['PCI address', here?.pci],
            ['NUMA node', here?.numa],
            ['bus', facts?.pcie_gen ? `generation ${facts.pcie_gen}, ${facts.pcie_width} lanes` : null],
            ['VBIOS', facts?.vbios],
            ['compute capability', facts?.compute],
            ['power limit', facts?.power_limit ? `${facts.power_limit} W` : null],
            [
              'NVLinks',
              facts?.links?.length
                ? `${facts.links.filter((l) => l.active).length} of ${facts.links.length} active`
                : null,
            ],
            ['ECC', facts?.ecc === undefined || facts?.ecc === null ? null : facts.ecc ? 'on' : 'off'],
          ];
          const missing = rows.filter(([, value]) => !reported(value)).map(([word]) => word);
          return (
            <>
              <div className="head">
                <h1>
                  <NodeLink name={name} /> GPU {gpu}
                </h1>
                {!here ? (
                  <State word="missing" />
                ) : n.gpus_excluded.includes(gpu) ? (
                  <State word="excluded" />
                ) : (
                  <NodeState of={n} />
                )}
                <span className="dim">
                  {job ? (
                    <>
                      allocated to{' '}
                      {/^\d/.test(job.id) ? (
                        <Link to="/jobs/$id" params={{ id: job.id }}>
                          job {job.id} {job.name}
                        </Link>
                      ) : (
                        'a job of another project'
                      )}
                    </>
                  ) : (
                    'unallocated'
                  )}
                </span>
                {operates && <GpuActions node={n} gpu={gpu} />}
              </div>
              <div className="columns wide-left">
                <div>
                  <Panel title="Open findings" weight="primary">
                    {found.length ? (
                      found.map((f) => <FindingItem key={f.id} finding={f} hideNode />)
                    ) : (
                      <NoFindings />
                    )}
                  </Panel>
                  <Telemetry node={n} gpu={gpu} />
                  {here && (
                    <History
                      subject={{ node: name, gpu }}
                      visible={whole === false ? seesGpu(n, gpu) : whole}
                      search={search}
                      show={(part) =>
                        void navigate({ search: (old) => ({ ...old, ...part }), resetScroll: false })
                      }
                    />
                  )}
                  {whole && <Timeline name={name} gpu={gpu} />}
                  {whole === false && (
                    <NotShown
                      project={project}
                      what="the device's numbers and versions, its timeline, and findings that are not about jobs of this project"
                    />
                  )}
                </div>
                <Panel title="Device" weight="quiet">
                  {here ? (
                    <div className="body">
                      <dl className="facts">
                        {rows
                          .filter(([, value]) => reported(value))
                          .map(([word, value]) => (
                            <Fact key={word} word={word} value={value} />
                          ))}
                        {/* A token that is bound to a project does not get the rest. */}
                        {whole && missing.length > 0 && <Fact word="no data" value={missing.join(', ')} />}
                      </dl>
                    </div>
                  ) : (
                    <Empty title="The node does not report this GPU">
                      <p>It may have fallen off the bus; the timeline says when.</p>
                    </Empty>
                  )}
                </Panel>
              </div>
            </>
          );
        }}
      </Loaded>
    </main>
  );
}

const reported = (value: string | number | null | undefined) => value !== null && value !== undefined;

function Fact({ word, value }: { word: string; value: string | number | null | undefined }) {
  return (
    <>
      <dt>{word}</dt>
      <dd>{value}</dd>
    </>
  );
}
