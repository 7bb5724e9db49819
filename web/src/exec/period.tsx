import { Choice } from '../ui/choice';

const SPANS = [7, 30, 90] as const;

/** How many days a report is about. A week needs no word in the address. */
export function Period({
  days,
  choose,
}: {
  days: (typeof SPANS)[number];
  choose: (days: 30 | 90 | undefined) => void;
}) {
  return (
    <Choice
      label="Period"
      of={SPANS.map((d) => [d, `${d} days`] as const)}
      chosen={days}
      choose={(d) => choose(d === 7 ? undefined : d)}
    />
  );
}
