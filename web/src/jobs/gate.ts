// So much at once, and the rest in its order. No React here.

/** Lets so many pieces of work run at once. What is not wanted any more before its turn does not run. */
export class Gate {
  private running = 0;
  private waiting: (() => void)[] = [];

  constructor(private readonly most: number) {}

  async pass<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    if (this.running >= this.most) await new Promise<void>((turn) => this.waiting.push(turn));
    else this.running++;
    try {
      signal.throwIfAborted();
      return await work();
    } finally {
      const next = this.waiting.shift();
      // The place is given on, or is free again.
      if (next) next();
      else this.running--;
    }
  }
}
