import { useQuery } from '@tanstack/react-query';
import { type ReactNode, useState } from 'react';
import { api, once } from '../api/client';
import { whoami } from '../queries';
import { useAct } from '../ui/act';
import { useAsk } from '../ui/ask';
import { useAsked } from '../ui/asked';
import { count } from '../ui/parts';
import {
  type Alert,
  approveEach,
  LENGTHS,
  OWN_LENGTH,
  type Pending,
  silenceMatch,
  silenceName,
  silenceWords,
  where,
} from './causes';

/** Jobs that an approval stops or moves, named before anybody confirms it. */
function Approvals({ of: all }: { of: Pending[] }) {
  return (
    <>
      <p>Work leaves first, or has left. Jobs without a checkpoint start again.</p>
      <ul className="approvals">
        {all.map(({ remediation: r, jobs, unnamed }) => (
          <li key={r.id}>
            <b>{r.action_text}</b> on {where(r)} <span className="dim">({r.kind})</span>
            <br />
            {jobs.length === 0
              ? unnamed > 0
                ? 'Not all jobs are named here: look at the node first.'
                : 'No job runs on this node.'
              : `Affected jobs: ${jobs.map((j) => `${j.id} ${j.name} (${j.project})`).join(', ')}`}
            {jobs.length > 0 && unnamed > 0 && ', and others'}
          </li>
        ))}
      </ul>
    </>
  );
}

/** Approves remediations, one or many, after naming what they affect. */
export function useApprove() {
  const ask = useAsk();
  const { act, busy } = useAct();
  const approve = async (all: Pending[]): Promise<boolean> => {
    const [one] = all;
    if (!one) return false;
    const alone = all.length === 1;
    const yes = await ask({
      title: alone
        ? `Approve: ${one.remediation.action_text} on ${where(one.remediation)}`
        : `Approve ${count(all.length, 'remediation')}`,
      text: <Approvals of={all} />,
      act: alone ? 'Approve' : `Approve ${all.length}`,
    });
    if (yes === null) return false;
    await act(
      () =>
        approveEach(
          all.map((p) => p.remediation),
          (id) => api.POST('/v1/remediations/{id}/approve', { params: { path: { id }, header: once() } }),
        ),
      alone
        ? `Approved: ${one.remediation.action_text} on ${where(one.remediation)}`
        : `Approved: ${count(all.length, 'remediation')}`,
    );
    return true;
  };
  return { approve, busy };
}

/** How long a silence lasts: one of a few lengths, or one of one's own. */
function LengthPicker({ onPick }: { onPick: (length: string) => void }) {
  const [picked, setPicked] = useState('2h');
  const [own, setOwn] = useState('');
  const radio = (value: string, words: ReactNode, length: string) => (
    <label key={value}>
      <input
        type="radio"
        name="silence-length"
        value={value}
        checked={picked === value}
        onChange={() => {
          setPicked(value);
          onPick(length);
        }}
      />{' '}
      {words}
    </label>
  );
  return (
    <fieldset className="lengths">
      <legend>For how long</legend>
      {LENGTHS.map(([length, words]) => radio(length, words, length))}
      {radio('own', 'Custom', own)}
      <input
        aria-label="Custom length"
        placeholder="45m, 6h, 1h30m"
        title="Minutes, hours or days, such as 45m, 6h, 1h30m or 3d"
        pattern={OWN_LENGTH}
        required={picked === 'own'}
        disabled={picked !== 'own'}
        value={own}
        onChange={(e) => {
          setOwn(e.target.value);
          onPick(e.target.value);
        }}
      />
    </fieldset>
  );
}

