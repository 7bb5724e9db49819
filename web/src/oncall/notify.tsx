import { useQuery } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { useEffect, useRef, useState, useSyncExternalStore } from 'react';
import { useFleet } from '../live/context';
import { useStanding } from '../live/fleet';
import { causes as causesQuery } from '../queries';
import { type Cause, newPages, pages } from './causes';

/** A hidden tab has no stream: for whoever asked for notifications it looks so often. */
const HIDDEN = 30_000;

const KEY = 'muster.notify';
const listeners = new Set<() => void>();
/** The choice where the browser stores nothing: it lasts until the page is loaded again. */
let unstored = false;

/** Has this browser desktop notifications? */
const has = () => typeof Notification !== 'undefined';

/** Did somebody ask for notifications in this browser, which still allows them? */
export function notifies(): boolean {
  if (!has() || Notification.permission !== 'granted') return false;
  try {
    return localStorage.getItem(KEY) === 'on';
  } catch {
    return unstored;
  }
}

export function setNotifies(on: boolean) {
  unstored = on;
  try {
    if (on) localStorage.setItem(KEY, 'on');
    else localStorage.removeItem(KEY);
  } catch {
    // It is as it was chosen until the page is loaded again.
  }
  for (const l of listeners) l();
}

function subscribe(listener: () => void) {
  listeners.add(listener);
  // Another tab of this browser may switch them.
  const other = (e: StorageEvent) => {
    if (e.key === KEY || e.key === null) listener();
  };
  window.addEventListener('storage', other);
  return () => {
    listeners.delete(listener);
    window.removeEventListener('storage', other);
  };
}

const useNotifies = () => useSyncExternalStore(subscribe, notifies, notifies);

function show(title: string, body: string, id: string, open: () => void) {
  try {
    const n = new Notification(title, { body, tag: `muster-${id}` });
    n.onclick = () => {
      window.focus();
      open();
      n.close();
    };
  } catch {
    // Some browsers of phones have the name and not the thing.
  }
}

/** Notifies of page-grade alerts that come while the console is open, whichever page it shows. */
function usePageNotifications(causes: Cause[] | undefined, on: boolean) {
  const known = useRef<Set<string> | null>(null);
  const navigate = useNavigate();
  useEffect(() => {
    if (!causes) return;
    const open = () => void navigate({ to: '/oncall' });
    if (on) for (const a of newPages(known.current, causes)) show(`Page: ${a.kind}`, a.summary, a.id, open);
    // What was silenced or acknowledged and pages again is new.
    known.current = new Set(causes.flatMap((c) => c.alerts.filter(pages).map((a) => a.id)));
  }, [causes, on, navigate]);
}

/** Is on every page, and shows nothing there. Nothing is read for whoever did not ask for notifications. */
export function Notifier() {
  const on = useNotifies();
  const standing = useStanding(useFleet());
  const query = useQuery({ ...causesQuery(on && standing === 'paused' ? HIDDEN : false), enabled: on });
  usePageNotifications(query.data?.items, on);
  return null;
}

/** Asks the browser for notifications; nothing is asked for before somebody presses it. */
export function NotifyButton() {
  const on = useNotifies();
  const [refused, setRefused] = useState(() => has() && Notification.permission === 'denied');
  if (!has()) return null;
  if (refused) return <span className="dim">This browser refuses desktop notifications.</span>;
  return (
    <button
      type="button"
      aria-pressed={on}
      title="A desktop notification for every new page, while the console is open in this browser"
      onClick={async () => {
        if (on) return setNotifies(false);
        const answer = await Notification.requestPermission();
        setRefused(answer === 'denied');
        setNotifies(answer === 'granted');
      }}
    >
      {on ? 'Desktop notifications are on' : 'Desktop notifications'}
    </button>
  );
}
