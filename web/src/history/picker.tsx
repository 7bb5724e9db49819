import { type FormEvent, useState } from 'react';
import type { Schemas } from '../api/client';
import { fromField, toField } from '../find/events';
import { CHARTS_MAX, type HistorySearch, PRESETS, type Range, withMetric } from './range';

interface Props {
  search: HistorySearch;
  range: Range;
  /** A job has a time of its own. */
  whole: boolean;
  /** What is shown now, in milliseconds: what the fields of a custom time begin with. */
  time: { from: number; to: number } | null;
  chosen: string[];
  metrics: Schemas['TelemetryField'][];
  show: (part: HistorySearch) => void;
}

/** Which time and which metrics; all of it is in the address. */
export function HistoryPicker({ search, range, whole, time, chosen, metrics, show }: Props) {
  const custom = search.from !== undefined || search.to !== undefined;
  const preset = (label: string, value: string | undefined, pressed: boolean) => (
    <button
      key={label}
      type="button"
      aria-pressed={pressed}
      onClick={() => show({ range: value, from: undefined, to: undefined })}
    >
      {label}
    </button>
  );
  return (
    <div className="history-picker">
      <div className="modes" role="group" aria-label="Time of the history">
        {whole && preset('whole job', undefined, range.kind === 'whole')}
        {PRESETS.map((p) =>
          preset(
            p.label,
            !whole && p.range === '1h' ? undefined : p.range,
            range.kind === 'last' && range.range === p.range,
          ),
        )}
      </div>
      {custom && (
        <button type="button" onClick={() => show({ from: undefined, to: undefined })}>
          Reset zoom
        </button>
      )}
      <details>
        <summary>Custom</summary>
        <Custom
          key={`${search.from} ${search.to}`}
          from={search.from ?? (time ? new Date(time.from).toISOString() : undefined)}
          to={search.to ?? (time ? new Date(time.to).toISOString() : undefined)}
          show={show}
        />
      </details>
      <details>
        <summary>Metrics</summary>
        <fieldset className="history-metrics">
          <legend className="dim">{CHARTS_MAX} at most</legend>
          {listed(metrics, chosen).map((m) => {
            const on = chosen.includes(m.name);
            return (
              <label key={m.name}>
                <input
                  type="checkbox"
                  checked={on}
                  disabled={on ? chosen.length === 1 : chosen.length >= CHARTS_MAX}
                  onChange={(e) => show({ metrics: withMetric(chosen, m.name, e.target.checked, whole) })}
                />{' '}
                {m.title}
              </label>
            );
          })}
        </fieldset>
      </details>
    </div>
  );
}

/** The metrics of the server, and what the address names in addition: so it can be taken out of it. */
function listed(metrics: Schemas['TelemetryField'][], chosen: string[]): Schemas['TelemetryField'][] {
  const unknown = chosen.filter((name) => !metrics.some((m) => m.name === name));
  return [...metrics, ...unknown.map((name) => ({ name, title: name, unit: '' }))];
}

function Custom({ from, to, show }: { from?: string; to?: string; show: (part: HistorySearch) => void }) {
  // What is typed stays while the charts are read again.
  const [draft, setDraft] = useState<HistorySearch | null>(null);
  const value = draft ?? { from, to };
  const submit = (e: FormEvent) => {
    e.preventDefault();
    show({ from: value.from, to: value.to });
  };
  const field = (name: 'from' | 'to', label: string) => (
    <label>
      {label}
      <input
        type="datetime-local"
        required
        value={toField(value[name])}
        onChange={(e) => setDraft({ ...value, [name]: fromField(e.target.value) })}
      />
    </label>
  );
  return (
    <form className="filters" aria-label="Custom time" onSubmit={submit}>
      {field('from', 'From')}
      {field('to', 'Until')}
      <button type="submit">Show</button>
    </form>
  );
}
