import { useInfiniteQuery } from '@tanstack/react-query';
import { Link, useNavigate, useSearch } from '@tanstack/react-router';
import { type FormEvent, useEffect, useState } from 'react';
import {
  cleanedOutput,
  type OutputHit,
  type OutputSearch,
  placeOf,
  RANGES,
  type Range,
  rangeOf,
} from '../find/output';
import { output as outputPages } from '../queries';
import { useRights } from '../rights';
import { Clock, count, Empty, Problem, Word } from '../ui/parts';

export function OutputPage() {
  const search = useSearch({ from: '/output' });
  const navigate = useNavigate({ from: '/output' });
  const query = useInfiniteQuery({ ...outputPages(search), enabled: Boolean(search.q) });
  const pages = query.data?.pages ?? [];
  const hits = pages.flatMap((p) => p.items);
  return (
    <main className="page" id="page">
      <div className="head">
        <h1>Search in job output</h1>
        {search.q && query.data && (
          <span className="dim">{count(hits.length, 'line')} shown, newest first</span>
        )}
        {pages.at(-1)?.indexing && (
          <Word tone="warn" title="Not all stored output is indexed yet: more may be found later.">
            indexing
          </Word>
        )}
      </div>
      <Fields search={search} show={(next) => void navigate({ search: next })} />
      {query.error && (
        <Problem
          error={query.error}
          again={() => void (query.isFetchNextPageError ? query.fetchNextPage() : query.refetch())}
        />
      )}
      {(!query.error || query.data) && (
        <div className="panel scroll-x">
          {hits.length > 0 ? (
            <HitTable hits={hits} />
          ) : (
            <Nothing search={search} loading={query.isFetching} more={query.hasNextPage} />
          )}
        </div>
      )}
      {query.hasNextPage && (
        <p>
          <button
            type="button"
            disabled={query.isFetchingNextPage}
            onClick={() => void query.fetchNextPage()}
          >
            {query.isFetchingNextPage ? 'Loading…' : 'Load more'}
          </button>{' '}
          <span className="dim">older lines</span>
        </p>
      )}
    </main>
  );
}

function Nothing({ search, loading, more }: { search: OutputSearch; loading: boolean; more: boolean }) {
  // A page without a line is not the end: older output has not been searched yet.
  const none = more ? 'None so far: load more' : 'No line has these words';
  const title = loading ? 'Searching…' : search.q ? none : 'What is searched for?';
  return (
    <Empty title={title}>
      <p>
        A line is found when it has all the words, in any order; <code>"a phrase"</code> is words in this
        order. Whole words are found, not parts of them. <code>muster search --logs</code> finds the same.
      </p>
    </Empty>
  );
}

/** What the address says as fields; Enter or the button asks for it. */
function Fields({ search, show }: { search: OutputSearch; show: (next: OutputSearch) => void }) {
  const [draft, setDraft] = useState(search);
  const { project } = useRights();
  useEffect(() => setDraft(search), [search]);
  const submit = (e: FormEvent) => {
    e.preventDefault();
    show(cleanedOutput(draft));
  };
  const field = (name: 'q' | 'project' | 'job', label: string, like: string) => (
    <label>
      {label}
      <input
        type={name === 'q' ? 'search' : 'text'}
        value={draft[name] ?? ''}
        placeholder={like}
        maxLength={200}
        autoComplete="off"
        spellCheck={false}
        onChange={(e) => setDraft({ ...draft, [name]: e.target.value })}
      />
    </label>
  );
  return (
    <form className="filters" aria-label="Which lines" onSubmit={submit}>
      {field('q', 'Words', 'NCCL WARN')}
      {field('job', 'Job', '42')}
      {project === null && field('project', 'Project', 'all')}
      <label>
        Range
        <select
          value={draft.range ?? ''}
          onChange={(e) => setDraft({ ...draft, range: rangeOf(e.target.value) })}
        >
          <option value="">all stored output</option>
          {(Object.keys(RANGES) as Range[]).map((r) => (
            <option key={r} value={r}>
              {RANGES[r]}
            </option>
          ))}
        </select>
      </label>
      <button type="submit">Search</button>
    </form>
  );
}

function HitTable({ hits }: { hits: OutputHit[] }) {
  return (
    <table className="cards">
      <thead>
        <tr>
          <th>Received</th>
          <th>Job</th>
          <th>Project</th>
          <th>Place</th>
          <th>Line</th>
        </tr>
      </thead>
      <tbody>
        {hits.map((h) => (
          <tr key={`${h.job}/${h.attempt}/${h.rank}/${h.stream}/${h.offset}`}>
            <td className="nowrap dim">{h.at ? <Clock at={h.at} /> : 'not known'}</td>
            <td className="nowrap" data-l="job">
              <Link to="/jobs/$id" params={{ id: h.job }}>
                {h.job}
              </Link>
            </td>
            <td className="nowrap">{h.project}</td>
            <td className="nowrap dim">{placeOf(h)}</td>
            <td className="whole">
              <code>
                {h.text}
                {h.cut && '…'}
              </code>
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
