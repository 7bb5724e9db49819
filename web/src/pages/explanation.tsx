import type { Schemas } from '../api/client';
import { Ago, tidy } from '../ui/parts';
import { num, Table } from '../ui/table';
import { startLead } from '../words';

/** Why a job waits, or what would happen to it: constraint by constraint. */
export function Explained({ of: e }: { of: Schemas['Explanation'] }) {
  // Only the late end is known where too few jobs were seen.
  const from = e.estimated_start?.earliest !== e.estimated_start?.at && e.estimated_start?.earliest;
  return (
    <div className="body">
      <p>{tidy(e.summary)}</p>
      {e.would_go && <p className="dim">It would go to {e.would_go}.</p>}
      {e.estimated_start && (
        <p>
          {startLead(Boolean(from), Boolean(e.estimated_start.reserved))}
          {from && <Ago at={from} />}
          {from && ' and '}
          <Ago at={e.estimated_start.at} />: <span className="dim">{tidy(e.estimated_start.basis)}</span>
        </p>
      )}
      {e.constraints.length > 0 && (
        <Table label="Constraints" cards heads={['After', num('Nodes left'), num('GPUs left'), 'Because']}>
          {e.constraints.map((c) => (
            <tr key={c.name}>
              <td className="whole">
                {c.binding ? <b>{c.name.replaceAll('_', ' ')}</b> : c.name.replaceAll('_', ' ')}
              </td>
              <td className="num" data-l="nodes left">
                {c.nodes_left}
              </td>
              <td className="num" data-l="GPUs left">
                {c.gpus_left}
              </td>
              <td className="dim whole">{tidy(c.detail)}</td>
            </tr>
          ))}
        </Table>
      )}
      {e.ahead.length > 0 && (
        <p className="dim">
          Ahead of it ({e.ahead_count}):{' '}
          {e.ahead
            .slice(0, 5)
            .map((a) => `${a.id} ${a.name ?? ''} (${a.why})`)
            .join(', ')}
          {e.ahead_count > Math.min(5, e.ahead.length) &&
            ` and ${e.ahead_count - Math.min(5, e.ahead.length)} more`}
        </p>
      )}
      {e.suggestions.length > 0 && (
        <>
          <h3>What would start it</h3>
          <ul className="evidence">
            {e.suggestions.map((s) => (
              <li key={s}>{s}</li>
            ))}
          </ul>
        </>
      )}
    </div>
  );
}
