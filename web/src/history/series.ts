// What the server answers, as lines of charts. A point without a sample is a gap. No React here.
import type { Schemas } from '../api/client';

type Answer = Schemas['MetricsHistory'];
type Values = (number | null)[];

/** All GPUs of one metric put together. */
export interface Lines {
  unit: string;
  /** How many GPUs are in it; none for a metric of the node itself. */
  gpus: number;
  min: Values;
  mean: Values;
  max: Values;
}

/** How many points each series has. */
export function lengthOf(answer: Answer): number {
  return Math.max(0, ...answer.series.map((s) => s.points.length));
}

/** Until when points are missing because nothing so old is stored; null where all of the time is. */
export function missingUntil(answer: Answer): number | null {
  const known = answer.known_from ?? null;
  return known !== null && known > answer.from + answer.step_ms ? known : null;
}

/** The midpoint of each point's time, in seconds since 1970. */
export function midpoints(answer: Answer): number[] {
  const { from, step_ms } = answer;
  return Array.from({ length: lengthOf(answer) }, (_, i) => (from + (i + 0.5) * step_ms) / 1000);
}

/** The series of a metric as one: least and greatest of all, and their mean; null where there is none. */
export function linesOf(answer: Answer, metric: string): Lines | null {
  const series = answer.series.filter((s) => s.metric === metric);
  if (series.length === 0) return null;
  const n = lengthOf(answer);
  const out: Lines = {
    unit: series[0].unit,
    gpus: series.reduce((sum, s) => sum + (typeof s.gpu === 'number' ? 1 : s.node ? 0 : s.gpus), 0),
    min: Array(n).fill(null),
    mean: Array(n).fill(null),
    max: Array(n).fill(null),
  };
  for (let i = 0; i < n; i++) {
    let [sum, weight, min, max] = [0, 0, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
    for (const s of series) {
      const point = s.points[i];
      if (!point) continue;
      const w = Math.max(1, s.gpus);
      sum += point[1] * w;
      weight += w;
      min = Math.min(min, point[0]);
      max = Math.max(max, point[2]);
    }
    if (weight > 0) [out.min[i], out.mean[i], out.max[i]] = [min, sum / weight, max];
  }
  return out;
}

/** Where the first sample of an answer is, in milliseconds; null where it has none. */
export function firstSample(answer: Answer): number | null {
  const firsts = answer.series.map((s) => s.points.findIndex((p) => p !== null)).filter((i) => i >= 0);
  return firsts.length ? answer.from + Math.min(...firsts) * answer.step_ms : null;
}

/** Values with a gap on both sides: no line leads to them, so they are drawn as dots. */
export function alone(values: Values): number[] {
  const none = (i: number) => values[i] === null || values[i] === undefined;
  return values.flatMap((_, i) => (!none(i) && none(i - 1) && none(i + 1) ? [i] : []));
}

/** A value as long as it needs to be. */
export function numberWord(v: number): string {
  const size = Math.abs(v);
  return v.toLocaleString('en', { maximumFractionDigits: size < 10 ? 2 : size < 100 ? 1 : 0 });
}

function words(min: number, mean: number, max: number, unit: string): string {
  const after = unit ? ` ${unit}` : '';
  const [least, most] = [numberWord(min), numberWord(max)];
  if (least === most) return `${least}${after}`;
  return `mean ${numberWord(mean)}${after}, ${least} to ${most}${after}`;
}

/** One point in words. */
export function pointWords(lines: Lines, i: number): string {
  const [min, mean, max] = [lines.min[i], lines.mean[i], lines.max[i]];
  if (typeof min !== 'number' || typeof mean !== 'number' || typeof max !== 'number') return 'no data';
  return words(min, mean, max, lines.unit);
}

/** The whole time in words. */
export function wholeWords(lines: Lines): string {
  const known = (values: Values) => values.filter((v): v is number => v !== null);
  const means = known(lines.mean);
  if (means.length === 0) return 'no data';
  const mean = means.reduce((a, b) => a + b, 0) / means.length;
  return words(Math.min(...known(lines.min)), mean, Math.max(...known(lines.max)), lines.unit);
}
