import { useQuery } from '@tanstack/react-query';
import { useFleet } from '../live/context';
import { useRevision } from '../live/fleet';
import { projects } from '../queries';
import { Options } from '../ui/options';
import { Field, NameChoices, SelectField, TextField } from './field';
import { LEVELS, type ReservationForm } from './reservation';

interface Part {
  form: ReservationForm;
  change: (form: ReservationForm) => void;
  problem: string | null;
}

/** Whose work may run in it. */
export function Projects({ form, change, problem }: Part) {
  const known = useQuery(projects());
  return (
    <NameChoices
      legend="Projects whose work may run in it"
      of={known.data?.items.map((p) => p.name)}
      chosen={form.projects}
      change={(chosen) => change({ ...form, projects: chosen })}
      problem={problem}
    />
  );
}

/** Which nodes it covers. */
export function Over({ form, change, problem }: Part) {
  const fleet = useFleet();
  useRevision(fleet);
  return (
    <>
      <SelectField
        label="Covers"
        value={form.over}
        onChange={(e) => change({ ...form, over: e.target.value as ReservationForm['over'] })}
      >
        <option value="gpus">so many GPUs, in whole nodes</option>
        <option value="nodes">these nodes</option>
        <option value="domain">every node of a domain</option>
      </SelectField>
      {form.over === 'gpus' && (
        <>
          <TextField
            label="GPUs"
            problem={problem}
            type="number"
            min={1}
            value={form.gpus}
            onChange={(e) => change({ ...form, gpus: e.target.value })}
          />
          <SelectField
            label="SKU"
            value={form.sku}
            onChange={(e) => change({ ...form, sku: e.target.value })}
          >
            <option value="">any</option>
            <Options of={fleet.layout?.skus} taken={form.sku} />
          </SelectField>
        </>
      )}
      {form.over === 'nodes' && (
        <Field
          label="Nodes"
          whole
          problem={problem}
          hint="names or ranges like hgx-[0001-0004], with commas between"
        >
          {(a) => (
            <textarea
              {...a}
              rows={2}
              className="mono"
              spellCheck={false}
              value={form.nodes}
              onChange={(e) => change({ ...form, nodes: e.target.value })}
            />
          )}
        </Field>
      )}
      {form.over === 'domain' && (
        <>
          <SelectField
            label="Level"
            value={form.level}
            onChange={(e) => change({ ...form, level: e.target.value })}
          >
            <Options of={LEVELS} />
          </SelectField>
          <TextField
            label="Domain"
            problem={problem}
            hint="its name, or its path from the region down"
            value={form.path}
            onChange={(e) => change({ ...form, path: e.target.value })}
          />
        </>
      )}
    </>
  );
}
