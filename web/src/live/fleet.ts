import type { QueryClient } from '@tanstack/react-query';
import { useSyncExternalStore } from 'react';
import { api, must, type Schemas, stream } from '../api/client';
import { apply, type Columns, Cutter, columns, type Frame, Kind, text } from './frame';
import { stale } from './hints';

export type Layout = Schemas['ConsoleLayout'];

/** One picture of the fleet: now, or at a moment that has passed. */
export interface Picture {
  layout: Layout | null;
  /** First index of each node, and one more at the end. */
  first: Uint32Array;
  /** Node of each index. */
  nodeOf: Uint32Array;
  columns: Columns | null;
  tenants: string[];
  versions: string[];
}

/** The picture before anything is known. */
export const NOTHING: Picture = {
  layout: null,
  first: new Uint32Array(1),
  nodeOf: new Uint32Array(0),
  columns: null,
  tenants: [],
  versions: [],
};

/** Where each node's GPUs begin, and whose each GPU is. */
function spread(layout: Layout): { first: Uint32Array<ArrayBuffer>; nodeOf: Uint32Array<ArrayBuffer> } {
  const first = new Uint32Array(layout.nodes.length + 1);
  layout.nodes.forEach((n, i) => {
    first[i + 1] = first[i] + Math.max(1, n.gpus);
  });
  const nodeOf = new Uint32Array(first[layout.nodes.length]);
  for (let n = 0; n < layout.nodes.length; n++) nodeOf.fill(n, first[n], first[n + 1]);
  return { first, nodeOf };
}

/** The fleet as it was. */
export async function past(at: Date, signal: AbortSignal): Promise<Picture> {
  const response = await stream(`/v1/console/past?at=${encodeURIComponent(at.toISOString())}`, { signal });
  const picture: Picture = { ...NOTHING };
  for (const frame of new Cutter().push(new Uint8Array(await response.arrayBuffer()))) {
    if (frame.kind === Kind.layout) {
      picture.layout = text(frame) as Layout;
      Object.assign(picture, spread(picture.layout));
    } else if (frame.kind === Kind.words) Object.assign(picture, text(frame));
    else if (frame.kind === Kind.whole) picture.columns = columns(frame).columns;
  }
  return picture;
}

/** How the connection stands. `away` until a frame comes again, also while that is tried. */
export type Standing = 'connecting' | 'live' | 'away' | 'paused';

/** A frame comes every second. A server that is silent for so long is away, though its connection stands. */
const SILENCE = 20_000;

