import { Options } from '../ui/options';
import { Panel } from '../ui/parts';
import { type Document, valueAt, withValue } from './document';
import { SelectField, TextField } from './field';

type Kind = 'yes' | 'span' | 'number' | readonly string[];

interface Key {
  path: string;
  label: string;
  kind: Kind;
  /** It may be left out, which means this. */
  none?: string;
}

/** The keys that are changed most; the text holds them all. */
const GROUPS: [string, Key[]][] = [
  [
    'Queue',
    [
      { path: 'backfill.mode', label: 'Backfill', kind: ['conservative', 'easy', 'aggressive'] },
      { path: 'backfill.predict', label: 'Learn run times from history', kind: 'yes' },
      { path: 'fair_share.enabled', label: 'Fair share', kind: 'yes' },
      { path: 'fair_share.half_life', label: 'Half-life of past use', kind: 'span' },
    ],
  ],
  [
    'Preemption',
    [
      { path: 'preemption.enabled', label: 'Preemption', kind: 'yes' },
      { path: 'preemption.min_run', label: 'Shortest run before it', kind: 'span' },
      { path: 'preemption.notice', label: 'Longest wait for a checkpoint', kind: 'span' },
    ],
  ],
  [
    'Limits',
    [
      { path: 'limits.max_time', label: 'Longest time limit', kind: 'span', none: 'no limit' },
      { path: 'limits.gpus_per_user', label: 'GPUs of one user', kind: 'number', none: 'no limit' },
      {
        path: 'limits.running_jobs_per_user',
        label: 'Running jobs of one user',
        kind: 'number',
        none: 'no limit',
      },
      {
        path: 'limits.queued_jobs_per_user',
        label: 'Queued jobs of one user',
        kind: 'number',
        none: 'no limit',
      },
    ],
  ],
  [
    'Idle GPUs',
    [
      { path: 'idle.warn_after', label: 'Warn a job after', kind: 'span', none: 'never' },
      { path: 'idle.end_after', label: 'End a job after', kind: 'span', none: 'never' },
    ],
  ],
  [
    'Nodes',
    [
      {
        path: 'qualification.on_join',
        label: 'Test of a node that joins',
        kind: ['none', 'quick', 'standard'],
      },
      { path: 'defrag.enabled', label: 'Move jobs to make free capacity', kind: 'yes' },
      { path: 'defrag.moves_per_hour', label: 'Most moves in an hour', kind: 'number' },
    ],
  ],
];

/** Fields for the common keys of the policy. What has no field stays as it is. */
export function PolicyForm({
  document,
  change,
}: {
  document: Document;
  change: (document: Document) => void;
}) {
  return (
    <Panel title="Common settings" note="the same document as the text below">
      <div className="body fields">
        {GROUPS.map(([group, keys]) => (
          <fieldset className="group whole fields" key={group}>
            <legend>{group}</legend>
            {keys.map((key) => (
              <KeyField
                key={key.path}
                of={key}
                value={valueAt(document, key.path)}
                set={(v) => change(withValue(document, key.path, v))}
              />
            ))}
          </fieldset>
        ))}
      </div>
    </Panel>
  );
}

function KeyField({ of, value, set }: { of: Key; value: unknown; set: (value: unknown) => void }) {
  if (of.kind === 'yes')
    return (
      <label className="check">
        <input type="checkbox" checked={value === true} onChange={(e) => set(e.target.checked)} /> {of.label}
      </label>
    );
  if (typeof of.kind !== 'string') {
    const taken = String(value ?? '');
    return (
      <SelectField label={of.label} value={taken} onChange={(e) => set(e.target.value)}>
        <Options of={of.kind} taken={taken} />
      </SelectField>
    );
  }
  const number = of.kind === 'number';
  return (
    <TextField
      label={of.label}
      hint={of.none ? `empty: ${of.none}` : number ? undefined : 'such as 10m or 1d'}
      type={number ? 'number' : 'text'}
      min={number ? 0 : undefined}
      value={value === undefined || value === null ? '' : String(value)}
      onChange={(e) => {
        const typed = e.target.value;
        if (typed === '' && of.none) set(undefined);
        else set(number && typed !== '' ? Number(typed) : typed);
      }}
    />
  );
}
