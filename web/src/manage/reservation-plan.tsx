import { count, exact } from '../ui/parts';
import type { Reservation } from './reservation';

/** What a reservation would cover and whom it would affect. */
export function ReservationPlan({ of: r }: { of: Reservation }) {
  const stops = r.stops ?? [];
  // In a maintenance window nodes are out of service on purpose.
  const out = r.maintenance ? [] : (r.not_serving ?? []);
  return (
    <div className="body">
      <p>
        It covers {count(r.nodes.length, 'node')}
        {r.window && `, from ${exact(r.window.start)} to ${exact(r.window.end)}`}
        {r.every && `, and again every ${r.every}`}.
      </p>
      {r.nodes.length > 0 && <p className="dim">{some(r.nodes)}</p>}
      {stops.length === 0 ? (
        <p>No running job of others is stopped, as things are now.</p>
      ) : (
        <>
          <p>{count(stops.length, 'job')} of others would be stopped and queued again when it begins:</p>
          <StoppedJobs of={stops} />
        </>
      )}
      {out.length > 0 && (
        <>
          <p>Nodes of it that are out of service now:</p>
          <ul className="approvals">
            {out.map((n) => (
              <li key={n.node}>
                {n.node}: {n.why}
              </li>
            ))}
          </ul>
        </>
      )}
    </div>
  );
}

export function StoppedJobs({ of }: { of: NonNullable<Reservation['stops']> }) {
  return (
    <ul className="approvals">
      {of.map((j) => (
        <li key={j.job}>
          {j.job} {j.job_name} ({j.project})
        </li>
      ))}
    </ul>
  );
}

/** The first names, and how many more there are. */
export function some(names: readonly string[], most = 24): string {
  const more = names.length - most;
  return names.slice(0, most).join(', ') + (more > 0 ? `, ${more.toLocaleString('en')} more` : '');
}
