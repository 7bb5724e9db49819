import { useId } from 'react';
import { ApiError } from '../api/client';
import { Metric } from '../exec/metric';
import type { Theme } from '../map/colors';
import { useAsk } from '../ui/ask';
import { Ago, Clock, Empty, NotShown, Panel, Problem, State, type Tone, Word } from '../ui/parts';
import { Plot } from '../ui/plot';
import { Skeleton } from '../ui/skeleton';
import { num, Table } from '../ui/table';

const TONES: Tone[] = ['ok', 'run', 'warn', 'bad', 'worst', 'note', 'plain'];
const BEGIN = Date.UTC(2030, 0, 24);
const AT = '2030-01-31T03:12:00Z';
const DAYS = [...Array(8).keys()].map((d) => BEGIN + d * 86_400_000);

/** Every part of ui/, once, with what it is for. */
export function Components({ theme }: { theme: Theme }) {
  return (
    <div className="columns">
      <Buttons />
      <Words />
      <Panels />
      <Fields />
      <States />
      <Numbers />
      <Tables theme={theme} />
      <Lines />
    </div>
  );
}

function Buttons() {
  const ask = useAsk();
  const nothing = () =>
    void ask({
      title: 'A question',
      text: 'Nothing is done here. It asks before something is done.',
      act: 'Do it',
    });
  return (
    <Panel title="Buttons" note="one main action on a view">
      <div className="body row">
        <button type="button" className="main" onClick={nothing}>
          Main: asks
        </button>
        <button type="button" onClick={nothing}>
          Plain
        </button>
        <button type="button" className="quiet" onClick={nothing}>
          Quiet
        </button>
        <button type="button" className="risky" onClick={nothing}>
          Risky
        </button>
        <button type="button" disabled>
          Off
        </button>
        <span>
          <kbd>Ctrl</kbd> <kbd>K</kbd>
        </span>
      </div>
    </Panel>
  );
}

function Words() {
  return (
    <Panel title="Words with a meaning" note="a mark for those who do not see its colour">
      <div className="body row">
        {TONES.map((tone) => (
          <Word key={tone} tone={tone}>
            {tone}
          </Word>
        ))}
        {['ready', 'running', 'draining', 'quarantined', 'lost'].map((word) => (
          <State key={word} word={word} />
        ))}
        <span>
          <Clock at={AT} />, <Ago at={new Date().toISOString()} />
        </span>
        <span className="bar limit" aria-hidden="true">
          <i style={{ width: '60%' }} />
        </span>
      </div>
    </Panel>
  );
}

function Panels() {
  return (
    <div>
      <Panel title="Primary panel" weight="primary" note="what the page is about">
        <div className="body">One on a page.</div>
      </Panel>
      <Panel title="Plain panel" note="with a note">
        <div className="body">Everything else that is read.</div>
      </Panel>
      <Panel title="Quiet panel" weight="quiet">
        <div className="body">
          <dl className="facts">
            <dt>for</dt>
            <dd>facts that are looked up</dd>
          </dl>
        </div>
      </Panel>
    </div>
  );
}

function Fields() {
  const id = useId();
  return (
    <Panel title="Fields">
      <div className="body fields">
        <label htmlFor={`${id}-name`}>
          Name
          <input id={`${id}-name`} type="text" placeholder="train" />
        </label>
        <label htmlFor={`${id}-kind`}>
          Kind
          <select id={`${id}-kind`}>
            <option>one</option>
            <option>two</option>
          </select>
        </label>
        <label className="check" htmlFor={`${id}-check`}>
          <input id={`${id}-check`} type="checkbox" /> only what is unhealthy
        </label>
        <fieldset className="modes">
          <legend className="skip">Choice</legend>
          <button type="button" aria-pressed="true">
            Chosen
          </button>
          <button type="button" aria-pressed="false">
            Other
          </button>
        </fieldset>
      </div>
    </Panel>
  );
}

function States() {
  return (
    <Panel title="Nothing, not yet, and no">
      <Empty title="Nothing to show">
        <p>
          What would make something appear, and what to type: <code>muster up --demo</code>.
        </p>
      </Empty>
      <Skeleton lines={3} say="Being read" />
      <Problem error={new ApiError(0, 'unreachable', 'the server cannot be reached', 'is it running?')} />
      <NotShown project="nlp" what="numbers of other projects" />
      <p className="stale-note">Data of 03:12: the server is away since then.</p>
      <div className="said">Cordoned hgx-0003</div>
      <div className="said bad">hgx-0003 is not known</div>
    </Panel>
  );
}

function Numbers() {
  return (
    <Panel title="Numbers" note="each with its period, and its definition when pointed at">
      <div className="body executive">
        <div className="tiles">
          <Metric
            word="goodput"
            definition="productive GPU-hours / GPU-hours allocated to jobs"
            value="96.0 %"
            note="productive of allocated"
            over="24 Jan to 31 Jan"
          />
          <Metric
            word="power"
            definition="what all GPUs drew"
            value="not known"
            over="no data for this time"
          />
        </div>
      </div>
    </Panel>
  );
}

function Tables({ theme }: { theme: Theme }) {
  return (
    <Panel title="Tables and timelines">
      <Table label={`A table, ${theme}`} heads={['Node', 'State', num('GPUs')]}>
        {['ready', 'cordoned', 'lost'].map((state, i) => (
          <tr key={state}>
            <td>hgx-000{i + 1}</td>
            <td>
              <State word={state} />
            </td>
            <td className="num">8</td>
          </tr>
        ))}
      </Table>
      <ol className="timeline">
        <li>
          <Clock at={AT} />
          <span className="dim">finding</span>
          <span>uncorrectable ECC error (DBE)</span>
        </li>
      </ol>
    </Panel>
  );
}

function Lines() {
  return (
    <Panel title="Lines" note="drawn as SVG: they print">
      <div className="body">
        <Plot
          title="An example"
          at={DAYS}
          most={1}
          height={130}
          say={(v) => `${Math.round(v * 100)} %`}
          lines={[
            { label: 'one', tone: '--accent', values: DAYS.map((_, i) => 0.5 + 0.05 * i) },
            { label: 'two', tone: '--note', dashed: true, values: DAYS.map((_, i) => 0.9 - 0.04 * i) },
          ]}
        />
      </div>
    </Panel>
  );
}
