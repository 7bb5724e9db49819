import { useQuery } from '@tanstack/react-query';
import { useFleet } from '../live/context';
import { useRevision } from '../live/fleet';
import { projects } from '../queries';
import { Field } from './field';
import { LEVELS, type ReservationForm } from './reservation';

interface Part {
  form: ReservationForm;
  change: (form: ReservationForm) => void;
  problem: string | null;
}

/** Whose work may run in it. */
export function Projects({ form, change, problem }: Part) {
  const known = useQuery(projects());
  const names = known.data?.items.map((p) => p.name) ?? [];
  // One that is gone stays to be seen, and can be taken away.
  const all = [...new Set([...names, ...form.projects])];
  return (
    <fieldset className="choices whole">
      <legend>Projects whose work may run in it</legend>
      {all.map((name) => (
        <label key={name}>
          <input
            type="checkbox"
            checked={form.projects.includes(name)}
            onChange={(e) =>
              change({
                ...form,
                projects: e.target.checked
                  ? [...form.projects, name]
                  : form.projects.filter((p) => p !== name),
              })
            }
          />{' '}
          {name}
        </label>
      ))}
      {problem && (
        <p className="field-problem" role="alert">
          {problem}
        </p>
      )}
    </fieldset>
  );
}

/** Which nodes it covers. */
export function Over({ form, change, problem }: Part) {
  const fleet = useFleet();
  useRevision(fleet);
  const skus = fleet.layout?.skus ?? [];
  return (
    <>
      <Field label="Covers">
        {(a) => (
          <select
            {...a}
            value={form.over}
            onChange={(e) => change({ ...form, over: e.target.value as ReservationForm['over'] })}
          >
            <option value="gpus">whole nodes with so many GPUs, chosen by the server</option>
            <option value="nodes">these nodes</option>
            <option value="domain">every node of a domain</option>
          </select>
        )}
      </Field>
      {form.over === 'gpus' && (
        <>
          <Field label="GPUs" problem={problem}>
            {(a) => (
              <input
                {...a}
                type="number"
                min={1}
                value={form.gpus}
                onChange={(e) => change({ ...form, gpus: e.target.value })}
              />
            )}
          </Field>
          <Field label="SKU">
            {(a) => (
              <select {...a} value={form.sku} onChange={(e) => change({ ...form, sku: e.target.value })}>
                <option value="">any</option>
                {[...new Set([...skus, form.sku])].filter(Boolean).map((s) => (
                  <option key={s}>{s}</option>
                ))}
              </select>
            )}
          </Field>
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
          <Field label="Level">
            {(a) => (
              <select {...a} value={form.level} onChange={(e) => change({ ...form, level: e.target.value })}>
                {LEVELS.map((l) => (
                  <option key={l}>{l}</option>
                ))}
              </select>
            )}
          </Field>
          <Field label="Domain" problem={problem} hint="its name, or its path from the region down">
            {(a) => (
              <input {...a} value={form.path} onChange={(e) => change({ ...form, path: e.target.value })} />
            )}
          </Field>
        </>
      )}
    </>
  );
}
