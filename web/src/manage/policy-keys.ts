// The keys of the policy that the form has fields for: what each means, its unit and its default. No React here.
import { type Document, valueAt } from './document';
import { spanMs } from './spans';

/** `share`: of a group, in percent. `watts`: budgets by name. `rules`: steps of remediations. */
export type Kind = 'yes' | 'span' | 'number' | 'share' | 'watts' | 'rules' | readonly string[];

export interface Key {
  path: string;
  label: string;
  kind: Kind;
  /** One line: what it does. */
  help?: string;
  /** What a number counts. */
  unit?: string;
  /** What the server takes where the document lacks it; absent where that is no value, see `none`. */
  normal?: unknown;
  /** What it means that it is left out, in words. */
  none?: string;
}

export interface Group {
  name: string;
  keys: Key[];
}

const shares = (name: string, label: string, total: number, per_hour: number, at_least: number): Key => ({
  path: `remediations.limits.${name}`,
  label,
  kind: 'share',
  normal: { total, per_hour, at_least },
});

const MODES = ['detect_only', 'approve', 'automatic'] as const;

const mode = (action: string, label: string, none: string, help: string): Key => ({
  path: `remediations.modes.${action}`,
  label,
  kind: MODES,
  none,
  help,
});

export const GROUPS: Group[] = [
  {
    name: 'Queue',
    keys: [
      {
        path: 'backfill.mode',
        label: 'Backfill',
        kind: ['conservative', 'easy', 'aggressive'],
        normal: 'conservative',
        help: 'Which jobs may pass others: with conservative no reserved start moves, else only that of the first job counts.',
      },
      {
        path: 'backfill.predict',
        label: 'Learn run times from history',
        kind: 'yes',
        normal: true,
        help: 'Estimates order backfill, never a reserved start.',
      },
      {
        path: 'backfill.reserved_starts',
        label: 'Jobs with a reserved start',
        kind: 'number',
        unit: 'jobs, first of the queue',
        normal: 128,
        help: 'More make each cycle of the scheduler longer.',
      },
      {
        path: 'backfill.hasten_after',
        label: 'Hasten the first job after',
        kind: 'span',
        normal: '3d',
        help: 'Then its reserved start moves earlier whenever it can.',
      },
      {
        path: 'backfill.patience',
        label: 'Reserve nodes after',
        kind: 'span',
        normal: '10m',
        help: 'For the first jobs, where no start can be reserved because what runs has no time limit.',
      },
      {
        path: 'fair_share.enabled',
        label: 'Fair share',
        kind: 'yes',
        normal: true,
        help: 'Who had less than their part goes first within a priority class.',
      },
      {
        path: 'fair_share.half_life',
        label: 'Half-life of past use',
        kind: 'span',
        normal: '1w',
        help: 'Past use counts half after so long.',
      },
    ],
  },
  {
    name: 'Preemption',
    keys: [
      {
        path: 'preemption.enabled',
        label: 'Preemption',
        kind: 'yes',
        normal: true,
        help: 'Work of a lower class, spot work, and work on borrowed quota may be stopped.',
      },
      {
        path: 'preemption.min_run',
        label: 'Shortest run before it',
        kind: 'span',
        normal: '5m',
        help: 'Nothing is stopped before it has run so long.',
      },
      {
        path: 'preemption.notice',
        label: 'Longest wait for a checkpoint',
        kind: 'span',
        normal: '1m',
        help: 'Unless the job names its own.',
      },
      {
        path: 'preemption.restart_cost',
        label: 'Cost of a restart',
        kind: 'span',
        normal: '3m',
        help: 'Time of the whole gang, for the choice of what is stopped.',
      },
      {
        path: 'elastic.enabled',
        label: 'Resize elastic jobs',
        kind: 'yes',
        normal: true,
        help: 'Jobs with elastic grow and shrink.',
      },
      {
        path: 'elastic.settle',
        label: 'Time between two resizes',
        kind: 'span',
        normal: '10m',
        help: 'A job is resized at most once in this time.',
      },
    ],
  },
  {
    name: 'Limits',
    keys: [
      {
        path: 'limits.max_time',
        label: 'Longest time limit',
        kind: 'span',
        none: 'no limit',
        help: 'A job without a time limit gets it.',
      },
      {
        path: 'limits.gpus_per_user',
        label: 'GPUs of one user',
        kind: 'number',
        unit: 'GPUs',
        none: 'no limit',
        help: 'What runs at the same time.',
      },
      {
        path: 'limits.running_jobs_per_user',
        label: 'Running jobs of one user',
        kind: 'number',
        unit: 'jobs',
        none: 'no limit',
        help: 'Further jobs wait.',
      },
      {
        path: 'limits.queued_jobs_per_user',
        label: 'Queued jobs of one user',
        kind: 'number',
        unit: 'jobs',
        none: 'no limit',
        help: 'Held ones too; more are refused at submission.',
      },
      {
        path: 'limits.queued_jobs_per_project',
        label: 'Queued jobs of one project',
        kind: 'number',
        unit: 'jobs',
        none: '250,000',
        help: 'More are refused at submission.',
      },
      {
        path: 'limits.queued_jobs',
        label: 'Queued jobs in all',
        kind: 'number',
        unit: 'jobs',
        none: '1,000,000',
        help: 'Each needs about 3 KiB of the server’s memory.',
      },
      {
        path: 'limits.secrets_per_project',
        label: 'Secrets of one project',
        kind: 'number',
        unit: 'secrets',
        none: '1,000',
        help: 'More are refused.',
      },
      {
        path: 'limits.stored_mib_per_project',
        label: 'Stored by one project',
        kind: 'number',
        unit: 'MiB',
        none: '1,024',
        help: 'Scripts and environments of its jobs, also of those that have ended.',
      },
    ],
  },
  {
    name: 'Idle GPUs',
    keys: [
      {
        path: 'idle.warn_after',
        label: 'Warn a job after',
        kind: 'span',
        none: 'never',
        help: 'Its GPUs are allocated and do nothing: no kernels, low power.',
      },
      {
        path: 'idle.end_after',
        label: 'End a job after',
        kind: 'span',
        none: 'never',
        help: 'Only after it was warned, so the warning has to be earlier.',
      },
    ],
  },
  {
    name: 'Automation',
    keys: [
      {
        path: 'remediations.enabled',
        label: 'Remediations',
        kind: 'yes',
        normal: true,
        help: 'Findings lead to remediations at all.',
      },
      {
        path: 'remediations.requalify',
        label: 'Test before a node returns',
        kind: ['quick', 'standard', 'full'],
        normal: 'quick',
        help: 'Quick: under a minute; standard: about six minutes; full: hours.',
      },
      {
        path: 'remediations.probation',
        label: 'Probation',
        kind: 'span',
        normal: '1d',
        help: 'How long a node that returned is watched.',
      },
      {
        path: 'remediations.finish_within',
        label: 'Longest time to finish',
        kind: 'span',
        normal: '1h',
        help: 'How long work may continue where it may finish before its node is taken.',
      },
      {
        path: 'remediations.escalate_within',
        label: 'Next step within',
        kind: 'span',
        normal: '1w',
        help: 'A step that did not help within this is followed by the next.',
      },
    ],
  },
  {
    name: 'Who decides, by action',
    keys: [
      mode('watch', 'Watch', 'automatic', 'It is recorded, and checked again after 15 minutes.'),
      mode('restart_job', 'Restart the job', 'automatic', 'The hardware stays as it is.'),
      mode('isolate_gpu', 'Isolate a GPU', 'automatic', 'It is taken out, and the others of its node work.'),
      mode(
        'drain',
        'Drain',
        'automatic',
        'A node gets no work until it has passed a test; with detect_only nothing at all is done.',
      ),
      mode('reset_gpu', 'Reset a GPU', 'approve', 'Once its node is drained.'),
      mode('reboot', 'Reboot', 'approve', 'The node is restarted.'),
      mode('power_cycle', 'Power cycle', 'approve', 'The node’s power is turned off and on.'),
      mode('replace', 'Replace', 'approve', 'People replace the part.'),
    ],
  },
  {
    name: 'Limits of automation',
    keys: [
      shares('fleet', 'The fleet', 20, 10, 2),
      shares('pool', 'Each pool', 25, 15, 2),
      shares('leaf', 'Each leaf', 34, 25, 1),
      shares('feed', 'Each power feed', 34, 25, 1),
      {
        path: 'remediations.limits.storm_percent',
        label: 'Storm from',
        kind: 'number',
        unit: 'percent of the fleet',
        normal: 25,
        help: 'So many nodes with new findings stop the automation itself.',
      },
      {
        path: 'remediations.limits.storm_nodes',
        label: 'Storm of at least',
        kind: 'number',
        unit: 'nodes',
        normal: 5,
        help: 'Fewer are no storm, however small the fleet is.',
      },
      {
        path: 'remediations.limits.storm_window',
        label: 'Storm within',
        kind: 'span',
        normal: '5m',
        help: 'Findings of a storm are counted within this.',
      },
    ],
  },
  {
    name: 'Rules for findings',
    keys: [{ path: 'remediations.rules', label: 'Rules', kind: 'rules', normal: [] }],
  },
  {
    name: 'Nodes and tests',
    keys: [
      {
        path: 'qualification.on_join',
        label: 'Test of a node that joins',
        kind: ['none', 'quick', 'standard'],
        normal: 'none',
        help: 'It gets work only after it has passed.',
      },
      {
        path: 'fabric.preflight_nodes',
        label: 'Test the network of jobs from',
        kind: 'number',
        unit: 'nodes',
        normal: 0,
        help: 'Their nodes are tested with each other before ranks start; 0: never.',
      },
      {
        path: 'fabric.within',
        label: 'Longest wait for that test',
        kind: 'span',
        normal: '1m',
        help: 'Ranks start then, though it is not over.',
      },
      {
        path: 'fabric.max_age',
        label: 'A good test counts for',
        kind: 'span',
        normal: '1d',
        help: 'Nodes are not tested again within this.',
      },
      {
        path: 'hazard.large_gang',
        label: 'Jobs that avoid a hazard from',
        kind: 'number',
        unit: 'nodes',
        normal: 8,
        help: 'They avoid nodes that are likely to fail, where they can.',
      },
      {
        path: 'hazard.lemon_max_nodes',
        label: 'Largest job on a lemon node',
        kind: 'number',
        unit: 'nodes',
        normal: 1,
        help: 'A node that fails again and again takes only preemptible work up to this size.',
      },
      {
        path: 'defrag.enabled',
        label: 'Move jobs to make free capacity',
        kind: 'yes',
        normal: false,
        help: 'Jobs with checkpoints are moved so that a waiting one fits.',
      },
      {
        path: 'defrag.moves_per_hour',
        label: 'Most moves in an hour',
        kind: 'number',
        unit: 'moves',
        normal: 8,
        help: 'Of the whole site.',
      },
    ],
  },
  {
    name: 'Power',
    keys: [
      {
        path: 'power.over_budget',
        label: 'When a start would pass a budget',
        kind: ['refuse', 'cap'],
        normal: 'refuse',
        help: 'Refuse: it waits or goes elsewhere; cap: its GPUs get less power.',
      },
      {
        path: 'power.node_watts',
        label: 'A node without its GPUs',
        kind: 'number',
        unit: 'W',
        normal: 2500,
        help: 'What it draws.',
      },
      {
        path: 'power.stagger_gpus',
        label: 'GPUs that start together',
        kind: 'number',
        unit: 'GPUs',
        normal: 0,
        help: 'At most so many in one window; 0: no limit.',
      },
      {
        path: 'power.stagger_window',
        label: 'Length of that window',
        kind: 'span',
        normal: '10s',
        help: 'Starts are counted within it.',
      },
      {
        path: 'power.feeds',
        label: 'Power feed',
        kind: 'watts',
        normal: {},
        help: 'Budget of each power feed.',
      },
      {
        path: 'power.racks',
        label: 'Rack',
        kind: 'watts',
        normal: {},
        help: 'Budget of each rack, by its path.',
      },
      {
        path: 'power.gpu_watts',
        label: 'SKU',
        kind: 'watts',
        normal: {},
        help: 'Draw of a GPU at full load, in place of what the catalogue says.',
      },
    ],
  },
  {
    name: 'Assumed until it is measured',
    keys: [
      {
        path: 'reliability.failures_per_million_node_days',
        label: 'Failures',
        kind: 'number',
        unit: 'in a million node-days',
        normal: 5000,
        help: 'Those that interrupt what runs on a node.',
      },
      {
        path: 'reliability.weight',
        label: 'Weight of that',
        kind: 'number',
        unit: 'failures',
        normal: 5,
        help: 'It counts as much as so many failures that were seen.',
      },
      {
        path: 'reliability.checkpoint_cost',
        label: 'Length of a checkpoint',
        kind: 'span',
        normal: '10s',
        help: 'How long it blocks a job that has not reported one yet.',
      },
    ],
  },
];

