import { JobLink } from '../ui/links';
import { Ago, count, Fact, Panel, Word } from '../ui/parts';
import { num, Table } from '../ui/table';
import { RowButton } from './frames';
import {
  type Answer,
  commandOf,
  difference,
  type Kept,
  meanOf,
  runsOf,
  signed,
  startDifference,
  titleOf,
  unlike,
  wordOf,
} from './whatif';
import { Command } from './whatif-command';

/** All answers side by side: each metric as the site is, as it would be, and the difference. */
export function Comparison({ kept }: { kept: Kept[] }) {
  const nameOf = (k: Kept) => titleOf(k, kept);
  const heads = kept.map((k) => ({
    word: (
      <>
        {nameOf(k)}: <span className="dim">{runsOf(k.answer)}</span>
      </>
    ),
    className: 'num',
  }));
  const differ = unlike(kept);
  const names = [...new Set(kept.flatMap((k) => k.answer.metrics.map((f) => f.name)))];
  return (
    <Panel title="Compared" note="the mean of all runs, as it is → changed">
      {differ && <p className="state">{differ}</p>}
      <Table label="What-ifs compared" cards heads={['Metric', ...heads]}>
        {names.map((name) => (
          <tr key={name}>
            <td className="whole">{wordOf(name)}</td>
            {kept.map((k) => (
              <td key={k.id} className="num whole" data-l={`${nameOf(k)}:`}>
                <Metric of={k.answer} name={name} />
              </td>
            ))}
          </tr>
        ))}
        <tr>
          <td className="whole">Nodes</td>
          {kept.map((k) => (
            <td key={k.id} className="num whole" data-l={`${nameOf(k)}:`}>
              {k.answer.base_size[0]} → {k.answer.changed_size[0]}
            </td>
          ))}
        </tr>
        <tr>
          <td className="whole">Waiting jobs that start earlier, later, never</td>
          {kept.map((k) => (
            <td key={k.id} className="num whole" data-l={`${nameOf(k)}:`}>
              {k.answer.starts_earlier}, {k.answer.starts_later}, {k.answer.starts_never ?? 0}
            </td>
          ))}
        </tr>
      </Table>
    </Panel>
  );
}

function Metric({ of, name }: { of: Answer; name: string }) {
  const f = of.metrics.find((one) => one.name === name);
  if (!f) return <span className="dim">no data</span>;
  const d = difference(f);
  const [low, high] = f.change.interval ?? [];
  const title =
    low === undefined ? undefined : `95% of the change: ${signed(low, f.unit)} to ${signed(high, f.unit)}`;
  return (
    <>
      {meanOf(f.base, f.unit)} → {meanOf(f.changed, f.unit)}{' '}
      <Word tone={d.good === null ? 'plain' : d.good ? 'ok' : 'bad'} title={title}>
        {d.text}
      </Word>
    </>
  );
}

/** Each answer by itself, the newest first. */
export function Answers({ kept, remove }: { kept: Kept[]; remove: (id: number) => void }) {
  return (
    <div className={kept.length > 1 ? 'columns' : ''}>
      {kept.toReversed().map((k) => (
        <One key={k.id} of={k} name={titleOf(k, kept)} remove={() => remove(k.id)} />
      ))}
    </div>
  );
}

function One({ of, name, remove }: { of: Kept; name: string; remove: () => void }) {
  const { answer: a } = of;
  const size = ([nodes, gpus]: number[]) => `${count(nodes, 'node')} with ${count(gpus, 'GPU')}`;
  return (
    <Panel
      title={name}
      note={
        <>
          {runsOf(a)}, in {of.body.budget}, asked <Ago at={new Date(of.at).toISOString()} />
        </>
      }
      actions={<RowButton word="Remove" of={name} onClick={remove} />}
    >
      <div className="body">
        <p>{a.summary}</p>
        <dl className="facts">
          <Fact word="Now">
            {size(a.base_size)}; running: {a.running}, waiting: {a.waiting}
          </Fact>
          <Fact word="Changed">{size(a.changed_size)}</Fact>
          <Fact word="What binds as it is, in the runs">{a.limit_base}</Fact>
          <Fact word="What binds when changed">{a.limit}</Fact>
        </dl>
        {a.notes.length > 0 && (
          <ul className="dim">
            {a.notes.map((n) => (
              <li key={n}>{n}</li>
            ))}
          </ul>
        )}
        <Command text={commandOf(of.body)} />
      </div>
      {a.starts.length > 0 && <Starts of={of} name={name} />}
    </Panel>
  );
}

/** Waiting jobs whose start changes most. */
function Starts({ of, name }: { of: Kept; name: string }) {
  const at = (s: number | null | undefined) =>
    s === null || s === undefined ? (
      <span className="dim">not in every run</span>
    ) : (
      <Ago at={new Date(of.at + s * 1000).toISOString()} />
    );
  return (
    <Table
      label={`Starts in what-if ${of.id}: ${name}`}
      tall
      cards
      heads={['Job', 'Starts', 'Changed', num('Difference')]}
    >
      {of.answer.starts.map((s) => (
        <tr key={s.job}>
          <td className="whole">
            <JobLink id={s.job} name={s.name} />
          </td>
          <td data-l="starts">{at(s.base_s)}</td>
          <td data-l="changed">{s.never ? <Word tone="bad">never</Word> : at(s.changed_s)}</td>
          <td className="num whole">{startDifference(s)}</td>
        </tr>
      ))}
    </Table>
  );
}
