import type { ReactNode } from 'react';

/** A page: its title, beside it what is said of all of it, and at the end of that line what can be done. */
export function Page({
  className,
  title,
  about,
  actions,
  children,
}: {
  /** Its class, beside that of all pages. */
  className?: string;
  title: ReactNode;
  about?: ReactNode;
  actions?: ReactNode;
  children: ReactNode;
}) {
  return (
    <main className={className ? `page ${className}` : 'page'} id="page">
      <div className="head">
        <h1>{title}</h1>
        {about}
        {actions && <div className="actions">{actions}</div>}
      </div>
      {children}
    </main>
  );
}
