import { Link } from '@tanstack/react-router';

export function NodeLink({ name }: { name: string }) {
  return (
    <Link to="/nodes/$name" params={{ name }}>
      {name}
    </Link>
  );
}

/** A job by its number, and by its name where that is given. */
export function JobLink({ id, name }: { id: string; name?: string }) {
  return (
    <Link to="/jobs/$id" params={{ id }}>
      {name === undefined ? id : `${id} ${name}`}
    </Link>
  );
}
