import { type ComponentProps, type ReactNode, useId } from 'react';
import { isAt, isConflict, refusalWords } from './errors';
import type { Problem } from './reservation';

/** What an input needs so that its label and what is wrong with it are read out with it. */
export interface FieldProps {
  id: string;
  'aria-invalid': true | undefined;
  'aria-describedby': string | undefined;
}

interface Labelled {
  label: string;
  hint?: string;
  problem?: string | null;
  whole?: boolean;
}

interface FieldOf extends Labelled {
  children: (props: FieldProps) => ReactNode;
}

/** One input with its label; below it what the form or the server says about it. */
export function Field({ label, hint, problem, whole, children }: FieldOf) {
  const id = useId();
  const below = problem ?? hint;
  return (
    <div className={whole ? 'field whole' : 'field'}>
      <label htmlFor={id}>{label}</label>
      {children({
        id,
        'aria-invalid': problem ? true : undefined,
        'aria-describedby': below ? `${id}-note` : undefined,
      })}
      <FieldNote id={`${id}-note`} text={below} problem={!!problem} />
    </div>
  );
}

/** One line of text, or a number. */
export function TextField({ label, hint, problem, whole, ...input }: Labelled & ComponentProps<'input'>) {
  return (
    <Field label={label} hint={hint} problem={problem} whole={whole}>
      {(a) => <input {...a} {...input} />}
    </Field>
  );
}

/** Something that is so or not. */
export function CheckField({ label, hint, problem, whole, ...input }: Labelled & ComponentProps<'input'>) {
  const id = useId();
  const below = problem ?? hint;
  return (
    <div className={whole ? 'field whole' : 'field'}>
      <label className="check">
        <input
          type="checkbox"
          aria-invalid={problem ? true : undefined}
          aria-describedby={below ? `${id}-note` : undefined}
          {...input}
        />{' '}
        {label}
      </label>
      <FieldNote id={`${id}-note`} text={below} problem={!!problem} />
    </div>
  );
}

/** The line below a field. */
function FieldNote({ id, text, problem }: { id: string; text: string | undefined; problem: boolean }) {
  if (!text) return null;
  return (
    <p id={id} className={problem ? 'field-problem' : 'dim'} role={problem ? 'alert' : undefined}>
      {text}
    </p>
  );
}

/** One of several options, which are its children. */
export function SelectField({ label, hint, problem, whole, ...select }: Labelled & ComponentProps<'select'>) {
  return (
    <Field label={label} hint={hint} problem={problem} whole={whole}>
      {(a) => <select {...a} {...select} />}
    </Field>
  );
}

/** Names of which any number may be chosen. */
export function NameChoices({
  legend,
  of,
  chosen,
  change,
  problem,
}: {
  legend: string;
  of: readonly string[] | undefined;
  chosen: readonly string[];
  change: (chosen: string[]) => void;
  problem?: string | null;
}) {
  // One that is gone stays to be seen, and can be taken away.
  const all = [...new Set([...(of ?? []), ...chosen])];
  return (
    <fieldset className="choices whole">
      <legend>{legend}</legend>
      {all.map((name) => (
        <label key={name}>
          <input
            type="checkbox"
            checked={chosen.includes(name)}
            onChange={(e) => change(e.target.checked ? [...chosen, name] : chosen.filter((c) => c !== name))}
          />{' '}
          {name}
        </label>
      ))}
      <FieldProblem text={problem} />
    </fieldset>
  );
}

/** What is wrong with fields that stand together. */
export function FieldProblem({ text }: { text: string | null | undefined }) {
  if (!text) return null;
  return (
    <p className="field-problem" role="alert">
      {text}
    </p>
  );
}

/** What stands at a field: what the form itself sees first, then what the server said. */
export function problemAt(field: string, own: Problem | null, error: unknown): string | null {
  if (own?.field === field) return own.text;
  return isAt(error, field) ? refusalWords(error) : null;
}

/** A refusal that belongs to none of the fields that are shown, or that is a conflict. */
export function FormError({ error, fields }: { error: unknown; fields: readonly string[] }) {
  if (!error) return null;
  const conflict = isConflict(error);
  if (!conflict && fields.some((f) => isAt(error, f))) return null;
  return (
    <p className="error whole" role="alert">
      {conflict && 'Conflict: '}
      {refusalWords(error)}
    </p>
  );
}
