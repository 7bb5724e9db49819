import { useQuery } from '@tanstack/react-query';
import { useId } from 'react';
import { useFleet } from '../live/context';
import { useRevision } from '../live/fleet';
import { failureModes } from '../queries';
import { Options } from '../ui/options';
import type { Document } from './document';
import { isAt, refusalWords } from './errors';
import { FieldProblem, SelectField, TextField } from './field';
import { Items } from './items';
import { listAt, words } from './lists';

/** What can be done, from the lightest to the heaviest: steps of a rule are in this order. */
export const ACTIONS = [
  'watch',
  'restart_job',
  'isolate_gpu',
  'drain',
  'reset_gpu',
  'reboot',
  'power_cycle',
  'replace',
] as const;

const AT = 'remediations.rules';

/** `ecc-*, SKU h100-sxm: isolate_gpu, replace (approve)` */
export function ruleWords(rule: Document): string {
  const where = [rule.kind ?? 'any finding', rule.pool && `pool ${rule.pool}`, rule.sku && `SKU ${rule.sku}`];
  const mode = rule.mode ? ` (${rule.mode})` : '';
  return `${where.filter(Boolean).join(', ')}: ${words(rule.steps).join(', ') || 'no step'}${mode}`;
}

/** The steps with one more or one less, in their order; what is not known of them stays. */
export function withStep(steps: readonly string[], step: string, on: boolean): string[] {
  const chosen = new Set(on ? [...steps, step] : steps.filter((s) => s !== step));
  const known = ACTIONS.filter((a) => chosen.delete(a));
  return [...known, ...chosen];
}

/** What is done about findings somewhere, before the steps that come with the server. */
export function RuleFields({
  value,
  problem,
  error,
  set,
}: {
  value: unknown;
  problem: string | null;
  error: Error | null;
  set: (value: unknown) => void;
}) {
  const rules = listAt({ rules: value }, 'rules');
  const known = useQuery(failureModes());
  const fleet = useFleet();
  useRevision(fleet);
  const kinds = useId();
  const skus = useId();
  if (rules === null)
    return (
      <p className="field-problem whole" role="alert">
        The text has something else than a list of rules here: correct it there.
      </p>
    );
  const at = (i: number, key = '') => (isAt(error, `${AT}[${i}]${key}`) ? refusalWords(error) : null);
  const inItem = rules.some((_, i) => at(i) !== null);
  return (
    <>
      <datalist id={kinds}>
        <Options of={known.data?.items.map((m) => m.code)} />
      </datalist>
      <datalist id={skus}>
        <Options of={fleet.layout?.skus} />
      </datalist>
      <Items
        legend="Rules, in order"
        about="The first that fits a finding counts, before the steps that come with the server."
        items={rules}
        name={(_, i) => `rule ${i + 1}`}
        words={ruleWords}
        none="Default: no rule of the site's own."
        add="Add a rule"
        empty={(): Document => ({ steps: ['watch'] })}
        ordered
        problem={at}
        change={set}
        form={(rule, i, put) => {
          const text = (key: string) => ({
            value: String(rule[key] ?? ''),
            onChange: (e: { target: { value: string } }) => {
              const { [key]: _, ...rest } = rule;
              put(e.target.value ? { ...rule, [key]: e.target.value } : rest);
            },
            problem: at(i, `.${key}`),
          });
          const steps = words(rule.steps);
          return (
            <>
              <TextField
                label="Failure mode"
                hint="such as ecc-*; a final * stands for anything; empty: all"
                list={kinds}
                autoComplete="off"
                {...text('kind')}
              />
              <TextField label="Pool" hint="empty: every pool" autoComplete="off" {...text('pool')} />
              <TextField label="Only this SKU" hint="empty: every SKU" list={skus} {...text('sku')} />
              <SelectField label="Who decides" {...text('mode')}>
                <option value="">as the modes of the actions say</option>
                <Options of={['detect_only', 'approve', 'automatic']} />
              </SelectField>
              <SelectField label="How work leaves" {...text('leave')}>
                <option value="">by how bad the finding is</option>
                <Options of={['finish', 'checkpoint', 'now']} />
              </SelectField>
              <fieldset className="choices whole">
                <legend>Steps, from the lightest: each follows when the one before did not help</legend>
                {[...new Set([...ACTIONS, ...steps])].map((a) => (
                  <label key={a}>
                    <input
                      type="checkbox"
                      checked={steps.includes(a)}
                      onChange={(e) => put({ ...rule, steps: withStep(steps, a, e.target.checked) })}
                    />{' '}
                    {a}
                  </label>
                ))}
                <FieldProblem text={at(i, '.steps')} />
              </fieldset>
            </>
          );
        }}
      />
      {!inItem && <FieldProblem text={problem} />}
    </>
  );
}
