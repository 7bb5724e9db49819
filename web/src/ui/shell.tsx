import { useQuery } from '@tanstack/react-query';
import { Link, Outlet, useNavigate, useRouterState } from '@tanstack/react-router';
import { useEffect, useMemo, useRef, useState } from 'react';
import { session } from '../api/client';
import { ownEntries } from '../find/commands';
import { Palette } from '../find/palette';
import { useFleet } from '../live/context';
import { useStanding } from '../live/fleet';
import { waitingCounts, waitingWords } from '../oncall/causes';
import { Notifier } from '../oncall/notify';
import { health, whoami } from '../queries';
import { rightsOf } from '../rights';
import { useAsk } from './ask';
import { useBrand } from './brand';
import { KeyboardHelp, useKeys } from './keyboard';
import { BrandMark } from './mark';
import { groupsOf, homeOf, type Page, pageOf, pagesFor, TENANT, title } from './pages';
import { exact } from './parts';
import { choose, useTheme } from './theme';
import { chooseUtc, useUtc, wall } from './zone';

const WORDS = {
  connecting: 'connecting',
  live: 'live',
  away: 'away',
  paused: 'paused',
};

/** What is lost when the page is drawn anew: forms, documents, a secret that is shown once, a tree that is edited. */
const UNSAVED = 'form.fields, textarea.document, code.secret, .columns .spec-diff';

/** Where each user begins. The map is a key away for everybody. */
function useOwnHome(whole: boolean | null) {
  const navigate = useNavigate();
  const bare = useRouterState({ select: (s) => s.location.pathname === '/' && s.location.searchStr === '' });
  const path = useRouterState({ select: (s) => s.location.pathname });
  const begins = useRef(bare);
  useEffect(() => {
    // Whoever went elsewhere before it was known who asks stays there.
    if (!bare) begins.current = false;
    if (whole === null) return;
    const to = homeOf(whole, path, begins.current);
    begins.current = false;
    if (to) void navigate({ to, replace: true });
  }, [whole, bare, path, navigate]);
}

/** One link of the bar. */
interface Tab {
  label: string;
  to: Page['to'];
  open: boolean;
  /** Beside it stands how much somebody has to approve. */
  counts: boolean;
}

