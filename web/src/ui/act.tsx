import { useQueryClient } from '@tanstack/react-query';
import { createContext, type ReactNode, useCallback, useContext, useState } from 'react';
import { ApiError } from '../api/client';

interface Said {
  text: string;
  bad: boolean;
}

const Context = createContext<(said: Said | null) => void>(() => {});

/** One line about what was done last, below the top. */
export function Telling({ children }: { children: ReactNode }) {
  const [said, tell] = useState<Said | null>(null);
  return (
    <Context.Provider value={tell}>
      {children}
      <div className="toast" role="status" aria-live="polite">
        {said && (
          <div className={said.bad ? 'said bad' : 'said'}>
            <span>{said.text}</span>
            <button type="button" className="quiet" aria-label="Close" onClick={() => tell(null)}>
              ×
            </button>
          </div>
        )}
      </div>
    </Context.Provider>
  );
}

/** Does something on the server, says how it went, and reads again what it may have changed. */
export function useAct() {
  const queries = useQueryClient();
  const tell = useContext(Context);
  const [busy, setBusy] = useState(false);
  const act = useCallback(
    async (what: () => Promise<unknown>, done: string) => {
      setBusy(true);
      try {
        await what();
        tell({ text: done, bad: false });
        setTimeout(() => tell(null), 6000);
      } catch (e) {
        const hint = e instanceof ApiError && e.hint ? ` (${e.hint})` : '';
        tell({ text: `${(e as Error).message}${hint}`, bad: true });
      } finally {
        setBusy(false);
        void queries.invalidateQueries();
      }
    },
    [queries, tell],
  );
  return { act, busy };
}
