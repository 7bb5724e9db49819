// The form of a new job: what it stands for as a spec, and a spec as the form. No React here.
import type { Schemas } from '../api/client';
import { yaml } from '../yaml';

export type Spec = Partial<Schemas['JobSpec']>;

export interface Form {
  name: string;
  project: string;
  nodes: string;
  gpus: string;
  sku: string;
  priority: string;
  within: string;
  limit: string;
  simulated: boolean;
  script: string;
  length: string;
  retries: string;
}

export const FIRST: Form = {
  name: 'hello',
  project: '',
  nodes: '1',
  gpus: '8',
  sku: '',
  priority: 'normal',
  within: '',
  limit: '',
  simulated: false,
  script: 'echo rank $RANK of $WORLD_SIZE on $MUSTER_NODE\n',
  length: '10m',
  retries: '20',
};

/** Several groups, slices and shares of a GPU have no fields in the form: such a gang stays as it is. */
export function keepsGang(base: Spec): boolean {
  const gang = base.gang;
  return !!gang && ((gang.groups ?? []).length > 0 || !!gang.mig || !!gang.gpu_milli);
}

/** The command that a spec runs where it has no script. */
export function commandOf(base: Spec): string[] {
  return base.run?.script ? [] : (base.run?.command ?? []);
}

/** The spec that the form stands for. What the form has no field for stays as it is in `base`. */
export function specOf(f: Form, base: Spec = {}) {
  const number = (text: string) => (text.trim() === '' ? undefined : Number(text));
  const gang = {
    ...base.gang,
    gpus: undefined,
    nodes: number(f.nodes),
    gpus_per_node: number(f.gpus),
    sku: f.sku || undefined,
  };
  const topology = { ...base.topology, required: f.within || undefined };
  const placed = Object.values(topology).some((v) => v !== undefined && v !== null);
  const retries = { ...base.retries, infrastructure: number(f.retries) };
  const command = f.script.trim() === '' && commandOf(base).length > 0;
  const run = command ? base.run : { ...base.run, command: undefined, script: f.script };
  return {
    ...base,
    kind: 'Job',
    name: f.name || undefined,
    project: f.project || undefined,
    gang: keepsGang(base) ? base.gang : gang,
    priority: f.priority === 'normal' ? undefined : f.priority,
    topology: placed ? topology : undefined,
    time_limit: f.limit || undefined,
    retries: f.retries === '20' && !base.retries?.application ? undefined : retries,
    run: f.simulated ? undefined : run,
    simulate: f.simulated ? { ...base.simulate, run: f.length } : undefined,
  };
}

/** A spec that was submitted, as the form. */
export function formOf(s: Spec): Form {
  const text = (v: unknown, absent = '') => (v === undefined || v === null ? absent : String(v));
  return {
    name: text(s.name),
    project: text(s.project),
    nodes: text(s.gang?.nodes, '1'),
    gpus: text(s.gang?.gpus_per_node ?? s.gang?.gpus, '0'),
    sku: text(s.gang?.sku),
    priority: text(s.priority, 'normal'),
    within: text(s.topology?.required),
    limit: text(s.time_limit),
    simulated: !!s.simulate,
    script: text(s.run?.script),
    length: text(s.simulate?.run, '10m'),
    retries: text(s.retries?.infrastructure, '20'),
  };
}

/** A spec as the file that `muster submit` takes. */
export function specYaml(spec: object): string {
  return yaml(spec as never);
}
