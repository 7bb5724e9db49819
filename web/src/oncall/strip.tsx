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
  const tile = (value: number, words: string, bad: boolean, about = false) => (
    <Tile value={`${value.toLocaleString('en')}${about ? '+' : ''}`} words={words} bad={bad && value > 0} />
  );
  return (
    <ul className="tiles strip" aria-label="Status">
      {tile(n.paging, 'paging alerts', true)}
      {whole && (
        <>
          {tile(n.pending, 'to approve', true)}
          {n.delayed > 0 && tile(n.delayed, 'delayed', false)}
          {tile(n.incidents, 'open incidents', true)}
          {nodes !== undefined && tile(nodes, 'nodes out', false)}
        </>
      )}
      {tile(n.jobs, project ? `jobs of ${project} affected` : 'jobs affected', false, n.about)}
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
