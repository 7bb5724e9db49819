import type { UseQueryResult } from '@tanstack/react-query';
import { type ComponentProps, type ReactNode, useState } from 'react';
import { useRights } from '../rights';
import { Page } from '../ui/page';
import { Loaded } from '../ui/parts';

/** The list of something, and to those who may a button that opens the form for a new one. */
export function ListPage({
  title,
  about,
  may,
  word,
  form,
  children,
}: {
  title: string;
  about?: ReactNode;
  may: boolean;
  /** On the button. */
  word: string;
  form: (close: () => void) => ReactNode;
  children: ReactNode;
}) {
  const [making, setMaking] = useState(false);
  const button = (
    <button type="button" className="main" onClick={() => setMaking(true)}>
      {word}
    </button>
  );
  return (
    <Page title={title} about={about} actions={may && !making && button}>
      {may && making && form(() => setMaking(false))}
      {children}
    </Page>
  );
}

/** Something as it is, and to admins a button that puts its editor in place of it. */
export function EditPage<T>({
  title,
  about,
  word = 'Edit',
  query,
  editor,
  children,
}: {
  title: string;
  about?: ReactNode;
  /** On the button. */
  word?: string;
  query: UseQueryResult<T>;
  editor: (data: T, close: () => void) => ReactNode;
  children: (data: T) => ReactNode;
}) {
  const { administers } = useRights();
  const [editing, setEditing] = useState(false);
  const button = (
    <button type="button" className="main" onClick={() => setEditing(true)}>
      {word}
    </button>
  );
  return (
    <Page title={title} about={about} actions={administers && !editing && query.data !== undefined && button}>
      <Loaded query={query}>
        {(data) => (editing && administers ? editor(data, () => setEditing(false)) : children(data))}
      </Loaded>
    </Page>
  );
}

interface InRow extends Pick<ComponentProps<'button'>, 'className' | 'disabled' | 'onClick'> {
  word: string;
  /** The name of the row. */
  of: string;
}

/** A button in a row of a list, read out with the name of the row. */
export function RowButton({ word, of, ...button }: InRow) {
  return (
    <button type="button" aria-label={`${word} ${of}`} {...button}>
      {word}
    </button>
  );
}
