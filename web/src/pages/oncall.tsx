import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { api, once, type Schemas } from '../api/client';
import { breakers, health, incidents, node as nodeQuery, receivers, remedies } from '../queries';
import { useRights } from '../rights';
import { useAct } from '../ui/act';
import { useAsk } from '../ui/ask';
import { Ago, count, Empty, Loaded, NotShown, Panel, State, tidy, Word } from '../ui/parts';
import { automation as automationWords } from '../words';
import { Failing, Hot, Pending } from './oncall-work';
import { Alerts, Burning } from './slo-parts';

const STEPS: Record<string, string> = {
  proposed: 'held back by a limit or the policy',
  moving: 'work is leaving',
  approval: 'waits for approval',
  acting: 'under way',
  repairing: 'in repair',
  testing: 'being tested',
  probation: 'on probation',
};

/** What happens at the end of a step's time. Approval is waited for however long it takes. */
const ENDS: Partial<Record<Remedy['step'], [ahead: string, past: string]>> = {
  approval: [
    'It stays pending until somebody decides; a page is raised',
    'Undecided for too long, a page was raised; it stays pending. The limit was',
  ],
  moving: ['What still runs there is moved', 'Work was to have left'],
  probation: ['Probation ends', 'Probation was to end'],
};

/** A remedy that only watches waits for nobody. */
const watches = (r: Remedy) => r.action === 'watch' && r.step === 'proposed';

/** Findings and incidents by how bad they are, the worst first. */
export const WORST: Record<string, number> = { critical: 0, degraded: 1, warning: 2, info: 3 };

/** So many nodes are asked for the jobs on them; the rest say it on their own page. */
const ASKED = 20;

