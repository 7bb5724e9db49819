import { useQuery } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { useEffect, useMemo, useState } from 'react';
import { ApiError, api, must, once, type Schemas } from '../api/client';
import { useFleet } from '../live/context';
import { useRevision } from '../live/fleet';
import { projects } from '../queries';
import { useRights } from '../rights';
import { useAct } from '../ui/act';
import { Empty, Panel, Problem } from '../ui/parts';
import { yaml } from '../yaml';
import { Explained } from './explanation';

interface Form {
  name: string;
  project: string;
  nodes: string;
  gpus: string;
  sku: string;
  priority: string;
  within: string;
  limit: string;
  pretend: boolean;
  script: string;
  length: string;
  retries: string;
}

const FIRST: Form = {
  name: 'hello',
  project: '',
  nodes: '1',
  gpus: '8',
  sku: '',
  priority: 'normal',
  within: '',
  limit: '',
  pretend: false,
  script: 'echo rank $RANK of $WORLD_SIZE on $MUSTER_NODE\n',
  length: '10m',
  retries: '20',
};

/** The spec that the form stands for. */
export function spec(f: Form) {
  const number = (text: string) => (text.trim() === '' ? undefined : Number(text));
  return {
    kind: 'Job',
    name: f.name || undefined,
    project: f.project || undefined,
    gang: { nodes: number(f.nodes), gpus_per_node: number(f.gpus), sku: f.sku || undefined },
    priority: f.priority === 'normal' ? undefined : f.priority,
    topology: f.within ? { required: f.within } : undefined,
    time_limit: f.limit || undefined,
    retries: f.retries === '20' ? undefined : { infrastructure: number(f.retries) },
    ...(f.pretend ? { simulate: { run: f.length } } : { run: { script: f.script } }),
  };
}

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
  const [form, setForm] = useState(FIRST);
  const fleet = useFleet();
  useRevision(fleet);
  const known = useQuery(projects());
  const navigate = useNavigate();
  const { act, busy } = useAct();
  const { whole, submits } = useRights();
  const body = useMemo(() => spec(form), [form]);
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
    <main className="page" id="page">
      <div className="head">
        <h1>Submit a job</h1>
      </div>
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
                <option value="">the default one</option>
                {known.data?.items.map((p) => (
                  <option key={p.name}>{p.name}</option>
                ))}
              </select>
            </label>
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
                {fleet.layout?.skus.map((s) => (
                  <option key={s}>{s}</option>
                ))}
              </select>
            </label>
            <label>
              All of it within one
              <select value={form.within} onChange={set('within')}>
                <option value="">anything</option>
                {['spine', 'leaf', 'rack', 'nvlink'].map((l) => (
                  <option key={l}>{l}</option>
                ))}
              </select>
            </label>
            <label>
              Priority
              <select value={form.priority} onChange={set('priority')}>
                {['low', 'normal', 'high', 'critical'].map((p) => (
                  <option key={p}>{p}</option>
                ))}
              </select>
            </label>
            <label>
              Time limit <input value={form.limit} onChange={set('limit')} placeholder="none, or 12h" />
            </label>
            <label>
              Attempts after failures of the platform{' '}
              <input type="number" min={0} value={form.retries} onChange={set('retries')} />
            </label>
            <label className="check">
              <input
                type="checkbox"
                checked={form.pretend}
                onChange={(e) => setForm({ ...form, pretend: e.target.checked })}
              />{' '}
              Only pretend to work (simulated nodes)
            </label>
            {form.pretend ? (
              <label>
                For <input value={form.length} onChange={set('length')} />
              </label>
            ) : (
              <label className="whole">
                Script, run by every rank
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
            <pre className="log">{yaml(body)}</pre>
          </Panel>
        </div>
      </div>
    </main>
  );
}
