/** What is being read, in the shape of what will stand here: nothing jumps when it comes. */
export function Skeleton({ lines = 4, say = 'Loading…' }: { lines?: number; say?: string }) {
  return (
    <div className="skeleton-lines" role="status">
      <span className="dim">{say}</span>
      {[...Array(lines).keys()].map((i) => (
        <i key={i} style={{ width: `${[92, 78, 86, 64][i % 4]}%` }} />
      ))}
    </div>
  );
}