/** The answer, or an error when it does not come in time. */
export async function within<T>(answer: Promise<T>, ms: number): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<never>((_, no) => {
    timer = setTimeout(() => no(new Error(`the server sent nothing for ${ms / 1000} s`)), ms);
  });
  try {
    return await Promise.race([answer, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** The fleet as it is now: one picture for the whole tab, kept by one stream. */
export class Fleet implements Picture {
  layout: Layout | null = null;
  /** First index of each node, and one more at the end. */
  first = new Uint32Array(1);
  /** Node of each index. */
  nodeOf = new Uint32Array(0);
  /** Nodes by name. */
  byName = new Map<string, number>();
  columns: Columns | null = null;
  tenants: string[] = [];
  versions: string[] = [];
  /** Time of the newest frame, by the server's clock. */
  at = 0;
  standing: Standing = 'connecting';
  error: Error | null = null;
  /** Grows with every frame. */
  revision = 0;
  private listeners = new Set<() => void>();
  private stop: AbortController | null = null;
  /** The layout, on its way while the stream begins; null where it could not be had. */
  private early: Promise<Layout | null> | null = null;

  constructor(private queries: QueryClient) {}

  subscribe = (listener: () => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  private notify() {
    this.revision++;
    for (const l of this.listeners) l();
  }

  start() {
    if (this.stop) return;
    document.addEventListener('visibilitychange', this.look);
    this.look();
  }

  end() {
    document.removeEventListener('visibilitychange', this.look);
    this.stop?.abort();
    this.stop = null;
  }

  /** Nobody looks at a hidden tab: it lets go of its stream. */
  private look = () => {
    if (document.visibilityState === 'hidden') {
      this.stop?.abort();
      this.stop = null;
      this.standing = 'paused';
      this.notify();
    } else if (!this.stop) {
      this.stop = new AbortController();
      void this.run(this.stop.signal);
      // What changed meanwhile was not reported.
      void this.queries.invalidateQueries();
    }
  };

  private async run(signal: AbortSignal) {
    let pause = 500;
    let lost = false;
    while (!signal.aborted) {
      try {
        this.standing = lost ? 'away' : 'connecting';
        this.notify();
        await this.follow(signal, () => {
          pause = 500;
          // What changed meanwhile was not reported, and what could not be read may be there now.
          if (lost) void this.queries.invalidateQueries();
          lost = false;
        });
      } catch (e) {
        if (signal.aborted) return;
        this.error = e as Error;
      }
      if (signal.aborted) return;
      this.standing = 'away';
      lost = true;
      this.notify();
      await new Promise((r) => setTimeout(r, pause + Math.random() * pause));
      pause = Math.min(pause * 2, 10_000);
    }
  }

  private async follow(signal: AbortSignal, alive: () => void) {
    const given = new AbortController();
    const until = AbortSignal.any([signal, given.signal]);
    try {
      // Asked together with the stream, whose first picture needs it.
      this.early = this.layout === null ? this.ask(until) : null;
      const response = await within(stream('/v1/console/frames', { signal: until }), SILENCE);
      const reader = (response.body as ReadableStream<Uint8Array>).getReader();
      const cutter = new Cutter();
      for (;;) {
        const { value, done } = await within(reader.read(), SILENCE);
        if (done) return;
        for (const frame of cutter.push(value)) await within(this.take(frame, until), SILENCE);
        this.standing = 'live';
        this.error = null;
        alive();
        this.notify();
      }
    } finally {
      // A stream that is only silent would be held open beside the next.
      given.abort();
    }
  }

  private async ask(signal: AbortSignal): Promise<Layout | null> {
    return api.GET('/v1/console/layout', { signal }).then(must, () => null);
  }

  private async take(frame: Frame, signal: AbortSignal) {
    this.at = frame.at;
    if (frame.kind === Kind.words) {
      const words = text(frame) as { tenants: string[]; versions: string[] };
      this.tenants = words.tenants;
      this.versions = words.versions;
    } else if (frame.kind === Kind.hints) {
      stale(this.queries, text(frame) as { all: boolean; kinds: string[] });
    } else if (frame.kind === Kind.whole) {
      if (this.layout?.version !== frame.layout) {
        const early = await this.early;
        this.early = null;
        const layout =
          early?.version === frame.layout ? early : must(await api.GET('/v1/console/layout', { signal }));
        // It moved on meanwhile: the picture that fits it follows within a second.
        if (layout.version !== frame.layout) return;
        this.lay(layout);
      }
      this.columns = columns(frame).columns;
    } else if (frame.kind === Kind.change && this.layout?.version === frame.layout && this.columns) {
      const { at, columns: change } = columns(frame);
      if (at) apply(this.columns, at, change);
    }
  }

  private lay(layout: Layout) {
    const { first, nodeOf } = spread(layout);
    this.layout = layout;
    this.first = first;
    this.nodeOf = nodeOf;
    this.byName = new Map(layout.nodes.map((n, i) => [n.name, i]));
    this.columns = null;
  }
}

/** Renders again with every frame. */
export function useRevision(fleet: Fleet): number {
  return useSyncExternalStore(fleet.subscribe, () => fleet.revision);
}

/** Renders again only when the connection stands differently. */
export function useStanding(fleet: Fleet): Standing {
  return useSyncExternalStore(fleet.subscribe, () => fleet.standing);
}
