import { Link, useNavigate } from '@tanstack/react-router';
import { api, must, once, type Schemas } from '../api/client';
import { useRights } from '../rights';
import { useAct } from '../ui/act';
import { useAsk } from '../ui/ask';
import { useLinkedDialog } from '../ui/linked';
import { LIMIT, offers } from './offers';

type Job = Schemas['Job'];

/** A new time limit, asked for in the dialog. */
function LimitField({ limit, onType }: { limit: string; onType: (limit: string) => void }) {
  return (
    <label className="stack">
      Time limit of one attempt, from its start
      <input
        defaultValue={limit}
        required
        pattern={LIMIT}
        title="Minutes, hours or days, such as 90m, 4h or 1d12h"
        placeholder="4h"
        autoComplete="off"
        onChange={(e) => onType(e.target.value)}
      />
    </label>
  );
}

/** What may be done with a job; each is asked for first. */
export function Actions({ job: j }: { job: Job }) {
  const ask = useAsk();
  const navigate = useNavigate();
  const { act, busy } = useAct();
  const may = offers(j, useRights());
  const params = () => ({ path: { id: j.id }, header: once() });
  const name = `job ${j.id} ${j.name}`;

  const hold = async () => {
    const text = 'It stays in the queue and does not start until it is released.';
    if ((await ask({ title: `Hold ${name}`, text, act: 'Hold' })) === null) return;
    void act(() => api.POST('/v1/jobs/{id}/hold', { params: params() }), `Job ${j.id} is held`);
  };
  const release = async () => {
    const text = 'It waits in the queue again, and starts when it fits.';
    if ((await ask({ title: `Release ${name}`, text, act: 'Release' })) === null) return;
    void act(() => api.POST('/v1/jobs/{id}/release', { params: params() }), `Job ${j.id} is released`);
  };
  const requeue = async () => {
    const how = j.state === 'cancelled' ? 'been cancelled' : j.state;
    const text = `It has ${how} and runs again under the same number: it goes back into the queue, and a new attempt starts when it fits.`;
    if ((await ask({ title: `Requeue ${name}`, text, act: 'Requeue' })) === null) return;
    void act(() => api.POST('/v1/jobs/{id}/requeue', { params: params() }), `Job ${j.id} is requeued`);
  };
  const again = async () => {
    const text = 'The same spec and script are submitted as a new job, with a number of its own.';
    if ((await ask({ title: `Submit ${name} again`, text, act: 'Submit' })) === null) return;
    void act(async () => {
      const spec = must(await api.GET('/v1/jobs/{id}/spec', { params: { path: { id: j.id } } }));
      const made = must(
        await api.POST('/v1/jobs', { params: { header: once() }, body: spec }),
      ) as unknown as { id: string };
      await navigate({ to: '/jobs/$id', params: { id: made.id } });
    }, `Submitted ${j.name} again`);
  };
  const limit = async () => {
    let asked = String(j.spec.time_limit ?? '');
    const text = (
      <>
        <p>
          {j.state === 'queued'
            ? 'A reserved start is computed anew.'
            : 'Its attempt ends when it has run for so long. Reserved starts of other jobs may become later.'}
        </p>
        <LimitField
          limit={asked}
          onType={(typed) => {
            asked = typed;
          }}
        />
      </>
    );
    if ((await ask({ title: `Time limit of ${name}`, text, act: 'Change' })) === null) return;
    void act(
      () =>
        api.PATCH('/v1/jobs/{id}', { params: params(), body: { priority: null, time_limit: asked.trim() } }),
      `Job ${j.id} has a time limit of ${asked.trim()}`,
    );
  };
  const cancel = async () => {
    const yes = await ask({
      title: `Cancel ${name}`,
      text: 'Its ranks are stopped. This cannot be undone.',
      act: 'Cancel the job',
      risky: true,
    });
    if (yes === null) return;
    void act(() => api.POST('/v1/jobs/{id}/cancel', { params: params() }), `Job ${j.id} is being cancelled`);
  };
  const buttons: [(typeof may)[number], string, () => Promise<void>, string?][] = [
    ['release', 'Release', release, 'main'],
    ['hold', 'Hold', hold],
    ['limit', 'Time limit', limit],
    ['requeue', 'Requeue', requeue, 'main'],
    ['again', 'Submit again', again],
    ['cancel', 'Cancel', cancel, 'risky'],
  ];
  const open = buttons.filter(([offer]) => may.includes(offer)).map(([o, , run]) => [o, () => void run()]);
  useLinkedDialog(Object.fromEntries(open), name, busy || may.length === 0);
  if (may.length === 0) return null;
  // One main thing to do at most.
  const next = may.includes('requeue') || may.includes('release');
  return (
    <div className="actions">
      {may.includes('clone') && (
        <Link to="/jobs/new" search={{ from: j.id }} className={next ? 'button plain' : 'button'}>
          Clone
        </Link>
      )}
      {buttons
        .filter(([offer]) => may.includes(offer))
        .map(([offer, word, run, kind]) => (
          <button key={offer} type="button" className={kind} disabled={busy} onClick={() => void run()}>
            {word}
          </button>
        ))}
    </div>
  );
}
