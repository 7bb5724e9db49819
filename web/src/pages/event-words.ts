import type { Schemas } from '../api/client';
import { domainWords } from '../words';

type Event = Schemas['LogEvent'];

/** What an event is about, such as `gpu:hgx-01/3`. */
export const entityOf = (d: Record<string, never>): string | undefined =>
  [d.finding, d.seen, d.incident, d.alert, d.condition, d.breaker, d]
    // biome-ignore lint/suspicious/noExplicitAny: the log's own shape, which the API does not describe
    .map((o: any) => o?.entity ?? o?.cause)
    .find((e) => typeof e === 'string' && e);

/** Kinds whose names are those of the log, as people say them. */
const KINDS: Record<string, string> = {
  slot_started: 'ranks started on a node',
  slot_ended: 'ranks ended on a node',
  counts_reported: 'SLO counts saved',
  notice_given: 'warned before a stop',
  notice_withdrawn: 'stop withdrawn',
  stop_ordered: 'attempt is being stopped',
  act_asked: 'action requested',
  act_ended: 'action ended',
  node_staged: 'node state changed',
  node_inventoried: 'node reported its hardware',
  node_back: 'node connected again',
};

/** What kind of event it is. */
export const kindWords = (kind: string) => KINDS[kind] ?? kind.replaceAll('_', ' ');

/** Where a gang was placed: its nodes, or how many they are and the domain. */
function placeWords(p: { slots?: { node?: string }[]; domain?: string } | undefined): string | undefined {
  const nodes = [...new Set(p?.slots?.flatMap((s) => s.node ?? []))];
  if (!p || nodes.length === 0) return undefined;
  return nodes.length <= 3
    ? `on ${nodes.join(', ')}`
    : `on ${nodes.length} nodes in ${domainWords(p.domain ?? 'the fleet')}`;
}

/** The job and node that an event is about, and what it says in a few words. */
export function about(e: Event): { job?: string; node?: string; text: string } {
  // biome-ignore lint/suspicious/noExplicitAny: as above
  const d = (e.data ?? {}) as any;
  const entity = entityOf(d);
  // A key names an attempt, or a machine's public key.
  const number = d.key?.job ?? d.job ?? (e.kind === 'job_submitted' ? d.id : undefined);
  const job =
    typeof number === 'number' || typeof number === 'string'
      ? String(number)
      : entity?.match(/^job:(\d+)/)?.[1];
  const act = d.act?.act;
  const node: string | undefined =
    d.node ?? d.remediation?.node ?? act?.node ?? entity?.match(/^(?:node|gpu|port):([^/]+)/)?.[1];
  const reason = typeof d.reason === 'string' ? d.reason : d.reason?.why?.replaceAll('_', ' ');
  const elsewhere = /^(node|gpu|port|job):/.test(entity ?? '') ? undefined : entity;
  const of = d.finding ?? d.seen ?? d.incident ?? d.alert ?? d.condition;
  const numbered = /^(finding|incident|remediation|act|alert)_/.exec(e.kind);
  const words = [
    placeWords(d.placement),
    numbered && d.id !== undefined && `${numbered[1]} ${d.id}`,
    d.run?.book ?? (typeof d.run === 'number' && `run ${d.run}`),
    act?.what?.replaceAll('_', ' '),
    act?.gpu !== undefined && `GPU ${act.gpu}`,
    act?.title,
    of?.kind,
    of?.summary,
    elsewhere,
    d.fault?.code,
    d.remediation?.action,
    d.breaker?.state,
    d.step,
    d.stage,
    d.silence?.name,
    d.receiver,
    typeof d.alerts?.length === 'number' && `${d.alerts.length} alerts`,
    reason,
    d.why,
    d.name,
    d.outcome,
    d.message,
    d.text,
    d.error,
  ];
  const text = words.filter((t, i) => typeof t === 'string' && t && words.indexOf(t) === i).join(', ');
  return { job, node, text };
}
