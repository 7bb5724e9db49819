import { useQuery } from '@tanstack/react-query';
import { useNavigate, useSearch } from '@tanstack/react-router';
import { api, once, type Schemas } from '../api/client';
import { matchWords } from '../manage/silence';
import { alerts, receivers, silences, slo, slos } from '../queries';
import { useRights } from '../rights';
import { useAsked } from '../ui/asked';
import { Page } from '../ui/page';
import { Ago, brief, count, Empty, Fact, For, Loaded, NotShown, Panel, Word } from '../ui/parts';
import { Plot } from '../ui/plot';
import { Alerts, Budget, leftWords, NoObjectives, reached, sloTone } from './slo-parts';
import { alertWords } from './slo-words';

type Slo = Schemas['Slo'];

const ORDER: Record<string, number> = { exhausted: 0, burning: 1, below_target: 2, met: 3, no_data: 4 };

/** The word of a cause for people: as `muster slo` has it. */
const causeWord = (cause: string) => (cause === 'room' ? 'capacity' : cause);

export function SlosPage() {
  const query = useQuery(slos());
  const { name } = useSearch({ from: '/slos' });
  const { whole, project } = useRights();
  return (
    <Page
      title="SLOs"
      about={query.data && (whole || query.data.items.length > 0) && <Tally items={query.data.items} />}
    >
      <div className="columns wide-left">
        <div>
          <Loaded query={query}>
            {(page) =>
              page.items.length === 0 ? (
                <Panel title="Objectives">
                  <NoObjectives>
                    <p>
                      An objective says what share of jobs, nodes or time is to be good, and over how long:{' '}
                      <code>muster slo</code>.
                    </p>
                  </NoObjectives>
                </Panel>
              ) : (
                <>
                  {name && <One name={name} />}
                  <Panel title="Objectives" note="worst first">
                    {[...page.items]
                      .sort(
                        (a, b) =>
                          (ORDER[a.state] ?? 9) - (ORDER[b.state] ?? 9) ||
                          (a.budget_left ?? 2) - (b.budget_left ?? 2) ||
                          a.name.localeCompare(b.name),
                      )
                      .map((s) => (
                        <SloItem key={s.name} slo={s} chosen={s.name === name} />
                      ))}
                  </Panel>
                </>
              )
            }
          </Loaded>
        </div>
        <div>
          <Alerts />
          {whole && (
            <>
              <Silences />
              <Receivers />
            </>
          )}
          {whole === false && <NotShown project={project} what="silences and receivers" />}
        </div>
      </div>
    </Page>
  );
}

function Tally({ items }: { items: Slo[] }) {
  const of = (state: string) => items.filter((s) => s.state === state).length;
  return (
    <span className="dim">
      {count(items.length, 'objective')}: {of('met')} met, {of('below_target')} not met, {of('burning')}{' '}
      burning, {of('exhausted')} exhausted, {of('no_data')} without data
    </span>
  );
}

const rate = (v: number | null | undefined) =>
  v === null || v === undefined ? 'no data' : v.toLocaleString('en', { maximumFractionDigits: 1 });

function SloItem({ slo: s, chosen }: { slo: Slo; chosen: boolean }) {
  const navigate = useNavigate({ from: '/slos' });
  const covered = alertWords(s, useQuery(alerts()).data?.items ?? []);
  return (
    <div className={chosen ? 'item chosen' : 'item'}>
      <h3>
        {sloTone(s)}
        <button
          type="button"
          className="quiet flat link"
          aria-expanded={chosen}
          onClick={() => void navigate({ search: { name: chosen ? undefined : s.name }, replace: true })}
        >
          {s.name}
        </button>
        <span className="dim">{reached(s)}</span>
        <Budget of={s} word />
      </h3>
      <p className="dim">
        {s.description && `${s.description}.`}
        {s.owner && ` Owner: ${s.owner}.`}
        {s.exhausted_in &&
          s.state !== 'exhausted' &&
          ` At this burn rate its budget is exhausted in ${brief(s.exhausted_in)}.`}
        {s.gating && ` It blocks: ${s.gates.join(', ')}.`}
      </p>
      {s.firing.map((f) => (
        <p key={`${f.long}${f.urgency}`}>
          <Word tone={f.urgency === 'page' ? 'worst' : 'warn'}>{f.urgency}</Word> burn rate{' '}
          {rate(f.long_rate)}x over {f.long}, {rate(f.short_rate)}x over {f.short}
        </p>
      ))}
      {covered && <p>{covered}</p>}
    </div>
  );
}

