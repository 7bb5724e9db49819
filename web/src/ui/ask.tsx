import { createContext, type ReactNode, useCallback, useContext, useEffect, useRef, useState } from 'react';

export interface Question {
  title: string;
  text: ReactNode;
  /** Word on the button that does it. */
  act: string;
  risky?: boolean;
  /** Ask for a reason; `needed` when nothing is done without one. */
  reason?: 'offered' | 'needed';
  /** What the reason is called, where it is another thing: what was done. */
  label?: string;
}

type Ask = (q: Question) => Promise<string | null>;
const Context = createContext<Ask>(async () => null);

/** Asks before something is done; gives the reason, or null for no. */
export function useAsk(): Ask {
  return useContext(Context);
}

export function Asking({ children }: { children: ReactNode }) {
  const [question, setQuestion] = useState<Question | null>(null);
  const answer = useRef<(reason: string | null) => void>(() => {});
  const dialog = useRef<HTMLDialogElement>(null);
  const input = useRef<HTMLInputElement>(null);
  const ask = useCallback<Ask>(
    (q) =>
      new Promise((resolve) => {
        answer.current = resolve;
        setQuestion(q);
      }),
    [],
  );
  useEffect(() => {
    if (question && !dialog.current?.open) dialog.current?.showModal();
  }, [question]);
  const done = (reason: string | null) => {
    dialog.current?.close();
    setQuestion(null);
    answer.current(reason);
  };
  return (
    <Context.Provider value={ask}>
      {children}
      <dialog ref={dialog} onCancel={() => done(null)} aria-labelledby="ask-title">
        {question && (
          <form
            method="dialog"
            onSubmit={(e) => {
              e.preventDefault();
              done(input.current?.value.trim() ?? '');
            }}
          >
            <h2 id="ask-title">{question.title}</h2>
            <div>{question.text}</div>
            {question.reason && (
              <label className="stack">
                {question.label ?? 'Reason'}
                {question.reason === 'offered' ? ' (goes into the log)' : ' (needed: it goes into the log)'}
                <input
                  ref={input}
                  required={question.reason === 'needed'}
                  maxLength={1000}
                  autoComplete="off"
                />
              </label>
            )}
            <div className="actions">
              <button type="button" onClick={() => done(null)}>
                Cancel
              </button>
              <button type="submit" className={question.risky ? 'risky' : 'main'}>
                {question.act}
              </button>
            </div>
          </form>
        )}
      </dialog>
    </Context.Provider>
  );
}
