import { type ReactNode, useState } from 'react';
import { api, must, once, type Schemas } from '../api/client';
import { isPending } from '../oncall/items';
import { useRefusal } from '../ui/act';
import { useAsked } from '../ui/asked';
import { useLinkedDialog } from '../ui/linked';
import { servesWords } from '../words';
import {
  affectedWords,
  drainWords,
  excludedAfter,
  gpusFor,
  type NodeOffer,
  nodeOffers,
  OFFER_WORDS,
  returnWords,
  whyNot,
} from './offers';

type Node = Schemas['Node'];

const read = async (name: string) =>
  must(await api.GET('/v1/nodes/{name}', { params: { path: { name } } })) as Node;

/** Excludes or includes a GPU. All that are excluded are sent: those of the node as it is now, not as the page has it. */
async function setExcluded(name: string, gpu: number, out: boolean, reason: string) {
  const now = await read(name);
  const header = { ...once(), 'If-Match': String(now.version) };
  const body = { gpus: excludedAfter(now.gpus_excluded, gpu, out), reason };
  return api.POST('/v1/nodes/{name}/exclude', { params: { path: { name }, header }, body });
}

/** What is known of a GPU that somebody excludes or includes: jobs on it, and what is open about it. */
function GpuWords({ node: n, gpu, out }: { node: Node; gpu: number; out: boolean }) {
  const open = (n.findings ?? []).filter((f) => f.gpu === gpu && f.severity === 'critical');
  const jobs = n.jobs.filter((j) => j.gpus.includes(gpu));
  if (out)
    return (
      <>
        <p>GPU {gpu} gets no new work. What runs on it continues; the other GPUs are not touched.</p>
        <p>{affectedWords(jobs, 'No job runs on it.')}</p>
      </>
    );
  return (
    <>
      <p>GPU {gpu} gets work again at once, without a test.</p>
      {open.length > 0 && (
        <p>
          Critical and still open: {open.map((f) => `${f.title || f.kind} (finding ${f.id})`).join('; ')}.
        </p>
      )}
      <p>No job is affected.</p>
    </>
  );
}

/** One GPU of several, and what is known of it. */
export function GpuChoice({
  node,
  of,
  out,
  onPick,
}: {
  node: Node;
  of: number[];
  out: boolean;
  onPick: (gpu: number) => void;
}) {
  const [gpu, setGpu] = useState(of[0]);
  return (
    <>
      <label className="stack">
        GPU
        <select
          value={gpu}
          onChange={(e) => {
            setGpu(Number(e.target.value));
            onPick(Number(e.target.value));
          }}
        >
          {of.map((g) => (
            <option key={g} value={g}>
              GPU {g}
            </option>
          ))}
        </select>
      </label>
      <GpuWords node={node} gpu={gpu} out={out} />
    </>
  );
}

