import { useInfiniteQuery } from '@tanstack/react-query';
import { useNavigate, useSearch } from '@tanstack/react-router';
import {
  cleanedOutput,
  type OutputHit,
  type OutputSearch,
  placeOf,
  RANGES,
  type Range,
  rangeOf,
} from '../find/output';
import { useDraft } from '../find/use-draft';
import { output as outputPages } from '../queries';
import { useRights } from '../rights';
import { JobLink } from '../ui/links';
import { Page } from '../ui/page';
import { LoadMore } from '../ui/paged';
import { Clock, count, Empty, Problem, Word } from '../ui/parts';
import { Table } from '../ui/table';

export function OutputPage() {
  const search = useSearch({ from: '/output' });
  const navigate = useNavigate({ from: '/output' });
  const query = useInfiniteQuery({ ...outputPages(search), enabled: Boolean(search.q) });
  const pages = query.data?.pages ?? [];
  const hits = pages.flatMap((p) => p.items);
  return (
    <Page
      title="Search in job output"
      about={
        <>
          {search.q && query.data && (
            <span className="dim">{count(hits.length, 'line')} shown, newest first</span>
          )}
          {pages.at(-1)?.indexing && (
            <Word tone="warn" title="Not all stored output is indexed yet: more may be found later.">
              indexing
            </Word>
          )}
        </>
      }
    >
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
      <LoadMore of={query} what="older lines" />
    </Page>
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
  const { project } = useRights();
  const { draft, set, submit, field } = useDraft(search, (next) => show(cleanedOutput(next)));
  return (
    <form className="filters" aria-label="Which lines" onSubmit={submit}>
      {field('q', 'Words', 'NCCL WARN', 'search')}
      {field('job', 'Job', '42')}
      {project === null && field('project', 'Project', 'all')}
      <label>
        Range
        <select value={draft.range ?? ''} onChange={(e) => set({ range: rangeOf(e.target.value) })}>
          <option value="">all stored output</option>
          {(Object.keys(RANGES) as Range[]).map((r) => (
            <option key={r} value={r}>
              {RANGES[r]}
            </option>
          ))}
        </select>
      </label>
      <button type="submit" className="main">
        Search
      </button>
    </form>
  );
}

function HitTable({ hits }: { hits: OutputHit[] }) {
  return (
    <Table cards heads={['Received', 'Job', 'Project', 'Place', 'Line']}>
      {hits.map((h) => (
        <tr key={`${h.job}/${h.attempt}/${h.rank}/${h.stream}/${h.offset}`}>
          <td className="nowrap dim">{h.at ? <Clock at={h.at} /> : 'not known'}</td>
          <td className="nowrap" data-l="job">
            <JobLink id={h.job} />
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
    </Table>
  );
}
