import { useMemo, useState } from 'react';
import { api, must, once, type Schemas } from '../api/client';
import { useFleet } from '../live/context';
import { useRevision } from '../live/fleet';
import { useRights } from '../rights';
import { useSend } from '../ui/act';
import { useAsk } from '../ui/ask';
import { Page } from '../ui/page';
import { count, Panel } from '../ui/parts';
import {
  ACTION_WORDS,
  ACTIONS,
  type Action,
  forEach,
  movesWork,
  type Outcome,
  outcomesOf,
  type Plan,
  planOf,
  racksOf,
} from './bulk';
import { Chooser } from './bulk-chooser';
import { FormError } from './field';
import { some } from './reservation-plan';

/** Most nodes of one action: each is a request of its own. */
const MOST = 500;
const AT_ONCE = 4;

const read = async (name: string) =>
  must(await api.GET('/v1/nodes/{name}', { params: { path: { name } } })) as Schemas['Node'];

/** What one action asks of the server for one node: what `muster node` does. */
function act(action: Action, name: string, reason: string, stop: boolean): Promise<unknown> {
  const params = { path: { name }, header: once() };
  if (action === 'cordon') return api.POST('/v1/nodes/{name}/cordon', { params, body: { reason } });
  if (action === 'uncordon') return api.POST('/v1/nodes/{name}/uncordon', { params });
  if (action === 'drain') return api.POST('/v1/nodes/{name}/drain', { params, body: { reason, stop } });
  if (action === 'undrain') return api.POST('/v1/nodes/{name}/undrain', { params });
  return api.POST('/v1/nodes/{name}/qualify', { params, body: { level: 'quick' } });
}

/** One action on many nodes. What it affects is read and named before anything is done. */
export function BulkNodesPage() {
  const fleet = useFleet();
  useRevision(fleet);
  const [words, setWords] = useState('');
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const [outcome, setOutcome] = useState<{ action: Action; all: Outcome[] } | null>(null);
  const ask = useAsk();
  const { send, busy, error } = useSend();
  const { whole, operates } = useRights();
  const layout = fleet.layout;
  const names = [...chosen];
  const groups = useMemo(() => (layout ? racksOf(layout, words) : []), [layout, words]);
  const run = async (action: Action) => {
    const word = ACTION_WORDS[action];
    const seen = await send(() => forEach(names, AT_ONCE, read), '');
    if (!seen) return;
    const broken = seen.flatMap((s) => (s.error ? [{ name: s.name, why: s.error.message }] : []));
    const plan = planOf(
      action,
      seen.flatMap((s) => s.answer ?? []),
    );
    plan.skipped.push(...broken);
    let stop = false;
    const reason = await ask({
      title: `${word.verb} ${count(plan.on.length, 'node')}`,
      text: (
        <PlanWords
          action={action}
          plan={plan}
          onStop={(yes) => {
            stop = yes;
          }}
        />
      ),
      act: plan.on.length === 0 ? 'Close' : `${word.verb} ${plan.on.length}`,
      risky: movesWork(action) && plan.jobs.length > 0,
      reason: action === 'cordon' || action === 'drain' ? 'offered' : undefined,
    });
    if (reason === null || plan.on.length === 0) return;
    const done = await send(() => forEach(plan.on, AT_ONCE, (name) => act(action, name, reason, stop)), '');
    if (!done) return;
    const all = outcomesOf(seen, done);
    setOutcome({ action, all });
    // What was refused stays chosen, so that it can be tried again.
    setChosen(new Set(all.filter((o) => o.refused !== null).map((o) => o.name)));
  };
  return (
    <Page
      title="Bulk actions on nodes"
      about={
        <span className="dim">
          Choose nodes or whole racks; what is affected is named before anything is done.
        </span>
      }
    >
      {whole !== null && !operates && <p className="state">This token may not change nodes.</p>}
      {operates && (
        <div className="panel bulk-bar">
          <span role="status">{count(chosen.size, 'node')} chosen</span>
          {ACTIONS.map((a) => (
            <button
              key={a}
              type="button"
              disabled={busy || chosen.size === 0 || chosen.size > MOST}
              onClick={() => void run(a)}
            >
              {ACTION_WORDS[a].verb}
            </button>
          ))}
          <button type="button" disabled={chosen.size === 0} onClick={() => setChosen(new Set())}>
            Clear
          </button>
          {chosen.size > MOST && <span className="error">At most {MOST} nodes at once.</span>}
        </div>
      )}
      <FormError error={error} fields={[]} />
      {outcome && <Outcomes of={outcome} />}
      {!operates ? null : layout ? (
        <Chooser groups={groups} words={words} setWords={setWords} chosen={chosen} setChosen={setChosen} />
      ) : (
        <p className="state" role="status">
          Waiting for the first snapshot of the fleet…
        </p>
      )}
    </Page>
  );
}

/** What an action would do, in the dialog that asks for it. */
function PlanWords({
  action,
  plan,
  onStop,
}: {
  action: Action;
  plan: Plan;
  onStop: (stop: boolean) => void;
}) {
  const [stop, setStop] = useState(false);
  return (
    <>
      {plan.on.length === 0 ? (
        <p>There is nothing to do on the nodes that are chosen.</p>
      ) : (
        <p>
          {ACTION_WORDS[action].effect} Nodes: {some(plan.on, 12)}.
        </p>
      )}
      {plan.on.length > 0 && (
        <p>
          {plan.jobs.length === 0
            ? 'No job is allocated to them.'
            : `${count(plan.jobs.length, 'job')} allocated to them:`}
        </p>
      )}
      {plan.jobs.length > 0 && (
        <ul className="approvals">
          {plan.jobs.map((j) => (
            <li key={j.id}>
              {j.id} {j.name} ({j.project})
            </li>
          ))}
        </ul>
      )}
      {action === 'drain' && plan.jobs.length > 0 && (
        <label className="check">
          <input
            type="checkbox"
            checked={stop}
            onChange={(e) => {
              setStop(e.target.checked);
              onStop(e.target.checked);
            }}
          />{' '}
          Stop and requeue these jobs instead of letting them end
        </label>
      )}
      {plan.skipped.length > 0 && (
        <>
          <p>Left as they are:</p>
          <ul className="approvals">
            {plan.skipped.map((s) => (
              <li key={s.name}>
                {s.name}: {s.why}
              </li>
            ))}
          </ul>
        </>
      )}
    </>
  );
}

function Outcomes({ of: { action, all } }: { of: { action: Action; all: Outcome[] } }) {
  const refused = all.filter((o) => o.refused !== null);
  const done = all.length - refused.length;
  return (
    <Panel title="Last action">
      <div className="body" role="status">
        <p>
          {count(done, 'node')} {ACTION_WORDS[action].done}.
        </p>
      </div>
      {refused.length > 0 && (
        <div className="body" role="alert">
          <p>{count(refused.length, 'node')} refused, and still chosen:</p>
          <ul className="approvals">
            {refused.map((o) => (
              <li key={o.name}>
                {o.name}: {o.refused}
              </li>
            ))}
          </ul>
        </div>
      )}
    </Panel>
  );
}
