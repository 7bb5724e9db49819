import { useQuery } from '@tanstack/react-query';
import { useEffect, useRef, useState } from 'react';
import { api, must } from '../api/client';
import { FormError, SelectField, TextField } from '../manage/field';
import { useForm } from '../manage/form';
import { scenarios } from '../queries';
import { Loaded, Panel } from '../ui/parts';
import type { Outcome } from './outcome';
import { EMPTY_RUN, offeredLength, reportOf, scenarioBody } from './scenario';

/** Has the server simulate a scenario of the library, and hands its report on. */
export function RunScenario({ taken }: { taken: (name: string, outcome: Outcome) => void }) {
  const list = useQuery(scenarios());
  const { form, change, typed, filled, send, busy, error } = useForm(EMPTY_RUN, scenarioBody, false);
  const [running, setRunning] = useState(false);
  const [said, setSaid] = useState('');
  const stop = useRef<AbortController | null>(null);
  // Who leaves the page has no use for the report, and the server can stop.
  useEffect(() => () => stop.current?.abort(), []);
  const known = list.data?.items ?? [];
  const chosen = known.find((s) => s.name === form.name);
  const simulate = async () => {
    const body = filled();
    if (!body || running) return;
    const run = new AbortController();
    stop.current = run;
    setRunning(true);
    setSaid('Simulating');
    const answer = await send(async () => {
      try {
        const params = { path: { name: body.name } };
        const path = '/v1/scenarios/{name}/run';
        // What is wrong with its report is shown as a refusal is.
        return reportOf(must(await api.POST(path, { params, body: body.asked, signal: run.signal })));
      } catch (e) {
        if (run.signal.aborted) return null;
        throw e;
      }
    }, '');
    setRunning(false);
    if (run.signal.aborted) return setSaid('Cancelled');
    setSaid(answer ? 'Report added' : '');
    if (answer) taken(answer.name, answer.outcome);
  };
  return (
    <Panel
      title="Run a scenario"
      note="by the server, apart from the site: nothing is changed"
      weight="primary"
    >
      <Loaded query={list}>
        {() => (
          <form
            className="body fields"
            noValidate
            onSubmit={(e) => {
              e.preventDefault();
              void simulate();
            }}
          >
            <SelectField
              label="Scenario"
              {...typed('name')}
              onChange={(e) => {
                const next = known.find((s) => s.name === e.target.value);
                change({ ...form, name: e.target.value, length: next ? offeredLength(next) : '' });
              }}
            >
              <option value="">choose</option>
              {known.map((s) => (
                <option key={s.name} value={s.name}>
                  {s.name}
                </option>
              ))}
            </SelectField>
            <TextField
              label="How much of it"
              hint={`such as 24h; empty: all of it${chosen ? `, ${chosen.length}` : ''}`}
              {...typed('length')}
            />
            <TextField
              label="Seed"
              hint={chosen ? `another one shows what is chance; empty: ${chosen.seed}` : 'empty: its own'}
              inputMode="numeric"
              {...typed('seed')}
            />
            {chosen && <p className="dim whole">{chosen.about.trim()}</p>}
            <FormError error={error} fields={['name', 'length', 'seed']} />
            <div className="actions whole">
              {/* One button for both, so that the focus stays on it. */}
              <button
                type={running ? 'button' : 'submit'}
                className={running ? undefined : 'main'}
                disabled={!running && busy}
                onClick={(e) => {
                  if (!running) return;
                  // By the time that the click is over it may be the other button again.
                  e.preventDefault();
                  stop.current?.abort();
                }}
              >
                {running ? 'Cancel' : 'Run'}
              </button>
              <span role="status">{said}</span>
              {running && <progress aria-label="Simulating, 25 seconds at most" />}
            </div>
          </form>
        )}
      </Loaded>
    </Panel>
  );
}
