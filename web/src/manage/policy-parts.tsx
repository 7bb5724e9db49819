import { useState } from 'react';
import { count } from '../ui/parts';
import type { Document } from './document';
import { FieldProblem } from './field';
import { type Key, noteOf } from './policy-keys';

interface OfKey {
  of: Key;
  value: unknown;
  problem: string | null;
  set: (value: unknown) => void;
}

const documentOf = (v: unknown): Document =>
  typeof v === 'object' && v !== null && !Array.isArray(v) ? (v as Document) : {};

const shown = (v: unknown) => (v === undefined || v === null ? '' : String(v));

/** What was typed as a number; nothing where it is empty. */
const number = (typed: string) => (typed === '' ? undefined : Number(typed));

const PARTS = [
  ['total', 'at a time', '%'],
  ['per_hour', 'in an hour', '%'],
  ['at_least', 'always', 'nodes'],
] as const;

/** How much of a group automation may take out of service. */
export function ShareFields({ of, value, problem, set }: OfKey) {
  const share = documentOf(value);
  const normal = documentOf(of.normal);
  const usual = `${shown(normal.total)} % at a time, ${shown(normal.per_hour)} % in an hour, always ${count(Number(normal.at_least), 'node')}`;
  return (
    <fieldset className="group whole">
      <legend>{of.label}</legend>
      <div className="limit">
        {PARTS.map(([key, word, unit]) => (
          <label key={key}>
            {word}{' '}
            <input
              className="short"
              type="number"
              min={0}
              aria-invalid={problem ? true : undefined}
              aria-label={`${of.label}: ${word}, in ${unit === '%' ? 'percent' : unit}`}
              placeholder={shown(normal[key])}
              value={shown(share[key])}
              onChange={(e) => set({ ...share, [key]: number(e.target.value) })}
            />{' '}
            {unit}
          </label>
        ))}
      </div>
      <p className="dim">What automation takes out of service. Default: {usual}.</p>
      <FieldProblem text={problem} />
    </fieldset>
  );
}

/** Watts by name. */
export function BudgetFields({ of, value, problem, set }: OfKey) {
  const budgets = documentOf(value);
  const [name, setName] = useState('');
  const [watts, setWatts] = useState('');
  const add = name.trim();
  const { label } = of;
  return (
    <fieldset className="group whole">
      <legend>{label}: watts</legend>
      <p className="dim">{noteOf({ ...of, unit: 'W' })}</p>
      {Object.entries(budgets).map(([of, w]) => (
        <div className="limit" key={of}>
          <label>
            {of}{' '}
            <input
              className="watts"
              type="number"
              min={0}
              aria-label={`Watts of ${of}`}
              value={shown(w)}
              onChange={(e) => set({ ...budgets, [of]: number(e.target.value) ?? 0 })}
            />{' '}
            W
          </label>
          <button
            type="button"
            aria-label={`Remove the watts of ${of}`}
            onClick={() => {
              const { [of]: _, ...rest } = budgets;
              set(rest);
            }}
          >
            Remove
          </button>
        </div>
      ))}
      <FieldProblem text={problem} />
      <div className="limit">
        <label>
          {label}{' '}
          <input
            aria-label={`Name: ${label}`}
            autoComplete="off"
            value={name}
            onChange={(e) => setName(e.target.value)}
          />
        </label>
        <label>
          <input
            className="watts"
            type="number"
            min={0}
            aria-label={`Watts: ${label}`}
            value={watts}
            onChange={(e) => setWatts(e.target.value)}
          />{' '}
          W
        </label>
        <button
          type="button"
          aria-label={`Add: ${label}`}
          disabled={add === '' || watts === ''}
          onClick={() => {
            set({ ...budgets, [add]: Number(watts) });
            setName('');
            setWatts('');
          }}
        >
          Add
        </button>
        {(add !== '' || watts !== '') && <span className="dim">Nothing is set before you add it.</span>}
      </div>
    </fieldset>
  );
}