/** One objective over its window: the burn rate of its error budget, what is left, and why. */
function One({ name }: { name: string }) {
  const query = useQuery(slo(name));
  return (
    <Loaded query={query}>
      {(s) => {
        const points = s.chart ?? [];
        const at = points.map((p) => Date.parse(p.at));
        const rates = points.map((p) => (typeof p.rate === 'number' ? Math.min(p.rate, 100) : null));
        const whole = (s.causes ?? []).reduce((n, c) => n + c.count, 0);
        return (
          <Panel title={s.name} note={reached(s)}>
            {points.every((p) => p.total === 0) ? (
              <Empty title="Nothing was counted yet">
                <p>The chart begins with the first job, attempt or hour that this objective counts.</p>
              </Empty>
            ) : (
              <div className="body">
                <Plot
                  title="Budget left"
                  at={at}
                  height={130}
                  most={1}
                  say={leftWords}
                  lines={[
                    {
                      label: 'budget left',
                      tone: '--accent',
                      values: points.map((p) => p.budget_left ?? null),
                    },
                  ]}
                />
                <Plot
                  title="Burn rate"
                  at={at}
                  height={130}
                  say={(v) => `${v.toLocaleString('en', { maximumFractionDigits: 1 })}x`}
                  across={{ at: 1, label: 'as fast as the window allows' }}
                  lines={[{ label: 'burn rate by the hour', tone: '--bad', values: rates }]}
                />
                <dl className="facts">
                  {s.burn.map((b) => (
                    <Fact key={b.window} word={`over ${b.window}`}>
                      {b.rate === null || b.rate === undefined ? 'no data' : `${rate(b.rate)}x`}
                    </Fact>
                  ))}
                  <Fact word="counted">
                    {s.unit === 'time'
                      ? `${(s.total / 3_600_000).toLocaleString('en', { maximumFractionDigits: 0 })} hours, ${((s.total - s.good) / 3_600_000).toLocaleString('en', { maximumFractionDigits: 1 })} of them bad`
                      : `${s.total.toLocaleString('en')}, ${(s.total - s.good).toLocaleString('en')} of them bad, ${s.allowed.toLocaleString('en')} allowed in ${s.window}`}
                  </Fact>
                  <Fact word="counted for">
                    {`${brief(s.counted_for)} of ${s.window}; the rest counts as good`}
                  </Fact>
                  {s.mean_time && (
                    <Fact
                      word="between interruptions"
                      title={`time that gangs ran / interruptions by infrastructure, platform or unknown causes, over ${s.window}; failures of the programs themselves are not counted`}
                    >
                      {brief(s.mean_time)}
                    </Fact>
                  )}
                  {whole > 0 && (
                    <Fact word="used by">
                      {s.causes
                        .map((c) => `${causeWord(c.cause)} ${((100 * c.count) / whole).toFixed(0)} %`)
                        .join(', ')}
                    </Fact>
                  )}
                </dl>
              </div>
            )}
          </Panel>
        );
      }}
    </Loaded>
  );
}

function Silences() {
  const query = useQuery(silences());
  const { operates } = useRights();
  const { asked, busy } = useAsked();
  const end = (name: string) =>
    asked(
      {
        title: `End the silence ${name}`,
        text: 'Alerts that it silenced send notifications again.',
        act: 'End it',
      },
      () => api.DELETE('/v1/silences/{name}', { params: { path: { name }, header: once() } }),
      'The silence is over',
    );
  return (
    <Loaded query={query}>
      {(page) => {
        const open = page.items.filter((s) => s.state !== 'over');
        return (
          <Panel title="Silences" note={open.length ? `${open.length}` : ''}>
            {open.length === 0 ? (
              <Empty title="Nothing is silenced">
                <p>An alert's button silences it; the page Silences makes windows that repeat, too.</p>
              </Empty>
            ) : (
              open.map((s) => (
                <div className="item" key={s.name}>
                  <h3>
                    <Word tone={s.state === 'active' ? 'warn' : 'plain'}>{s.state}</Word>
                    <span>{s.name}</span>
                    <span className="dim">{matchWords(s.match, 'everything')}</span>
                  </h3>
                  <p className="dim">
                    {s.why}; by {s.by.replace(/^user:/, '')};{' '}
                    {s.window && (
                      <>
                        ends <Ago at={s.window.end} />
                      </>
                    )}
                    {s.silences > 0 && `; silences ${count(s.silences, 'alert')}`}
                  </p>
                  {operates && (
                    <div className="actions">
                      <button type="button" disabled={busy} onClick={() => void end(s.name)}>
                        End
                      </button>
                    </div>
                  )}
                </div>
              ))
            )}
          </Panel>
        );
      }}
    </Loaded>
  );
}

function Receivers() {
  const query = useQuery(receivers());
  return (
    <Panel title="Receivers" note="receivers of notifications, and what waits for them">
      <Loaded query={query}>
        {(page) =>
          page.items.length === 0 ? (
            <Empty title="No receivers yet">
              <p>
                Alerts go to Alertmanager, a webhook, Slack or mail once the routing names them:{' '}
                <code>muster routing</code>.
              </p>
            </Empty>
          ) : (
            page.items.map((r) => (
              <div className="item" key={r.name}>
                <h3>
                  <Word tone={r.state === 'ok' ? 'ok' : 'bad'}>{r.state}</Word>
                  <span>{r.name}</span>
                  <span className="dim">{r.by}</span>
                  <span className="dim">
                    {r.waiting === 0 ? 'nothing waits' : `${count(r.waiting, 'alert')} wait`}
                    {r.oldest && (
                      <>
                        , the oldest <For at={r.oldest} />
                      </>
                    )}
                  </span>
                </h3>
                {r.failures > 0 && (
                  <p>
                    {r.failures} failures in a row: {r.error}
                    {r.next_try && (
                      <span className="dim">
                        {' '}
                        tried again <Ago at={r.next_try} />
                      </span>
                    )}
                  </p>
                )}
              </div>
            ))
          )
        }
      </Loaded>
    </Panel>
  );
}
