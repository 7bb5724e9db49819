import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { api, must, once } from '../api/client';
import { projects, quotas } from '../queries';
import { useRights } from '../rights';
import { useSend } from '../ui/act';
import { Empty, Loaded, Panel, Scroll } from '../ui/parts';
import { Field, FormError, problemAt } from './field';
import { quotaOf } from './quota-tree';
import { gpus } from './quota-words';

const FIELDS = ['name', 'description'] as const;

/** What owns jobs, secrets and quota. */
export function ProjectsPage() {
  const query = useQuery(projects());
  const known = useQuery(quotas()).data;
  const shares = known?.report.accounts.filter((a) => !a.user) ?? [];
  const { administers } = useRights();
  const [making, setMaking] = useState(false);
  return (
    <main className="page" id="page">
      <div className="head">
        <h1>Projects</h1>
        {administers && !making && (
          <div className="actions">
            <button type="button" className="main" onClick={() => setMaking(true)}>
              New project
            </button>
          </div>
        )}
      </div>
      {making && administers && <NewProject close={() => setMaking(false)} />}
      <Loaded query={query}>
        {(page) =>
          page.items.length === 0 ? (
            <div className="panel">
              <Empty title="No projects yet" />
            </div>
          ) : (
            <Panel title="All">
              <Scroll label="Projects">
                <table className="cards">
                  <thead>
                    <tr>
                      <th>Name</th>
                      <th>Description</th>
                      <th>Quota</th>
                      <th className="num">GPUs now</th>
                      <th className="num">Running</th>
                      <th className="num">Waiting</th>
                    </tr>
                  </thead>
                  <tbody>
                    {page.items.map((p) => {
                      const share = shares.find((a) => a.project === p.name);
                      return (
                        <tr key={p.name}>
                          <td>{p.name}</td>
                          <td className="dim whole">{p.description}</td>
                          <td data-l="quota">
                            {known ? (quotaOf(known.quotas.tree ?? [], p.name) ?? 'none') : ''}
                          </td>
                          <td className="num" data-l="GPUs now">
                            {gpus(share?.used_milli ?? 0)}
                          </td>
                          <td className="num" data-l="running">
                            {share?.running ?? 0}
                          </td>
                          <td className="num" data-l="waiting">
                            {share?.waiting ?? 0}
                          </td>
                        </tr>
                      );
                    })}
                  </tbody>
                </table>
              </Scroll>
            </Panel>
          )
        }
      </Loaded>
    </main>
  );
}

function NewProject({ close }: { close: () => void }) {
  const [name, setName] = useState('');
  const [description, setDescription] = useState('');
  const { send, busy, error, clear } = useSend();
  const save = async () => {
    const body = { name: name.trim(), description: description.trim() };
    const made = await send(
      async () => must(await api.POST('/v1/projects', { params: { header: once() }, body })),
      `Project ${body.name} is created`,
    );
    if (made) close();
  };
  return (
    <Panel title="New project">
      <form
        className="body fields"
        onSubmit={(e) => {
          e.preventDefault();
          if (!busy) void save();
        }}
      >
        <Field label="Name" problem={problemAt('name', null, error)}>
          {(a) => (
            <input
              {...a}
              required
              maxLength={63}
              autoComplete="off"
              value={name}
              onChange={(e) => {
                clear();
                setName(e.target.value);
              }}
            />
          )}
        </Field>
        <Field label="Description" problem={problemAt('description', null, error)}>
          {(a) => (
            <input
              {...a}
              maxLength={1000}
              value={description}
              onChange={(e) => {
                clear();
                setDescription(e.target.value);
              }}
            />
          )}
        </Field>
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