export function OncallPage() {
  const site = useQuery(health());
  const { whole, project } = useRights();
  return (
    <main className="page" id="page">
      <div className="head">
        <h1>On-call</h1>
        <Loaded query={site}>
          {(s) => (
            <span>
              {whole && <Word tone={s.state === 'well' ? 'ok' : 'bad'}>{s.state}</Word>}{' '}
              <span className="dim">{s.reasons.join('; ')}</span>
            </span>
          )}
        </Loaded>
      </div>
      <div className="columns wide-left">
        <div>
          {whole && <Waiting />}
          <Alerts short />
          {whole && <Incidents />}
          <LooseFindings />
          {whole === false && (
            <NotShown
              project={project}
              what="remedies and what waits for approval, incidents, breakers, automation, and what concerns nodes or other projects"
            />
          )}
        </div>
        <div>
          <Burning />
          {whole && (
            <>
              <Automation />
              <Breakers />
              <UnderWay />
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

type Remedy = Schemas['Remedy'];

/** Critical findings that are open on a node; null when that could not be read. */
async function critical(name: string): Promise<Schemas['Finding'][] | null> {
  try {
    const { data } = await api.GET('/v1/nodes/{name}', { params: { path: { name } } });
    return (data?.findings ?? []).filter((f) => f.severity === 'critical');
  } catch {
    return null;
  }
}

/** What undoing a remedy means, given the critical findings that are open on its node. */
export function undoWords(open: Pick<Schemas['Finding'], 'id' | 'kind' | 'title' | 'gpu'>[] | null): string {
  const back = 'The node serves as before; after its test, where a reset or reboot has begun.';
  if (open === null)
    return `${back} Its open findings could not be read: they stay open, and work is placed there at once.`;
  if (open.length === 0) return back;
  const named = open.map(
    (f) =>
      `${f.title || f.kind}${f.gpu === null || f.gpu === undefined ? '' : ` on GPU ${f.gpu}`} (finding ${f.id})`,
  );
  return `${back} ${count(open.length, 'critical finding stays', 'critical findings stay')} open: ${named.join('; ')}. Work is placed there at once all the same.`;
}

/** What stopping automation means. */
export const STOP_WORDS =
  'Automation does nothing more to nodes until somebody resumes it. Nodes that become unhealthy meanwhile are not taken out of service; new work avoids them only while other nodes fit. What is under way goes on.';

function RemedyButtons({ remedy }: { remedy: Remedy }) {
  const ask = useAsk();
  const { act, busy } = useAct();
  const path = { params: { path: { id: remedy.id }, header: once() } };
  const where = `${remedy.node}${remedy.gpu !== null && remedy.gpu !== undefined ? ` GPU ${remedy.gpu}` : ''}`;
  const waits = !watches(remedy) && (remedy.step === 'approval' || remedy.step === 'proposed');
  return (
    <div className="actions">
      {waits && (
        <button
          type="button"
          className="main"
          disabled={busy}
          onClick={async () => {
            const yes = await ask({
              title: `${remedy.action_words}: ${where}`,
              text: `Approve this remedy for finding ${remedy.finding} (${remedy.kind})? Work has left, or leaves first.`,
              act: 'Approve',
            });
            if (yes !== null)
              void act(
                () => api.POST('/v1/remedies/{id}/approve', path),
                `Approved: ${remedy.action_words} on ${where}`,
              );
          }}
        >
          Approve
        </button>
      )}
      {waits && (
        <button
          type="button"
          disabled={busy}
          onClick={async () => {
            const reason = await ask({
              title: `Deny: ${remedy.action_words} on ${where}`,
              text: 'The remedy ends without its act.',
              act: 'Deny',
              reason: 'needed',
            });
            if (reason !== null)
              void act(
                () => api.POST('/v1/remedies/{id}/deny', { ...path, body: { reason } }),
                `Denied on ${where}`,
              );
          }}
        >
          Deny
        </button>
      )}
      <button
        type="button"
        disabled={busy}
        onClick={async () => {
          const reason = await ask({
            title: `Undo: ${remedy.action_words} on ${where}`,
            text: undoWords(await critical(remedy.node)),
            act: 'Undo',
            risky: true,
            reason: 'needed',
          });
          if (reason !== null)
            void act(
              () => api.POST('/v1/remedies/{id}/undo', { ...path, body: { reason } }),
              `Undone on ${where}`,
            );
        }}
      >
        Undo
      </button>
    </div>
  );
}

/** When the time of a step runs out, and what then. */
function Until({ remedy: r }: { remedy: Remedy }) {
  const told = useQuery(receivers()).data?.items.length !== 0;
  const words = ENDS[r.step];
  if (!r.until || !words) return null;
  return (
    <p className="dim">
      {words[Date.parse(r.until) > Date.now() ? 0 : 1]} <Ago at={r.until} />
      {r.step === 'approval' &&
        !told &&
        '; no receiver is set up (muster routing): it reaches nobody, unless the server has a page webhook'}
    </p>
  );
}

/** Jobs that hold something where a remedy waits: what approving it would stop or move. */
function Affected({ node: name, gpu }: { node: string; gpu?: number | null }) {
  const query = useQuery(nodeQuery(name));
  if (!query.data) return null;
  const jobs = query.data.jobs;
  return (
    <p>
      {jobs.length === 0 ? 'No job is on this node.' : 'Jobs on this node: '}
      {jobs.map((j, i) => (
        <span key={j.id + j.name}>
          {i > 0 && ', '}
          <Link to="/jobs/$id" params={{ id: j.id }}>
            {j.id} {j.name}
          </Link>
          <span className="dim">
            {' '}
            {j.project}
            {gpu !== null && gpu !== undefined && j.gpus.includes(gpu) && `, on GPU ${gpu}`}
          </span>
        </span>
      ))}
    </p>
  );
}

export function RemedyItem({ remedy, children }: { remedy: Remedy; children?: ReactNode }) {
  const { operates } = useRights();
  return (
    <div className="item">
      <h3>
        <span>{remedy.action_words}</span>
        <Link to="/nodes/$name" params={{ name: remedy.node }}>
          {remedy.node}
        </Link>
        {remedy.gpu !== null && remedy.gpu !== undefined && <span className="dim">GPU {remedy.gpu}</span>}
        <span className="dim">{watches(remedy) ? 'watched' : (STEPS[remedy.step] ?? remedy.step)}</span>
        <span className="dim">
          since <Ago at={remedy.since} />
        </span>
      </h3>
      <p>
        {remedy.why} <span className="dim">{remedy.kind}</span>
      </p>
      <Until remedy={remedy} />
      {children}
      {operates && remedy.step !== 'ended' && <RemedyButtons remedy={remedy} />}
    </div>
  );
}

function Waiting() {
  const site = useQuery(health());
  return (
    <Loaded query={site}>
      {(s) => (
        <Panel title="Waits for your word" note={s.waiting.length ? `${s.waiting.length}` : ''}>
          {s.waiting.length === 0 ? (
            <Empty title="Nothing waits">
              <p>
                Resets, restarts and replacements stop here until somebody approves them, unless the policy
                says otherwise.
              </p>
            </Empty>
          ) : (
            s.waiting.map((r, i) => (
              <RemedyItem key={r.id} remedy={r}>
                {i < ASKED && <Affected node={r.node} gpu={r.gpu} />}
              </RemedyItem>
            ))
          )}
        </Panel>
      )}
    </Loaded>
  );
}

function Incidents() {
  const query = useQuery(incidents());
  return (
    <Loaded query={query}>
      {(page) => {
        const open = page.items
          .filter((i) => i.state === 'open')
          .sort((a, b) => WORST[a.severity] - WORST[b.severity] || b.opened_at.localeCompare(a.opened_at));
        return (
          <Panel title="Incidents" note={open.length ? `${open.length} open, worst first` : ''}>
            {open.length === 0 ? (
              <Empty title="No incident is open">
                <p>
                  Findings that share a cause (a leaf, a feed, a driver version, a job template) become one
                  incident here. To practise: <code>muster gameday run</code>.
                </p>
              </Empty>
            ) : (
              open.map((i) => <IncidentItem key={i.id} incident={i} />)
            )}
          </Panel>
        );
      }}
    </Loaded>
  );
}

/** Findings of no incident. A token that is bound to a project gets those about its jobs, and no incidents. */
function LooseFindings() {
  const site = useQuery(health());
  const { whole, project } = useRights();
  const of = whole === false;
  const loose = (site.data?.findings ?? []).filter((f) => of || !f.incident);
  return (
    <Panel
      title={of ? `Findings about jobs of ${project}` : 'Findings of no incident'}
      note={loose.length ? `${loose.length} open` : ''}
    >
      {loose.length === 0 ? (
        <Empty title={of ? `None about jobs of ${project}` : 'None'} />
      ) : (
        [...loose]
          .sort((a, b) => WORST[a.severity] - WORST[b.severity])
          .map((f) => <FindingItem key={f.id} finding={f} />)
      )}
    </Panel>
  );
}

function IncidentItem({ incident }: { incident: Schemas['Incident'] }) {
  const { changes = [], findings = [] } = incident;
  return (
    <div className="item">
      <h3>
        <State word={incident.severity} />
        <Link to="/incidents/$id" params={{ id: incident.id }}>
          {incident.title || incident.kind}
        </Link>
        <span className="dim">{incident.cause}</span>
        <span className="dim">
          opened <Ago at={incident.opened_at} />
        </span>
      </h3>
      <p>{tidy(incident.summary)}</p>
      {changes.length > 0 && (
        <ul className="evidence">
          {changes.map((c) => (
            <li key={`${c.at}${c.text}`}>
              <Ago at={c.at} />: {c.text}
            </li>
          ))}
        </ul>
      )}
      <p className="dim">
        {incident.count} findings
        {findings.slice(0, 8).map((f) =>
          f.node ? (
            <span key={f.id}>
              {' '}
              <Link to="/nodes/$name" params={{ name: f.node }}>
                {f.node}
              </Link>
            </span>
          ) : null,
        )}
        {findings.length > 8 && ' …'}
      </p>
    </div>
  );
}

export function FindingItem({ finding: f, hideNode }: { finding: Schemas['Finding']; hideNode?: boolean }) {
  const { whole } = useRights();
  return (
    <div className="item">
      <h3>
        <State word={f.severity} />
        <span>{f.title || f.kind}</span>
        {f.node && !hideNode && (
          <Link to="/nodes/$name" params={{ name: f.node }}>
            {f.node}
          </Link>
        )}
        {f.gpu !== null && f.gpu !== undefined && <span className="dim">GPU {f.gpu}</span>}
        {f.job && (
          <Link to="/jobs/$id" params={{ id: String(f.job) }}>
            job {f.job}
          </Link>
        )}
        {!f.node && !f.job && <span className="dim">{f.entity}</span>}
        <span className="dim">
          opened <Ago at={f.opened_at} />
          {f.count > 1 && (
            <>
              , seen {f.count} times, last <Ago at={f.last_seen} />
            </>
          )}
        </span>
        {whole && (
          <Link to="/runbooks" search={{ mode: f.kind }}>
            runbook
          </Link>
        )}
      </h3>
      <ul className="evidence">
        {(f.evidence ?? []).slice(0, 4).map((line) => (
          <li key={line}>{line}</li>
        ))}
      </ul>
    </div>
  );
}

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
        const taken = count(a.taken.length, 'node');
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
                      text: running ? STOP_WORDS : 'Remedies that waited for a limit go on.',
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
                <dt>out of service</dt>
                <dd>
                  <Limit value={a.out} most={a.out_at_most} /> {a.out} of {a.nodes} nodes, {a.out_at_most} at
                  most
                </dd>
                <dt>taken this hour</dt>
                <dd>
                  <Limit value={a.taken.length} most={a.taken_at_most} /> {taken}, {a.taken_at_most} at most
                </dd>
                <dt>spares</dt>
                <dd>
                  {s.spares_left} of {s.spares} left
                </dd>
                {automationWords(a.modes).map(([word, actions]) => (
                  <Facts key={word} word={word} text={actions} />
                ))}
              </dl>
            </div>
          </Panel>
        );
      }}
    </Loaded>
  );
}

