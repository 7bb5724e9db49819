// The form of the policy against the description of the API: every key has a place, and the defaults are the server's.
import { expect, test } from 'vitest';
import description from '../../../crates/http/openapi.json?raw';
import { changedIn, GROUPS, isNormal, type Key, noteOf, PATHS } from './policy-keys';

interface Shape {
  $ref?: string;
  oneOf?: Shape[];
  properties?: Record<string, Shape>;
  enum?: string[];
  default?: unknown;
  additionalProperties?: Shape | boolean;
  propertyNames?: { enum?: string[] };
}

const { schemas } = JSON.parse(description).components as { schemas: Record<string, Shape> };

const named = (s: Shape): Shape | undefined => schemas[s.$ref?.split('/').at(-1) ?? ''];
const KEYS = GROUPS.flatMap((g) => g.keys);

/** Every key that has a value of its own, with its default and the words it may have. */
function leaves(of: Shape, at = ''): [string, Shape][] {
  return Object.entries(of.properties ?? {}).flatMap(([name, s]): [string, Shape][] => {
    const path = at ? `${at}.${name}` : name;
    const inner = named(s);
    if (inner?.properties && !PATHS.includes(path)) return leaves(inner, path);
    const words = s.propertyNames?.enum;
    // A map by words that are known has a field for each.
    if (words) return words.map((w) => [`${path}.${w}`, named(s.additionalProperties as Shape) ?? {}]);
    return [[path, { ...s, enum: inner?.enum ?? s.enum }]];
  });
}

const all = leaves(schemas.SitePolicy!);

test('every key of the policy has a field', () => {
  expect(all.map(([path]) => path).sort()).toEqual([...PATHS].sort());
});

test('defaults and words are those of the server', () => {
  for (const [path, shape] of all) {
    const key = KEYS.find((k) => k.path === path) as Key;
    if (!path.startsWith('remediations.modes.'))
      expect([path, key.normal ?? null]).toEqual([path, shape.default ?? null]);
    if (shape.enum)
      expect([path, [...(key.kind as string[])].sort()]).toEqual([path, [...shape.enum].sort()]);
  }
});

test('labels are unique, and each field says its default', () => {
  const labels = KEYS.map((k) => k.label);
  expect(new Set(labels).size).toBe(labels.length);
  for (const key of KEYS.filter((k) => k.kind !== 'rules' && k.kind !== 'share')) {
    expect(noteOf(key)).toContain(' Default: ');
    if (key.kind === 'number') expect(noteOf(key)).toContain(' Unit: ');
  }
});

test('what differs from the defaults is counted, however it is written', () => {
  const key = (path: string) => KEYS.find((k) => k.path === path) as Key;
  expect(isNormal(key('fair_share.half_life'), '7d')).toBe(true);
  expect(isNormal(key('fair_share.half_life'), '3d')).toBe(false);
  expect(isNormal(key('limits.max_time'), undefined)).toBe(true);
  expect(isNormal(key('limits.max_time'), '1d')).toBe(false);
  expect(isNormal(key('remediations.limits.fleet'), { total: 20 })).toBe(true);
  expect(isNormal(key('remediations.limits.fleet'), { total: 10 })).toBe(false);
  expect(isNormal(key('remediations.rules'), [])).toBe(true);
  const idle = GROUPS.find((g) => g.name === 'Idle GPUs')!;
  expect(changedIn(idle, {})).toBe(0);
  expect(changedIn(idle, { idle: { warn_after: '1h' } })).toBe(1);
});
