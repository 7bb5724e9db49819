import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { Bar } from '../manage/quota-bar';
import { gpus } from '../manage/quota-words';
import { quotas } from '../queries';
import { Empty, Loaded, Panel } from '../ui/parts';
import { EVERY } from './queries';
import { noQuotaWords, quotaLines } from './words';

/** What a project may have and has now, a bar for each limit. */
export function QuotaPanel({ project }: { project: string }) {
  const query = useQuery({ ...quotas(), refetchInterval: EVERY });
  return (
    <Panel title="My quota" actions={<Link to="/quotas">Shares</Link>}>
      <Loaded query={query}>
        {({ report }) => {
          const lines = quotaLines(report.quotas, project);
          const now = report.accounts.find((a) => a.project === project && !a.user)?.used_milli ?? 0;
          if (lines.length === 0)
            return (
              <Empty title={noQuotaWords(report.quotas, project)}>
                <p>
                  {project} uses {gpus(now)} GPUs now. Operators set quotas: how many GPUs a project owns, and
                  how many it may borrow.
                </p>
              </Empty>
            );
          return lines.map((l) => (
            <div className="item quota-line" key={l.key}>
              <h3>
                <span>{l.what}</span>
                <span className="dim">
                  {l.quota}
                  {l.shared && ', shared with other projects'}
                </span>
              </h3>
              <Bar used={l.used} owns={l.owns} />
              <p className="dim">{l.words}</p>
            </div>
          ));
        }}
      </Loaded>
    </Panel>
  );
}
