import createClient, { type Middleware } from 'openapi-fetch';
import type { components, paths } from './schema';

export type Schemas = components['schemas'];

const KEY = 'muster.token';
let token = sessionStorage.getItem(KEY);
const listeners = new Set<() => void>();
let refusal = '';

/** Who is logged in, in this tab only. */
export const session = {
  token: () => token,
  /** Why the last session ended. */
  refusal: () => refusal,
  enter(given: string) {
    token = given;
    refusal = '';
    sessionStorage.setItem(KEY, given);
    for (const l of listeners) l();
  },
  leave(why = '') {
    token = null;
    refusal = why;
    sessionStorage.removeItem(KEY);
    for (const l of listeners) l();
  },
  subscribe(listener: () => void) {
    listeners.add(listener);
    return () => listeners.delete(listener);
  },
};

/** What the server says when it says no. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly hint: string | null,
    readonly field: string | null = null,
  ) {
    super(message);
  }
}

export async function refused(response: Response): Promise<ApiError> {
  const body = await response
    .clone()
    .json()
    .catch(() => null);
  const e = body?.error;
  return e
    ? new ApiError(response.status, e.code, e.message, e.hint, e.field)
    : new ApiError(response.status, 'http', `the server answered with status ${response.status}`, null);
}

const auth: Middleware = {
  onRequest({ request }) {
    if (token) request.headers.set('Authorization', `Bearer ${token}`);
    return request;
  },
  async onResponse({ response }) {
    if (response.ok) return response;
    const error = await refused(response);
    if (response.status === 401) session.leave(error.message);
    throw error;
  },
  onError() {
    return new ApiError(0, 'unreachable', 'the server cannot be reached', 'is it running?');
  },
};

export const api = createClient<paths>({ baseUrl: '/' });
api.use(auth);

/** The body of an answer: errors were thrown before. */
export function must<T>(answer: { data?: T }): T {
  if (answer.data === undefined) throw new ApiError(0, 'empty', 'the server sent no body', null);
  return answer.data;
}

/** Makes a repeat of a write harmless. */
export function once(): { 'Idempotency-Key': string } {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return { 'Idempotency-Key': [...bytes].map((b) => b.toString(16).padStart(2, '0')).join('') };
}

/** A stream with the token in its head, which `EventSource` cannot send. */
export async function stream(path: string, init: RequestInit): Promise<Response> {
  const headers = new Headers(init.headers);
  if (token) headers.set('Authorization', `Bearer ${token}`);
  const response = await fetch(path, { ...init, headers, cache: 'no-store' });
  if (response.ok && response.body) return response;
  const error = await refused(response);
  if (response.status === 401) session.leave(error.message);
  throw error;
}
