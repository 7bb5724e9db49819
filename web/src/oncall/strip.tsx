import { useQuery } from '@tanstack/react-query';
import { health } from '../queries';
import { useRights } from '../rights';
import { exact } from '../ui/parts';
import { type Cause, counts } from './causes';

function Tile({ value, words, bad }: { value: string; words: string; bad: boolean }) {
  return (
    <li className={bad ? 'tile hot' : 'tile'}>
      <b>{value}</b>
      <span>{words}</span>
    </li>
  );
}

/** How many of what: the state of the site at a glance. */
export function StatusStrip({ causes }: { causes: Cause[] }) {
  const { whole, project } = useRights();
  const nodes = useQuery(health()).data?.nodes_out;
  const n = counts(causes);
  const tile = (value: number, one: string, many: string, bad: boolean, about = false) => (
    <Tile
      value={`${value.toLocaleString('en')}${about ? '+' : ''}`}
      words={value === 1 && !about ? one : many}
      bad={bad && value > 0}
    />
  );
  const of = project ? ` of ${project}` : '';
  return (
    <ul className="tiles strip" aria-label="Status">
      {whole && (
        <>
          {/* Pages about nodes are not shown to a project: its count of them would be too low. */}
          {tile(n.paging, 'paging alert', 'paging alerts', true)}
          {tile(n.pending, 'to approve', 'to approve', true)}
          {n.delayed > 0 && tile(n.delayed, 'delayed', 'delayed', false)}
          {tile(n.incidents, 'open incident', 'open incidents', true)}
          {nodes !== undefined && tile(nodes, 'node out', 'nodes out', false)}
        </>
      )}
      {tile(n.jobs, `job${of} affected`, `jobs${of} affected`, false, n.about)}
    </ul>
  );
}

/** What is shown is old: from when it is. */
export function StaleNote({ at }: { at: number }) {
  return (
    <p className="stale-note" role="status">
      <b>Stale.</b>{' '}
      {at > 0 ? (
        <>
          Last data: <time dateTime={new Date(at).toISOString()}>{exact(at)}</time>.
        </>
      ) : (
        'No data yet.'
      )}{' '}
      Actions are off until the server answers.
    </p>
  );
}
