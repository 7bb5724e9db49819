import { useEffect, useRef, useState } from 'react';
import { type Cause, newPages, pages } from './causes';

/** Has this browser desktop notifications? */
const has = () => typeof Notification !== 'undefined';

function show(title: string, body: string, id: string) {
  try {
    const n = new Notification(title, { body, tag: `muster-${id}` });
    n.onclick = () => {
      window.focus();
      n.close();
    };
  } catch {
    // Some browsers of phones have the name and not the thing.
  }
}

/** Notifies of page-grade alerts that come while this page is open. */
export function usePageNotifications(causes: Cause[] | undefined, on: boolean) {
  const known = useRef<Set<string> | null>(null);
  useEffect(() => {
    if (!causes) return;
    if (on) for (const a of newPages(known.current, causes)) show(`Page: ${a.kind}`, a.summary, a.id);
    // What was silenced or acknowledged and pages again is new.
    known.current = new Set(causes.flatMap((c) => c.alerts.filter(pages).map((a) => a.id)));
  }, [causes, on]);
}

/** Asks the browser for notifications; nothing is asked for before somebody presses it. */
export function NotifyButton({ on, setOn }: { on: boolean; setOn: (on: boolean) => void }) {
  const [refused, setRefused] = useState(() => has() && Notification.permission === 'denied');
  if (!has()) return null;
  if (refused) return <span className="dim">This browser refuses desktop notifications.</span>;
  return (
    <button
      type="button"
      aria-pressed={on}
      title="A desktop notification for every new page, while this page is open"
      onClick={async () => {
        if (on) return setOn(false);
        const answer = await Notification.requestPermission();
        setRefused(answer === 'denied');
        setOn(answer === 'granted');
      }}
    >
      {on ? 'Desktop notifications are on' : 'Desktop notifications'}
    </button>
  );
}
