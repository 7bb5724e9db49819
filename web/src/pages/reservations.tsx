import { useQuery } from '@tanstack/react-query';
import type { Schemas } from '../api/client';
import { reservations } from '../queries';
import { useRights } from '../rights';
import { Ago, Empty, exact, Loaded, Panel, Scroll, State } from '../ui/parts';
import { dayBegins, dayWord } from '../ui/zone';

const DAY = 86_400_000;
const DAYS = 14;

export function ReservationsPage() {
  const query = useQuery(reservations());
  const { project } = useRights();
  return (
    <main className="page" id="page">
      <div className="head">
        <h1>Reservations and maintenance windows</h1>
      </div>
      <Loaded query={query}>
        {(page) =>
          page.items.length === 0 ? (
            <div className="panel">
              <Empty title={project ? `Nothing is reserved for ${project}` : 'Nothing is reserved'}>
                <p>
                  A reservation keeps nodes for projects at a time; a maintenance window keeps them empty:{' '}
                  <code>
                    muster reservation create NAME --gpus 64 --project PROJECT --start +2h --length 4h
                  </code>
                  .
                </p>
              </Empty>
            </div>
          ) : (
            <>
              <Calendar items={page.items} />
              <Panel title="All">
                <Scroll label="Reservations">
                  <table>
                    <thead>
                      <tr>
                        <th>Name</th>
                        <th>State</th>
                        <th>Begins</th>
                        <th>For</th>
                        <th>Every</th>
                        <th>Projects</th>
                        <th>Nodes</th>
                        <th>Reason</th>
                      </tr>
                    </thead>
                    <tbody>
                      {page.items.map((r) => (
                        <tr key={r.name}>
                          <td>{r.name}</td>
                          <td>
                            <State word={r.state} />
                          </td>
                          <td className="nowrap">
                            <Ago at={r.window?.start ?? r.start} />
                          </td>
                          <td>{String(r.length)}</td>
                          <td>{r.every ? String(r.every) : 'once'}</td>
                          <td>
                            {r.maintenance ? (
                              <span className="dim">nobody: maintenance</span>
                            ) : (
                              r.projects.join(', ')
                            )}
                          </td>
                          <td className="dim">
                            {r.nodes.slice(0, 4).join(', ')}
                            {r.nodes.length > 4 && `, ${r.nodes.length - 4} more`}
                          </td>
                          <td>{r.reason}</td>
                        </tr>
                      ))}
                    </tbody>
                  </table>
                </Scroll>
              </Panel>
            </>
          )
        }
      </Loaded>
    </main>
  );
}

/** Two weeks, one line for each reservation. */
function Calendar({ items }: { items: Schemas['Reservation'][] }) {
  const start = dayBegins(Date.now());
  const x = (t: number) => `${Math.min(100, Math.max(0, ((t - start) / (DAYS * DAY)) * 100))}%`;
  const days = Array.from({ length: DAYS }, (_, i) => start + i * DAY + DAY / 2);
  return (
    <Panel title="The next two weeks">
      <div className="calendar">
        <span />
        <div className="days">
          {days.map((d) => (
            <span key={d} className="dim">
              {dayWord(d).split(' ')[0]}
            </span>
          ))}
        </div>
        {items.map((r) => {
          const w = r.window;
          const [a, b] = w ? [Date.parse(w.start), Date.parse(w.end)] : [0, 0];
          const seen = w && b > start && a < start + DAYS * DAY;
          return (
            <div className="line" key={r.name}>
              <span className="cut">{r.name}</span>
              <div className="track" title={w ? `${exact(w.start)} to ${exact(w.end)}` : 'over'}>
                {seen && (
                  <i
                    className={r.maintenance ? 'maintenance' : ''}
                    style={{ left: x(a), right: `calc(100% - ${x(b)})` }}
                  />
                )}
              </div>
            </div>
          );
        })}
      </div>
    </Panel>
  );
}
