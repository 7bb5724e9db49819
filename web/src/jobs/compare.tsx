import { useQuery } from '@tanstack/react-query';
import { Link, useNavigate, useSearch } from '@tanstack/react-router';
import { type ReactNode, useMemo, useState } from 'react';
import type { Schemas } from '../api/client';
import { RATES } from '../exec/fleet-metrics';
import { job as jobOf, jobSpec, report } from '../queries';
import { useRights } from '../rights';
import { DiffLines } from '../ui/diff';
import { Page } from '../ui/page';
import { count, DateAndTime, Empty, Loaded, Panel, Scroll, State, span } from '../ui/parts';
import { type Facts, factsOf, sideOf, WORK, workOf } from './differ';
import { specYaml } from './form';
import { ended } from './offers';
import { ranOf } from './since';
import { type ChartSide, SinceCharts } from './since-charts';

type Job = Schemas['Job'];

/** Two jobs, or two attempts, side by side: what was asked for, how long it took, why it ended, and where. */
export function ComparePage() {
  const search = useSearch({ from: '/jobs/compare' });
  const navigate = useNavigate({ from: '/jobs/compare' });
  const [a, setA] = useState(search.a ?? '');
  const [b, setB] = useState(search.b ?? '');
  const [first, second] = [sideOf(search.a ?? ''), sideOf(search.b ?? '')];
  return (
    <Page title="Compare jobs">
      <form
        className="compare-fields"
        onSubmit={(e) => {
          e.preventDefault();
          void navigate({ search: { a: a.trim() || undefined, b: b.trim() || undefined }, replace: true });
        }}
      >
        <label>
          First <input required value={a} placeholder="42" onChange={(e) => setA(e.target.value)} />
        </label>
        <label>
          Second <input required value={b} placeholder="42.1" onChange={(e) => setB(e.target.value)} />
        </label>
        <button type="submit" className="main">
          Compare
        </button>
        <span className="dim">A job such as 42, or an attempt of it such as 42.1.</span>
      </form>
      {first && second ? (
        <Sides key={`${search.a} ${search.b}`} first={first} second={second} />
      ) : (
        <Empty title="Which two jobs?">
          <p>
            Their state, times, attempts, nodes and specs are shown side by side. The page of a job has a link
            to here.
          </p>
          {search.a && !first && <p>“{search.a}” is not a job.</p>}
          {search.b && !second && <p>“{search.b}” is not a job.</p>}
        </Empty>
      )}
    </Page>
  );
}

type Side = NonNullable<ReturnType<typeof sideOf>>;

const nameOf = (s: Side) => (s.attempt === null ? s.id : `${s.id}.${s.attempt}`);

function Sides({ first, second }: { first: Side; second: Side }) {
  const one = useQuery(jobOf(first.id));
  const two = useQuery(jobOf(second.id));
  const { submits } = useRights();
  return (
    <Loaded query={one}>
      {(a) => (
        <Loaded query={two}>
          {(b) => (
            <>
              <FactsTable jobs={[a, b]} sides={[first, second]} />
              <Metrics jobs={[a, b]} sides={[first, second]} />
              {first.id === second.id ? null : submits ? (
                <FullSpecs first={a} second={b} />
              ) : (
                <SpecDiff first={specYaml(a.spec)} second={specYaml(b.spec)} note="without what they run" />
              )}
            </>
          )}
        </Loaded>
      )}
    </Loaded>
  );
}

const ROWS: [string, (f: Facts) => string, ((f: Facts) => ReactNode)?][] = [
  ['state', (f) => f.state, (f) => <State word={f.state} />],
  ['user', (f) => f.user],
  [
    'submitted',
    (f) => f.submitted ?? '',
    (f) => (f.submitted ? <DateAndTime at={f.submitted} /> : 'not known'),
  ],
  ['started', (f) => f.started ?? '', (f) => (f.started ? <DateAndTime at={f.started} /> : 'not yet')],
  ['ended', (f) => f.ended ?? '', (f) => (f.ended ? <DateAndTime at={f.ended} /> : 'not yet')],
  ['ran for', (f) => (f.ran !== null ? span(f.ran) : f.started ? 'waits again' : 'not yet')],
  ['attempts', (f) => f.attempts],
  ['cause', (f) => f.cause],
];