export function Shell() {
  const fleet = useFleet();
  const standing = useStanding(fleet);
  const theme = useTheme();
  const utc = useUtc();
  const { zone } = wall(Date.now());
  const ask = useAsk();
  const switchZone = async (yes: boolean) => {
    // Fields hold times of the zone: with another one the page begins anew.
    if (document.querySelector(UNSAVED)) {
      const sure = await ask({
        title: 'Show times in another zone',
        text: 'The page is drawn anew: what is typed here and not saved, or shown only once, is lost.',
        act: 'Switch',
        risky: true,
      });
      if (sure === null) return;
    }
    chooseUtc(yes);
  };
  const help = useRef<HTMLDialogElement>(null);
  const [openHelp] = useState(() => () => help.current?.showModal());
  const [finding, setFinding] = useState(false);
  const [openFind] = useState(() => () => setFinding(true));
  const me = useQuery(whoami());
  const rights = rightsOf(me.data);
  const { whole, operates, administers } = rights;
  const pages = useMemo(() => pagesFor({ whole, operates, administers }), [whole, operates, administers]);
  useKeys(openHelp, openFind, pages);
  useOwnHome(whole);
  const brand = useBrand();
  const path = useRouterState({ select: (s) => s.location.pathname });
  const page = pageOf(path);
  const groups = useMemo(() => groupsOf(pages), [pages]);
  // Nobody who sees one project is shown the sections of a site.
  const group = whole === false ? undefined : groups.find((g) => g.pages.some((p) => p.to === page));
  const tabs: Tab[] =
    whole === false
      ? TENANT.map(({ to, label, also }) => ({
          to,
          label,
          open: page === to || page === also,
          counts: false,
        }))
      : groups.map((g) => ({
          label: g.label,
          to: g.pages[0].to,
          open: g === group,
          counts: g.pages.some((p) => p.to === '/oncall'),
        }));
  const bar = useRef<HTMLElement>(null);
  const row = useRef<HTMLElement>(null);
  // Pages that do not fit scroll sideways: the one that is open is to be seen.
  // biome-ignore lint/correctness/useExhaustiveDependencies: the bar follows the path and what is in it
  useEffect(() => {
    for (const nav of [bar, row])
      nav.current?.querySelector('[aria-current]')?.scrollIntoView({ inline: 'center', block: 'nearest' });
  }, [path, pages]);
  useEffect(() => {
    document.title = `${title(path)} · ${brand.name}`;
  }, [path, brand]);
  const site = useQuery(health());
  const waiting = waitingCounts(site.data?.waiting ?? []);
  return (
    <div className={standing === 'away' ? 'shell stale' : 'shell'}>
      <a className="skip" href="#page">
        Skip to the page
      </a>
      <header className="top">
        <Link to={whole === false ? '/work' : '/'} className="brand">
          <BrandMark />
        </Link>
        <nav aria-label="Sections" ref={bar}>
          {tabs.map((tab) => (
            <Link
              key={tab.label}
              to={tab.to}
              activeOptions={{ exact: true, includeSearch: false }}
              aria-current={tab.open ? 'true' : undefined}
            >
              {tab.label}
              {tab.counts && waiting.pending > 0 && (
                <span className="count" title={`Remediations: ${waitingWords(waiting)}`}>
                  {waiting.pending}
                </span>
              )}
            </Link>
          ))}
        </nav>
        <span className="grow" />
        <button
          type="button"
          className="quiet"
          onClick={openFind}
          title="Find anything (Ctrl K)"
          aria-keyshortcuts="Control+K Meta+K"
        >
          Find
        </button>
        <span className={`standing ${standing}`} role="status">
          <i /> {standing === 'away' && <span className="wide">server </span>}
          {WORDS[standing]}
        </span>
        {me.data && (
          <span className="dim wide cut who" title={`role ${me.data.role}, site ${me.data.site}`}>
            {me.data.name.replace(/^user:/, '')}
            {me.data.project ? `, ${me.data.project}` : ''}
          </span>
        )}
        <button
          type="button"
          className="quiet"
          aria-pressed={utc}
          aria-label={`Times in ${zone}`}
          title={`All times are in ${zone}. ${utc ? "Use the browser's zone" : 'Use UTC'}`}
          onClick={() => void switchZone(!utc)}
        >
          <span className="roomy">Times in </span>
          {zone}
        </button>
        <button
          type="button"
          className="quiet wide"
          onClick={openHelp}
          title="Keyboard (?)"
          aria-label="Keyboard"
        >
          ?
        </button>
        <button
          type="button"
          className="quiet colours"
          onClick={() => choose(theme === 'dark' ? 'light' : 'dark')}
          title={`Use the ${theme === 'dark' ? 'light' : 'dark'} colours`}
        >
          {theme === 'dark' ? 'Light' : 'Dark'}
        </button>
        <button type="button" className="quiet" onClick={() => void session.end()}>
          Log out
        </button>
      </header>
      {group && group.pages.length > 1 && (
        <nav className="pages" aria-label={`Pages of ${group.label}`} ref={row}>
          {group.pages.map((p) => (
            <Link
              key={p.to}
              to={p.to}
              activeOptions={{ exact: true, includeSearch: false }}
              aria-current={p.to === page ? 'page' : undefined}
            >
              {p.label}
            </Link>
          ))}
        </nav>
      )}
      <div role="alert">{standing === 'away' && <Away at={fleet.at} />}</div>
      <Outlet key={zone} />
      {finding && (
        <Palette
          own={ownEntries(pages, rights, {
            theme,
            utc,
            chooseTheme: choose,
            chooseUtc: (yes) => void switchZone(yes),
            openHelp,
            leave: () => void session.end(),
          })}
          rights={rights}
          close={() => setFinding(false)}
        />
      )}
      <KeyboardHelp dialog={help} pages={pages} />
      <Notifier />
    </div>
  );
}

/** What is shown is old, and how old. */
export function Away({ at }: { at: number }) {
  return (
    <p className="away-bar">
      The server is away.{' '}
      {at > 0
        ? `What is shown is from ${exact(at)}, and may have changed. `
        : 'No live snapshot has come yet; what is shown may have changed. '}
      Buttons that change something are off until it answers.
    </p>
  );
}