function Facts({ word, text }: { word: string; text: string }) {
  return (
    <>
      <dt>{word}</dt>
      <dd>{text}</dd>
    </>
  );
}

function Limit({ value, most }: { value: number; most: number }) {
  const share = most > 0 ? Math.min(1, value / most) : value > 0 ? 1 : 0;
  return (
    <span className="bar limit" aria-hidden="true">
      <i className={share >= 1 ? 'warn' : ''} style={{ width: `${share * 100}%` }} />
    </span>
  );
}

function Breakers() {
  const query = useQuery(breakers());
  return (
    <Loaded query={query}>
      {(page) => {
        const open = page.items.filter((b) => b.state !== 'closed');
        return (
          <Panel title="Breakers" note={open.length ? `${open.length} not closed` : ''}>
            {open.length === 0 ? (
              <Empty title="All closed">
                <p>
                  A breaker opens when nodes that share something fail together; work is kept away from all of
                  it.
                </p>
              </Empty>
            ) : (
              open.map((b) => (
                <div className="item" key={b.entity}>
                  <h3>
                    <State word={b.state} />
                    <span>{b.entity}</span>
                    <span className="dim">
                      {b.nodes} nodes, since <Ago at={b.since} />
                    </span>
                  </h3>
                  <p>{b.reason}</p>
                  {b.probe_at && (
                    <p className="dim">
                      tried again <Ago at={b.probe_at} />
                    </p>
                  )}
                </div>
              ))
            )}
          </Panel>
        );
      }}
    </Loaded>
  );
}

