import { useQuery } from '@tanstack/react-query';
import { useNavigate, useSearch } from '@tanstack/react-router';
import { type ReactNode, useId } from 'react';
import { Earning } from '../exec/earning';
import { known, type Report } from '../exec/fleet-metrics';
import { IncidentCost } from '../exec/incidents';
import { Lasting } from '../exec/lasting';
import { spanned } from '../exec/metric';
import { Period } from '../exec/period';
import { Reliable } from '../exec/reliable';
import { fleetReport } from '../queries';
import { useBrand } from '../ui/brand';
import { Page } from '../ui/page';
import { Empty, Loaded } from '../ui/parts';
import { wall } from '../ui/zone';

/** Is less known than was asked for? An hour is none. */
function tooShort(r: Report, days: number): boolean {
  const { log } = known(r);
  return !log || log.to - log.from < days * 86_400_000 - 3_600_000;
}

/** What became of the fleet, in the order in which leadership asks; prints on A4 and Letter. */
export function ExecutivePage() {
  const { days = 7 } = useSearch({ from: '/executive' });
  const navigate = useNavigate({ from: '/executive' });
  const brand = useBrand();
  const query = useQuery(fleetReport(days));
  return (
    <Page
      className="executive"
      title={
        <>
          <span className="printed">{brand.name}: </span>Executive report
        </>
      }
      about={
        query.data && (
          <span className="dim">
            {spanned(known(query.data).log)}, {wall(query.data.to).zone}
            {!query.isPlaceholderData && tooShort(query.data, days) && `: less than ${days} days are known`}
            {!query.data.complete && '; the log is still being read, numbers will grow'}
          </span>
        )
      }
      actions={
        <>
          <Period days={days} choose={(d) => void navigate({ search: { days: d }, replace: true })} />
          <button type="button" className="main" onClick={() => window.print()}>
            Print
          </button>
        </>
      }
    >
      <Loaded query={query}>{(r) => <Shown r={r} />}</Loaded>
    </Page>
  );
}

function Shown({ r }: { r: Report }) {
  if (r.rows.length === 0)
    return (
      <Empty title="Nothing to report yet">
        <p>
          The report begins with the site's first hour. To see one of a week: <code>muster up --demo</code>.
        </p>
      </Empty>
    );
  return (
    <>
      <Answer question="Is the fleet used?">
        <Earning r={r} />
      </Answer>
      <Answer question="Are we reliable?">
        <Reliable r={r} />
      </Answer>
      <Answer question="Is there enough capacity?">
        <Lasting r={r} />
      </Answer>
      <Answer question="What did incidents cost?">
        <IncidentCost r={r} />
      </Answer>
    </>
  );
}

function Answer({ question, children }: { question: string; children: ReactNode }) {
  const id = useId();
  return (
    <section className="answer" aria-labelledby={id}>
      <h2 id={id}>{question}</h2>
      {children}
    </section>
  );
}
