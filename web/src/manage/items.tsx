import { type ReactNode, useState } from 'react';
import { FieldProblem } from './field';
import { moved, replaced, without } from './lists';

/** Things of a list, each in a line, of which one is open to be changed. What is wrong with a closed one is said there. */
export function Items<T>({
  legend,
  about,
  items,
  name,
  words,
  none,
  add,
  empty,
  ordered,
  problem,
  change,
  form,
}: {
  legend: string;
  about?: string;
  items: readonly T[];
  /** `route 1`, for those who hear the buttons. */
  name: (item: T, at: number) => string;
  /** One thing in a line. */
  words: (item: T, at: number) => ReactNode;
  /** Said where there is none. */
  none: string;
  /** On the button that adds one. */
  add: string;
  empty: () => T;
  /** Their order counts. */
  ordered?: boolean;
  problem: (at: number) => string | null;
  change: (items: T[]) => void;
  /** `set` puts another in its place. */
  form: (item: T, at: number, set: (item: T) => void) => ReactNode;
}) {
  const [open, setOpen] = useState<number | null>(null);
  const move = (from: number, to: number) => {
    change(moved(items, from, to));
    setOpen((o) => (o === from ? to : o === to ? from : o));
  };
  const remove = (at: number) => {
    change(without(items, at));
    setOpen((o) => (o === null || o === at ? null : o > at ? o - 1 : o));
  };
  return (
    <fieldset className="group whole items">
      <legend>{legend}</legend>
      {about && <p className="dim">{about}</p>}
      {items.length === 0 && <p className="dim">{none}</p>}
      <ol>
        {items.map((item, i) => {
          const called = name(item, i);
          return (
            // biome-ignore lint/suspicious/noArrayIndexKey: its place is what it is known by
            <li key={i}>
              <div className="one">
                <span className="grow">{words(item, i)}</span>
                <button
                  type="button"
                  aria-expanded={open === i}
                  aria-label={`${open === i ? 'Close' : 'Edit'} ${called}`}
                  onClick={() => setOpen(open === i ? null : i)}
                >
                  {open === i ? 'Close' : 'Edit'}
                </button>
                {ordered && (
                  <>
                    <button
                      type="button"
                      aria-label={`Move ${called} up`}
                      disabled={i === 0}
                      onClick={() => move(i, i - 1)}
                    >
                      Up
                    </button>
                    <button
                      type="button"
                      aria-label={`Move ${called} down`}
                      disabled={i === items.length - 1}
                      onClick={() => move(i, i + 1)}
                    >
                      Down
                    </button>
                  </>
                )}
                <button
                  type="button"
                  className="risky"
                  aria-label={`Remove ${called}`}
                  onClick={() => remove(i)}
                >
                  Remove
                </button>
              </div>
              {open === i ? (
                <div className="fields" role="group" aria-label={called}>
                  {form(item, i, (next) => change(replaced(items, i, next)))}
                </div>
              ) : (
                <FieldProblem text={problem(i)} />
              )}
            </li>
          );
        })}
      </ol>
      <button
        type="button"
        onClick={() => {
          change([...items, empty()]);
          setOpen(items.length);
        }}
      >
        {add}
      </button>
    </fieldset>
  );
}
