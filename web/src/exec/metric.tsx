import { useId, useState } from 'react';
import { useRights } from '../rights';
import { momentWord } from '../ui/zone';
import { type Known, type Rate, type Report, rateWords } from './fleet-metrics';

/** From when to when numbers are known: the page names the zone. */
export const spanned = (k: Known | null) =>
  k ? `${momentWord(k.from)} to ${momentWord(k.to)}` : 'no data for this time';

interface Props {
  word: string;
  /** What it means, in one sentence. */
  definition: string;
  value: string;
  note?: string;
  /** The time that it covers. */
  over: string;
}

/** One number: what it is called, its value, its period, and its definition for whoever points at it or goes to it. */
export function Metric({ word, definition, value, note, over }: Props) {
  const id = useId();
  const [open, setOpen] = useState(false);
  return (
    <div className="tile">
      <span>{word}</span>
      <b className={value.startsWith('not ') ? 'dim' : ''}>{value}</b>
      {note && <span>{note}</span>}
      <span className="over">{over}</span>
      <button
        type="button"
        className="def"
        aria-label={`Definition of ${word}`}
        aria-describedby={id}
        aria-expanded={open}
        onClick={() => setOpen(!open)}
        onBlur={() => setOpen(false)}
      >
        ?
      </button>
      <span role="tooltip" id={id} className={open ? 'tip open' : 'tip'}>
        {definition}
      </span>
    </div>
  );
}

export function RateMetric({
  rate,
  r,
  over,
  note,
}: {
  rate: Rate;
  r: Report;
  over: Known | null;
  note?: string;
}) {
  const { whole } = useRights();
  const value = rateWords(rate, r.total, whole);
  return <Metric word={rate.name} definition={rate.formula} value={value} note={note} over={spanned(over)} />;
}
