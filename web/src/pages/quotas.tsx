import { useQuery } from '@tanstack/react-query';
import type { Schemas } from '../api/client';
import { quotas } from '../queries';
import { useRights } from '../rights';
import { Empty, Loaded, Panel, Scroll } from '../ui/parts';

/** Thousandths as people say them. */
const gpus = (milli: number) => (milli / 1000).toLocaleString('en', { maximumFractionDigits: 1 });
const ENTITLED = 'its shares / the shares of all its siblings';
const RECEIVED = 'its GPU-hours that count / those of all its siblings';
const COUNTED = 'all GPU-hours it ever used, the older the less they count';
/** What others received is not shown to those who see one project. */
const percent = (milli: number | null | undefined) =>
  milli === null || milli === undefined ? '–' : `${(milli / 10).toFixed(1)} %`;

/** Projects in the order of their rank, each followed by its users. */
function byRank(rows: Schemas['AccountRow'][]): Schemas['AccountRow'][] {
  const rank = new Map(rows.filter((r) => !r.user).map((r) => [r.project, r.rank]));
  const of = (r: Schemas['AccountRow']) => rank.get(r.project) ?? r.rank;
  return [...rows].sort(
    (a, b) =>
      of(a) - of(b) || a.project.localeCompare(b.project) || (a.user ?? '').localeCompare(b.user ?? ''),
  );
}

export function QuotasPage() {
  const query = useQuery(quotas());
  const { whole } = useRights();
  return (
    <main className="page" id="page">
      <div className="head">
        <h1>Quotas and shares</h1>
      </div>
      <Loaded query={query}>
        {(q) => (
          <>
            <Panel
              title="Quotas"
              note={`GPUs owned, lent and borrowed${whole === false ? '; what other projects use and received is not shown to tenants' : ''}`}
            >
              {q.report.quotas.length === 0 ? (
                <Empty title="There are no quotas: nobody owns GPUs, and nobody is held back">
                  <p>
                    A tree of quotas says who owns how many GPUs, what they lend and what they may borrow:{' '}
                    <code>muster quota apply quotas.yaml</code>.
                  </p>
                </Empty>
              ) : (
                <Scroll label="Quotas">
                  <table className="cards">
                    <thead>
                      <tr>
                        <th>Quota</th>
                        <th>Projects</th>
                        <th>SKU</th>
                        <th className="num">Owns</th>
                        <th className="num">Uses</th>
                        <th>&nbsp;</th>
                        <th className="num">Borrows</th>
                        <th className="num">Shares</th>
                        <th className="num" title={ENTITLED}>
                          Entitled
                        </th>
                        <th className="num" title={RECEIVED}>
                          Received
                        </th>
                      </tr>
                    </thead>
                    <tbody>
                      {q.report.quotas.flatMap((row) => {
                        const limits = row.limits.length ? row.limits : [null];
                        return limits.map((l, i) => (
                          <tr key={`${row.name}${l?.sku ?? ''}${l?.tier ?? ''}`}>
                            <td className="whole" style={{ paddingLeft: 12 + row.depth * 16 }}>
                              {i === 0 ? row.name : ''}
                            </td>
                            <td className="dim whole">{i === 0 ? row.projects.join(', ') : ''}</td>
                            <td className="whole" data-l="SKU">
                              {l ? (l.sku ?? 'any') : ''}
                            </td>
                            <Num word="owns">{l ? gpus(l.nominal_milli) : '–'}</Num>
                            <Num word="uses">{gpus(l ? l.used_milli : row.used_milli)}</Num>
                            <td>{l && <Bar used={l.used_milli} owns={l.nominal_milli} />}</td>
                            <Num word="borrows">{l ? gpus(l.borrowed_milli) : '–'}</Num>
                            <Num word="shares">{i === 0 ? String(row.shares) : ''}</Num>
                            <Num word="entitled">{i === 0 ? percent(row.entitled_milli) : ''}</Num>
                            <Num word="received">{i === 0 ? percent(row.received_milli) : ''}</Num>
                          </tr>
                        ));
                      })}
                    </tbody>
                  </table>
                </Scroll>
              )}
            </Panel>
            <Panel title="Shares" note="who received what, against what they are entitled to">
              {q.report.accounts.length === 0 ? (
                <Empty title="Nobody has used anything yet" />
              ) : (
                <Scroll label="Shares">
                  <table className="cards">
                    <thead>
                      <tr>
                        <th className="num">Rank</th>
                        <th>Project</th>
                        <th>User</th>
                        <th>Quota</th>
                        <th className="num" title={ENTITLED}>
                          Entitled
                        </th>
                        <th className="num" title={RECEIVED}>
                          Received
                        </th>
                        <th className="num">GPUs now</th>
                        <th className="num" title={COUNTED}>
                          GPU-hours that count
                        </th>
                        <th className="num">Running</th>
                        <th className="num">Waiting</th>
                      </tr>
                    </thead>
                    <tbody>
                      {byRank(q.report.accounts).map((a) => (
                        <tr key={`${a.project}/${a.user}`}>
                          <Num word="rank">{String(a.rank)}</Num>
                          <td>{a.user ? '' : a.project}</td>
                          <td data-l={`user of ${a.project}:`}>{a.user ?? ''}</td>
                          <td className="dim" data-l="quota">
                            {a.quota ?? 'none'}
                          </td>
                          <Num word="entitled">{percent(a.entitled_milli)}</Num>
                          <Num word="received">{percent(a.received_milli)}</Num>
                          <Num word="GPUs now">{gpus(a.used_milli)}</Num>
                          <Num word="GPU-hours">{(a.usage_gpu_s / 3600).toFixed(1)}</Num>
                          <Num word="running">{String(a.running)}</Num>
                          <Num word="waiting">{String(a.waiting)}</Num>
                        </tr>
                      ))}
                    </tbody>
                  </table>
                </Scroll>
              )}
            </Panel>
          </>
        )}
      </Loaded>
    </main>
  );
}

/** A number; on a phone, where the header is away, with its word. */
function Num({ word, children }: { word: string; children: string }) {
  return (
    <td className="num" data-l={word}>
      {children}
    </td>
  );
}

function Bar({ used, owns }: { used: number; owns: number }) {
  const share = owns > 0 ? used / owns : used > 0 ? 1 : 0;
  return (
    <div className="bar" aria-hidden="true">
      <i className={share > 1 ? 'warn' : ''} style={{ width: `${Math.min(1, share) * 100}%` }} />
    </div>
  );
}
