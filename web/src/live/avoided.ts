// Nodes that new work avoids, by name, and why. Frames do not report it: it follows from what waits to take a node.
import { useQuery } from '@tanstack/react-query';
import { useMemo } from 'react';
import type { Schemas } from '../api/client';
import { health } from '../queries';

export type Avoided = ReadonlyMap<string, string>;
const NOBODY: Avoided = new Map();

/**
 * `waiting` of the site's health: what waits for approval, and what waits to be allowed to take its node, or a GPU of
 * it. While the latter waits, new work goes to the node only where no other fits. A restart of a job takes none.
 */
export function avoidedNodes(
  waiting: Pick<Schemas['Remediation'], 'node' | 'step' | 'finding' | 'kind' | 'action'>[],
): Avoided {
  const held = waiting.filter((r) => r.step === 'proposed' && r.action !== 'restart_job');
  return new Map(held.map((r) => [r.node, `finding ${r.finding} (${r.kind})`]));
}

/** As it is now. A token that is bound to a project does not get it. */
export function useAvoided(): Avoided {
  const waiting = useQuery(health()).data?.waiting;
  return useMemo(() => (waiting ? avoidedNodes(waiting) : NOBODY), [waiting]);
}
