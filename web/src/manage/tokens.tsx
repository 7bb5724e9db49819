import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { api, must, once, type Schemas } from '../api/client';
import { projects, tokens, whoami } from '../queries';
import { useRights } from '../rights';
import { useAct, useSend } from '../ui/act';
import { useAsk } from '../ui/ask';
import { Ago, Loaded, Panel, Scroll, Word } from '../ui/parts';
import { Field, FormError, problemAt } from './field';
import { EMPTY_TOKEN, forJoin, ROLES, soon, type TokenForm, tokenBody } from './token';

type Token = Schemas['Token'];
type Created = Schemas['TokenCreated'];

const FIELDS = ['name', 'role', 'project', 'ttl', 'uses'] as const;

/** Who may use the API, and agents that may join. */
export function TokensPage() {
  const query = useQuery(tokens());
  const { administers } = useRights();
  const [making, setMaking] = useState(false);
  // Only here, and only until it is put away: the server cannot show it again.
  const [made, setMade] = useState<Created | null>(null);
  return (
    <main className="page" id="page">
      <div className="head">
        <h1>API tokens</h1>
        {administers && !making && !made && (
          <div className="actions">
            <button type="button" className="main" onClick={() => setMaking(true)}>
              New token
            </button>
          </div>
        )}
      </div>
      {made && <Secret of={made} close={() => setMade(null)} />}
      {administers && making && (
        <NewToken
          done={(t) => {
            setMade(t);
            setMaking(false);
          }}
          close={() => setMaking(false)}
        />
      )}
      <Loaded query={query}>{(page) => <All items={page.items} />}</Loaded>
    </main>
  );
}

function Secret({ of, close }: { of: Created; close: () => void }) {
  const { act, busy } = useAct();
  return (
    <Panel title={`Secret of ${of.name}`} note="shown only now: copy it before you continue">
      <div className="body" role="status">
        <p>
          <code className="secret">{of.secret}</code>
        </p>
        <p className="dim">
          {of.join
            ? 'Agents use it once: muster agent run --join TOKEN.'
            : 'Clients use it as MUSTER_TOKEN, or in the header Authorization: Bearer.'}
        </p>
        <div className="form-actions">
          <button
            type="button"
            className="main"
            disabled={busy}
            onClick={() =>
              void act(async () => {
                // Browsers give it to pages that came over TLS, or from this machine.
                if (!navigator.clipboard)
                  throw new Error('This browser does not let the page copy: select the text.');
                await navigator.clipboard.writeText(of.secret);
              }, 'Copied the secret')
            }
          >
            Copy
          </button>
          <button type="button" onClick={close}>
            I have saved it
          </button>
        </div>
      </div>
    </Panel>
  );
}

