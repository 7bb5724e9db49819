// What the pages of one project say. No React here.
import type { Schemas } from '../api/client';
import { interruptionLosses, sum } from '../exec/cost';
import type { FleetMetrics } from '../exec/fleet-metrics';
import { gpus } from '../manage/quota-words';
import { count, span, type Tone } from '../ui/parts';

type Job = Schemas['Job'];

/** What whoever has a token and nothing else types first. */
export function firstCommands(project: string, server: string): string[] {
  return [
    `export MUSTER_SERVER=${server} MUSTER_TOKEN=mst_…`,
    'muster whoami',
    `muster run --project ${project} --gpus 1 -- sh -c 'echo rank $RANK of $WORLD_SIZE on $MUSTER_NODE'`,
  ];
}

/** Why a job ended, and what its user can do about it. */
export interface Ending {
  cause: string;
  next: string;
}

/** Where the sentence of the server says more than what it is attributed to. The first that fits counts. */
const BY_REASON: [RegExp, string][] = [
  [/out of memory/, 'Request more memory (--memory), or use less.'],
  [
    /did nothing for/,
    'Its GPUs were allocated and idle. See where its output stops, and request only the GPUs that it uses.',
  ],
  [/made no progress/, 'It hung. Debug shows the rank that stopped first.'],
  [/could not start on/, 'It did not begin. Check the image, the working directory and the command.'],
];

const BY_CODE: Record<number, string> = {
  126: 'The command cannot be executed. Check its permissions and its first line.',
  127: 'The command was not found. Check its name, the image and the working directory.',
  134: 'The program aborted (signal 6). The last lines of its output say why.',
  137: 'A rank was killed (signal 9), often for memory. Compare what it used with what it requested.',
  139: 'The program accessed invalid memory (signal 11). Run it on one GPU to find out where.',
};

const BY_OPERATOR = 'An operator stopped it: ask them, then requeue it.';
const OUTPUT = 'Read the last lines of its output, then clone it with what is fixed.';

/** What a requeued job continues from. */
function again(j: Pick<Job, 'spec'>): string {
  return j.spec.checkpoint
    ? 'Requeue it: it continues from its last checkpoint.'
    : 'Requeue it: it begins anew, since it has no checkpoint directory.';
}

type Over = Pick<Job, 'state' | 'reason' | 'exit_code' | 'past' | 'spec'>;

function nextOf(j: Over, reason: string, by: string | undefined): string {
  if (j.state === 'succeeded') return '';
  if (j.state === 'cancelled') return by === 'operator' ? BY_OPERATOR : 'Clone it to run it again.';
  if (reason.includes('ran past its time limit')) return `Clone it with a longer time limit. ${again(j)}`;
  const known = BY_REASON.find(([words]) => words.test(reason));
  if (known) return known[1];
  switch (by) {
    case 'infrastructure':
    case 'platform':
      return `Not caused by your program. ${again(j)}`;
    case 'scheduler':
      return `It was stopped for other work. ${again(j)}`;
    case 'operator':
      return BY_OPERATOR;
    case 'unknown':
      return `The cause is not known. ${again(j)} If it ends like this again, give the operators its number.`;
    default:
      return BY_CODE[j.exit_code ?? -1] ?? OUTPUT;
  }
}

export function ending(j: Over): Ending {
  const last = j.past.at(-1);
  const reason = j.reason ?? last?.reason ?? '';
  const by = last?.attributed_to ?? last?.verdict;
  const code = j.exit_code;
  const facts = [
    typeof code === 'number' && !reason.includes(`code ${code}`) ? `exit code ${code}` : '',
    j.state === 'failed' && by ? `attributed to ${by}` : '',
  ];
  const said = facts.filter(Boolean).join(', ');
  const cause = reason && said ? `${reason} (${said})` : reason || said || 'no reason was recorded';
  return { cause, next: nextOf(j, reason, by) };
}

/** Those that ended last, newest first. */
export function lastEnded<J extends Pick<Job, 'ended_at'>>(jobs: readonly J[], most: number): J[] {
  const at = (j: J) => (j.ended_at ? Date.parse(j.ended_at) : 0);
  return [...jobs].sort((a, b) => at(b) - at(a)).slice(0, most);
}

/** When a waiting job is expected to start: not after `at`, and not before `from` where that is known. */
export interface Expected {
  from: string | null;
  at: string;
  /** Only a reserved start is not moved by jobs that go first. */
  reserved: boolean;
  basis: string | null;
}

/** A reserved start goes before an estimate: nodes are reserved for it. */
export function expectedStart(
  j: Pick<Job, 'reserved_start'>,
  e: Pick<Schemas['Explanation'], 'estimated_start'> | undefined,
): Expected | null {
  if (j.reserved_start) return { from: null, at: j.reserved_start.at, reserved: true, basis: null };
  const s = e?.estimated_start;
  if (!s) return null;
  // Only the late end is known where too few jobs were seen.
  const from = s.earliest && s.earliest !== s.at ? s.earliest : null;
  return { from, at: s.at, reserved: Boolean(s.reserved), basis: s.basis };
}

