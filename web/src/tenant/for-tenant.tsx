import type { ReactNode } from 'react';
import { useRights } from '../rights';
import { Page } from '../ui/page';
import { Empty } from '../ui/parts';
import { Skeleton } from '../ui/skeleton';

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
  const { whole, project } = useRights();
  if (project !== null) return <>{children(project)}</>;
  return (
    <Page title={title}>
      {whole === null ? (
        <Skeleton />
      ) : (
        <Empty title="This page is for tokens that are bound to a project">
          <p>{instead}</p>
        </Empty>
      )}
    </Page>
  );
}