/** Remedies that ended, the last one first. */
export function lastEnded<R extends Pick<Remedy, 'step' | 'since'>>(all: R[], most = 5): R[] {
  const ended = all.filter((r) => r.step === 'ended');
  return ended.sort((a, b) => Date.parse(b.since) - Date.parse(a.since)).slice(0, most);
}

function UnderWay() {
  const query = useQuery(remedies());
  return (
    <Loaded query={query}>
      {(page) => {
        const going = page.items.filter(
          (r) => r.step !== 'ended' && r.step !== 'approval' && r.step !== 'proposed',
        );
        const ended = lastEnded(page.items);
        return (
          <Panel title="Remedies under way" note={going.length ? `${going.length}` : ''}>
            {going.length === 0 && <Empty title="None" />}
            {going.map((r) => (
              <RemedyItem key={r.id} remedy={r} />
            ))}
            {ended.map((r) => (
              <div className="item" key={r.id}>
                <span className="dim">
                  <Ago at={r.since} /> {r.action_words} on{' '}
                </span>
                <Link to="/nodes/$name" params={{ name: r.node }}>
                  {r.node}
                </Link>
                <span className="dim">: {r.outcome?.replaceAll('_', ' ') ?? 'ended'}</span>
              </div>
            ))}
          </Panel>
        );
      }}
    </Loaded>
  );
}
