import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import type { Schemas } from '../api/client';
import { gang } from '../jobs/filters';
import { stateWord } from '../jobs/offers';
import { whereOrWhy } from '../pages/jobs';
import { Ago, Since, State, tidy, Word } from '../ui/parts';
import { BASIS_TEXT, startLead } from '../words';
import { lostReport, workExplain } from './queries';
import { ending, expectedStart, lostWords, ranSince, restartWords } from './words';

type Job = Schemas['Job'];

function Title({ job: j }: { job: Job }) {
  return (
    <>
      <Link to="/jobs/$id" params={{ id: j.id }}>
        {j.id} {j.name}
      </Link>
      <State word={stateWord(j)} />
    </>
  );
}

/** What the end of its last attempt cost: nothing where its ranks never ran. It is known once that attempt has ended. */
function useLost(j: Job): string {
  const last = j.past.at(-1);
  const query = useQuery({ ...lostReport(j.id, last?.no ?? 0), enabled: Boolean(last?.started_at) });
  return lostWords(j, query.data);
}

/** Where it runs, for how long, and whether it uses what it has. */
export function RunningJob({ job: j }: { job: Job }) {
  const since = j.attempt?.started_at;
  const lost = useLost(j);
  return (
    <div className="item">
      <h3>
        <Title job={j} />
        <span className="dim">
          {gang(j)}
          {since && (
            <>
              , runs for <Since at={ranSince(j, since)} />
              {j.past.length > 0 && ' in all'}
            </>
          )}
          {j.attempt?.deadline && (
            <>
              , time limit reached <Ago at={j.attempt.deadline} />
            </>
          )}
        </span>
      </h3>
      <p className="dim">{tidy(whereOrWhy(j))}</p>
      {j.past.length > 0 && (
        <p>
          {tidy([restartWords(j), lost].filter(Boolean).join('; '))}
          {since && (
            <span className="dim">
              {' '}
              (<Ago at={since} />)
            </span>
          )}
        </p>
      )}
      {j.idle_warned && (
        <p>
          <Word tone="warn">idle</Word> warned <Ago at={j.idle_warned} /> that its GPUs do nothing
        </p>
      )}
    </div>
  );
}

/** Why it waits, and when it starts. */
export function WaitingJob({ job: j, submits }: { job: Job; submits: boolean }) {
  // What a person holds starts by no forecast.
  const query = useQuery({ ...workExplain(j.id), enabled: !j.held });
  const lost = useLost(j);
  // What was said before may not hold any more.
  const e = j.held || query.isError ? undefined : query.data;
  const start = expectedStart(j, e);
  const basis = j.reserved_start ? BASIS_TEXT[j.reserved_start.basis] : start?.basis;
  return (
    <div className="item">
      <h3>
        <Title job={j} />
        <span className="dim">
          {gang(j)}, submitted <Ago at={j.submitted_at} />
        </span>
      </h3>
      <p>{tidy(e?.summary ?? j.waiting ?? j.reason ?? '')}</p>
      {lost && <p className="dim">Its last attempt {lost}.</p>}
      {start ? (
        <p>
          {startLead(Boolean(start.from), start.reserved)}
          {start.from && (
            <>
              <Ago at={start.from} /> and{' '}
            </>
          )}
          <Ago at={start.at} />
          {basis && <span className="dim">: {tidy(basis)}</span>}
        </p>
      ) : (
        <p className="dim">{noStart(j, e, query.isError, submits)}</p>
      )}
      {submits && e && e.suggestions.length > 0 && <p className="dim">Sooner: {tidy(e.suggestions[0])}</p>}
    </div>
  );
}

/** Why no start is given. */
function noStart(
  j: Pick<Job, 'held'>,
  e: Pick<Schemas['Explanation'], 'possible'> | undefined,
  failed: boolean,
  submits: boolean,
): string {
  if (j.held) return 'It starts after somebody releases it on its page.';
  if (!e) return failed ? 'Why it waits cannot be read now.' : '';
  if (e.possible) return 'No start can be estimated yet.';
  return submits ? 'It cannot start as it is: clone it with less.' : 'It cannot start as it is.';
}

/** Why it ended, and what to do next. */
export function EndedJob({ job: j, submits }: { job: Job; submits: boolean }) {
  const { cause, next } = ending(j);
  return (
    <div className="item">
      <h3>
        <Title job={j} />
        <span className="dim">
          {gang(j)}, ended <Ago at={j.ended_at} />
        </span>
      </h3>
      <p>{tidy(cause)}</p>
      {/* Who may not submit is not asked to. */}
      {submits && next && (
        <p className="dim">
          {next}{' '}
          <Link to="/jobs/new" search={{ from: j.id }}>
            Clone
          </Link>
        </p>
      )}
    </div>
  );
}
