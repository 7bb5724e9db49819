import { useRef, useState, useSyncExternalStore } from 'react';
import { useRights } from '../rights';
import { difference, FIGURES, type Outcome, PARTS, read, seconds, seedWords } from '../sim/outcome';
import { RunScenario } from '../sim/run-scenario';
import { Empty, Panel } from '../ui/parts';
import { num, Table } from '../ui/table';

interface Loaded {
  file: string;
  outcome: Outcome;
}

// Kept while the tab is open: going to another page and back loses nothing.
let kept: Loaded[] = [];
const listeners = new Set<() => void>();
function keep(next: Loaded[]) {
  kept = next;
  for (const l of listeners) l();
}
const useKept = () =>
  useSyncExternalStore(
    (l) => {
      listeners.add(l);
      return () => listeners.delete(l);
    },
    () => kept,
  );

/** The newest two stay: they are compared. The same once more is no second one. */
function withReport(all: Loaded[], next: Loaded): Loaded[] {
  const same = (r: Loaded) => r.file === next.file && r.outcome.log_digest === next.outcome.log_digest;
  return [...all.filter((r) => !same(r)).slice(-1), next];
}

/** Larger files are no report of a run. */
const MOST = 32 << 20;

export function SimulatorPage() {
  const reports = useKept();
  const { operates } = useRights();
  const input = useRef<HTMLInputElement>(null);
  const [why, setWhy] = useState('');
  const [over, setOver] = useState(false);
  const take = async (files: FileList | null) => {
    setWhy('');
    let next = reports;
    for (const file of [...(files ?? [])].slice(0, 2)) {
      try {
        if (file.size > MOST) throw new Error('this is too large to be a report');
        const outcome = read(await file.text());
        next = withReport(next, { file: file.name, outcome });
      } catch (e) {
        setWhy(`${file.name}: ${(e as Error).message}`);
      }
    }
    keep(next);
  };
  return (
    <main
      className="page"
      id="page"
      onDragOver={(e) => {
        e.preventDefault();
        setOver(true);
      }}
      onDragLeave={() => setOver(false)}
      onDrop={(e) => {
        e.preventDefault();
        setOver(false);
        void take(e.dataTransfer.files);
      }}
    >
      <div className="head">
        <h1>Simulator</h1>
        <span className="dim">
          Reports of runs of the simulator. They are stored in this tab only, and files are not sent.
        </span>
        <div className="actions">
          <input
            ref={input}
            type="file"
            accept=".json,application/json"
            multiple
            hidden
            aria-label="Reports"
            onChange={(e) => {
              void take(e.target.files);
              e.target.value = '';
            }}
          />
          <button
            type="button"
            className={operates ? undefined : 'main'}
            onClick={() => input.current?.click()}
          >
            {reports.length === 1 ? 'Load another to compare' : 'Load a report'}
          </button>
          {reports.length > 0 && (
            <button type="button" onClick={() => keep([])}>
              Clear
            </button>
          )}
        </div>
      </div>
      {why && (
        <p className="error" role="alert">
          {why}
        </p>
      )}
      {operates && (
        <RunScenario
          // What was loaded while it ran is not replaced.
          taken={(file, outcome) => keep(withReport(kept, { file, outcome }))}
        />
      )}
      {reports.length === 0 ? (
        <section className={over ? 'panel drop over' : 'panel drop'}>
          <Empty title="No report yet">
            <p>
              The simulator runs a fleet, its work and its faults with the real scheduler and health engine,
              faster than time. Run a scenario of your own, then load or drop what it printed:
            </p>
            <pre className="log">
              muster sim run neocloud-week -o json &gt; week.json{'\n'}
              muster sim run neocloud-week --seed 2 -o json &gt; other.json
            </pre>
            <p>
              Two reports are compared side by side. What this site would do with other nodes or another
              policy: <code>muster whatif --from server --change nodes=+64</code>.
            </p>
          </Empty>
        </section>
      ) : (
        <Shown reports={reports} />
      )}
    </main>
  );
}

