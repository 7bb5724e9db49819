// The timeline of an incident in plain words. No React here.
import { tidy } from '../ui/parts';

const KINDS: Record<string, string> = { stage: 'node state', act: 'action' };

/** What kind of entry it is. */
export const kindWord = (what: string) => KINDS[what] ?? what;

const STATES =
  /^(enrolled|ready|draining|drained|cordoned|uncordoned|suspect|quarantined|repairing|retired|lost|on probation)\b/;

const ACTIONS: Record<string, string> = {
  reset_gpu: 'the GPU reset',
  reboot: 'the reboot',
  power_cycle: 'the power cycle',
  ticket: 'the ticket',
  page: 'the page',
};

/** `ticket done: x` is `the ticket was opened (x)`: what it asks for may not be done for days. */
function actionWords(text: string): string {
  const [, name, end, why] = /^(\w+) (was requested|done|failed)(?:: (.*))?$/s.exec(text) ?? [];
  if (!name) return text;
  const what = ACTIONS[name] ?? name.replaceAll('_', ' ');
  const done = name === 'ticket' ? 'was opened' : name === 'page' ? 'was sent' : 'is done';
  const how = end === 'done' ? done : end;
  return `${what} ${how}${why ? ` (${why})` : ''}`;
}

/** An entry as a sentence about its node. */
export function entryWords(e: { what: string; text: string }): string {
  if (e.what === 'stage' && STATES.test(e.text)) return tidy(`is now ${e.text}`);
  if (e.what === 'act') return tidy(actionWords(e.text));
  return tidy(e.text);
}
