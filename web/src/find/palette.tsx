import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { useRouter } from '@tanstack/react-router';
import { type KeyboardEvent, useEffect, useRef, useState } from 'react';
import { search } from '../queries';
import type { Rights } from '../rights';
import { State } from '../ui/parts';
import { arrange, type Entry, moved } from './entries';
import { commanded, namedCommands, typedCommands } from './object-commands';
import { outputEntry } from './output';

/** Nobody types so fast that every letter is worth a request. */
const PAUSE_MS = 120;

/** The text as it was when nothing was typed for a moment. */
function useSettled(text: string): string {
  const [settled, settle] = useState(text);
  useEffect(() => {
    const timer = setTimeout(() => settle(text), PAUSE_MS);
    return () => clearTimeout(timer);
  }, [text]);
  return settled;
}

/** Finds anything that this token may read, pages and commands, by the keyboard alone. */
export function Palette({ own, rights, close }: { own: Entry[]; rights: Rights; close: () => void }) {
  const router = useRouter();
  const dialog = useRef<HTMLDialogElement>(null);
  const list = useRef<HTMLDivElement>(null);
  const [words, setWords] = useState('');
  const [at, setAt] = useState(0);
  // Enter was pressed before the server had answered.
  const [pending, setPending] = useState(false);
  const asked = useSettled(words.trim());
  const found = useQuery({
    ...search(asked),
    enabled: asked !== '',
    placeholderData: keepPreviousData,
  });
  // `drain hgx-0003`: what the command is about is looked for too.
  const command = commanded(asked);
  const may = rights.submits || rights.operates;
  const about = useQuery({ ...search(command?.about ?? ''), enabled: command !== null && may });
  const hits = words.trim() && found.data ? found.data.items : [];
  const entries = [
    ...(command ? typedCommands(command.typed, about.data?.items ?? [], rights) : []),
    ...arrange(words, own, hits),
    ...namedCommands(words, hits, rights),
    ...outputEntry(words),
  ];
  const chosen = Math.min(at, Math.max(0, entries.length - 1));
  const typed = words.trim() !== '';
  const busy = typed && (asked !== words.trim() || found.isFetching || about.isFetching);

  useEffect(() => {
    if (dialog.current && !dialog.current.open) dialog.current.showModal();
  }, []);
  // biome-ignore lint/correctness/useExhaustiveDependencies: what is chosen is to be seen, whatever is listed
  useEffect(() => {
    list.current?.querySelector('[aria-selected="true"]')?.scrollIntoView({ block: 'nearest' });
  }, [chosen, entries.length]);

  // Closing gives the focus back to where it was. The event of the closing comes later than that: whoever opens the
  // next one by then must not find this one half closed, and lose what is typed.
  const shut = () => {
    dialog.current?.close();
    close();
  };
  const open = (entry: Entry | undefined) => {
    if (!entry) return;
    shut();
    if (entry.href) router.history.push(entry.href);
    else entry.run?.();
  };
  // What is listed meanwhile may be of other words: it is opened when it is of these.
  useEffect(() => {
    if (!pending || busy) return;
    setPending(false);
    open(entries[chosen]);
  });
  const press = (e: KeyboardEvent) => {
    if (e.nativeEvent.isComposing) return;
    if (e.key === 'Enter') setPending(true);
    else if (e.key === 'Escape') shut();
    else if (e.key === 'ArrowDown' || e.key === 'ArrowUp') setAt(moved(chosen, entries.length, e.key));
    else return;
    e.preventDefault();
  };
  return (
    <dialog
      ref={dialog}
      className="palette"
      aria-label="Find"
      onClose={(e) => e.currentTarget.isConnected && close()}
    >
      <div className="palette-box">
        <input
          type="text"
          role="combobox"
          aria-label="Find anything"
          aria-autocomplete="list"
          aria-expanded={entries.length > 0}
          aria-controls={entries.length > 0 ? 'palette-list' : undefined}
          aria-activedescendant={entries.length > 0 ? `palette-${chosen}` : undefined}
          placeholder="A job, node, serial number, user, page, or a command: drain NODE"
          autoComplete="off"
          spellCheck={false}
          maxLength={200}
          autoFocus
          value={words}
          onChange={(e) => {
            setWords(e.target.value);
            setAt(0);
            setPending(false);
          }}
          onKeyDown={press}
        />
        <button type="button" className="quiet" aria-label="Close" onClick={shut}>
          ×
        </button>
      </div>
      {entries.length > 0 && (
        <div ref={list} id="palette-list" role="listbox" aria-label="Found" tabIndex={-1}>
          {entries.map((e, i) => (
            <button
              key={e.key}
              id={`palette-${i}`}
              type="button"
              role="option"
              tabIndex={-1}
              aria-selected={i === chosen}
              // A list that changes under a pointer at rest chooses nothing.
              onPointerMove={(e) => {
                if (e.movementX !== 0 || e.movementY !== 0) setAt(i);
              }}
              onClick={() => open(e)}
            >
              <span className="dim kind">{e.kind}</span>
              <span className="cut">{e.label}</span>
              <span className="dim cut grow">{e.detail}</span>
              {e.state && <State word={e.state} />}
            </button>
          ))}
        </div>
      )}
      <p className="dim palette-note" role="status">
        {note(entries.length, busy, found.error, typed && (found.data?.more ?? false))}
      </p>
    </dialog>
  );
}

/** What is said below the list. */
export function note(count: number, busy: boolean, error: Error | null, more: boolean): string {
  if (error) return `Only pages and commands are listed: ${error.message}.`;
  if (busy) return 'Searching…';
  if (count === 0) return 'Nothing matches.';
  return more ? 'The best matches; type more to see others.' : `${count} listed. Enter opens, Escape closes.`;
}
