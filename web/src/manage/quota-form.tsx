import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { useFleet } from '../live/context';
import { useRevision } from '../live/fleet';
import { projects } from '../queries';
import { Options } from '../ui/options';
import { FieldProblem, NameChoices, SelectField, TextField } from './field';
import { FormPanel } from './form';
import { below, type Quota, type QuotaLimit } from './quota-tree';

/** A limit as its fields hold it. */
interface LimitForm {
  sku: string;
  tier: string;
  nominal: string;
  borrow: string;
  lend: string;
}

const text = (v: number | string | null | undefined) => (v === null || v === undefined ? '' : String(v));

const limitForm = (l: Partial<QuotaLimit>): LimitForm => ({
  sku: text(l.sku),
  tier: text(l.tier),
  nominal: text(l.nominal),
  borrow: text(l.borrow),
  lend: text(l.lend),
});

const whole = (typed: string) => /^\d{1,9}$/.test(typed.trim());

function limitOf(f: LimitForm): QuotaLimit {
  const most = (typed: string) => (typed.trim() === '' ? null : Number(typed));
  return {
    sku: f.sku || null,
    tier: (f.tier || null) as QuotaLimit['tier'],
    nominal: Number(f.nominal),
    borrow: most(f.borrow),
    lend: most(f.lend),
  };
}

/** One node of the tree. What it has no field for stays as it is. */
export function QuotaForm({
  was,
  tree,
  done,
  close,
}: {
  was: Quota | null;
  tree: Quota[];
  done: (quota: Quota) => void;
  close: () => void;
}) {
  const [name, setName] = useState(was?.name ?? '');
  const [parent, setParent] = useState(was?.parent ?? '');
  const [shares, setShares] = useState(String(was?.shares ?? 1));
  const [priority, setPriority] = useState<string>(was?.max_priority ?? '');
  const [own, setOwn] = useState<string[]>(was?.projects ?? []);
  const [limits, setLimits] = useState<LimitForm[]>((was?.gpus ?? []).map(limitForm));
  const [tried, setTried] = useState(false);
  const known = useQuery(projects());
  const under = was ? below(tree, was.name).map((q) => q.name) : [];
  const problems = {
    name:
      name.trim() === ''
        ? 'Give it a name.'
        : tree.some((q) => q.name === name.trim() && q.name !== was?.name)
          ? 'Another quota has this name.'
          : null,
    shares: whole(shares) && Number(shares) >= 1 ? null : 'Write a number, at least 1.',
    limits: limits.some((l) => !whole(l.nominal) || [l.borrow, l.lend].some((v) => v.trim() && !whole(v)))
      ? 'Write whole numbers of GPUs; to borrow and to lend may be empty.'
      : null,
  };
  const submit = () => {
    setTried(true);
    if (problems.name || problems.shares || problems.limits) return;
    done({
      ...was,
      name: name.trim(),
      parent: parent || null,
      shares: Number(shares),
      max_priority: (priority || null) as Quota['max_priority'],
      projects: own,
      gpus: limits.map(limitOf),
    });
  };
  const shown = (problem: string | null) => (tried ? problem : null);
  return (
    <FormPanel
      title={was ? `Quota ${was.name}` : 'New quota'}
      noValidate
      word={was ? 'Change in the tree' : 'Add to the tree'}
      save={submit}
      close={close}
    >
      <TextField
        label="Name"
        problem={shown(problems.name)}
        value={name}
        maxLength={128}
        autoComplete="off"
        onChange={(e) => setName(e.target.value)}
      />
      <SelectField label="Under" value={parent} onChange={(e) => setParent(e.target.value)}>
        <option value="">nothing: it is a root</option>
        <Options of={tree.map((q) => q.name).filter((n) => !under.includes(n))} />
      </SelectField>
      <TextField
        label="Shares"
        hint="its weight among its siblings"
        problem={shown(problems.shares)}
        type="number"
        min={1}
        value={shares}
        onChange={(e) => setShares(e.target.value)}
      />
      <SelectField
        label="Highest priority of its tokens"
        value={priority}
        onChange={(e) => setPriority(e.target.value)}
      >
        <option value="">as above it, else normal</option>
        <Options of={['low', 'normal', 'high', 'critical']} />
      </SelectField>
      <NameChoices legend="Projects" of={known.data?.items.map((p) => p.name)} chosen={own} change={setOwn} />
      <Limits limits={limits} root={!parent} change={setLimits} problem={shown(problems.limits)} />
    </FormPanel>
  );
}

const COLUMNS: [keyof LimitForm, string, string][] = [
  ['nominal', 'owns', ''],
  ['borrow', 'may borrow', 'any'],
  ['lend', 'may lend', 'all'],
];

/** Which GPUs it owns. Without a limit it may use what there is. */
function Limits({
  limits,
  root,
  change,
  problem,
}: {
  limits: LimitForm[];
  /** It has nobody to borrow from. */
  root: boolean;
  change: (limits: LimitForm[]) => void;
  problem: string | null;
}) {
  const fleet = useFleet();
  useRevision(fleet);
  const set = (at: number, key: keyof LimitForm, value: string) =>
    change(limits.map((l, i) => (i === at ? { ...l, [key]: value } : l)));
  return (
    <fieldset className="group whole">
      <legend>GPUs</legend>
      {limits.map((l, i) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: a limit is known by its place
        <div className="limit" key={i}>
          <select
            aria-label={`SKU of limit ${i + 1}`}
            value={l.sku}
            onChange={(e) => set(i, 'sku', e.target.value)}
          >
            <option value="">any SKU</option>
            <Options of={fleet.layout?.skus} taken={l.sku} />
          </select>
          <select
            aria-label={`Tier of limit ${i + 1}`}
            value={l.tier}
            onChange={(e) => set(i, 'tier', e.target.value)}
          >
            <option value="">any tier</option>
            <Options of={['spot', 'on-demand', 'reserved']} />
          </select>
          {COLUMNS.map(([key, word, none]) => (
            <label key={key}>
              {word}{' '}
              <input
                className="short"
                inputMode="numeric"
                placeholder={root && key === 'borrow' ? 'none' : none}
                aria-label={`GPUs that limit ${i + 1} ${word}`}
                value={l[key]}
                onChange={(e) => set(i, key, e.target.value)}
              />
            </label>
          ))}
          <button
            type="button"
            aria-label={`Remove limit ${i + 1}`}
            onClick={() => change(limits.filter((_, k) => k !== i))}
          >
            Remove
          </button>
        </div>
      ))}
      {root && limits.some((l) => Number(l.borrow) > 0) && (
        <p className="state">A root of the tree borrows from nobody: what it may borrow has no effect.</p>
      )}
      <FieldProblem text={problem} />
      <button type="button" onClick={() => change([...limits, limitForm({ nominal: 0 })])}>
        Add a limit
      </button>
    </fieldset>
  );
}
