import { useQuery } from '@tanstack/react-query';
import { useEffect, useState } from 'react';
import type { Avoided } from '../live/avoided';
import type { Picture } from '../live/fleet';
import { Flag, NO_VALUE, NONE, OTHERS, OTHERS_JOB } from '../live/frame';
import { job as jobQuery } from '../queries';
import { useRights } from '../rights';
import { Fact, NodeState } from '../ui/parts';
import { hazardWords } from './colors';

const FOUND = ['', 'a warning', 'degraded', 'critical'];

/** What is known of the GPU under the pointer. */
export function Card({
  fleet,
  gpu,
  avoided,
  x,
  y,
  width,
  height,
}: {
  fleet: Picture;
  gpu: number;
  /** Nodes that new work avoids, where that is known. */
  avoided?: Avoided;
  x: number;
  y: number;
  width: number;
  height: number;
}) {
  const { layout, columns: c } = fleet;
  const { whole } = useRights();
  const holder = c?.job[gpu] ?? 0;
  // A job's name is asked for only when the pointer rests.
  const [rested, rest] = useState(0);
  useEffect(() => {
    const timer = setTimeout(() => rest(holder), 150);
    return () => clearTimeout(timer);
  }, [holder]);
  const known = holder !== 0 && holder !== OTHERS_JOB;
  const job = useQuery({ ...jobQuery(String(holder)), enabled: known && rested === holder });
  if (!layout || !c) return null;
  const n = fleet.nodeOf[gpu];
  const node = layout.nodes[n];
  const rack = layout.racks[node.rack];
  const flags = c.flags[gpu];
  const state = layout.states[c.state[gpu]] ?? 'unknown';
  const open = (flags & Flag.breaker) > 0;
  const figure = (v: number, none: number, unit: string) =>
    v === none ? <span className="dim">no data</span> : `${v} ${unit}`;
  const style = {
    left: x + 16 + 320 > width ? undefined : x + 16,
    right: x + 16 + 320 > width ? width - x + 12 : undefined,
    top: y + 220 > height ? undefined : y + 12,
    bottom: y + 220 > height ? height - y + 12 : undefined,
  };
  return (
    <div className="card" style={style} aria-hidden="true">
      <h3>
        {node.name}
        {node.gpus > 0 && <span className="dim"> GPU {gpu - fleet.first[n]}</span>}
      </h3>
      <dl className="facts">
        <Fact word="state">
          <NodeState
            of={{
              state,
              no_new_work: open ? 'a breaker is open' : null,
              avoided: state === 'ready' && !open ? avoided?.get(node.name) : null,
            }}
          />
          {flags & Flag.spare ? ', spare' : ''}
          {flags & Flag.probation ? ', on probation' : ''}
        </Fact>
        {(flags & Flag.worst) > 0 && <Fact word="found">{FOUND[flags & Flag.worst]}</Fact>}
        {(flags & Flag.waits) > 0 && <Fact word="remediation">blocked or pending approval</Fact>}
        {open && <Fact word="breaker">open: new work is blocked</Fact>}
        <Fact word="job">
          {holder === 0 ? (
            <span className="dim">none</span>
          ) : holder === OTHERS_JOB ? (
            "another project's"
          ) : (
            <>
              {job.data?.id ?? holder} {job.data?.name}
              {c.tenant[gpu] < OTHERS && <span className="dim"> {fleet.tenants[c.tenant[gpu]]}</span>}
            </>
          )}
        </Fact>
        {node.gpus > 0 && (
          <Fact word="load">
            {figure(c.util[gpu], NO_VALUE, '%')}, {figure(c.temp[gpu], NO_VALUE, '°C')},{' '}
            {figure(c.power[gpu], NONE, 'W')}
          </Fact>
        )}
        <Fact word="where">
          {rack.spine} / {rack.leaf} / {rack.rack}
        </Fact>
        {whole && (
          <Fact word="hazard">
            {hazardWords(state, c.hazard[gpu], (flags & Flag.worst) === 3 ? 'critical' : null)}
          </Fact>
        )}
      </dl>
    </div>
  );
}
