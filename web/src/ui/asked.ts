import { useAct } from './act';
import { type Question, useAsk } from './ask';

/** Does something on the server once somebody has said yes; the reason that was given is handed on. `busy`: not now. */
export function useAsked() {
  const ask = useAsk();
  const { act, busy } = useAct();
  const asked = async (question: Question, what: (reason: string) => Promise<unknown>, done: string) => {
    const reason = await ask(question);
    if (reason !== null) await act(() => what(reason), done);
  };
  return { asked, act, busy };
}
