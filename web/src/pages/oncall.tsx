import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { api, once } from '../api/client';
import { useFleet } from '../live/context';
import { useStanding } from '../live/fleet';
import { breakerWords, type Remediation } from '../oncall/causes';
import { Causes } from '../oncall/list';
import { NotifyButton } from '../oncall/notify';
import { ReleaseBreaker } from '../oncall/release';
import { StaleNote, StatusStrip } from '../oncall/strip';
import { causes as causesQuery, endedRemediations, health } from '../queries';
import { useRights } from '../rights';
import { useAct } from '../ui/act';
import { useAsk } from '../ui/ask';
import { NodeLink } from '../ui/links';
import { Ago, count, Empty, Fact, For, Loaded, NotShown, Panel, State, Word } from '../ui/parts';
import { automation as automationWords } from '../words';
import { Failing, Hot, Pending } from './oncall-work';
import { Burning } from './slo-parts';

export { FindingItem, RemediationItem, undoWords, WORST } from '../oncall/items';

export function OncallPage() {
  const site = useQuery(health());
  const { whole, project } = useRights();
  const fleet = useFleet();
  const standing = useStanding(fleet);
  const query = useQuery(causesQuery());
  const stale = standing === 'away' || query.isRefetchError;
  return (
    <main className={stale ? 'page oncall stale' : 'page oncall'} id="page">
      <div className="head">
        <h1>On-call</h1>
        {whole && site.data && (
          <Word tone={site.data.state === 'well' ? 'ok' : 'bad'} title={site.data.reasons.join('; ')}>
            {stateWords(site.data.state)}
          </Word>
        )}
        <div className="actions">
          {whole && <Link to="/slos">SLOs, silences and receivers</Link>}
          <NotifyButton />
        </div>
      </div>
      {/* Of a server that is away the bar above every page says so, and from when its last frame was. */}
      {stale && (standing !== 'away' || fleet.at === 0) && <StaleNote at={query.dataUpdatedAt} />}
      {query.data && whole !== null && <StatusStrip causes={query.data.items} />}
      <div className="columns wide-left">
        <div>
          <Loaded query={query}>{(list) => <Causes causes={list.items} total={list.count} />}</Loaded>
          {whole === false && (
            <NotShown
              project={project}
              what="remediations and what is pending approval, incidents, breakers, automation, and what concerns nodes or other projects"
            />
          )}
        </div>
        <div>
          <Burning />
          {whole && (
            <>
              <Automation />
              <Breakers />
              <Ended />
            </>
          )}
          <Hot />
          <Pending />
          <Failing />
        </div>
      </div>
    </main>
  );
}

/** The state of the site in a word that people say: `bad` is what it is in the API and in the metrics. */
const stateWords = (state: string) => (state === 'bad' ? 'critical' : state);

/** What stopping automation means. */
export const STOP_WORDS =
  'Automation does nothing more to nodes until somebody resumes it. Nodes that become unhealthy meanwhile are not taken out of service; new work avoids them only while other nodes fit. What is in progress continues.';

