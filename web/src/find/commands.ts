// What the console can do from anywhere. What this token may not do is not offered.
import type { Rights } from '../rights';
import type { Page } from '../ui/pages';
import type { Entry } from './entries';

/** How commands reach what they change. */
export interface Hands {
  theme: 'dark' | 'light';
  utc: boolean;
  chooseTheme: (theme: 'dark' | 'light') => void;
  chooseUtc: (yes: boolean) => void;
  openHelp: () => void;
  leave: () => void;
}

/** Pages and commands as the palette lists them. */
export function ownEntries(pages: readonly Page[], rights: Rights, hands: Hands): Entry[] {
  const other = hands.theme === 'dark' ? 'light' : 'dark';
  const commands: (Entry & { shown?: boolean })[] = [
    {
      key: 'submit',
      kind: 'command',
      label: 'Submit a job',
      also: 'new run start',
      href: '/jobs/new',
      shown: rights.submits,
    },
    {
      key: 'theme',
      kind: 'command',
      label: `Use the ${other} colours`,
      also: 'theme mode dark light',
      run: () => hands.chooseTheme(other),
    },
    {
      key: 'zone',
      kind: 'command',
      label: hands.utc ? "Show times in the browser's zone" : 'Show times in UTC',
      also: 'zone utc local',
      run: () => hands.chooseUtc(!hands.utc),
    },
    { key: 'help', kind: 'command', label: 'Show the keys', also: 'keyboard help', run: hands.openHelp },
    { key: 'leave', kind: 'command', label: 'Log out', also: 'exit leave sign', run: hands.leave },
  ];
  const shown = commands.filter((c) => c.shown !== false).map(({ shown: _, ...entry }) => entry);
  const places = pages.map((p) => ({
    key: p.to,
    kind: 'page',
    label: p.label,
    also: p.also,
    detail: `g ${p.key}`,
    href: p.to,
  }));
  return [...places, ...shown];
}