function All({ items }: { items: Token[] }) {
  const me = useQuery(whoami()).data;
  const ask = useAsk();
  const { act, busy } = useAct();
  const revoke = async (t: Token) => {
    const own = me?.token === t.id;
    const yes = await ask({
      title: `Revoke ${t.name}`,
      text: (
        <>
          <p>
            Token {t.id} ({t.join ? 'join' : t.role}
            {t.project ? `, project ${t.project}` : ''}) is refused from now on. This cannot be undone.
          </p>
          {own && <p className="error">This is the token that you are logged in with: you are logged out.</p>}
          {t.join && <p>Nodes that have joined with it stay.</p>}
        </>
      ),
      act: 'Revoke',
      risky: true,
    });
    if (yes === null) return;
    const params = { path: { id: t.id }, header: once() };
    void act(() => api.DELETE('/v1/tokens/{id}', { params }), `${t.name} is revoked`);
  };
  return (
    <Panel title="All">
      <Scroll label="Tokens">
        <table className="cards">
          <thead>
            <tr>
              <th>Name</th>
              <th>Id</th>
              <th>Role</th>
              <th>Project</th>
              <th>State</th>
              <th>Created</th>
              <th>Expires</th>
              <th>&nbsp;</th>
            </tr>
          </thead>
          <tbody>
            {items.map((t) => (
              <tr key={t.id}>
                <td>
                  {t.name}
                  {me?.token === t.id && <span className="dim"> (this session)</span>}
                </td>
                <td className="mono" data-l="id">
                  {t.id}
                </td>
                <td data-l="role">
                  {t.join
                    ? `join${t.uses_left === null || t.uses_left === undefined ? '' : `, ${t.uses_left} left`}`
                    : t.role}
                </td>
                <td data-l="project">{t.join ? '' : (t.project ?? 'all')}</td>
                <td>
                  <Word tone={t.state !== 'valid' ? 'plain' : soon(t.expires_at, Date.now()) ? 'warn' : 'ok'}>
                    {t.state}
                  </Word>
                </td>
                <td data-l="created">
                  <Ago at={t.created_at} />
                </td>
                <td data-l="expires">{t.expires_at ? <Ago at={t.expires_at} /> : 'never'}</td>
                <td className="whole row-actions">
                  <button
                    type="button"
                    className="risky"
                    aria-label={`Revoke ${t.name} ${t.id}`}
                    disabled={busy}
                    onClick={() => void revoke(t)}
                  >
                    Revoke
                  </button>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </Scroll>
    </Panel>
  );
}

function NewToken({ done, close }: { done: (t: Created) => void; close: () => void }) {
  const [form, setForm] = useState<TokenForm>(EMPTY_TOKEN);
  const [tried, setTried] = useState(false);
  const known = useQuery(projects());
  const { send, busy, error, clear } = useSend();
  const read = tokenBody(form);
  const own = 'problem' in read ? read.problem : null;
  const at = (field: string) => problemAt(field, tried ? own : null, error);
  const set = (key: 'name' | 'role' | 'project' | 'ttl' | 'uses') => (e: { target: { value: string } }) => {
    clear();
    setForm({ ...form, [key]: e.target.value });
  };
  const save = async () => {
    setTried(true);
    if (!('body' in read)) return;
    const { body } = read;
    const made = await send(
      async () => must(await api.POST('/v1/tokens', { params: { header: once() }, body })),
      `${body.name} is created`,
    );
    if (made) done(made);
  };
  return (
    <Panel title="New token">
      <form
        className="body fields"
        noValidate
        onSubmit={(e) => {
          e.preventDefault();
          if (!busy) void save();
        }}
      >
        <Field label="Name" problem={at('name')}>
          {(a) => (
            <input {...a} value={form.name} onChange={set('name')} maxLength={128} autoComplete="off" />
          )}
        </Field>
        <Field
          label="Expires after"
          problem={at('ttl')}
          hint={form.join ? 'empty: 1h' : 'such as 90d; empty: never'}
        >
          {(a) => <input {...a} value={form.ttl} onChange={set('ttl')} />}
        </Field>
        <label className="check whole">
          <input
            type="checkbox"
            checked={form.join}
            onChange={(e) => {
              clear();
              setForm(forJoin(form, e.target.checked));
            }}
          />{' '}
          For agents that join, not for the API
        </label>
        {form.join ? (
          <Field label="Nodes that may join with it" problem={at('uses')} hint="empty: any number">
            {(a) => <input {...a} type="number" min={1} value={form.uses} onChange={set('uses')} />}
          </Field>
        ) : (
          <>
            <Field label="Role" problem={at('role')}>
              {(a) => (
                <select {...a} value={form.role} onChange={set('role')}>
                  {ROLES.map((r) => (
                    <option key={r}>{r}</option>
                  ))}
                </select>
              )}
            </Field>
            <Field label="Project" problem={at('project')}>
              {(a) => (
                <select {...a} value={form.project} onChange={set('project')}>
                  <option value="">all</option>
                  {known.data?.items.map((p) => (
                    <option key={p.name}>{p.name}</option>
                  ))}
                </select>
              )}
            </Field>
          </>
        )}
        <FormError error={error} fields={FIELDS} />
        <div className="actions whole">
          <button type="submit" className="main" disabled={busy}>
            Create
          </button>
          <button type="button" onClick={close}>
            Cancel
          </button>
        </div>
      </form>
    </Panel>
  );
}
