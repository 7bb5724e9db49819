import { useQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { whoami } from '../queries';
import { useRights } from '../rights';
import { Page } from '../ui/page';
import { Empty, Loaded } from '../ui/parts';

/** A page of one project. Who sees the whole site has another one in its place. */
export function ForTenant({
  title,
  instead,
  children,
}: {
  title: string;
  instead: ReactNode;
  children: (project: string) => ReactNode;
}) {
  const { project } = useRights();
  const me = useQuery(whoami());
  if (project !== null) return <>{children(project)}</>;
  return (
    <Page title={title}>
      <Loaded query={me}>
        {() => (
          <Empty title="This page is for tokens that are bound to a project">
            <p>{instead}</p>
          </Empty>
        )}
      </Loaded>
    </Page>
  );
}
