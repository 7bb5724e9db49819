// Steps of runbooks as sentences. No React here.
import type { Schemas } from '../api/client';

const capital = (s: string) => s.charAt(0).toUpperCase() + s.slice(1);

/** Where a step leads. */
export function leadsTo(target: string): string {
  if (target === 'next') return 'continue with the next step';
  if (target === 'end') return 'the run ends: resolved';
  if (target === 'give-up') return 'the run ends: unresolved';
  return /^\d+$/.test(target) ? `go to step ${target}` : target;
}

/** What follows a step, in one sentence. */
export function follows(kind: string, then: string, otherwise: string): string {
  if (then === otherwise) return `${capital(leadsTo(then))}.`;
  const [well, badly] = kind === 'act' ? ['When it is done', 'when it is refused'] : ['Pass', 'fail'];
  return `${well}: ${leadsTo(then)}; ${badly}: ${leadsTo(otherwise)}.`;
}

/** What is yes or no: the sentences for both. */
const QUESTIONS: Record<string, [yes: string, no: string]> = {
  'node.reachable': ['the node reports heartbeats', 'the node reports no heartbeats'],
  'node.cordoned': ['the node gets no new work', 'the node may get new work'],
  'node.approval': [
    'the remediation of the node is pending approval',
    'no remediation of the node is pending approval',
  ],
  'node.probation': ['the node is on probation', 'the node is not on probation'],
  'node.breaker': ['a breaker keeps new work from the node', 'no breaker keeps new work from the node'],
  'incident.owned': ['the incident is assigned', 'the incident is not assigned'],
  'job.held': ['the job is held', 'the job is not held'],
};

/** What has a value. */
const NOUNS: Record<string, string> = {
  'node.state': 'the state of the node',
  'node.jobs': 'the number of jobs on the node',
  'node.gpus': 'the number of GPUs of the node that can take work',
  'node.gpus_missing': 'the number of missing GPUs of the node',
  'node.findings': 'the number of open findings about the node',
  'node.severity': 'the worst severity of the findings about the node',
  'node.remediation': 'the remediation of the node',
  'node.remediation_step': 'the step of the remediation of the node',
  'node.test': 'the result of the last test of the node',
  'leaf.lost': 'the number of other lost nodes under its leaf',
  'rack.lost': 'the number of other lost nodes in its rack',
  'finding.state': 'the state of the finding',
  'incident.state': 'the state of the incident',
  'incident.findings': 'the number of findings of the incident',
  'job.state': 'the state of the job',
  'job.attempts': 'the number of attempts of the job',
  'job.checkpoint_minutes': 'the age of its last checkpoint in minutes',
  'breaker.state': 'the state of the breaker',
  'automation.state': 'the state of automation',
  'automation.out': 'the number of nodes that automation has taken out of service',
  'automation.approvals': 'the number of remediations pending approval',
  'fleet.lost': 'the number of lost nodes',
  'fleet.protected': 'the number of nodes that are protected after a restored backup',
  'fleet.ready': 'the number of nodes in service',
  'fleet.spares': 'the number of idle spare nodes',
  'fleet.findings': 'the number of open findings',
  'queue.length': 'the number of queued jobs',
  'queue.oldest_minutes': 'the minutes that the oldest queued job has waited',
};

/** What a value is of; nothing where the word is not known here. */
const nounOf = (look: string): string | undefined =>
  look.startsWith('telemetry.') ? `metric ${look.slice(10)} of the node` : NOUNS[look];

/** What a step looks at, as a sentence; null where it is a command or a question, which is shown as it is. */
export function lookWords(kind: string, says: string): string | null {
  if (kind !== 'check' && kind !== 'wait') return null;
  const [, look, of = '', rest = ''] = /^([a-z]+\.[\w.]+)( of kind \S+)? (is .*)$/s.exec(says) ?? [];
  if (!look) return null;
  const begin = kind === 'wait' ? 'Wait until ' : 'Check that ';
  const answers = QUESTIONS[look];
  const [, answer, more = ''] = /^is (yes|no)\b(.*)$/s.exec(rest) ?? [];
  if (answers && answer) return `${begin}${answers[answer === 'yes' ? 0 : 1]}${more}.`;
  const noun = nounOf(look);
  return noun ? `${begin}${noun}${of} ${rest}.` : null;
}

/**
 * What a check found, as a sentence: `fleet.spares is 1; expected: is 0 or less` as the server writes it, maybe with
 * the step before it. Anything else stays as it is.
 */
export function sawWords(text: string): string {
  const found = /^(step \d+: )?([a-z]+\.[\w.]+) is (.*); expected: is (.*)$/s.exec(text);
  const [, step = '', look = '', value = '', bound = ''] = found ?? [];
  if (!found) return text;
  const answers = QUESTIONS[look];
  const answer = (word: string) => (word === 'yes' ? answers?.[0] : word === 'no' ? answers?.[1] : undefined);
  const [is, expected] = [answer(value), answer(bound)];
  if (is && expected) return capital(`${step}${is}; expected: ${expected}`);
  const noun = nounOf(look);
  return noun ? capital(`${step}${noun} is ${value}; expected: ${bound}`) : text;
}

/** What was answered at a step, for the notice that it was. */
export function answerWords(kind: string, answer: Schemas['RunbookAnswer'], chosen?: string): string {
  const manually = kind === 'act';
  switch (answer) {
    case 'choose':
      return chosen ?? 'answered';
    case 'go':
      return manually ? 'it runs' : 'checked';
    case 'yes':
      return manually ? 'done manually' : 'pass';
    case 'no':
      return manually ? 'not possible' : 'fail';
    case 'skip':
      return 'skipped';
  }
}
