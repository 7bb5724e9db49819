import { useQuery } from '@tanstack/react-query';
import { api, must, once } from '../api/client';
import { projects, quotas } from '../queries';
import { useRights } from '../rights';
import { Empty, Loaded, Panel } from '../ui/parts';
import { num, Table } from '../ui/table';
import { TextField } from './field';
import { FormPanel, useForm } from './form';
import { ListPage } from './frames';
import { quotaOf } from './quota-tree';
import { gpus } from './quota-words';

const FIELDS = ['name', 'description'] as const;

/** While quotas could not be read; none is not nothing. */
const UNKNOWN = '–';

/** What owns jobs, secrets and quota. */
export function ProjectsPage() {
  const query = useQuery(projects());
  const known = useQuery(quotas()).data;
  const shares = known?.report.accounts.filter((a) => !a.user);
  const { administers } = useRights();
  return (
    <ListPage
      title="Projects"
      may={administers}
      word="New project"
      form={(close) => <NewProject close={close} />}
    >
      <Loaded query={query}>
        {(page) =>
          page.items.length === 0 ? (
            <div className="panel">
              <Empty title="No projects yet" />
            </div>
          ) : (
            <Panel title="All">
              <Table
                label="Projects"
                cards
                heads={['Name', 'Description', 'Quota', num('GPUs now'), num('Running'), num('Waiting')]}
              >
                {page.items.map((p) => {
                  const share = shares?.find((a) => a.project === p.name);
                  return (
                    <tr key={p.name}>
                      <td>{p.name}</td>
                      <td className="dim whole">{p.description}</td>
                      <td data-l="quota">
                        {known ? (quotaOf(known.quotas.tree ?? [], p.name) ?? 'none') : UNKNOWN}
                      </td>
                      <td className="num" data-l="GPUs now">
                        {shares ? gpus(share?.used_milli ?? 0) : UNKNOWN}
                      </td>
                      <td className="num" data-l="running">
                        {shares ? (share?.running ?? 0) : UNKNOWN}
                      </td>
                      <td className="num" data-l="waiting">
                        {shares ? (share?.waiting ?? 0) : UNKNOWN}
                      </td>
                    </tr>
                  );
                })}
              </Table>
            </Panel>
          )
        }
      </Loaded>
    </ListPage>
  );
}

const EMPTY = { name: '', description: '' };

/** The browser asks for the name; the server says what else is wrong. */
const bodyOf = (form: typeof EMPTY) => ({
  body: { name: form.name.trim(), description: form.description.trim() },
});

function NewProject({ close }: { close: () => void }) {
  const { typed, filled, send, busy, error } = useForm(EMPTY, bodyOf);
  const save = async () => {
    const body = filled();
    if (!body) return;
    const made = await send(
      async () => must(await api.POST('/v1/projects', { params: { header: once() }, body })),
      `Project ${body.name} is created`,
    );
    if (made) close();
  };
  return (
    <FormPanel
      title="New project"
      error={error}
      fields={FIELDS}
      word="Create"
      off={busy}
      save={save}
      close={close}
    >
      <TextField label="Name" {...typed('name')} required maxLength={63} autoComplete="off" />
      <TextField label="Description" {...typed('description')} maxLength={1000} />
    </FormPanel>
  );
}
