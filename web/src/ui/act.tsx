import { useQueryClient } from '@tanstack/react-query';
import { createContext, type ReactNode, useCallback, useContext, useEffect, useState } from 'react';
import { ApiError } from '../api/client';
import { useFleet } from '../live/context';
import { type Standing, useStanding } from '../live/fleet';

interface Said {
  text: string;
  bad: boolean;
  /** It says that the server cannot be reached. */
  away?: boolean;
}

type Show = (next: (old: Said | null) => Said | null) => void;

/** What is still true: that the server cannot be reached is over once its stream comes again. */
export function still(said: Said | null, standing: Standing): Said | null {
  return said?.away && standing === 'live' ? null : said;
}

const Context = createContext<Show>(() => {});

/** One line about what was done last, below the top. */
export function Announcements({ children }: { children: ReactNode }) {
  const [said, show] = useState<Said | null>(null);
  const standing = useStanding(useFleet());
  useEffect(() => show((old) => still(old, standing)), [standing]);
  return (
    <Context.Provider value={show}>
      {children}
      <div className="toast" role="status" aria-live="polite">
        {said && (
          <div className={said.bad ? 'said bad' : 'said'}>
            <span>{said.text}</span>
            <button type="button" className="quiet" aria-label="Close" onClick={() => show(() => null)}>
              ×
            </button>
          </div>
        )}
      </div>
    </Context.Provider>
  );
}

/** Says that something was done, for a while. */
function announce(show: Show, done: string) {
  const said = { text: done, bad: false };
  show(() => said);
  setTimeout(() => show((old) => (old === said ? null : old)), 6000);
}

/** Says in a line what was not done, and why. */
export function useRefusal(): (why: string) => void {
  const show = useContext(Context);
  return useCallback((why) => show(() => ({ text: why, bad: true })), [show]);
}

/**
 * Sends what a form holds. What the server refuses stays with the form as `error`, so that nothing that was
 * typed is lost; `null` is given for it. `done` is said afterwards; nothing where it is empty. `busy`: not now.
 * `changes`: false where nothing on the server changes, so that nothing has to be read again.
 */
export function useSend(changes = true) {
  const queries = useQueryClient();
  const away = useStanding(useFleet()) === 'away';
  const show = useContext(Context);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<Error | null>(null);
  const send = useCallback(
    async <T,>(what: () => Promise<T>, done: string): Promise<T | null> => {
      setBusy(true);
      setError(null);
      try {
        const answer = await what();
        if (done) announce(show, done);
        return answer;
      } catch (e) {
        setError(e as Error);
        return null;
      } finally {
        setBusy(false);
        if (changes) void queries.invalidateQueries();
      }
    },
    [queries, show, changes],
  );
  const clear = useCallback(() => setError(null), []);
  return { send, busy: busy || away, error, clear };
}

/**
 * Does something on the server, says how it went, and reads again what it may have changed. `busy`: not now.
 * `changes`: false where nothing on the server changes.
 */
export function useAct(changes = true) {
  const queries = useQueryClient();
  const away = useStanding(useFleet()) === 'away';
  const show = useContext(Context);
  const [busy, setBusy] = useState(false);
  const act = useCallback(
    async (what: () => Promise<unknown>, done: string) => {
      setBusy(true);
      try {
        await what();
        announce(show, done);
      } catch (e) {
        const hint = e instanceof ApiError && e.hint ? ` (${e.hint})` : '';
        const unheard = e instanceof ApiError && e.code === 'unreachable';
        show(() => ({ text: `${(e as Error).message}${hint}`, bad: true, away: unheard }));
      } finally {
        setBusy(false);
        if (changes) void queries.invalidateQueries();
      }
    },
    [queries, show, changes],
  );
  return { act, busy: busy || away };
}
