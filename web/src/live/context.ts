import { createContext, useContext } from 'react';
import type { Fleet } from './fleet';

export const FleetContext = createContext<Fleet | null>(null);

export function useFleet(): Fleet {
  const fleet = useContext(FleetContext);
  if (!fleet) throw new Error('no fleet here');
  return fleet;
}
