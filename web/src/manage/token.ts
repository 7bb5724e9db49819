// The form of a new token. No React here.
import type { Schemas } from '../api/client';
import { spanMs } from './spans';

export const ROLES = ['viewer', 'user', 'operator', 'admin'] as const;

/** Of no project: it may see all. No project has such a name. */
export const ALL = '*';

export interface TokenForm {
  name: string;
  join: boolean;
  role: string;
  project: string;
  ttl: string;
  uses: string;
}

/** It expires unless somebody says otherwise. */
export const EMPTY_TOKEN: TokenForm = {
  name: '',
  join: false,
  role: 'user',
  project: '',
  ttl: '90d',
  uses: '',
};

/** The form for agents that join, or for the API again. A token to join with expires soon unless somebody wrote when. */
export function forJoin(form: TokenForm, join: boolean): TokenForm {
  const [usual, other] = join ? [EMPTY_TOKEN.ttl, ''] : ['', EMPTY_TOKEN.ttl];
  return { ...form, join, ttl: form.ttl.trim() === usual ? other : form.ttl };
}

export function tokenBody(
  form: TokenForm,
): { body: Schemas['CreateToken'] } | { problem: { field: string; text: string } } {
  const no = (field: string, text: string) => ({ problem: { field, text } });
  const name = form.name.trim();
  if (name === '') return no('name', 'Give it a name.');
  const ttl = form.ttl.trim() || null;
  if (ttl && !spanMs(ttl)) return no('ttl', 'Write how long it works, such as 90d or 12h, or nothing.');
  if (form.join) {
    const uses = form.uses.trim() === '' ? null : Number(form.uses);
    if (uses !== null && (!Number.isInteger(uses) || uses < 1))
      return no('uses', 'Write how many nodes, at least 1, or nothing.');
    return { body: { name, join: true, ttl, uses } };
  }
  if (form.project === '') return no('project', 'Choose its project, or all projects.');
  const role = ROLES.find((r) => r === form.role) ?? 'user';
  return { body: { name, join: false, role, project: form.project === ALL ? null : form.project, ttl } };
}

/** A token in words, before something is done to it. */
export function tokenWords(t: Pick<Schemas['Token'], 'id' | 'name' | 'role' | 'project' | 'join'>): string {
  const may = t.join
    ? 'agents join with it'
    : `role ${t.role}, ${t.project ? `project ${t.project}` : 'all projects'}`;
  return `Token ${t.name} (${t.id}; ${may})`;
}

/** The newest first. */
export function newestFirst<T extends Pick<Schemas['Token'], 'created_at'>>(all: readonly T[]): T[] {
  return [...all].sort((a, b) => Date.parse(b.created_at) - Date.parse(a.created_at));
}

/** When a token was last used, or since when it was not: words, and the moment that follows them. */
export function lastUse(t: Pick<Schemas['Token'], 'last_used' | 'not_used_since' | 'created_at'>): {
  words: string;
  at?: string;
} {
  if (t.last_used) return { words: '', at: t.last_used };
  if (!t.not_used_since) return { words: 'unknown' };
  if (Date.parse(t.not_used_since) <= Date.parse(t.created_at)) return { words: 'never' };
  return { words: 'not since ', at: t.not_used_since };
}

const WEEK = 7 * 86_400_000;

/** Does it stop working within a week? */
export function soon(expires: string | null | undefined, now: number): boolean {
  return !!expires && Date.parse(expires) - now < WEEK;
}
