// A little life on a site of simulated nodes, so that pictures of it show something.
import { call } from './browser.mjs';

const PROJECTS = ['language', 'search', 'vision'];
const JOBS = [
  ['pretrain-70b', 'language', 12, 8],
  ['finetune-13b', 'language', 4, 8],
  ['detector', 'vision', 3, 8],
  ['segmenter', 'vision', 1, 4],
  ['ablation', 'vision', 1, 2],
  ['index', 'search', 2, 8],
  ['embed', 'search', 1, 8],
  ['pretrain-400b', 'language', 24, 8],
];

export async function story() {
  const known = (await call('GET', '/v1/projects')).items.map((p) => p.name);
  for (const name of PROJECTS) if (!known.includes(name)) await call('POST', '/v1/projects', { name });
  if ((await call('GET', '/v1/jobs?limit=1')).items.length > 0) return;
  const ids = [];
  for (const [name, project, nodes, gpus] of JOBS) {
    const made = await call('POST', '/v1/jobs', {
      kind: 'Job',
      name,
      project,
      gang: { nodes, gpus_per_node: gpus },
      simulate: { run: '8h', step: '0.5s', checkpoint: '30s' },
      checkpoint: { dir: `/checkpoints/${name}` },
      time_limit: '12h',
      retries: { infrastructure: 20 },
    });
    ids.push(made.id);
  }
  await call('PUT', '/v1/quotas', {
    quotas: {
      tree: [
        { name: 'research', gpus: [{ nominal: 192 }], projects: ['language', 'vision'] },
        { name: 'product', gpus: [{ nominal: 64 }], projects: ['search'] },
      ],
    },
  });
  const soon = new Date(Date.now() + 26 * 3600e3).toISOString();
  const all = (await call('GET', '/v1/nodes?limit=100')).items.filter((n) => n.gpus_total > 0);
  await call('PUT', '/v1/reservations/firmware', {
    over: { nodes: all.slice(-4).map((n) => n.name) },
    start: soon,
    length: '6h',
    maintenance: true,
    reason: 'new firmware of the switches of rack 8',
  });
  await new Promise((r) => setTimeout(r, 15_000));
  // Work has begun: now some of it breaks.
  const first = (await call('GET', `/v1/jobs/${ids[0]}`)).attempt?.slots.map((s) => s.node) ?? [];
  const pair = (await call('GET', `/v1/jobs/${ids[5]}`)).attempt?.slots.map((s) => s.node) ?? [];
  const faults = [
    [first[2], { fault: 'xid', gpu: 3, code: 79 }],
    [all.at(-6)?.name, { fault: 'ecc_uncorrectable', gpu: 1 }],
    [pair[1], { fault: 'slow_gpu', gpu: 5, percent: 40 }],
    [all.at(-3)?.name, { fault: 'port_down', port: '2', length: '1h' }],
    [all.at(-4)?.name, { fault: 'nvlink_errors', gpu: 4, per_s: 50 }],
    [all.at(-9)?.name, { fault: 'version', component: 'driver', version: '590.1' }],
  ];
  // The network is tested while it is still whole.
  await call('POST', '/v1/fabric/tests', {}).catch(() => {});
  for (const [node, fault] of faults) if (node) await call('POST', `/v1/nodes/${node}/inject`, fault);
  await call('POST', `/v1/nodes/${all.at(-1).name}/cordon`, { reason: 'waits for a cable' });
  // Long enough for the slow rank to show beside the others.
  await new Promise((r) => setTimeout(r, Number(process.env.MUSTER_STORY_S ?? 90) * 1000));
}
