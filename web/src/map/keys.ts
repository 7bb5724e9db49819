// Which GPU an arrow key leads to. No React here.
import type { Plan } from './layout';
import type { View } from './render';

export type Direction = 'left' | 'right' | 'up' | 'down';

export const DIRECTIONS: Record<string, Direction> = {
  ArrowLeft: 'left',
  ArrowRight: 'right',
  ArrowUp: 'up',
  ArrowDown: 'down',
};

/** A cell of the same row or column has its place within half a cell. */
const HALF = 0.5;

/**
 * The nearest GPU in a direction; the same one where there is none. What lies aside of the straight way counts three
 * times: so a row is walked to its end, and then the rack next to it.
 */
export function neighbour(plan: Plan, from: number, way: Direction): number {
  const [x, y] = [plan.x[from], plan.y[from]];
  const across = way === 'left' || way === 'right';
  const sign = way === 'left' || way === 'up' ? -1 : 1;
  let [best, least] = [from, Number.POSITIVE_INFINITY];
  for (let i = 0; i < plan.x.length; i++) {
    const [dx, dy] = [plan.x[i] - x, plan.y[i] - y];
    const ahead = (across ? dx : dy) * sign;
    if (ahead < HALF) continue;
    const far = ahead + 3 * Math.abs(across ? dy : dx);
    if (far < least) [best, least] = [i, far];
  }
  return best;
}

/** The GPU that is nearest to a point of the plan: where a walk by keys begins. */
export function nearest(plan: Plan, x: number, y: number): number | null {
  let [best, least] = [-1, Number.POSITIVE_INFINITY];
  for (let i = 0; i < plan.x.length; i++) {
    const far = Math.hypot(plan.x[i] + HALF - x, plan.y[i] + HALF - y);
    if (far < least) [best, least] = [i, far];
  }
  return best < 0 ? null : best;
}

/** The view moved as little as is needed to have a GPU in sight, with some of what is around it. */
export function inSight(view: View, plan: Plan, gpu: number, w: number, h: number): View {
  const room = Math.min(2 * view.scale + 24, w / 4, h / 4);
  const into = (at: number, size: number) => {
    if (at < room) return room - at;
    if (at + view.scale > size - room) return size - room - at - view.scale;
    return 0;
  };
  return {
    ...view,
    dx: view.dx + into(plan.x[gpu] * view.scale + view.dx, w),
    dy: view.dy + into(plan.y[gpu] * view.scale + view.dy, h),
  };
}
