import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import type { Schemas } from '../api/client';
import { quotas } from '../queries';
import { useRights } from '../rights';
import { Empty, Loaded, Panel, Scroll } from '../ui/parts';
import { Bar } from './quota-bar';
import { QuotaEditor } from './quota-editor';
import { byRank, gpus, percent } from './quota-words';

type Report = Schemas['QuotaReport'];

const ENTITLED = 'its shares / the shares of all its siblings';
const RECEIVED = 'its GPU-hours that count / those of all its siblings';
const COUNTED = 'all GPU-hours it ever used, the older the less they count';

/** Who owns, uses and borrows what. Admins change the tree. */
export function QuotasPage() {
  const query = useQuery(quotas());
  const { whole, administers } = useRights();
  const [editing, setEditing] = useState(false);
  return (
    <main className="page" id="page">
      <div className="head">
        <h1>Quotas and shares</h1>
        {administers && !editing && query.data && (
          <div className="actions">
            <button type="button" className="main" onClick={() => setEditing(true)}>
              Edit quotas
            </button>
          </div>
        )}
      </div>
      <Loaded query={query}>
        {(q) => (
          <>
            {editing && administers ? (
              <QuotaEditor now={q} close={() => setEditing(false)} />
            ) : (
              <Tree report={q.report} whole={whole} />
            )}
            <Shares report={q.report} />
          </>
        )}
      </Loaded>
    </main>
  );
}

function Tree({ report, whole }: { report: Report; whole: boolean | null }) {
  return (
    <Panel
      title="Quotas"
      note={`GPUs owned, lent and borrowed${whole === false ? '; what other projects use and received is not shown to tenants' : ''}`}
    >
      {report.quotas.length === 0 ? (
        <Empty title="There are no quotas: nobody owns GPUs, and nobody is limited">
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
              {report.quotas.flatMap((row) => {
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
  );
}

function Shares({ report }: { report: Report }) {
  return (
    <Panel title="Shares" note="who received what, against what they are entitled to">
      {report.accounts.length === 0 ? (
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
              {byRank(report.accounts).map((a) => (
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
