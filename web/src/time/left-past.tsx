import { Link } from '@tanstack/react-router';
import { exact } from '../ui/parts';

/** Whoever comes from a map of the past to a page of its own sees what is now, and the page says so. */
export function LeftPast({ at, what, open }: { at: string; what: string; open: string }) {
  const known = !Number.isNaN(Date.parse(at));
  return (
    <p className="stale-note" role="status">
      <b>Live.</b> This is the {what} as it is now
      {known ? `, not as it was at ${exact(at)}` : ''}.{' '}
      <Link to="/" search={{ at, open: known ? open : undefined }}>
        Back to the map of then
      </Link>
    </p>
  );
}
