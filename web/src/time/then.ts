// What a map of the past says of one node, GPU or job. No React here.
import type { Schemas } from '../api/client';
import type { Picture } from '../live/fleet';
import { Flag, NO_VALUE, NONE, OTHERS, OTHERS_JOB } from '../live/frame';

/** What is opened on the map of the past, as the address says it. */
export type Opened =
  | { kind: 'node'; node: string }
  | { kind: 'gpu'; node: string; gpu: number }
  | { kind: 'job'; job: string };

/** `node:hgx-0003`, `gpu:hgx-0003/2`, `job:42`; null for anything else. */
export function openedOf(text: string | undefined): Opened | null {
  const gpu = /^gpu:([^/\s]+)\/(\d{1,2})$/.exec(text ?? '');
  if (gpu) return { kind: 'gpu', node: gpu[1], gpu: Number(gpu[2]) };
  const node = /^node:([^/\s]+)$/.exec(text ?? '');
  if (node) return { kind: 'node', node: node[1] };
  const job = /^job:(\d+)$/.exec(text ?? '');
  return job ? { kind: 'job', job: job[1] } : null;
}

export function openText(o: Opened): string {
  if (o.kind === 'job') return `job:${o.job}`;
  return o.kind === 'node' ? `node:${o.node}` : `gpu:${o.node}/${o.gpu}`;
}

const SEVERITY = [null, 'warning', 'degraded', 'critical'] as const;

export interface GpuThen {
  gpu: number;
  state: string;
  /** Its worst open finding. */
  worst: (typeof SEVERITY)[number];
  breaker: boolean;
  spare: boolean;
  /** Null: no job. `other`: one of a project that this token does not see. */
  job: string | 'other' | null;
  project: string | null;
  util: number | null;
  temp: number | null;
  power: number | null;
}

export interface NodeThen {
  name: string;
  place: string;
  sku: string | null;
  gpus: GpuThen[];
}

const known = (v: number, none: number) => (v === none ? null : v);

function gpuThen(fleet: Picture, n: number, i: number): GpuThen | null {
  const { columns: c, layout } = fleet;
  if (!c || !layout) return null;
  return {
    gpu: i - fleet.first[n],
    state: layout.states[c.state[i]] ?? 'unknown',
    worst: SEVERITY[c.flags[i] & Flag.worst],
    breaker: (c.flags[i] & Flag.breaker) !== 0,
    spare: (c.flags[i] & Flag.spare) !== 0,
    job: c.job[i] === 0 ? null : c.job[i] === OTHERS_JOB ? 'other' : String(c.job[i]),
    project: c.tenant[i] < OTHERS ? (fleet.tenants[c.tenant[i]] ?? null) : null,
    util: known(c.util[i], NO_VALUE),
    temp: known(c.temp[i], NO_VALUE),
    power: known(c.power[i], NONE),
  };
}

/** A node as it was; null where the site had none of this name then. */
export function nodeThen(fleet: Picture, name: string): NodeThen | null {
  const n = fleet.layout?.nodes.findIndex((node) => node.name === name) ?? -1;
  const node = fleet.layout?.nodes[n];
  if (!fleet.layout || !node) return null;
  const rack = fleet.layout.racks[node.rack];
  const gpus: GpuThen[] = [];
  for (let i = fleet.first[n]; i < fleet.first[n + 1]; i++) {
    const one = gpuThen(fleet, n, i);
    if (one) gpus.push(one);
  }
  return {
    name,
    place: `${rack.spine} / ${rack.leaf} / ${rack.rack}`,
    sku: node.gpus > 0 && typeof node.sku === 'number' ? (fleet.layout.skus[node.sku] ?? null) : null,
    // A node without GPUs has a place on the map too.
    gpus,
  };
}

/** Where a job was: its nodes and their GPUs, in the order of the map. */
export function jobThen(fleet: Picture, id: string): { node: string; gpus: number[] }[] {
  const out: { node: string; gpus: number[] }[] = [];
  const job = Number(id);
  fleet.layout?.nodes.forEach((node, n) => {
    const gpus: number[] = [];
    for (let i = fleet.first[n]; i < fleet.first[n + 1]; i++)
      if (fleet.columns?.job[i] === job) gpus.push(i - fleet.first[n]);
    if (gpus.length > 0) out.push({ node: node.name, gpus });
  });
  return out;
}

/** GPUs whose metrics are known. */
export function knownMetrics(fleet: Picture): number {
  const util = fleet.columns?.util;
  let n = 0;
  if (util) for (let i = 0; i < util.length; i++) if (util[i] !== NO_VALUE) n++;
  return n;
}

type Attempt = Pick<NonNullable<Schemas['Job']['attempt']>, 'no' | 'placed_at'>;
type Past = Pick<Schemas['Job']['past'][number], 'no' | 'placed_at' | 'ended_at' | 'reason'>;
export type JobTimes = Pick<Schemas['Job'], 'submitted_at' | 'ended_at'> & {
  attempt?: Attempt | null;
  past: Past[];
};

/** What a job was doing at a moment, as its attempts say it. */
export function jobWords(j: JobTimes, at: number): string {
  const ms = (text: string) => Date.parse(text);
  if (at < ms(j.submitted_at)) return 'not submitted yet';
  const was = j.past.find((p) => ms(p.placed_at) <= at && at < ms(p.ended_at));
  if (was) return `attempt ${was.no}, which ended later: ${was.reason}`;
  if (j.attempt && ms(j.attempt.placed_at) <= at) return `attempt ${j.attempt.no}`;
  if (j.ended_at && ms(j.ended_at) <= at) return 'ended';
  const done = j.past.filter((p) => ms(p.ended_at) <= at).length;
  return done > 0 ? `queued again after ${done === 1 ? 'an attempt' : `${done} attempts`}` : 'queued';
}
