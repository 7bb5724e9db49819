import { useNavigate, useSearch } from '@tanstack/react-router';
import { useEffect, useRef } from 'react';
import { useRefusal } from './act';

/**
 * Opens the dialog that the address names (`?do=drain`), once: the address is then without it. `dialogs`: of what may
 * be done now, by its name; each asks first, since anybody may send such a link. `of`: what it is about. `busy`: not now.
 * `refusals`: why others are refused, as far as that is known.
 */
export function useLinkedDialog(
  dialogs: Partial<Record<string, () => void>>,
  of: string,
  busy: boolean,
  refusals: Partial<Record<string, string>> = {},
) {
  const wanted = (useSearch({ strict: false }) as { do?: string }).do;
  const navigate = useNavigate();
  const refuse = useRefusal();
  const opened = useRef<string | undefined>(undefined);
  // biome-ignore lint/correctness/useExhaustiveDependencies: it is done once, with what may be done by then
  useEffect(() => {
    if (!wanted) opened.current = undefined;
    if (!wanted || busy || opened.current === wanted) return;
    opened.current = wanted;
    void navigate({
      to: '.',
      search: ((old: object) => ({ ...old, do: undefined })) as never,
      replace: true,
      resetScroll: false,
    });
    const open = dialogs[wanted];
    if (open) open();
    else refuse(refusals[wanted] ?? `“${wanted}” cannot be done with ${of} in its current state`);
  }, [wanted, busy]);
}