/** A part of the GPU time that was allocated. `key` is its colour. */
export interface UsedPart {
  key: 'productive' | 'lost' | 'idle' | 'starting' | 'queued';
  word: string;
  definition: string;
  seconds: number;
}

const number = (v: number | null | undefined) => (typeof v === 'number' && Number.isFinite(v) ? v : 0);

/** Where the GPU time went that was allocated; together they are all of it. */
export function usedParts(f: FleetMetrics): UsedPart[] {
  const parts = f.gpu_seconds;
  const out: UsedPart[] = [
    {
      key: 'productive',
      word: 'useful',
      definition: 'steps that count: their work was not lost afterwards',
      seconds: number(parts.productive),
    },
    {
      key: 'lost',
      word: 'lost to failures',
      definition: 'work since the last checkpoint that had to be done again, and restarts',
      seconds: sum(interruptionLosses(f)),
    },
    {
      key: 'idle',
      word: 'idle',
      definition: 'allocated, and nothing was done',
      seconds: number(parts.idle),
    },
    {
      key: 'starting',
      word: 'starting and checkpoints',
      definition: 'until the first step, and while checkpoints blocked it',
      seconds: number(parts.starting) + number(parts.checkpointing),
    },
  ];
  const all = number(f.allocated_gpu_seconds);
  const rest = all - out.reduce((n, p) => n + p.seconds, 0);
  // What does not add up is not hidden; what is rounded is no difference.
  if (rest > Math.max(1, all / 200))
    out.push({ key: 'queued', word: 'not accounted for', definition: 'in no other part', seconds: rest });
  return out;
}

/** One limit of a quota that covers a project. */
export interface QuotaLine {
  key: string;
  quota: string;
  what: string;
  used: number;
  owns: number;
  words: string;
  /** It stands above the project's own quota: other projects use it too. */
  shared: boolean;
}

function borrowWords(l: Schemas['LimitRow']): string {
  if (l.borrowed_milli > 0) return `${gpus(l.borrowed_milli)} of them borrowed: its owner may reclaim them`;
  if (l.borrow_milli === 0) return 'may not borrow';
  if (typeof l.borrow_milli === 'number') return `may borrow at most ${gpus(l.borrow_milli)}`;
  return 'may borrow what others leave free';
}

/** How many more the quota allows now, borrowed ones included: the server counts them. Others may borrow what is owned. */
function leftWords(l: Schemas['LimitRow']): string {
  const left = l.left_milli > 0 ? `${gpus(l.left_milli)} more now` : 'none more now';
  return l.used_milli + l.left_milli < l.owned_milli ? `${left} without reclaiming what others borrow` : left;
}

/** The limits that hold for a project: those of its own quota first, then those above it. */
export function quotaLines(rows: readonly Schemas['QuotaRow'][], project: string): QuotaLine[] {
  // Parents come before their children, and a tenant sees one line of them.
  return [...rows].reverse().flatMap((row) =>
    row.limits.map((l) => {
      const shared = !row.projects.includes(project);
      // What is left of a quota above it is no more than others let it have.
      const left = shared ? '' : `; ${leftWords(l)}`;
      return {
        key: `${row.name}/${l.sku ?? ''}/${l.tier ?? ''}`,
        quota: row.name,
        what: [l.sku ?? 'any SKU', l.tier].filter(Boolean).join(', '),
        used: l.used_milli,
        owns: l.owned_milli,
        words: `${gpus(l.used_milli)} GPUs used, ${gpus(l.owned_milli)} owned; ${borrowWords(l)}${left}`,
        shared,
      };
    }),
  );
}

/** Why there is no limit to show. A quota without one is not the same as none. */
export function noQuotaWords(rows: readonly Schemas['QuotaRow'][], project: string): string {
  const own = rows.find((row) => row.projects.includes(project)) ?? rows.at(-1);
  return own ? `Quota ${own.name} has no GPU limit` : `No quota applies to ${project}`;
}

function capital(sentence: string): string {
  return sentence.charAt(0).toUpperCase() + sentence.slice(1);
}

/** What a tenant may know of how the site does. */
export interface Service {
  tone: Tone;
  word: string;
  text: string;
}

type Causes = { items: readonly Pick<Schemas['OpenCause'], 'jobs_affected'>[]; count: number };

/** Whether anything that is open affects a job of the project now; undefined while that is not known. */
export function affectsWork(open: Causes | undefined): boolean | undefined {
  if (!open) return undefined;
  if (open.items.some((c) => c.jobs_affected > 0)) return true;
  return open.items.length < open.count ? undefined : false;
}

