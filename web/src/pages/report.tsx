import { useQuery } from '@tanstack/react-query';
import type { Schemas } from '../api/client';
import { RATES } from '../exec/fleet-metrics';
import { report } from '../queries';
import { Fact, Loaded, Panel, span } from '../ui/parts';

type Parts = Schemas['TimeParts'];
const PARTS: [keyof Parts, string][] = [
  ['productive', 'productive'],
  ['checkpointing', 'checkpointing'],
  ['starting', 'starting'],
  ['restarting', 'restarting'],
  ['lost', 'lost'],
  ['idle', 'idle'],
  ['queued', 'queued'],
  ['held', 'held'],
];
const share = (v: number | null | undefined) =>
  v === null || v === undefined ? 'not known' : `${(v * 100).toFixed(1)} %`;

/** Where a job's time went. */
export function Report({ id, over }: { id: string; over: boolean }) {
  const query = useQuery(report(id, over));
  return (
    <Loaded query={query}>
      {(r) => {
        const e = r.efficiency;
        return (
          <Panel
            title="Where its time went"
            note={r.complete ? '' : 'its first attempts are not known any more'}
          >
            <div className="body">
              <Split parts={r.time_ms} whole={r.wall_ms} />
              <dl className="facts">
                <Fact word="goodput" title={RATES.goodput.formula}>
                  {share(r.goodput)} <span className="dim">of its GPU time was work that counts</span>
                </Fact>
                <Fact word="ETTR">
                  {share(r.ettr)} <span className="dim">the same, with its waiting</span>
                </Fact>
                <Fact word="interruptions">
                  {r.interruptions}
                  {r.mtbi_ms ? `, ${span(r.mtbi_ms)} between them` : ''}
                  {r.recover_ms ? `, ${span(r.recover_ms)} recovery time` : ''}
                </Fact>
                <Fact word="GPU-hours">
                  {(r.allocated_gpu_seconds / 3600).toLocaleString('en', { maximumFractionDigits: 2 })}
                </Fact>
                {e && (
                  <Fact word="GPU use">
                    {share(e.utilisation)}
                    {e.sm_active !== null && e.sm_active !== undefined && `, SMs ${share(e.sm_active)}`}
                    {e.tensor_active !== null &&
                      e.tensor_active !== undefined &&
                      `, tensor cores ${share(e.tensor_active)}`}
                    {e.power_watts ? `, ${Math.round(e.power_watts)} W each` : ''}
                    {!e.whole && <span className="dim"> since this server started</span>}
                  </Fact>
                )}
              </dl>
              {r.advice.length > 0 && (
                <ul className="evidence">
                  {r.advice.map((a) => (
                    <li key={a.text}>
                      {a.text} <span className="dim">({a.because})</span>
                    </li>
                  ))}
                </ul>
              )}
            </div>
          </Panel>
        );
      }}
    </Loaded>
  );
}

function Split({ parts, whole }: { parts: Parts; whole: number }) {
  const shown = PARTS.map(([key, word]) => ({ key, word, ms: parts[key] ?? 0 })).filter((p) => p.ms > 0);
  return (
    <div className="split-box">
      <div className="split" aria-hidden="true">
        {shown.map(({ key, ms }) => (
          <i key={key} className={key} style={{ flexGrow: ms / Math.max(1, whole) }} />
        ))}
      </div>
      <ul className="legend">
        {shown.map(({ key, word, ms }) => (
          <li key={key}>
            <i className={key} />
            {word}{' '}
            <span className="dim">
              {span(ms)}, {((100 * ms) / Math.max(1, whole)).toFixed(1)} %
            </span>
          </li>
        ))}
      </ul>
    </div>
  );
}
