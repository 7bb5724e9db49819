import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { api, must, once, type Schemas } from '../api/client';
import { projects, tokens, whoami } from '../queries';
import { useRights } from '../rights';
import { useAct } from '../ui/act';
import { useAsked } from '../ui/asked';
import { Options } from '../ui/options';
import { Ago, Loaded, Panel, Word } from '../ui/parts';
import { Table, unseen } from '../ui/table';
import { SelectField, TextField } from './field';
import { FormPanel, useForm } from './form';
import { ListPage, RowButton } from './frames';
import { ALL, EMPTY_TOKEN, forJoin, lastUse, newestFirst, ROLES, soon, tokenBody, tokenWords } from './token';

type Token = Schemas['Token'];
type Created = Schemas['TokenCreated'];

const FIELDS = ['name', 'role', 'project', 'ttl', 'uses'] as const;

/** Who may use the API, and agents that may join. */
export function TokensPage() {
  const query = useQuery(tokens());
  const { administers } = useRights();
  // Only here, and only until it is put away: the server cannot show it again.
  const [made, setMade] = useState<Created | null>(null);
  return (
    <ListPage
      title="API tokens"
      may={administers && !made}
      word="New token"
      form={(close) => (
        <NewToken
          done={(t) => {
            setMade(t);
            close();
          }}
          close={close}
        />
      )}
    >
      {made && <Secret of={made} close={() => setMade(null)} />}
      <Loaded query={query}>{(page) => <All items={page.items} />}</Loaded>
    </ListPage>
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
  const { asked, busy } = useAsked();
  const revoke = (t: Token) => {
    const own = me?.token === t.id;
    const text = (
      <>
        <p>{tokenWords(t)} is refused from now on. This cannot be undone.</p>
        {own && <p className="error">This is the token that you are logged in with: you are logged out.</p>}
        {t.join && <p>Nodes that have joined with it stay.</p>}
      </>
    );
    return asked(
      { title: `Revoke ${t.name}`, text, act: 'Revoke', risky: true },
      () => api.DELETE('/v1/tokens/{id}', { params: { path: { id: t.id }, header: once() } }),
      `${t.name} is revoked`,
    );
  };
  return (
    <Panel title="All" note="newest first">
      <Table
        label="Tokens"
        cards
        heads={[
          'Name',
          'Id',
          'Role',
          'Project',
          'State',
          'Created',
          'Expires',
          'Last used',
          unseen('Actions'),
        ]}
      >
        {newestFirst(items).map((t) => (
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
            <td data-l="last used">
              <LastUse of={t} />
            </td>
            <td className="whole row-actions">
              <RowButton
                word="Revoke"
                of={`${t.name} ${t.id}`}
                className="risky"
                disabled={busy}
                onClick={() => void revoke(t)}
              />
            </td>
          </tr>
        ))}
      </Table>
    </Panel>
  );
}

function LastUse({ of }: { of: Token }) {
  const { words, at } = lastUse(of);
  return (
    <>
      {words}
      {at && <Ago at={at} />}
    </>
  );
}

function NewToken({ done, close }: { done: (t: Created) => void; close: () => void }) {
  const { form, change, typed, filled, send, busy, error } = useForm(EMPTY_TOKEN, tokenBody);
  const known = useQuery(projects());
  const save = async () => {
    const body = filled();
    if (!body) return;
    const made = await send(
      async () => must(await api.POST('/v1/tokens', { params: { header: once() }, body })),
      `${body.name} is created`,
    );
    if (made) done(made);
  };
  return (
    <FormPanel
      title="New token"
      noValidate
      error={error}
      fields={FIELDS}
      word="Create"
      off={busy}
      save={save}
      close={close}
    >
      <TextField label="Name" {...typed('name')} maxLength={128} autoComplete="off" />
      <TextField
        label="Expires after"
        hint={form.join ? 'empty: 1h' : 'such as 90d; empty: never'}
        {...typed('ttl')}
      />
      <label className="check whole">
        <input
          type="checkbox"
          checked={form.join}
          onChange={(e) => change(forJoin(form, e.target.checked))}
        />{' '}
        For agents that join, not for the API
      </label>
      {form.join ? (
        <TextField
          label="Nodes that may join with it"
          hint="empty: any number"
          type="number"
          min={1}
          {...typed('uses')}
        />
      ) : (
        <>
          <SelectField label="Role" {...typed('role')}>
            <Options of={ROLES} />
          </SelectField>
          <SelectField label="Project" {...typed('project')}>
            <option value="" disabled>
              choose
            </option>
            <option value={ALL}>all projects</option>
            <Options of={known.data?.items.map((p) => p.name)} />
          </SelectField>
        </>
      )}
    </FormPanel>
  );
}
