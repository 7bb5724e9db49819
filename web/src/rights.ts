// What this token may see and do. What it may not do is not offered; what it may not see is never
// shown as absent.
import { useQuery } from '@tanstack/react-query';
import type { Schemas } from './api/client';
import { whoami } from './queries';

export interface Rights {
  /** It sees the whole site; null until the server has said who asks. */
  whole: boolean | null;
  /** The one project that it sees. */
  project: string | null;
  /** It may submit and change jobs. */
  submits: boolean;
  /** It may change nodes, remediations and alerts. */
  operates: boolean;
  /** It may change the policy, quotas, routing, projects and tokens. */
  administers: boolean;
}

export function rightsOf(me: Schemas['WhoAmI'] | undefined): Rights {
  if (!me) return { whole: null, project: null, submits: false, operates: false, administers: false };
  const project = me.project ?? null;
  return {
    whole: project === null,
    project,
    submits: me.role !== 'viewer',
    operates: project === null && (me.role === 'operator' || me.role === 'admin'),
    administers: project === null && me.role === 'admin',
  };
}

export function useRights(): Rights {
  return rightsOf(useQuery(whoami()).data);
}