/** The path of every field. */
export const PATHS = GROUPS.flatMap((g) => g.keys.map((k) => k.path));

/** The default as people write it. */
export function normalWords(key: Key): string {
  const { normal, none } = key;
  if (normal === undefined) return none ?? 'none';
  if (typeof normal === 'boolean') return normal ? 'on' : 'off';
  if (typeof normal === 'object') return 'none';
  return typeof normal === 'number' ? normal.toLocaleString('en') : String(normal);
}

/** One line below a field: what it does, its unit, its default. */
export function noteOf(key: Key): string {
  const unit = key.unit ? ` Unit: ${key.unit}.` : '';
  return `${key.help ?? ''}${unit} Default: ${normalWords(key)}.`.trim();
}

const sorted = (v: unknown): string =>
  JSON.stringify(v, (_, x) =>
    x && typeof x === 'object' && !Array.isArray(x)
      ? Object.fromEntries(Object.entries(x).sort(([a], [b]) => (a < b ? -1 : 1)))
      : x,
  );

/** Is it as the server would have it without the document? */
export function isNormal(key: Key, value: unknown): boolean {
  if (value === undefined || value === null) return true;
  if (key.normal === undefined) return false;
  if (key.kind === 'span') return spanMs(String(value)) === spanMs(String(key.normal));
  if (key.kind === 'share')
    return sorted({ ...(key.normal as object), ...(value as object) }) === sorted(key.normal);
  return sorted(value) === sorted(key.normal);
}

/** How many keys of a group are not as they are by default. */
export const changedIn = (group: Group, document: Document) =>
  group.keys.filter((k) => !isNormal(k, valueAt(document, k.path))).length;
