import { useQuery } from '@tanstack/react-query';
import { useNavigate, useSearch } from '@tanstack/react-router';
import { useEffect, useMemo, useState } from 'react';
import { ApiError, api, must, once, type Schemas } from '../api/client';
import { commandOf, FIRST, type Form, formOf, keepsGang, type Spec, specOf, specYaml } from '../jobs/form';
import { useFleet } from '../live/context';
import { useRevision } from '../live/fleet';
import { jobSpec, projects } from '../queries';
import { useRights } from '../rights';
import { useAct } from '../ui/act';
import { Options } from '../ui/options';
import { Page } from '../ui/page';
import { Empty, Loaded, Panel, Problem } from '../ui/parts';
import { Explained } from './explanation';

type Answer = { explanation?: Schemas['Explanation']; error?: Error };

/** Asks the server what would happen, a moment after the last change. */
function useDryRun(body: unknown): Answer | null {
  const [answer, setAnswer] = useState<Answer | null>(null);
  const text = JSON.stringify(body);
  useEffect(() => {
    const stop = new AbortController();
    const timer = setTimeout(async () => {
      try {
        const got = await api.POST('/v1/jobs', {
          params: { query: { dry_run: true } },
          body: JSON.parse(text),
          signal: stop.signal,
        });
        setAnswer({ explanation: must(got) as unknown as Schemas['Explanation'] });
      } catch (error) {
        if (!stop.signal.aborted) setAnswer({ error: error as Error });
      }
    }, 350);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [text]);
  return answer;
}

export function SubmitPage() {
  const { from } = useSearch({ from: '/jobs/new' });
  return (
    <Page
      title="Submit a job"
      about={
        from && <span className="dim">Filled from job {from}; what has no field here stays in the spec.</span>
      }
    >
      {from ? <Clone key={from} id={from} /> : <SubmitForm first={FIRST} base={{}} />}
    </Page>
  );
}

/** The form, filled from a job that was submitted before. */
function Clone({ id }: { id: string }) {
  const query = useQuery(jobSpec(id));
  return <Loaded query={query}>{(spec) => <SubmitForm first={formOf(spec)} base={spec} />}</Loaded>;
}

function SubmitForm({ first, base }: { first: Form; base: Spec }) {
  const [form, setForm] = useState(first);
  const fleet = useFleet();
  useRevision(fleet);
  const known = useQuery(projects());
  const navigate = useNavigate();
  const { act, busy } = useAct();
  const { whole, project, submits } = useRights();
  // What is not named is the one project that a bound token has.
  const others = known.data?.items.map((p) => p.name).filter((name) => name !== project);
  const body = useMemo(() => specOf(form, base), [form, base]);
  const answer = useDryRun(body);
  const set = (key: keyof Form) => (e: { target: { value: string } }) =>
    setForm({ ...form, [key]: e.target.value });
  const submit = () =>
    act(async () => {
      const made = must(
        await api.POST('/v1/jobs', {
          params: { header: once() },
          body: body as unknown as Schemas['JobSpec'],
        }),
      ) as unknown as { id: string };
      await navigate({ to: '/jobs/$id', params: { id: made.id } });
    }, `Submitted ${form.name}`);
  return (
    <div className="columns">
      <Panel title="Job">
        <form
          className="body fields"
          onSubmit={(e) => {
            e.preventDefault();
            if (submits) void submit();
          }}
        >
          <label>
            Name <input value={form.name} onChange={set('name')} autoComplete="off" />
          </label>
          <label>
            Project
            <select value={form.project} onChange={set('project')}>
              <option value="">{project ?? 'the default one'}</option>
              <Options of={others} taken={form.project} />
            </select>
          </label>
          {keepsGang(base) ? (
            <p className="whole dim">
              Its gang has groups or parts of a GPU, which have no fields here: it stays as it is.
            </p>
          ) : (
            <>
              <label>
                Nodes <input type="number" min={1} value={form.nodes} onChange={set('nodes')} />
              </label>
              <label>
                GPUs on each <input type="number" min={0} value={form.gpus} onChange={set('gpus')} />
              </label>
              <label>
                SKU
                <select value={form.sku} onChange={set('sku')}>
                  <option value="">any</option>
                  <Options of={fleet.layout?.skus} taken={form.sku} />
                </select>
              </label>
            </>
          )}
          <label>
            Topology constraint: within one
            <select value={form.within} onChange={set('within')}>
              <option value="">anything</option>
              <Options of={['spine', 'leaf', 'rack', 'nvlink']} taken={form.within} />
            </select>
          </label>
          <label>
            Priority
            <select value={form.priority} onChange={set('priority')}>
              <Options of={['low', 'normal', 'high', 'critical']} />
            </select>
          </label>
          <label>
            Time limit <input value={form.limit} onChange={set('limit')} placeholder="none, or 12h" />
          </label>
          <label>
            Infrastructure retries{' '}
            <input type="number" min={0} value={form.retries} onChange={set('retries')} />
          </label>
          <label className="check">
            <input
              type="checkbox"
              checked={form.simulated}
              onChange={(e) => setForm({ ...form, simulated: e.target.checked })}
            />{' '}
            Dry workload (simulated nodes only)
          </label>
          {form.simulated ? (
            <label>
              For <input value={form.length} onChange={set('length')} />
            </label>
          ) : (
            <label className="whole">
              Script, run by every rank
              {commandOf(base).length > 0 && ` (empty: it runs ${commandOf(base).join(' ')})`}
              <textarea
                rows={6}
                value={form.script}
                onChange={set('script')}
                className="mono"
                spellCheck={false}
              />
            </label>
          )}
          <div className="whole">
            {submits && (
              <button
                type="submit"
                className="main"
                disabled={busy || !!answer?.error || answer?.explanation?.possible === false}
              >
                Submit
              </button>
            )}
            {whole !== null && !submits && <p className="dim">This token may not submit jobs.</p>}
          </div>
        </form>
      </Panel>
      <div>
        <Panel title="What would happen" note="asked anew with every change; nothing is started">
          {!answer ? (
            <Empty title="Asking…" />
          ) : answer.error ? (
            <div className="body">
              <Problem error={answer.error} />
              {answer.error instanceof ApiError && answer.error.field && (
                <p className="dim">Look at: {answer.error.field}</p>
              )}
            </div>
          ) : (
            answer.explanation && <Explained of={answer.explanation} />
          )}
        </Panel>
        <Panel title="The same as a file" note="muster submit job.yaml">
          <pre className="log">{specYaml(body)}</pre>
        </Panel>
      </div>
    </div>
  );
}
