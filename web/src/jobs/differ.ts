// Two jobs, or two attempts, side by side. No React here.
import type { Schemas } from '../api/client';
import { span } from '../ui/parts';

type Job = Schemas['Job'];
type Report = Schemas['JobReport'];

/** `42`, `42_3`, or `42.2` for its second attempt. */
export function sideOf(text: string): { id: string; attempt: number | null } | null {
  const [, id, attempt] = /^(\d+(?:_\d+)?)(?:\.([1-9]\d{0,8}))?$/.exec(text.trim()) ?? [];
  return id ? { id, attempt: attempt ? Number(attempt) : null } : null;
}

export interface Facts {
  state: string;
  user: string;
  submitted: string | null;
  started: string | null;
  ended: string | null;
  /** How long it ran, in milliseconds. */
  ran: number | null;
  attempts: string;
  cause: string;
  nodes: string[];
}

const between = (from: string | null | undefined, to: string | null | undefined, now: number) =>
  from ? Math.max(0, (to ? Date.parse(to) : now) - Date.parse(from)) : null;

/** The facts of a job, or of one of its attempts; none where it has no such attempt. */
export function factsOf(j: Job, attempt: number | null, now: number): Facts | null {
  const whole = { user: j.user, submitted: j.submitted_at };
  const current = j.attempt ?? null;
  const nodes = [...new Set(current?.slots.map((s) => s.node) ?? [])];
  const last = j.past.at(-1);
  if (attempt === null) {
    const end = j.ended_at ? (last?.ended_at ?? j.ended_at) : null;
    const runs = j.state !== 'queued' || !!j.ended_at;
    return {
      ...whole,
      state: j.state,
      started: j.started_at ?? null,
      ended: j.ended_at ?? null,
      ran: runs ? between(j.started_at, end, now) : null,
      attempts: String(j.attempts),
      cause: j.reason ?? '',
      nodes: current ? nodes : (last?.nodes ?? []),
    };
  }
  if (current?.no === attempt)
    return {
      ...whole,
      state: current.state,
      started: current.started_at ?? null,
      ended: null,
      ran: between(current.started_at, current.freed_at, now),
      attempts: `${attempt} of ${j.attempts}`,
      cause: current.stop?.message ?? '',
      nodes,
    };
  const past = j.past.find((p) => p.no === attempt);
  if (!past) return null;
  return {
    ...whole,
    state: 'ended',
    started: past.started_at ?? null,
    ended: past.ended_at,
    ran: between(past.started_at, past.ended_at, now),
    attempts: `${attempt} of ${j.attempts}`,
    cause: past.attributed_to ? `${past.attributed_to}: ${past.reason}` : past.reason,
    nodes: past.nodes,
  };
}

/** What the work of a job, or of one of its attempts, came to. Null: not known, or not reported. */
export interface Work {
  /** Of the GPU time that was allocated, 0 to 1. */
  goodput: number | null;
  /** In milliseconds. */
  productive: number | null;
  /** Work after the last checkpoint that was done again, in milliseconds. */
  lost: number | null;
  checkpoints: number | null;
  step: number | null;
  /** Mean length of a step, in milliseconds. */
  stepMs: number | null;
}

const UNKNOWN: Work = {
  goodput: null,
  productive: null,
  lost: null,
  checkpoints: null,
  step: null,
  stepMs: null,
};

/** The numbers of its report; of its steps only those of the attempt that reported them. */
export function workOf(r: Report, attempt: number | null, progress: Job['progress']): Work {
  const steps = r.steps ?? null;
  if (attempt === null)
    return {
      goodput: r.goodput ?? null,
      productive: r.time_ms.productive,
      lost: r.time_ms.lost,
      checkpoints: r.attempts.reduce((sum, a) => sum + a.checkpoints, 0),
      step: progress?.step ?? steps?.step ?? null,
      stepMs: steps?.step_ms ?? null,
    };
  const own = r.attempts.find((a) => a.no === attempt);
  const its = steps?.attempt === attempt ? steps : null;
  if (!own) return { ...UNKNOWN, step: its?.step ?? null, stepMs: its?.step_ms ?? null };
  return {
    goodput: own.goodput ?? null,
    productive: own.time_ms.productive,
    lost: own.time_ms.lost,
    checkpoints: own.checkpoints,
    step: its?.step ?? null,
    stepMs: its?.step_ms ?? null,
  };
}

const said = <T>(v: T | null, words: (v: T) => string, none = 'not known') => (v === null ? none : words(v));

/** Each row of work: its name, and how it is said. */
export const WORK: [string, (w: Work) => string][] = [
  ['goodput', (w) => said(w.goodput, (v) => `${(v * 100).toFixed(1)} %`)],
  ['productive', (w) => said(w.productive, span)],
  ['lost work', (w) => said(w.lost, span)],
  ['checkpoints', (w) => said(w.checkpoints, String)],
  ['newest step', (w) => said(w.step, (v) => v.toLocaleString('en'), 'none reported')],
  [
    'length of a step',
    (w) =>
      said(
        w.stepMs,
        (v) => (v < 1000 ? `${v.toFixed(1)} ms` : `${(v / 1000).toFixed(2)} s`),
        'none reported',
      ),
  ],
];

export interface DiffLine {
  /** Only in the first (`-`), only in the second (`+`), or in both. */
  side: '-' | '+' | ' ';
  text: string;
}

/** Most lines of a side that are compared one with another. */
const COMPARED = 2000;

/** The longest lines in common stay, the others are of one side. None where a side is too long. */
export function diff(first: string, second: string): DiffLine[] | null {
  const a = first.replace(/\n$/, '').split('\n');
  const b = second.replace(/\n$/, '').split('\n');
  if (a.length > COMPARED || b.length > COMPARED) return null;
  const wide = b.length + 1;
  // The length of what is in common from line i of `a` and line k of `b` on.
  const common = new Uint16Array((a.length + 1) * wide);
  for (let i = a.length - 1; i >= 0; i--)
    for (let k = b.length - 1; k >= 0; k--)
      common[i * wide + k] =
        a[i] === b[k]
          ? common[(i + 1) * wide + k + 1] + 1
          : Math.max(common[(i + 1) * wide + k], common[i * wide + k + 1]);
  const out: DiffLine[] = [];
  let [i, k] = [0, 0];
  while (i < a.length || k < b.length) {
    if (i < a.length && k < b.length && a[i] === b[k]) {
      out.push({ side: ' ', text: a[i] });
      i++;
      k++;
    } else if (k >= b.length || (i < a.length && common[(i + 1) * wide + k] >= common[i * wide + k + 1])) {
      out.push({ side: '-', text: a[i] });
      i++;
    } else {
      out.push({ side: '+', text: b[k] });
      k++;
    }
  }
  return out;
}

/** Lines that are the same in both and far from every change, left out; how many they are. */
export interface LeftOut {
  side: '…';
  count: number;
}

/** The lines that differ, each with some lines around it. */
export function changesOnly(lines: readonly DiffLine[], around = 3): (DiffLine | LeftOut)[] {
  const near = new Set<number>();
  lines.forEach((l, i) => {
    if (l.side !== ' ') for (let k = i - around; k <= i + around; k++) near.add(k);
  });
  const out: (DiffLine | LeftOut)[] = [];
  lines.forEach((l, i) => {
    const last = out.at(-1);
    if (near.has(i)) out.push(l);
    else if (last?.side === '…') last.count++;
    else out.push({ side: '…', count: 1 });
  });
  return out;
}
