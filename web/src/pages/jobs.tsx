import { useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { Link, useNavigate, useSearch } from '@tanstack/react-router';
import { useState } from 'react';
import { api, must, type Schemas } from '../api/client';
import { saveCsv } from '../jobs/files';
import {
  COLUMNS,
  type Column,
  columnsOf,
  csv,
  type Field,
  gang,
  type JobSearch,
  jobQuery,
  narrowedBy,
  nextSort,
  SORTED_BY,
  sortOf,
  statesWith,
  withField,
} from '../jobs/filters';
import { Gantt } from '../jobs/gantt-view';
import { stateWord } from '../jobs/offers';
import { useFleet } from '../live/context';
import { useRevision } from '../live/fleet';
import { jobs, projects } from '../queries';
import { useRights } from '../rights';
import { useAct } from '../ui/act';
import { Choice } from '../ui/choice';
import { Options } from '../ui/options';
import { useMore } from '../ui/paged';
import { Ago, count, Empty, Loaded, State, tidy } from '../ui/parts';
import { Rows } from '../ui/virtual';

export { gang };

/** What joins its GPUs; nothing for an attempt that holds none. */
export function fabricOf(a: Schemas['Attempt']): string {
  return a.slots.some((s) => s.gpus.length > 0) ? `; ${a.fabric_text}` : '';
}

/** Where it is, or why it is not. */
export function whereOrWhy(job: Schemas['Job']): string {
  if (job.held && job.state === 'queued') return job.held;
  if (job.attempt && job.state !== 'queued') {
    const nodes = new Set(job.attempt.slots.map((s) => s.node));
    const where = nodes.size <= 3 ? [...nodes].join(', ') : `${nodes.size} nodes`;
    if (job.attempt.stop) return job.attempt.stop.message;
    const preflight = job.attempt.preflight;
    if (preflight && !preflight.outcome) return `preflight: ${preflight.message}`;
    return `${where}${fabricOf(job.attempt)}`;
  }
  return tidy((job.state === 'queued' ? job.waiting : null) ?? job.reason ?? '');
}

/** Most jobs of a file. */
const FILED = 10_000;

/** Every job that the filters let through, in the order of the list, as far as a file holds them. */
async function allJobs(search: JobSearch): Promise<Schemas['Job'][]> {
  const all: Schemas['Job'][] = [];
  let cursor: string | undefined;
  do {
    const query = { ...jobQuery(search), limit: 1000, cursor };
    const page = must(await api.GET('/v1/jobs', { params: { query } }));
    all.push(...page.items);
    cursor = page.cursor ?? undefined;
  } while (cursor && all.length < FILED);
  return all.slice(0, FILED);
}

const KEPT_COLUMNS = 'muster.jobs.columns';

/** The columns of this browser. */
function useColumns(): [Column[], (next: Column[]) => void] {
  const [columns, setColumns] = useState(() => {
    try {
      return columnsOf(localStorage.getItem(KEPT_COLUMNS));
    } catch {
      return columnsOf(null);
    }
  });
  const keep = (next: Column[]) => {
    setColumns(next);
    try {
      localStorage.setItem(KEPT_COLUMNS, next.join(','));
    } catch {
      // They are shown until the page is left.
    }
  };
  return [columns, keep];
}

/** What narrows the list; each field is in the address and asked of the server. */
function Filters({
  search,
  show,
  columns,
  keep,
}: {
  search: JobSearch;
  show: (next: JobSearch) => void;
  columns: Column[];
  keep: (next: Column[]) => void;
}) {
  const fleet = useFleet();
  useRevision(fleet);
  const { whole } = useRights();
  const known = useQuery(projects());
  const set = (field: Field) => (e: { target: { value: string } }) =>
    show(withField(search, field, e.target.value));
  const toggle = (name: Column, on: boolean) =>
    keep(columnsOf([...columns.filter((c) => c !== name), on ? name : ''].join(',')));
  const number = narrowedBy(search);
  const [open, setOpen] = useState(number > 0);
  return (
    <details className="job-filters" open={open} onToggle={(e) => setOpen(e.currentTarget.open)}>
      <summary>{number > 0 ? `Filters (${number})` : 'Filters'}</summary>
      <div className="filter-fields">
        <label>
          Name begins with
          <input type="search" defaultValue={search.prefix ?? ''} onChange={set('prefix')} />
        </label>
        {whole && (
          <label>
            Project
            <select value={search.project ?? ''} onChange={set('project')}>
              <option value="">all</option>
              <Options of={known.data?.items.map((p) => p.name)} />
            </select>
          </label>
        )}
        <label>
          User
          <input type="search" defaultValue={search.user ?? ''} onChange={set('user')} />
        </label>
        <label>
          SKU
          <select value={search.sku ?? ''} onChange={set('sku')}>
            <option value="">all</option>
            <Options of={fleet.layout?.skus} taken={search.sku} />
          </select>
        </label>
        <label>
          Tag
          <input type="search" defaultValue={search.tag ?? ''} placeholder="team=nlp" onChange={set('tag')} />
        </label>
        <fieldset>
          <legend>Columns</legend>
          {COLUMNS.map(([name, word]) => (
            <label key={name}>
              <input
                type="checkbox"
                checked={columns.includes(name)}
                onChange={(e) => toggle(name, e.target.checked)}
              />{' '}
              {word}
            </label>
          ))}
        </fieldset>
      </div>
    </details>
  );
}

function Cell({ job, column }: { job: Schemas['Job']; column: Column }) {
  switch (column) {
    case 'project':
      return <span className="cut">{job.project}</span>;
    case 'user':
      return <span className="cut">{job.user}</span>;
    case 'gang':
      return <span className="cut">{gang(job)}</span>;
    case 'submitted':
      return (
        <span className="dim">
          <Ago at={job.submitted_at} />
        </span>
      );
    case 'where':
      return (
        <span className="cut dim" title={whereOrWhy(job)}>
          {whereOrWhy(job)}
        </span>
      );
  }
}

/** The head of a column; the list is sorted by it where the server can. */
function Head({
  word,
  field,
  search,
  show,
}: {
  word: string;
  field: string | null;
  search: JobSearch;
  show: (next: JobSearch) => void;
}) {
  // biome-ignore lint/a11y/useFocusableInteractive: nothing can be done with it
  if (field === null) return <span role="columnheader">{word}</span>;
  const sorted = sortOf(search.sort, field);
  const mark = { ascending: ' \u25b2', descending: ' \u25bc', none: '' }[sorted];
  return (
    // biome-ignore lint/a11y/useFocusableInteractive: the button in it is focused
    <span role="columnheader" aria-sort={sorted}>
      <button
        type="button"
        className="quiet flat sort"
        onClick={() => show({ ...search, sort: nextSort(search.sort, field) })}
      >
        {word}
        <span aria-hidden="true">{mark}</span>
      </button>
    </span>
  );
}

export function JobsPage() {
  const search = useSearch({ from: '/jobs' });
  const navigate = useNavigate({ from: '/jobs' });
  const { project, submits } = useRights();
  const { act, busy } = useAct();
  const [columns, keep] = useColumns();
  const state = search.state ?? 'active';
  const timeline = search.view === 'timeline';
  // Another time of the timeline, or the way back from it, does not make it another list.
  const { view: _view, from: _from, to: _to, ...listed } = search;
  const query = useInfiniteQuery({ ...jobs(listed), enabled: !timeline });
  const more = useMore(query);
  const show = (next: JobSearch) => void navigate({ search: next, replace: true });
  const mine = project ? ` --project ${project}` : '';
  const chosen = COLUMNS.filter(([name]) => columns.includes(name));
  const widths = ['70px', 'minmax(120px, 0.9fr)', '100px', ...chosen.map(([, , width]) => width)].join(' ');
  const download = () =>
    act(
      async () => saveCsv('jobs', csv(await allJobs(search))),
      `Saved the jobs of this list, ${count(FILED, 'job')} at most`,
    );
  return (
    <main className="page full list" id="page">
      <div className="map-bar">
        <h1>Jobs</h1>
        <Choice
          label="Which jobs"
          of={statesWith(state)}
          chosen={state}
          choose={(s) => show({ ...search, state: s === 'active' ? undefined : s })}
        />
        <Filters search={search} show={show} columns={columns} keep={keep} />
        <span className="grow" />
        <button
          type="button"
          aria-pressed={timeline}
          onClick={() => show({ ...listed, view: timeline ? undefined : 'timeline' })}
        >
          Timeline
        </button>
        <button type="button" disabled={busy} onClick={() => void download()}>
          CSV
        </button>
        {submits && (
          <Link to="/jobs/new" className="button">
            Submit a job
          </Link>
        )}
      </div>
      {timeline ? (
        <Gantt search={search} show={show} />
      ) : (
        <Loaded query={query}>
          {(data) => {
            const items = data.pages.flatMap((p) => p.items);
            if (items.length === 0)
              return (
                <Empty title={state !== 'all' || narrowedBy(search) > 0 ? 'No such jobs' : 'No jobs yet'}>
                  <p>
                    Try one: <code>muster run{mine} --gpus 8 -- nvidia-smi</code>, or submit a file:{' '}
                    <code>muster submit job.yaml</code>. A Slurm script works as it is.
                  </p>
                </Empty>
              );
            return (
              <Rows
                items={items}
                columns={widths}
                label="Jobs"
                heads="Columns"
                more={more}
                header={
                  <>
                    <Head word="Job" field="id" search={search} show={show} />
                    <Head word="Name" field="name" search={search} show={show} />
                    <Head word="State" field="state" search={search} show={show} />
                    {chosen.map(([name, word]) => (
                      <Head key={name} word={word} field={SORTED_BY[name]} search={search} show={show} />
                    ))}
                  </>
                }
                row={(job) => (
                  <Link to="/jobs/$id" params={{ id: job.id }} className="grid-row">
                    <span>{job.id}</span>
                    <span className="cut">{job.name}</span>
                    <State word={stateWord(job)} />
                    {chosen.map(([name]) => (
                      <Cell key={name} job={job} column={name} />
                    ))}
                  </Link>
                )}
              />
            );
          }}
        </Loaded>
      )}
    </main>
  );
}
