import { useQuery } from '@tanstack/react-query';
import { Link, useParams } from '@tanstack/react-router';
import type { Schemas } from '../api/client';
import { finding } from '../queries';
import { Ago, Loaded, Panel, State } from '../ui/parts';
import { FindingItem } from './oncall';

/** One finding: where the message of an alert leads. */
export function FindingPage() {
  const { id } = useParams({ from: '/findings/$id' });
  const query = useQuery(finding(id));
  return (
    <main className="page" id="page">
      <Loaded query={query}>
        {(f) => (
          <>
            <div className="head">
              <h1>Finding {f.id}</h1>
              <State word={f.severity} />
              <State word={f.state} />
              <span>{f.title || f.kind}</span>
            </div>
            <Panel title="What was found">
              <FindingItem finding={f} />
              <Around finding={f} />
            </Panel>
          </>
        )}
      </Loaded>
    </main>
  );
}

/** How it ended, and the incident that it is part of. */
function Around({ finding: f }: { finding: Schemas['Finding'] }) {
  return (
    <div className="item">
      {f.incident && (
        <p>
          Part of{' '}
          <Link to="/incidents/$id" params={{ id: f.incident }}>
            incident {f.incident}
          </Link>
          .
        </p>
      )}
      {f.closed_at ? (
        <p>
          Closed <Ago at={f.closed_at} />
          {f.closed_why ? `: ${f.closed_why}` : ''}
        </p>
      ) : (
        <p>
          Open. <Link to="/oncall">On-call</Link> shows its remediation and its alerts.
        </p>
      )}
    </div>
  );
}
