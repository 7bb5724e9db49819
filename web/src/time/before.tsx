import { useQuery } from '@tanstack/react-query';
import { api, must } from '../api/client';
import { about, kindWords } from '../pages/event-words';
import { Clock } from '../ui/parts';
import { Skeleton } from '../ui/skeleton';

/** The newest events about it up to then. */
export function Before({ object, at }: { object: string; at: string }) {
  const query = useQuery({
    queryKey: ['past', 'events', object, at],
    queryFn: async () => {
      // An event of the moment itself had happened by then.
      const to = new Date(Date.parse(at) + 1).toISOString();
      const asked = { object, to, order: 'newest' as const, limit: 12 };
      const page = must(await api.GET('/v1/events', { params: { query: asked } }));
      return typeof page === 'string' ? [] : page.items;
    },
    gcTime: 10_000,
    retry: false,
  });
  return (
    <section>
      <h3>Events up to then</h3>
      {query.isPending ? (
        <Skeleton lines={3} />
      ) : query.error ? (
        <p className="dim">No data: {query.error.message}</p>
      ) : query.data.length === 0 ? (
        <p className="dim">None in the part of the log that was searched.</p>
      ) : (
        <ol className="past-events">
          {query.data.map((e) => (
            <li key={e.cursor}>
              <Clock at={e.at} /> {kindWords(e.kind)} <span className="dim">{about(e).text}</span>
            </li>
          ))}
        </ol>
      )}
    </section>
  );
}
