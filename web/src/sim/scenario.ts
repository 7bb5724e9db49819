// The form that has the server simulate a scenario of the library. No React here.
import type { Schemas } from '../api/client';
import type { Problem } from '../manage/reservation';
import { spanMs, spanText } from '../manage/spans';
import { type Outcome, read } from './outcome';

type Scenario = Schemas['Scenario'];

export interface ScenarioForm {
  name: string;
  /** Empty: the scenario's own. */
  seed: string;
  /** Empty: all of it. */
  length: string;
}

export const EMPTY_RUN: ScenarioForm = { name: '', seed: '', length: '' };

const MOST_SEED = 4_294_967_295;

/** So much of a scenario is offered: the server has seconds for it. */
const OFFERED = 7 * 86_400_000;

/** How much of a scenario is simulated unless something else is typed. */
export function offeredLength(of: Pick<Scenario, 'length'>): string {
  return spanText(Math.min(OFFERED, spanMs(of.length) ?? OFFERED));
}

export interface ScenarioAsked {
  name: string;
  asked: Schemas['RunScenario'];
}

/** What the server would be asked for, or what is wrong with a field. */
export function scenarioBody(form: ScenarioForm): { body: ScenarioAsked } | { problem: Problem } {
  const no = (field: string, text: string) => ({ problem: { field, text } });
  const seed = form.seed.trim();
  const length = form.length.trim();
  if (!form.name) return no('name', 'Choose a scenario.');
  if (seed && !(/^\d{1,10}$/.test(seed) && Number(seed) <= MOST_SEED))
    return no('seed', `Write a whole number up to ${MOST_SEED}, or nothing.`);
  if (length && !spanMs(length)) return no('length', 'Write how much of it, such as 24h or 7d, or nothing.');
  return {
    body: { name: form.name, asked: { seed: seed ? Number(seed) : null, length: length || null } },
  };
}

/** What a report of such a run is called next to others. */
export function runName(run: Pick<Schemas['ScenarioRun'], 'name' | 'seed' | 'length'>): string {
  return `${run.name}, ${spanText(spanMs(run.length) ?? 0)}, seed ${run.seed}`;
}

/** The report of a run with its name. It throws where the report cannot be read. */
export function reportOf(run: Schemas['ScenarioRun']): { name: string; outcome: Outcome } {
  return { name: runName(run), outcome: read(JSON.stringify(run.report)) };
}
