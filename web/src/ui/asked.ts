import { useAct } from './act';
import { type Question, useAsk } from './ask';

/**
 * Does something on the server once somebody has said yes; the reason that was given is handed on. `done` is said then: a
 * function, where the dialog decides it. `busy`: not now.
 */
export function useAsked() {
  const ask = useAsk();
  const { act, busy } = useAct();
  const asked = async (
    question: Question,
    what: (reason: string) => Promise<unknown>,
    done: string | (() => string),
  ) => {
    const reason = await ask(question);
    if (reason !== null) await act(() => what(reason), typeof done === 'string' ? done : done());
  };
  return { asked, act, busy };
}
