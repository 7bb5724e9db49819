// What a breaker keeps work from, as it is framed. No React here.

/** The smallest frames around nodes that a breaker is open for: the leaf, whole racks of it, or single nodes. */
export function tripped(
  racks: readonly { name: string; nodes: number[] }[],
  open: (node: number) => boolean,
) {
  const all = racks.flatMap((r) => r.nodes);
  const count = all.filter(open).length;
  const whole = count > 0 && count === all.length;
  const full = (r: { nodes: number[] }) => !whole && r.nodes.length > 1 && r.nodes.every(open);
  return {
    count,
    whole,
    racks: new Set(racks.filter(full).map((r) => r.name)),
    nodes: new Set(whole ? [] : racks.filter((r) => !full(r)).flatMap((r) => r.nodes.filter(open))),
  };
}