function Automation() {
  const site = useQuery(health());
  const ask = useAsk();
  const { act, busy } = useAct();
  const { operates } = useRights();
  return (
    <Loaded query={site}>
      {(s) => {
        const a = s.automation;
        if (!a) return null;
        const running = a.state === 'running';
        const out = inNodes(a.out, a.isolated_milli);
        const taken = inNodes(a.taken.length, a.isolated_hour_milli);
        const approved = a.taken.filter((n) => n.approved).length;
        return (
          <Panel
            title="Automation"
            note={<Word tone={running ? 'ok' : 'bad'}>{a.state}</Word>}
            actions={
              operates && (
                <button
                  type="button"
                  className={running ? 'risky' : 'main'}
                  disabled={busy}
                  onClick={async () => {
                    const reason = await ask({
                      title: running ? 'Stop automation' : 'Resume automation',
                      text: running ? STOP_WORDS : 'Remediations that a limit blocked continue.',
                      act: running ? 'Stop' : 'Resume',
                      risky: running,
                      reason: running ? 'needed' : undefined,
                    });
                    if (reason === null) return;
                    const params = { header: once() };
                    if (running)
                      void act(
                        () => api.POST('/v1/automation/stop', { params, body: { reason } }),
                        'Automation is stopped',
                      );
                    else
                      void act(() => api.POST('/v1/automation/resume', { params }), 'Automation runs again');
                  }}
                >
                  {running ? 'Stop' : 'Resume'}
                </button>
              )
            }
          >
            <div className="body">
              {!running && (
                <p>
                  Stopped <Ago at={a.stopped_at} />
                  {a.reason && `: ${a.reason}`}
                </p>
              )}
              <dl className="facts">
                <Fact word={a.out_approved ? 'taken out' : 'taken out by automation'}>
                  <Limit value={out} most={a.out_at_most} /> {out} of {a.nodes} nodes
                  {takenBy(out, a.out_approved)} {a.out_at_most} at most
                </Fact>
                <Fact word="taken out this hour">
                  <Limit value={taken} most={a.taken_at_most} /> {count(taken, 'node')}
                  {takenBy(taken, approved)} {a.taken_at_most} at most
                </Fact>
                <Fact word="spares">
                  {s.spares_left} of {s.spares} left
                </Fact>
                {automationWords(a.modes).map(([word, actions]) => (
                  <Fact key={word} word={word}>
                    {actions}
                  </Fact>
                ))}
              </dl>
            </div>
          </Panel>
        );
      }}
    </Loaded>
  );
}

/** Nodes, with the GPUs that automation isolated on others as parts of a node: as the limits count them. */
const inNodes = (nodes: number, milli = 0) => (nodes * 1000 + milli) / 1000;

/** Who took them, where operators approved some: these count in the limit, which is about automation. */
const takenBy = (nodes: number, approved = 0) =>
  approved > 0
    ? ` (${approved} approved by operators, ${(nodes * 1000 - approved * 1000) / 1000} by automation), automation:`
    : ',';

function Limit({ value, most }: { value: number; most: number }) {
  const share = most > 0 ? Math.min(1, value / most) : value > 0 ? 1 : 0;
  return (
    <span className="bar limit" aria-hidden="true">
      <i className={share >= 1 ? 'warn' : ''} style={{ width: `${share * 100}%` }} />
    </span>
  );
}

function Breakers() {
  const query = useQuery(health());
  return (
    <Loaded query={query}>
      {({ breakers: open }) => (
        <Panel title="Breakers" note={open.length ? `${open.length} not closed` : ''}>
          {open.length === 0 ? (
            <Empty title="All closed">
              <p>
                A breaker opens when nodes that share something fail together; no new work is placed there.
              </p>
            </Empty>
          ) : (
            open.map((b) => (
              <div className="item" key={b.entity}>
                <h3>
                  <State word={b.state} />
                  <span>{b.entity}</span>
                  <span className="dim">
                    {count(b.nodes, 'node')}, <For at={b.since} />
                  </span>
                </h3>
                <p>{breakerWords(b)}</p>
                {b.probe_at && (
                  <p className="dim">
                    next probe <Ago at={b.probe_at} />
                  </p>
                )}
                <ReleaseBreaker of={b} />
              </div>
            ))
          )}
        </Panel>
      )}
    </Loaded>
  );
}

/** Remediations that ended, the last one first. */
export function lastEnded<R extends Pick<Remediation, 'step' | 'since'>>(all: R[], most = 5): R[] {
  const ended = all.filter((r) => r.step === 'ended');
  return ended.sort((a, b) => Date.parse(b.since) - Date.parse(a.since)).slice(0, most);
}

function Ended() {
  const query = useQuery(endedRemediations());
  return (
    <Loaded query={query}>
      {(page) => {
        const ended = lastEnded(page.items);
        return (
          <Panel title="Remediations that ended">
            {ended.length === 0 && <Empty title="None" />}
            {ended.map((r) => (
              <p className="item" key={r.id}>
                <span className="dim">
                  <Ago at={r.since} /> {r.action_text} on{' '}
                </span>
                <NodeLink name={r.node} />
                <span className="dim">: {r.outcome ? (OUTCOMES[r.outcome] ?? r.outcome) : 'ended'}</span>
              </p>
            ))}
          </Panel>
        );
      }}
    </Loaded>
  );
}

/** How a remediation ended, in words. */
const OUTCOMES: Record<string, string> = { noted: 'no action (detect-only)' };
