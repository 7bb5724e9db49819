// Frames as the server writes them (crates/server/src/console/frame.rs): little-endian, each with
// its length in front.

export const HEAD = 32;
export const FORMAT = 1;
export const Kind = { whole: 0, change: 1, words: 2, hints: 3, layout: 4 } as const;

/** One value for every GPU, by index. */
export interface Columns {
  job: Uint32Array;
  power: Uint16Array;
  hazard: Uint16Array;
  tenant: Uint16Array;
  version: Uint16Array;
  state: Uint8Array;
  flags: Uint8Array;
  util: Uint8Array;
  temp: Uint8Array;
}

export interface Frame {
  kind: number;
  count: number;
  layout: number;
  tick: number;
  at: number;
  /** Aligned to four bytes. */
  body: ArrayBuffer;
}

export const NO_VALUE = 255;
export const NONE = 65535;
export const OTHERS = 65534;
export const OTHERS_JOB = 0xffffffff;

export const Flag = {
  worst: 0b11,
  breaker: 1 << 2,
  remediation: 1 << 3,
  waits: 1 << 4,
  spare: 1 << 5,
  probation: 1 << 6,
  allocated: 1 << 7,
} as const;

/** Cuts a stream of bytes into frames. */
export class Cutter {
  private parts: Uint8Array[] = [];
  private have = 0;

  push(bytes: Uint8Array): Frame[] {
    this.parts.push(bytes);
    this.have += bytes.length;
    const frames: Frame[] = [];
    for (;;) {
      if (this.have < 4) return frames;
      const head = this.peek(4);
      const length = new DataView(head.buffer, head.byteOffset, 4).getUint32(0, true);
      if (length < HEAD) throw new Error('the stream of frames is broken');
      if (this.have < 4 + length) return frames;
      this.take(4);
      frames.push(parse(this.take(length)));
    }
  }

  private peek(n: number): Uint8Array {
    return this.parts[0].length >= n ? this.parts[0].subarray(0, n) : this.join().subarray(0, n);
  }

  private join(): Uint8Array {
    const all = new Uint8Array(this.have);
    let at = 0;
    for (const part of this.parts) {
      all.set(part, at);
      at += part.length;
    }
    this.parts = [all];
    return all;
  }

  /** The next bytes, as a copy of their own. */
  private take(n: number): Uint8Array {
    const out = new Uint8Array(n);
    let at = 0;
    while (at < n) {
      const part = this.parts[0];
      const some = Math.min(part.length, n - at);
      out.set(part.subarray(0, some), at);
      at += some;
      if (some === part.length) this.parts.shift();
      else this.parts[0] = part.subarray(some);
    }
    this.have -= n;
    return out;
  }
}

function parse(bytes: Uint8Array): Frame {
  const view = new DataView(bytes.buffer);
  if (view.getUint8(0) !== FORMAT) throw new Error('frames of another version: load the page again');
  return {
    kind: view.getUint8(1),
    count: view.getUint32(4, true),
    layout: Number(view.getBigUint64(8, true)),
    tick: Number(view.getBigUint64(16, true)),
    at: Number(view.getBigInt64(24, true)),
    body: bytes.buffer.slice(HEAD) as ArrayBuffer,
  };
}

/** The text of a frame of words or hints. */
export function text(frame: Frame): unknown {
  return JSON.parse(new TextDecoder().decode(new Uint8Array(frame.body, 0, frame.count)));
}

/** The columns of a picture or a change; a change has the indices in front. */
export function columns(frame: Frame): { at: Uint32Array | null; columns: Columns } {
  const { body, count: n } = frame;
  let end = 0;
  const u32 = () => {
    const a = new Uint32Array(body, end, n);
    end += 4 * n;
    return a;
  };
  const u16 = () => {
    const a = new Uint16Array(body, end, n);
    end += 2 * n;
    return a;
  };
  const u8 = () => {
    const a = new Uint8Array(body, end, n);
    end += n;
    return a;
  };
  const at = frame.kind === Kind.change ? u32() : null;
  return {
    at,
    columns: {
      job: u32(),
      power: u16(),
      hazard: u16(),
      tenant: u16(),
      version: u16(),
      state: u8(),
      flags: u8(),
      util: u8(),
      temp: u8(),
    },
  };
}

/** Puts a change into the picture. */
export function apply(picture: Columns, at: Uint32Array, change: Columns): void {
  for (const name of Object.keys(picture) as (keyof Columns)[]) {
    const [to, from] = [picture[name], change[name]];
    for (let i = 0; i < at.length; i++) to[at[i]] = from[i];
  }
}
