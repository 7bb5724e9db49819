import { expect, test } from 'vitest';
import { apply, Cutter, columns, type Frame, Kind, text } from './frame';

/** A frame as the server writes it. */
function written(kind: number, count: number, body: Uint8Array): Uint8Array {
  const filled = Math.ceil(body.length / 4) * 4;
  const out = new Uint8Array(4 + 32 + filled);
  const view = new DataView(out.buffer);
  view.setUint32(0, 32 + filled, true);
  view.setUint8(4, 1);
  view.setUint8(5, kind);
  view.setUint32(8, count, true);
  view.setBigUint64(12, 281474976710655n, true);
  view.setBigUint64(20, 9n, true);
  view.setBigInt64(28, 1_900_000_000_000n, true);
  out.set(body, 36);
  return out;
}

/** Two cells as columns, with the indices of a change in front when they are given. */
function cells(jobs: [number, number], util: [number, number], at?: [number, number]): Uint8Array {
  const parts = [
    ...(at ? [new Uint32Array(at)] : []),
    new Uint32Array(jobs),
    new Uint16Array([700, 65535]),
    new Uint16Array([5, 6]),
    new Uint16Array([1, 65535]),
    new Uint16Array([0, 0]),
    new Uint8Array([0, 3]),
    new Uint8Array([128, 0]),
    new Uint8Array(util),
    new Uint8Array([60, 255]),
  ];
  const bytes = parts.map((p) => new Uint8Array(p.buffer));
  const out = new Uint8Array(bytes.reduce((n, b) => n + b.length, 0));
  let end = 0;
  for (const b of bytes) {
    out.set(b, end);
    end += b.length;
  }
  return out;
}

test('a stream is cut into the same frames wherever the network cuts it', () => {
  const words = new TextEncoder().encode('{"tenants":["alpha"],"versions":[]}');
  const all = [written(Kind.words, words.length, words), written(Kind.whole, 2, cells([7, 0], [97, 255]))];
  const joined = new Uint8Array(all.reduce((n, f) => n + f.length, 0));
  joined.set(all[0]);
  joined.set(all[1], all[0].length);
  for (const step of [1, 3, 4, 5, 31, 64, 1000]) {
    const cutter = new Cutter();
    const frames: Frame[] = [];
    for (let i = 0; i < joined.length; i += step) frames.push(...cutter.push(joined.slice(i, i + step)));
    expect(frames.map((f) => f.kind)).toEqual([Kind.words, Kind.whole]);
    expect(text(frames[0])).toEqual({ tenants: ['alpha'], versions: [] });
    expect(frames[1].layout).toBe(281474976710655);
    expect(frames[1].tick).toBe(9);
    const { at, columns: c } = columns(frames[1]);
    expect(at).toBeNull();
    expect([...c.job]).toEqual([7, 0]);
    expect([...c.power]).toEqual([700, 65535]);
    expect([...c.util]).toEqual([97, 255]);
    expect([...c.temp]).toEqual([60, 255]);
  }
});

test('a change is put where it belongs', () => {
  const [whole] = new Cutter().push(written(Kind.whole, 2, cells([7, 0], [97, 255])));
  const [change] = new Cutter().push(written(Kind.change, 2, cells([8, 9], [1, 2], [1, 0])));
  const picture = columns(whole).columns;
  const { at, columns: fresh } = columns(change);
  if (!at) throw new Error('a change has indices');
  apply(picture, at, fresh);
  expect([...picture.job]).toEqual([9, 8]);
  expect([...picture.util]).toEqual([2, 1]);
});

test('a broken stream and another format are reported', () => {
  expect(() => new Cutter().push(new Uint8Array([1, 0, 0, 0]))).toThrow('broken');
  const other = written(Kind.hints, 0, new Uint8Array());
  other[4] = 2;
  expect(() => new Cutter().push(other)).toThrow('another version');
});
