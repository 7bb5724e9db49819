import { useQuery } from '@tanstack/react-query';
import type { Schemas } from '../api/client';
import { hours } from '../exec/fleet-metrics';
import { quotas } from '../queries';
import { useRights } from '../rights';
import { Empty, Panel } from '../ui/parts';
import { num, Table, unseen } from '../ui/table';
import { EditPage } from './frames';
import { Bar } from './quota-bar';
import { QuotaEditor } from './quota-editor';
import { byRank, gpus, percent, usedWords } from './quota-words';

type Report = Schemas['QuotaReport'];

const OWNS = 'what it and the quotas below it may always have';
const LEFT =
  'how many more its own projects may have now without reclaiming what others borrow, GPUs to borrow included';
const ENTITLED = 'its shares / the shares of all its siblings';
const RECEIVED = 'its GPU-hours that count / those of all its siblings';
const COUNTED = 'all GPU-hours it ever used, the older the less they count';

/** Who owns, uses and borrows what. Admins change the tree. */
export function QuotasPage() {
  const { whole, project } = useRights();
  return (
    <EditPage
      title={project ? 'My quota' : 'Quotas and shares'}
      word="Edit quotas"
      query={useQuery(quotas())}
      editor={(q, close) => (
        <>
          <QuotaEditor now={q} close={close} />
          <Shares report={q.report} project={project} />
        </>
      )}
    >
      {(q) => (
        <>
          <Tree report={q.report} whole={whole} project={project} />
          <Shares report={q.report} project={project} />
        </>
      )}
    </EditPage>
  );
}

function Tree({ report, whole, project }: { report: Report; whole: boolean | null; project: string | null }) {
  return (
    <Panel
      title="Quotas"
      note={`GPUs owned, lent and borrowed${whole === false ? '; what other projects use and received is not shown to tenants' : ''}`}
    >
      {report.quotas.length === 0 && project ? (
        <Empty title={`No quota applies to ${project}`}>
          <p>Operators set quotas: how many GPUs a project owns, what it lends and what it may borrow.</p>
        </Empty>
      ) : report.quotas.length === 0 ? (
        <Empty title="There are no quotas: nobody owns GPUs, and nobody is limited">
          <p>
            A tree of quotas says who owns how many GPUs, what they lend and what they may borrow:{' '}
            <code>muster quota apply quotas.yaml</code>.
          </p>
        </Empty>
      ) : (
        <Table
          label="Quotas"
          cards
          heads={[
            'Quota',
            'Projects',
            'SKU',
            num('Owns', OWNS),
            num('Uses'),
            unseen('Share used'),
            num('Borrows'),
            num('Left now', LEFT),
            num('Shares'),
            num('Entitled', ENTITLED),
            num('Received', RECEIVED),
          ]}
        >
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
                <Num word="owns">{l ? gpus(l.owned_milli) : '–'}</Num>
                <Num word="uses">{usedWords(l ? l.used_milli : row.used_milli)}</Num>
                <td>{l && <Bar used={l.used_milli} owns={l.owned_milli} />}</td>
                <Num word="borrows">{l ? gpus(l.borrowed_milli) : '–'}</Num>
                <Num word="left now">{l ? gpus(l.left_milli) : '–'}</Num>
                <Num word="shares">{i === 0 ? String(row.shares) : ''}</Num>
                <Num word="entitled">{i === 0 ? percent(row.entitled_milli) : ''}</Num>
                <Num word="received">{i === 0 ? percent(row.received_milli) : ''}</Num>
              </tr>
            ));
          })}
        </Table>
      )}
    </Panel>
  );
}

function Shares({ report, project }: { report: Report; project: string | null }) {
  return (
    <Panel title="Shares" note="who received what, against what they are entitled to">
      {report.accounts.length > 0 && (
        // A note in the head would be cut on a phone.
        <p className="item dim">
          GPU-hours that count: {COUNTED}.{project && ' My usage counts each GPU-hour of a period in full.'}
        </p>
      )}
      {report.accounts.length === 0 ? (
        <Empty title={project ? `${project} has used nothing yet` : 'Nobody has used anything yet'} />
      ) : (
        <Table
          label="Shares"
          cards
          heads={[
            num('Rank'),
            'Project',
            'User',
            'Quota',
            num('Entitled', ENTITLED),
            num('Received', RECEIVED),
            num('GPUs now'),
            num('GPU-hours that count', COUNTED),
            num('Running'),
            num('Waiting'),
          ]}
        >
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
              <Num word="GPU-hours that count">{hours(a.usage_gpu_s)}</Num>
              <Num word="running">{String(a.running)}</Num>
              <Num word="waiting">{String(a.waiting)}</Num>
            </tr>
          ))}
        </Table>
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
