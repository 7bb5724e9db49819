import createClient, { type Middleware } from 'openapi-fetch';
import type { components, paths } from './schema';

export type Schemas = components['schemas'];

/** Says that a request comes from this page: a write with the session's cookie needs it. */
const OWN = { 'Muster-Console': '1' };

/** Where other tabs hear that the user has logged out. */
const LEFT = 'muster.left';

export type SessionState = 'asking' | 'in' | 'out';

let state: SessionState = 'asking';
let number = 0;
let refusal = '';
const listeners = new Set<() => void>();

function become(next: SessionState, why = '') {
  if (next === 'in' && state !== 'in') number++;
  state = next;
  refusal = why;
  for (const l of listeners) l();
}

/**
 * Who is logged in, in all tabs of this browser. The server gives it a cookie that no script can read; the
 * token is kept nowhere.
 */
export const session = {
  state: () => state,
  /** Grows with every login: what was read for one user is not shown to the next. */
  number: () => number,
  /** Is somebody logged in, as far as is known? */
  open: () => state !== 'out',
  /** Why the last session ended. */
  refusal: () => refusal,
  /** Asks whether this browser has a session. A server that is away has not said no. */
  async ask() {
    try {
      const answer = await fetch('/v1/whoami', { headers: OWN, cache: 'no-store' });
      become(answer.status === 401 ? 'out' : 'in');
    } catch {
      become('in');
    }
  },
  /** Begins a session with this token; gives why not, or null. */
  async enter(token: string): Promise<string | null> {
    const headers = { ...OWN, Authorization: `Bearer ${token}` };
    try {
      const answer = await fetch('/v1/session', { method: 'POST', headers, cache: 'no-store' });
      if (!answer.ok) return (await refused(answer)).message;
    } catch {
      return 'The server cannot be reached.';
    }
    become('in');
    return null;
  },
  /** The server says that the session is over. */
  leave(why = '') {
    if (state !== 'out') become('out', why);
  },
  /** The user logs out, in all tabs. */
  async end() {
    try {
      const answer = await fetch('/v1/session', { method: 'DELETE', headers: OWN, cache: 'no-store' });
      // A session that is over already needs no end.
      if (!answer.ok && answer.status !== 401) throw await refused(answer);
    } catch (e) {
      become('out', `The server did not end the session (${(e as Error).message}): it is still logged in.`);
      return;
    }
    become('out');
    try {
      localStorage.setItem(LEFT, String(Date.now()));
    } catch {
      // Other tabs hear of it with their next request.
    }
  },
  subscribe(listener: () => void) {
    listeners.add(listener);
    return () => listeners.delete(listener);
  },
};

if (typeof window !== 'undefined')
  window.addEventListener('storage', (e) => {
    if (e.key === LEFT && e.newValue) session.leave();
  });

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

/** What an answer means that has no sentence of the server: a proxy sent it, or the server failed. */
const ANSWERS: Record<number, string> = {
  401: 'nobody is logged in, or the session is over',
  403: 'this token may not do that',
  404: 'the server has nothing at this address',
  408: 'the request took too long; try again',
  409: 'somebody else changed it meanwhile; read it again',
  413: 'what was sent is too large',
  429: 'there were too many requests; try again in a moment',
  500: 'the server failed; its log says why',
  502: 'the server behind the proxy cannot be reached; try again in a moment',
  503: 'the server cannot answer now; try again in a moment',
  504: 'the server behind the proxy did not answer in time; try again in a moment',
};

/** A status without a sentence, in words. */
export function statusWords(status: number): string {
  const other = status >= 500 ? 'the server could not answer' : 'the server refused the request';
  return `${ANSWERS[status] ?? other} (HTTP ${status})`;
}

const away = () => new ApiError(0, 'unreachable', 'the server cannot be reached', 'is it running?');

export async function refused(response: Response): Promise<ApiError> {
  const body = await response
    .clone()
    .json()
    .catch(() => null);
  const e = body?.error;
  return e?.message
    ? new ApiError(response.status, e.code, e.message, e.hint, e.field)
    : new ApiError(response.status, 'http', statusWords(response.status), null);
}

const auth: Middleware = {
  onRequest({ request }) {
    for (const [name, value] of Object.entries(OWN)) request.headers.set(name, value);
    return request;
  },
  async onResponse({ response }) {
    if (response.ok) return response;
    const error = await refused(response);
    if (response.status === 401) session.leave(error.message);
    throw error;
  },
  onError: away,
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

/** A stream of bytes, with the headers that `EventSource` cannot send. */
export async function stream(path: string, init: RequestInit): Promise<Response> {
  const headers = new Headers(init.headers);
  for (const [name, value] of Object.entries(OWN)) headers.set(name, value);
  const response = await fetch(path, { ...init, headers, cache: 'no-store' }).catch((e: Error) => {
    // Whoever gave up knows; anything else is no sentence.
    throw e.name === 'AbortError' ? e : away();
  });
  if (response.ok && response.body) return response;
  const error = await refused(response);
  if (response.status === 401) session.leave(error.message);
  throw error;
}
