import { seconds } from '../sim/outcome';
import { JobLink } from '../ui/links';
import { Ago, count, Fact, Panel, Word } from '../ui/parts';
import { num, Table } from '../ui/table';
import { RowButton } from './frames';
import { type Answer, amount, commandOf, difference, type Kept, signed, wordOf } from './whatif';
import { Command } from './whatif-command';

/** What an answer is called on the page. */
const nameOf = (k: Kept) => k.answer.changes.join(' and ');

/** All answers side by side: each metric as the site is, as it would be, and the difference. */
export function Comparison({ kept }: { kept: Kept[] }) {
  const names = [...new Set(kept.flatMap((k) => k.answer.figures.map((f) => f.name)))];
  return (
    <Panel title="Compared" note="the mean of all runs, as it is → changed">
      <Table label="What-ifs compared" cards heads={['Metric', ...kept.map((k) => num(nameOf(k)))]}>
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
          <td className="whole">Waiting jobs that start earlier, later</td>
          {kept.map((k) => (
            <td key={k.id} className="num whole" data-l={`${nameOf(k)}:`}>
              {k.answer.starts_earlier}, {k.answer.starts_later}
            </td>
          ))}
        </tr>
      </Table>
    </Panel>
  );
}

function Metric({ of, name }: { of: Answer; name: string }) {
  const f = of.figures.find((one) => one.name === name);
  if (!f) return <span className="dim">no data</span>;
  const d = difference(f);
  const [low, high] = f.change.interval ?? [];
  const title =
    low === undefined ? undefined : `95% of the change: ${signed(low, f.unit)} to ${signed(high, f.unit)}`;
  return (
    <>
      {amount(f.base.mean, f.unit)} → {amount(f.changed.mean, f.unit)}{' '}
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
        <One key={k.id} of={k} remove={() => remove(k.id)} />
      ))}
    </div>
  );
}

function One({ of, remove }: { of: Kept; remove: () => void }) {
  const { answer: a } = of;
  const ahead = a.new_work ? `${seconds(a.horizon_s)} ahead` : 'until the present jobs are over';
  const size = ([nodes, gpus]: number[]) => `${count(nodes, 'node')} with ${count(gpus, 'GPU')}`;
  return (
    <Panel
      title={nameOf(of)}
      note={
        <>
          {count(a.seeds, 'pair')} of runs, {ahead}, <Ago at={new Date(of.at).toISOString()} />
        </>
      }
      actions={<RowButton word="Remove" of={nameOf(of)} onClick={remove} />}
    >
      <div className="body">
        <p>{a.summary}</p>
        <dl className="facts">
          <Fact word="Now">
            {size(a.base_size)}; running: {a.running}, waiting: {a.waiting}
          </Fact>
          <Fact word="Changed">{size(a.changed_size)}</Fact>
          <Fact word="What binds now">{a.limit_base}</Fact>
          <Fact word="When changed">{a.limit}</Fact>
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
      {a.starts.length > 0 && <Starts of={of} />}
    </Panel>
  );
}

/** Waiting jobs whose start changes most. */
function Starts({ of }: { of: Kept }) {
  const at = (s: number | null | undefined) =>
    s === null || s === undefined ? (
      <span className="dim">not in every run</span>
    ) : (
      <Ago at={new Date(of.at + s * 1000).toISOString()} />
    );
  return (
    <Table
      label={`Starts in what-if ${of.id}: ${nameOf(of)}`}
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
          <td data-l="changed">{at(s.changed_s)}</td>
          <td className="num whole">{later(s.base_s, s.changed_s)}</td>
        </tr>
      ))}
    </Table>
  );
}

function later(base: number | null | undefined, changed: number | null | undefined): string {
  if (typeof base !== 'number') return 'earlier';
  if (typeof changed !== 'number') return 'later';
  return `${seconds(Math.abs(changed - base))} ${changed < base ? 'earlier' : 'later'}`;
}