/** What can be done with a node; each is asked for first, with the jobs on it. */
export function useNodeActions() {
  const { asked, busy } = useAsked();
  const refuse = useRefusal();
  const params = (n: Node) => ({ path: { name: n.name }, header: once() });
  const cordon = (n: Node) =>
    asked(
      {
        title: `Cordon ${n.name}`,
        text: 'It gets no new work; what runs there is not touched.',
        act: 'Cordon',
        reason: 'offered',
      },
      (reason) => api.POST('/v1/nodes/{name}/cordon', { params: params(n), body: { reason } }),
      `${n.name} gets no new work`,
    );
  // These three take nothing from anybody. A link may open them, so that they ask all the same.
  const uncordon = (n: Node) =>
    asked(
      { title: `Uncordon ${n.name}`, text: 'New work may be placed there again.', act: 'Uncordon' },
      () => api.POST('/v1/nodes/{name}/uncordon', { params: params(n) }),
      servesWords(n),
    );
  const drain = (n: Node) =>
    asked(
      {
        title: `Drain ${n.name}`,
        text: n.jobs.length ? drainWords(n.jobs) : 'Nothing runs here. No work comes until it is undrained.',
        act: 'Drain',
        reason: 'offered',
      },
      (reason) => api.POST('/v1/nodes/{name}/drain', { params: params(n), body: { reason, stop: false } }),
      `${n.name} is being drained`,
    );
  const undrain = (n: Node) =>
    asked(
      {
        title: `Undrain ${n.name}`,
        text: `New work may be placed there again. ${affectedWords(n.jobs, 'No job runs on this node.')}`,
        act: 'Undrain',
      },
      () => api.POST('/v1/nodes/{name}/undrain', { params: params(n) }),
      servesWords({ ...n, stage: 'ready' }, 'no longer drained'),
    );
  const qualify = (n: Node) =>
    asked(
      {
        title: `Qualify ${n.name}`,
        text: 'Its GPUs are measured against their SKU, its past and its peers. It gets no work meanwhile (seconds to minutes).',
        act: 'Qualify',
      },
      () => api.POST('/v1/nodes/{name}/qualify', { params: params(n), body: { level: 'quick' } }),
      `${n.name} is being tested`,
    );
  const endTest = (n: Node) =>
    asked(
      {
        title: `End the test of ${n.name}`,
        text: 'Its test ends without a result, and it gets work as before the test.',
        act: 'End test',
      },
      () => api.POST('/v1/nodes/{name}/cancel-qualification', { params: params(n) }),
      `The test of ${n.name} ends`,
    );
  const about = (n: Node, text: ReactNode) => (
    <>
      <p>{text}</p>
      <p>{affectedWords(n.jobs, 'No job runs on this node.')}</p>
    </>
  );
  const repaired = (n: Node) =>
    asked(
      {
        title: `Repaired: ${n.name}`,
        text: about(
          n,
          'It is tested, and returns to service when it passes; its findings are closed then. It gets no work before.',
        ),
        act: 'Repaired',
        reason: 'offered',
        label: 'What was done',
      },
      (note) => api.POST('/v1/nodes/{name}/repaired', { params: params(n), body: { note } }),
      `${n.name} is being tested, and returns when it passes`,
    );
  const giveBack = (n: Node) =>
    asked(
      {
        title: `Return ${n.name} to service`,
        text: about(n, returnWords(n)),
        act: 'Return to service',
        risky: true,
        reason: 'needed',
      },
      (reason) => api.POST('/v1/nodes/{name}/return', { params: params(n), body: { reason } }),
      `${n.name} is returned to service without a test`,
    );
  const retire = (n: Node) =>
    asked(
      {
        title: `Retire ${n.name}`,
        text: about(
          n,
          'It is removed from the site, and what runs there ends. Its enrolment ends: it joins again only with a new join token.',
        ),
        act: 'Retire',
        risky: true,
      },
      () => api.POST('/v1/nodes/{name}/retire', { params: params(n) }),
      `${n.name} is retired`,
    );
  /** `gpu`: this one, and no other. */
  const exclude = (n: Node, out: boolean, gpu?: number) => {
    const of = gpu === undefined ? gpusFor(n, out ? 'exclude' : 'include') : [gpu];
    let picked = of[0];
    const word = OFFER_WORDS[out ? 'exclude' : 'include'];
    // Whoever names GPUs gives a reason for them.
    const others = out || n.gpus_excluded.length > 1;
    return asked(
      {
        title: gpu === undefined ? `${word} of ${n.name}` : `${word} ${gpu} of ${n.name}`,
        text:
          gpu === undefined ? (
            <GpuChoice
              node={n}
              of={of}
              out={out}
              onPick={(g) => {
                picked = g;
              }}
            />
          ) : (
            <GpuWords node={n} gpu={gpu} out={out} />
          ),
        act: word,
        risky: !out,
        reason: others ? 'needed' : 'offered',
      },
      (reason) => setExcluded(n.name, picked, out, reason),
      () => `GPU ${picked} of ${n.name} ${out ? 'gets no new work' : 'gets work again'}`,
    );
  };
  const all: Record<NodeOffer, (n: Node, gpu?: number) => Promise<void>> = {
    uncordon,
    cordon,
    undrain,
    drain,
    cancel_qualification: endTest,
    qualify,
    repaired,
    return: giveBack,
    exclude: (n, gpu) => exclude(n, true, gpu),
    include: (n, gpu) => exclude(n, false, gpu),
    retire,
  };
  /** The same where only the name is known: the node is read first, so that its jobs are named. */
  const onNamed = async (offer: NodeOffer, name: string) => {
    try {
      const n = await read(name);
      const why = whyNot(n, offer);
      if (why) refuse(why);
      else await all[offer](n);
    } catch (e) {
      refuse((e as Error).message);
    }
  };
  return { all, onNamed, busy };
}

const KIND: Partial<Record<NodeOffer, string>> = {
  undrain: 'main',
  repaired: 'main',
  return: 'risky',
  retire: 'risky',
};

/** Why each of the other actions is refused now, for a link that names one. */
const refusals = (n: Node) =>
  Object.fromEntries((n.actions ?? []).flatMap((a) => (a.refused ? [[a.action, a.refused]] : [])));

/** The buttons of a node's page. */
export function NodeActions({ node: n }: { node: Node }) {
  const { all, busy } = useNodeActions();
  const can = nodeOffers(n);
  // Work keeps it from a test: the button says so, since work leaves.
  const shown = (n.actions ?? []).filter(
    (a) => !a.refused || (a.action === 'qualify' && n.jobs.length > 0 && !n.qualifying),
  );
  useLinkedDialog(Object.fromEntries(can.map((o) => [o, () => void all[o](n)])), n.name, busy, refusals(n));
  // What is pending approval is decided first, and has the main button of the page.
  const decided = !n.remediation_detail || !isPending(n.remediation_detail);
  return (
    <div className="actions">
      {shown.map(({ action: o, refused }) => (
        <button
          key={o}
          type="button"
          className={decided || KIND[o] !== 'main' ? KIND[o] : undefined}
          disabled={busy || !!refused}
          title={refused ?? (o === 'qualify' ? 'Test it before it takes more work' : undefined)}
          onClick={() => void all[o](n)}
        >
          {OFFER_WORDS[o]}
        </button>
      ))}
    </div>
  );
}

/** The button of a GPU's page. */
export function GpuActions({ node: n, gpu }: { node: Node; gpu: number }) {
  const { all, busy } = useNodeActions();
  const offer = n.gpus_excluded.includes(gpu) ? 'include' : 'exclude';
  const may = gpusFor(n, offer).includes(gpu);
  const dialogs = may ? { [offer]: () => void all[offer](n, gpu) } : {};
  useLinkedDialog(dialogs, `GPU ${gpu} of ${n.name}`, busy, refusals(n));
  if (n.stage === 'retired') return null;
  return (
    <div className="actions">
      <button
        type="button"
        disabled={busy || !may}
        title={
          may ? undefined : (whyNot(n, offer) ?? 'It cannot be included while another GPU stays excluded')
        }
        onClick={() => void all[offer](n, gpu)}
      >
        {OFFER_WORDS[offer]}
      </button>
    </div>
  );
}
