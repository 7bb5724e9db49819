import { type ReactNode, useState } from 'react';
import { useSend } from '../ui/act';
import { Panel } from '../ui/parts';
import { FormError, problemAt } from './field';
import type { Problem } from './reservation';

/**
 * A form that is sent as one request. `read` gives what would be sent, or what is wrong with a field: that is said
 * there after the first try, as is what the server refuses. `changes`: false where it only asks.
 */
export function useForm<F extends object, B>(
  empty: F,
  read: (form: F) => { body: B } | { problem: Problem },
  changes = true,
) {
  const [form, setForm] = useState<F>(empty);
  const [tried, setTried] = useState(false);
  const { send, busy, error, clear } = useSend(changes);
  const now = read(form);
  const own = tried && 'problem' in now ? now.problem : null;
  const change = (next: F) => {
    clear();
    setForm(next);
  };
  /** The value of a key and what is wrong with it; `field` is what the server calls it. */
  const typed = (key: keyof F & string, field: string = key) => ({
    value: String(form[key]),
    onChange: (e: { target: { value: string } }) => change({ ...form, [key]: e.target.value }),
    problem: problemAt(field, own, error),
  });
  /** What is to be sent; null where something is wrong, which is shown from now on. */
  const filled = (): B | null => {
    setTried(true);
    return 'body' in now ? now.body : null;
  };
  return { form, change, typed, filled, send, busy, error };
}

/** The panel of a form: its fields, what was refused and belongs to none of them, and its buttons. */
export function FormPanel({
  title,
  note,
  noValidate,
  error,
  fields = [],
  word,
  off,
  save,
  close,
  children,
}: {
  title: string;
  note?: string;
  /** What is wrong is said by the form, not by the browser. */
  noValidate?: boolean;
  error?: unknown;
  /** Fields that say themselves what the server refused about them. */
  fields?: readonly string[];
  /** On the button that sends it. */
  word: string;
  /** It cannot be sent now. */
  off?: boolean;
  save: () => unknown;
  close: () => void;
  children: ReactNode;
}) {
  return (
    <Panel title={title} note={note}>
      <form
        className="body fields"
        noValidate={noValidate}
        onSubmit={(e) => {
          e.preventDefault();
          if (!off) void save();
        }}
      >
        {children}
        <FormError error={error} fields={fields} />
        <div className="actions whole">
          <button type="submit" className="main" disabled={off}>
            {word}
          </button>
          <button type="button" onClick={close}>
            Cancel
          </button>
        </div>
      </form>
    </Panel>
  );
}