function FactsTable({ jobs, sides }: { jobs: [Job, Job]; sides: [Side, Side] }) {
  const now = Date.now();
  const a = factsOf(jobs[0], sides[0].attempt, now);
  const b = factsOf(jobs[1], sides[1].attempt, now);
  if (!a || !b) {
    const missing = a ? 1 : 0;
    return (
      <Empty title="There is no such attempt">
        <p>
          Job {jobs[missing].id} has no attempt {sides[missing].attempt}.
        </p>
      </Empty>
    );
  }
  const both = new Set(a.nodes.filter((n) => b.nodes.includes(n)));
  return (
    <Panel
      title="Side by side"
      note={`what differs is bold; ${both.size === 0 ? 'no node' : count(both.size, 'node')} in common`}
    >
      <Scroll label="Side by side">
        <table className="sides">
          <thead>
            <tr>
              <th>
                <span className="skip">What</span>
              </th>
              {jobs.map((j, i) => (
                <th key={i === 0 ? 'first' : 'second'}>
                  <Link to="/jobs/$id" params={{ id: j.id }}>
                    {nameOf(sides[i])} {j.name}
                  </Link>
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {ROWS.map(([word, text, shown = text]) => (
              <tr key={word} className={text(a) === text(b) ? undefined : 'differs'}>
                <th scope="row">{word}</th>
                <td>{shown(a)}</td>
                <td>{shown(b)}</td>
              </tr>
            ))}
            <WorkRows jobs={jobs} sides={sides} />
            <tr className={a.nodes.join() === b.nodes.join() ? undefined : 'differs'}>
              <th scope="row">nodes</th>
              <td>{a.nodes.join(', ')}</td>
              <td>{b.nodes.join(', ')}</td>
            </tr>
          </tbody>
        </table>
      </Scroll>
    </Panel>
  );
}

/** Metrics of both; of an attempt that is none the table says so. */
function Metrics({ jobs, sides }: { jobs: [Job, Job]; sides: [Side, Side] }) {
  const [one, two] = jobs;
  const [first, second] = sides;
  const chartSides = useMemo<[ChartSide, ChartSide]>(() => {
    const side = (j: Job, s: Side) => ({ name: nameOf(s), job: j.id, ran: ranOf(j, s.attempt) });
    return [side(one, first), side(two, second)];
  }, [one, two, first, second]);
  const now = Date.now();
  if (jobs.some((j, i) => factsOf(j, sides[i].attempt, now) === null)) return null;
  return <SinceCharts sides={chartSides} />;
}

/** What the work came to, as the reports of both have it; a job that never ran has nothing to report. */
function WorkRows({ jobs, sides }: { jobs: [Job, Job]; sides: [Side, Side] }) {
  const reports = [
    useQuery(report(jobs[0].id, ended(jobs[0]))),
    useQuery(report(jobs[1].id, ended(jobs[1]))),
  ];
  const works = reports.map(({ data }, i) => data && workOf(data, sides[i].attempt, jobs[i].progress));
  const cell = (i: number, text: (typeof WORK)[number][1]) => {
    const work = works[i];
    return work ? text(work) : reports[i].isError ? 'not known' : 'reading';
  };
  return WORK.map(([word, text]) => (
    <tr key={word} className={cell(0, text) === cell(1, text) ? undefined : 'differs'}>
      <th scope="row" title={word === 'goodput' ? RATES.goodput.formula : undefined}>
        {word}
      </th>
      <td>{cell(0, text)}</td>
      <td>{cell(1, text)}</td>
    </tr>
  ));
}

/** With the scripts and environments, which those may read who may submit. */
function FullSpecs({ first, second }: { first: Job; second: Job }) {
  const one = useQuery(jobSpec(first.id));
  const two = useQuery(jobSpec(second.id));
  return (
    <Loaded query={one}>
      {(a) => (
        <Loaded query={two}>{(b) => <SpecDiff first={specYaml(a)} second={specYaml(b)} note="" />}</Loaded>
      )}
    </Loaded>
  );
}

function SpecDiff({ first, second, note }: { first: string; second: string; note: string }) {
  return (
    <Panel title="Specs" note={note}>
      <DiffLines first={first} second={second} same="The specs are the same" what="A spec" />
    </Panel>
  );
}
