import { expect, test, vi } from 'vitest';

vi.stubGlobal('sessionStorage', { getItem: () => null });
const { rightsOf } = await import('./rights');

const me = (role: 'viewer' | 'user' | 'operator' | 'admin', project: string | null) =>
  rightsOf({ name: 'user:ann', role, project, site: 's' });

test('only operators of the whole site change nodes, and only viewers change no jobs', () => {
  expect(me('admin', null)).toMatchObject({ whole: true, operates: true, submits: true });
  expect(me('operator', null)).toMatchObject({ whole: true, operates: true });
  expect(me('user', null)).toMatchObject({ whole: true, operates: false, submits: true });
  expect(me('viewer', null)).toMatchObject({ whole: true, operates: false, submits: false });
  expect(me('operator', 'team-a')).toMatchObject({ whole: false, operates: false, project: 'team-a' });
});

test('only admins of the whole site change what holds for all of it', () => {
  expect(me('admin', null).administers).toBe(true);
  expect(me('operator', null).administers).toBe(false);
  expect(me('admin', 'team-a').administers).toBe(false);
});

test('until the server has said who asks, nothing is offered and nothing is taken for seen', () => {
  expect(rightsOf(undefined)).toEqual({
    whole: null,
    project: null,
    submits: false,
    operates: false,
    administers: false,
  });
});