/** What can be said about an alert. */
export function useAlertActions() {
  const ask = useAsk();
  const { asked, act, busy } = useAsked();
  const params = (a: Alert) => ({ path: { id: a.id }, header: once() });
  const acknowledge = (a: Alert) =>
    asked(
      {
        title: `Acknowledge: ${a.summary}`,
        text: 'Reminders and escalation end, until it becomes more urgent.',
        act: 'Acknowledge',
        reason: 'offered',
      },
      (note) => api.POST('/v1/alerts/{id}/acknowledge', { params: params(a), body: { note } }),
      'Acknowledged',
    );
  const silence = async (a: Alert) => {
    let length = '2h';
    const why = await ask({
      title: `Silence: ${a.summary}`,
      text: (
        <>
          <p>{silenceWords(a)}</p>
          <LengthPicker
            onPick={(l) => {
              length = l;
            }}
          />
        </>
      ),
      act: 'Silence',
      reason: 'needed',
    });
    if (why === null) return;
    const name = silenceName(a, Date.now());
    const body = { match: silenceMatch(a), length, why };
    await act(
      () => api.PUT('/v1/silences/{name}', { params: { path: { name }, header: once() }, body }),
      `Silenced for ${length}`,
    );
  };
  const escalate = (a: Alert) =>
    asked(
      {
        title: `Escalate: ${a.summary}`,
        text: `The next escalation step of its route is notified now${a.acknowledged ? '. The acknowledgement ends' : ''}.`,
        act: 'Escalate',
        reason: 'offered',
      },
      (reason) => api.POST('/v1/alerts/{id}/escalate', { params: params(a), body: { reason } }),
      'Escalated',
    );
  return { acknowledge, silence, escalate, busy };
}

/** Who an incident is assigned to. Nobody is chosen by `Unassign` alone, so that an empty field is refused. */
export function OwnerField({ owner: old, onChange }: { owner: string; onChange: (owner: string) => void }) {
  const [owner, setOwner] = useState(old);
  return (
    <label className="stack">
      Owner, such as user:ann
      <input
        value={owner}
        required
        pattern=".*\S.*"
        maxLength={128}
        autoComplete="off"
        onChange={(e) => {
          setOwner(e.target.value);
          onChange(e.target.value.trim());
        }}
      />
    </label>
  );
}

/** What may be done about who has an incident. */
export function assignments(owner: string | null | undefined, me: string | undefined) {
  return { take: me !== undefined && owner !== me, release: Boolean(owner) };
}

/** Assign an incident, end that, or close it. */
export function useIncidentActions() {
  const ask = useAsk();
  const { asked, act, busy } = useAsked();
  const me = useQuery(whoami()).data?.name;
  const params = (id: string) => ({ path: { id }, header: once() });
  const take = (id: string) =>
    act(
      () => api.POST('/v1/incidents/{id}/own', { params: params(id), body: { owner: null, release: false } }),
      `Incident ${id} is assigned to you`,
    );
  const assign = async (id: string, old: string | null | undefined) => {
    let owner = old ?? '';
    const yes = await ask({
      title: `Assign incident ${id}`,
      text: (
        <OwnerField
          owner={owner}
          onChange={(o) => {
            owner = o;
          }}
        />
      ),
      act: 'Assign',
    });
    if (yes === null || owner === '') return;
    await act(
      () => api.POST('/v1/incidents/{id}/own', { params: params(id), body: { owner, release: false } }),
      `Incident ${id} is assigned to ${owner}`,
    );
  };
  const release = (id: string, owner: string | null | undefined) =>
    asked(
      {
        title: `Unassign incident ${id}`,
        text: `It is assigned to ${(owner ?? 'nobody').replace(/^user:/, '')}. Nobody is responsible for it afterwards.`,
        act: 'Unassign',
        risky: true,
      },
      () => api.POST('/v1/incidents/{id}/own', { params: params(id), body: { owner: null, release: true } }),
      `Incident ${id} is assigned to nobody`,
    );
  const close = (id: string) =>
    asked(
      {
        title: `Close incident ${id}`,
        text: 'Its open findings are closed with it. What detectors still see is found again, and opens a new incident. It is refused while a remediation for one of them is pending, or a node is out of service for it.',
        act: 'Close the incident',
        risky: true,
        reason: 'needed',
      },
      (reason) => api.POST('/v1/incidents/{id}/close', { params: params(id), body: { reason } }),
      `Incident ${id} is closed`,
    );
  return { me, take, assign, release, close, busy };
}