function Shown({ reports }: { reports: Loaded[] }) {
  const [a, b] = reports;
  const same = b && a.outcome.log_digest === b.outcome.log_digest;
  return (
    <>
      <div className={reports.length > 1 ? 'columns' : ''}>
        {reports.map((r) => (
          <Panel
            key={r.file + r.outcome.log_digest}
            title={r.outcome.scenario}
            note={[
              r.file,
              seedWords(r.file, r.outcome),
              r.outcome.gpus === null ? '' : `${r.outcome.gpus.toLocaleString('en')} GPUs`,
            ]
              .filter(Boolean)
              .join(', ')}
          >
            <div className="body">
              {r.outcome.waterfall ? (
                <Waterfall parts={r.outcome.waterfall} />
              ) : (
                <p className="dim">This replay does not say where the GPU time went.</p>
              )}
            </div>
          </Panel>
        ))}
      </div>
      <div className="columns">
        <Panel
          title="Results"
          note={
            same
              ? 'the same run: every record of the two logs is the same'
              : b
                ? 'the second compared with the first'
                : ''
          }
        >
          <Table label="Results" heads={['Metric', num(a.file), b && num(b.file), b && num('Difference')]}>
            {FIGURES.map((f) => {
              const d = b && difference(f, a.outcome, b.outcome);
              const value = (o: Outcome) => {
                const v = f.of(o);
                return v === null ? <span className="dim">no data</span> : f.say(v);
              };
              return (
                <tr key={f.name}>
                  <td>{f.name}</td>
                  <td className="num">{value(a.outcome)}</td>
                  {b && <td className="num">{value(b.outcome)}</td>}
                  {b && (
                    <td className="num">
                      {d && (
                        <span className={d.good === null ? 'dim' : d.good ? 'word ok' : 'word bad'}>
                          {d.text}
                          {d.good === null ? '' : d.good ? ', better' : ', worse'}
                        </span>
                      )}
                    </td>
                  )}
                </tr>
              );
            })}
          </Table>
        </Panel>
        <div>
          <Causes reports={reports} />
          {reports.map((r) => (
            <Sizes key={r.file + r.outcome.log_digest} report={r} named={reports.length > 1} />
          ))}
          <Panel title="Digest" note="the same binary, input and seed give the same">
            <div className="body mono">
              {reports.map((r) => (
                <p key={r.file} className="cut" title={r.outcome.log_digest}>
                  {r.outcome.log_digest}
                </p>
              ))}
            </div>
          </Panel>
        </div>
      </div>
    </>
  );
}

/** Where the GPU time of a fleet went. */
export function Waterfall({ parts }: { parts: Record<string, number> }) {
  const whole = Object.values(parts).reduce((a, b) => a + b, 0) || 1;
  const shown = PARTS.filter(([key]) => (parts[key] ?? 0) > 0);
  return (
    <div className="split-box">
      <div className="split" aria-hidden="true">
        {shown.map(([key]) => (
          <i key={key} className={`part-${key}`} style={{ flexGrow: parts[key] / whole }} />
        ))}
      </div>
      <ul className="legend">
        {shown.map(([key, word]) => (
          <li key={key}>
            <i className={`part-${key}`} />
            {word} <span className="dim">{((100 * parts[key]) / whole).toFixed(2)} %</span>
          </li>
        ))}
      </ul>
    </div>
  );
}

function Causes({ reports }: { reports: Loaded[] }) {
  const causes = [...new Set(reports.flatMap((r) => Object.keys(r.outcome.failures)))].sort();
  return (
    <Panel title="Interruptions" note="of running work, by cause">
      {causes.length === 0 ? (
        <Empty title="Nothing was interrupted" />
      ) : (
        <Table heads={['Cause', ...reports.map((r) => num(r.file))]}>
          {causes.map((c) => (
            <tr key={c}>
              <td>{c.replaceAll('_', ' ')}</td>
              {reports.map((r) => (
                <td className="num" key={r.file}>
                  {(r.outcome.failures[c] ?? 0).toLocaleString('en')}
                </td>
              ))}
            </tr>
          ))}
        </Table>
      )}
    </Panel>
  );
}

function Sizes({ report, named }: { report: Loaded; named: boolean }) {
  const rows = report.outcome.by_size;
  if (rows.length === 0) return null;
  return (
    <Panel title="By size of the gang" note={named ? report.file : ''}>
      <Table
        label="By size of the gang"
        heads={[
          'GPUs',
          num('Jobs'),
          num('ETTR'),
          num('Interruptions'),
          num('Between them'),
          num('Wait, median'),
        ]}
      >
        {rows.map((s) => (
          <tr key={s.gpus_from}>
            <td className="nowrap">
              {s.gpus_from === s.gpus_to
                ? s.gpus_from.toLocaleString('en')
                : `${s.gpus_from.toLocaleString('en')} to ${s.gpus_to.toLocaleString('en')}`}
            </td>
            <td className="num">{s.jobs.toLocaleString('en')}</td>
            <td className="num">{(s.ettr * 100).toFixed(1)} %</td>
            <td className="num">{s.interruptions.toLocaleString('en')}</td>
            <td className="num">{s.mtbi_s === null ? '–' : seconds(s.mtbi_s)}</td>
            <td className="num">{seconds(s.wait_s.p50)}</td>
          </tr>
        ))}
      </Table>
    </Panel>
  );
}
