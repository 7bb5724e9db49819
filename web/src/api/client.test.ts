import { beforeEach, expect, test, vi } from 'vitest';

const fetched = vi.fn();
vi.stubGlobal('fetch', fetched);
const { refused, session, stream } = await import('./client');

const answer = (status: number, body: object = {}) =>
  new Response(status === 204 ? null : JSON.stringify(body), { status });
const error = (message: string) => ({ error: { code: 'unauthenticated', message, hint: null, field: null } });

beforeEach(() => fetched.mockReset());

test('a browser without a session is asked to log in, one before a server that is away is not', async () => {
  fetched.mockResolvedValueOnce(answer(401, error('this needs a token')));
  await session.ask();
  expect(session.state()).toBe('out');
  fetched.mockRejectedValueOnce(new TypeError('no route'));
  await session.ask();
  expect(session.state()).toBe('in');
});

test('the token goes to the server once and is kept nowhere', async () => {
  session.leave();
  const before = session.number();
  fetched.mockResolvedValueOnce(answer(401, error('this token has expired')));
  expect(await session.enter('mst_a_b')).toBe('this token has expired');
  expect(session.open()).toBe(false);
  fetched.mockResolvedValueOnce(answer(200, { name: 'user:ann' }));
  expect(await session.enter('mst_a_b')).toBeNull();
  expect([session.state(), session.number()]).toEqual(['in', before + 1]);
  const [path, init] = fetched.mock.calls[1];
  expect([path, init.method]).toEqual(['/v1/session', 'POST']);
  expect(init.headers).toMatchObject({ Authorization: 'Bearer mst_a_b', 'Muster-Console': '1' });
  expect(JSON.stringify(session)).not.toContain('mst_');
});

test('logging out ends the session on the server, and says so where it could not', async () => {
  fetched.mockResolvedValueOnce(answer(200));
  await session.enter('mst_a_b');
  fetched.mockResolvedValueOnce(answer(204));
  await session.end();
  expect([session.state(), session.refusal()]).toEqual(['out', '']);
  expect(fetched.mock.calls[1][1]).toMatchObject({ method: 'DELETE', headers: { 'Muster-Console': '1' } });
  fetched.mockResolvedValueOnce(answer(200));
  await session.enter('mst_a_b');
  fetched.mockRejectedValueOnce(new TypeError('no route'));
  await session.end();
  expect(session.refusal()).toContain('still logged in');
});

test('the first reason for the end of a session is the one that is shown', async () => {
  fetched.mockResolvedValueOnce(answer(200));
  await session.enter('mst_a_b');
  session.leave('this token has expired');
  session.leave('another request');
  expect(session.refusal()).toBe('this token has expired');
});

test('an answer without a sentence of the server is given one', async () => {
  const of = async (status: number, body: string) => (await refused(new Response(body, { status }))).message;
  expect(await of(502, '<html>Bad Gateway</html>')).toBe(
    'the server behind the proxy cannot be reached; try again in a moment (HTTP 502)',
  );
  expect(await of(418, '')).toBe('the server refused the request (HTTP 418)');
  expect(await of(599, '')).toBe('the server could not answer (HTTP 599)');
  expect(await of(429, '{"error":{"code":"rate_limited"}}')).toContain('too many requests');
  expect(await of(409, JSON.stringify(error('it was changed')))).toBe('it was changed');
  fetched.mockRejectedValueOnce(new TypeError('Failed to fetch'));
  await expect(stream('/v1/events', {})).rejects.toThrow('the server cannot be reached');
  const gaveUp = new DOMException('it was stopped', 'AbortError');
  fetched.mockRejectedValueOnce(gaveUp);
  await expect(stream('/v1/events', {})).rejects.toBe(gaveUp);
});