/**
 * `well` is said of what this token is shown, and never of the whole site. `open`: problems that are open about jobs of
 * the project, tickets too, which the state does not count; undefined while that is not known. `affected`: whether one of
 * them affects a job now: what affects none is no alarm to the project, unless the service itself has a problem.
 */
export function serviceOf(
  h: Pick<Schemas['HealthSummary'], 'state' | 'reasons' | 'service_affected'>,
  project: string,
  open: number | undefined,
  affected?: boolean,
): Service {
  const calm = { tone: 'plain', word: 'no job affected' } as const;
  const none = `No job of ${project} is affected now.`;
  if (h.state === 'well' && open === undefined)
    return {
      tone: 'plain',
      word: 'status not known',
      text: `No page to the operators of this site is open; whether a problem is open about jobs of ${project} is not known yet.`,
    };
  if (h.state === 'well' && open !== undefined && open > 0) {
    const text = `${count(open, 'problem is', 'problems are')} open about jobs of ${project}.`;
    return affected === false
      ? { ...calm, text: `${none} ${text}` }
      : { tone: 'warn', word: 'attention', text };
  }
  if (h.state === 'well')
    return {
      tone: 'ok',
      word: 'no known problem',
      text: `No problem is open about jobs of ${project}, and no page to the operators of this site is open.`,
    };
  const text = h.reasons.length > 0 ? capital(`${h.reasons.join('; ')}.`) : 'The server gives no reason.';
  // Who has no job that is affected still submits, and waits.
  if (affected === false && !h.service_affected) return { ...calm, text: `${none} ${text}` };
  return {
    tone: h.state === 'bad' ? 'bad' : 'warn',
    word: h.state === 'bad' ? 'problem' : 'attention',
    text: affected === false ? `${none} ${text}` : text,
  };
}

/** `14 of 16 nodes are ready`, and what the others are. */
export function nodesWords(nodes: Record<string, number>): string {
  const all = Object.values(nodes).reduce((n, v) => n + v, 0);
  const ready = nodes.ready ?? 0;
  const others = Object.entries(nodes)
    .filter(([state, n]) => state !== 'ready' && n > 0)
    .map(([state, n]) => `${n.toLocaleString('en')} ${state.replaceAll('_', ' ')}`);
  const rest = others.length > 0 ? `; ${others.join(', ')}` : '';
  return `${ready.toLocaleString('en')} of ${all.toLocaleString('en')} ready${rest}`;
}

type Hit = Pick<Schemas['OpenCause'], 'ended_attempts' | 'jobs_affected'>;

/** What affects the project now first, then what has ended attempts of it; else in the order of the server. */
export function ownFirst<C extends Hit>(causes: readonly C[]): C[] {
  const rank = (c: C) => (c.jobs_affected > 0 ? 0 : (c.ended_attempts ?? []).length > 0 ? 1 : 2);
  return [...causes].sort((a, b) => rank(a) - rank(b));
}

/** That a running job was restarted by somebody else than its user, and why. */
export function restartWords(j: Pick<Job, 'attempt' | 'past'>): string {
  const last = j.past.at(-1);
  if (!j.attempt || !last) return '';
  return `attempt ${j.attempt.no}, restarted because: ${last.reason || 'no reason was recorded'}`;
}

/** Where the time of a job's attempts went, as the server has it. */
export type Accounted = {
  attempts: readonly (Pick<Schemas['AttemptReport'], 'no' | 'checkpoints' | 'lost_estimated'> & {
    time_ms: Pick<Schemas['TimeParts'], 'lost'>;
  })[];
};

/**
 * How much work the last end of an attempt cost, by the report of its job. Empty where nothing is lost, or where that
 * is not known.
 */
export function lostWords(j: Pick<Job, 'past'>, report: Accounted | undefined): string {
  const last = j.past.at(-1);
  const of = report?.attempts.find((a) => a.no === last?.no);
  if (!of || of.time_ms.lost < 1000) return '';
  if (of.checkpoints === 0)
    return `lost ${span(of.time_ms.lost)} of work: that attempt reported no checkpoint`;
  const about = of.lost_estimated ? 'about ' : '';
  return `lost ${about}${span(of.time_ms.lost)} of work since its last checkpoint`;
}

/** When a job would have begun that ran without a pause for as long as all its attempts have. */
export function ranSince(j: Pick<Job, 'past'>, started: string): string {
  const before = j.past.reduce(
    (ms, p) => ms + (p.started_at ? Math.max(0, Date.parse(p.ended_at) - Date.parse(p.started_at)) : 0),
    0,
  );
  return new Date(Date.parse(started) - before).toISOString();
}

type Planned = Pick<Schemas['Reservation'], 'state' | 'start' | 'window'>;

/** What goes on or comes, the next first. */
export function planned<R extends Planned>(all: readonly R[]): R[] {
  const at = (r: R) => Date.parse(r.window?.start ?? r.start);
  return all.filter((r) => r.state !== 'over').sort((a, b) => at(a) - at(b));
}
