import { type ReactNode, useId } from 'react';
import { isAt, isConflict, refusalWords } from './errors';
import type { Problem } from './reservation';

/** What an input needs so that its label and what is wrong with it are read out with it. */
export interface FieldProps {
  id: string;
  'aria-invalid': true | undefined;
  'aria-describedby': string | undefined;
}

/** One input with its label; below it what the form or the server says about it. */
export function Field({
  label,
  hint,
  problem,
  whole,
  children,
}: {
  label: string;
  hint?: string;
  problem?: string | null;
  whole?: boolean;
  children: (props: FieldProps) => ReactNode;
}) {
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
      {below && (
        <p
          id={`${id}-note`}
          className={problem ? 'field-problem' : 'dim'}
          role={problem ? 'alert' : undefined}
        >
          {below}
        </p>
      )}
    </div>
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
