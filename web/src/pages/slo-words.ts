// The words about an objective and its alert. No React here.
import type { Schemas } from '../api/client';

type Slo = Pick<Schemas['Slo'], 'state' | 'firing' | 'alert'>;
type Alert = Pick<Schemas['Alert'], 'id' | 'topic' | 'summary' | 'silenced'>;

/** The alert that covers an objective, where its own is not in the list under its name. */
export function alertWords(s: Slo, open: Alert[]): string | undefined {
  const asks = s.firing.length > 0 || s.state === 'exhausted';
  const a = s.alert ? open.find((one) => one.id === s.alert) : undefined;
  if (!asks || !a) return undefined;
  const words = [
    a.topic !== 'objective' && `Part of the alert about the hardware that it burns because of: ${a.summary}.`,
    a.silenced && `Its alert is silenced by ${a.silenced}.`,
  ];
  return words.filter(Boolean).join(' ') || undefined;
}
