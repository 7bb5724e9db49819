import { useNavigate } from '@tanstack/react-router';
import { Fragment, type RefObject, useEffect, useRef } from 'react';
import { BrandLink } from './mark';
import type { Page } from './pages';

function typing(e: KeyboardEvent): boolean {
  const t = e.target as HTMLElement;
  return t.isContentEditable || ['INPUT', 'TEXTAREA', 'SELECT'].includes(t.tagName);
}

/** Ctrl or Cmd and `K` finds anything, `/` searches the page, `g` and a letter goes to a page, `?` says so. */
export function useKeys(help: () => void, find: () => void, pages: Page[]) {
  const navigate = useNavigate();
  const armed = useRef(0);
  useEffect(() => {
    const down = (e: KeyboardEvent) => {
      if ((e.ctrlKey || e.metaKey) && !e.altKey && !e.shiftKey && e.key.toLowerCase() === 'k') {
        e.preventDefault();
        // What is asked is to be answered first.
        if (!document.querySelector('dialog[open]')) find();
        return;
      }
      if (e.ctrlKey || e.metaKey || e.altKey || typing(e)) return;
      if (e.key === '/') {
        const box = document.querySelector<HTMLInputElement>('input[type="search"]');
        if (box) box.focus();
        else void navigate({ to: '/', search: { search: true } });
        e.preventDefault();
      } else if (e.key === '?') help();
      else if (e.key === 'g') armed.current = Date.now();
      else if (Date.now() - armed.current < 1500) {
        armed.current = 0;
        const page = pages.find((p) => p.key === e.key);
        if (page) void navigate({ to: page.to });
      }
    };
    window.addEventListener('keydown', down);
    return () => window.removeEventListener('keydown', down);
  }, [navigate, help, find, pages]);
}

/** What the keys do, in a dialog that whoever has its ref opens. */
export function KeyboardHelp({
  dialog,
  pages,
}: {
  dialog: RefObject<HTMLDialogElement | null>;
  pages: Page[];
}) {
  return (
    <dialog ref={dialog} aria-labelledby="help-title">
      <div className="stack">
        <h2 id="help-title">Keyboard</h2>
        <dl className="facts">
          <Keys of={['/']}>search on the page</Keys>
          <Keys of={['Ctrl', 'K']}>find a job, node, GPU, user, incident, runbook, page or command</Keys>
          {pages.map((p) => (
            <Keys key={p.key} of={['g', p.key]}>
              {p.label}
            </Keys>
          ))}
          <Keys of={['+', '-', '0']}>on the map: zoom in, zoom out, fit</Keys>
          <Keys of={['←', '→', '↑', '↓']}>
            on the map: choose a GPU, Enter opens its node; with Shift they move the map
          </Keys>
          <Keys of={['?']}>this help</Keys>
        </dl>
        <div className="actions">
          <BrandLink />
          <button type="button" onClick={() => dialog.current?.close()}>
            Close
          </button>
        </div>
      </div>
    </dialog>
  );
}

/** Keys that are pressed one after another or together, and what they do. */
function Keys({ of, children }: { of: readonly string[]; children: string }) {
  return (
    <>
      <dt>
        {of.map((key, i) => (
          <Fragment key={key}>
            {i > 0 && ' '}
            <kbd>{key}</kbd>
          </Fragment>
        ))}
      </dt>
      <dd>{children}</dd>
    </>
  );
}
