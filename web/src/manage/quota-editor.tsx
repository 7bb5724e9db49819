import { useState } from 'react';
import { api, must, type Schemas } from '../api/client';
import { useSend } from '../ui/act';
import { useAsk } from '../ui/ask';
import { DiffLines } from '../ui/diff';
import { count, Empty, Panel } from '../ui/parts';
import { num, Table, unseen } from '../ui/table';
import { useChecked } from './checked';
import { documentText } from './document';
import { replacing, SaveChecked } from './document-editor';
import { RowButton } from './frames';
import { Bar } from './quota-bar';
import { QuotaForm } from './quota-form';
import {
  type Quota,
  remarks,
  rowsOf,
  type Shortened,
  type Sums,
  shortened,
  sumsOf,
  usedBy,
  withoutQuota,
  withQuota,
} from './quota-tree';
import { gpus } from './quota-words';

type Quotas = Schemas['QuotasWithReport'];

const put = async (tree: Quota[], version: number, dry_run: boolean, signal?: AbortSignal) =>
  must(
    await api.PUT('/v1/quotas', {
      params: replacing(version, dry_run),
      body: { quotas: { tree } },
      signal,
    }),
  );

/**
 * Changes the tree node by node. It is one document: nothing is saved before the whole of it is, after the server has
 * checked it and what differs was shown.
 */
export function QuotaEditor({ now, close }: { now: Quotas; close: () => void }) {
  // The tree as it was when the work began; a later version is not replaced unseen.
  const [base, setBase] = useState({ tree: now.quotas.tree ?? [], version: now.version });
  const [tree, setTree] = useState<Quota[]>(base.tree);
  const [open, setOpen] = useState<{ was: Quota | null } | null>(null);
  const ask = useAsk();
  const { send, busy, error, clear } = useSend();
  const checked = useChecked(JSON.stringify([tree, base.version]), (signal) =>
    put(tree, base.version, true, signal),
  );
  const refusal = error ?? (checked?.state === 'refused' ? checked.error : null);
  const before = documentText('Quotas', { tree: base.tree });
  // As the server writes it, so that only what means something differs.
  const would = checked?.state === 'ok' ? checked.answer.quotas.tree : tree;
  const after = documentText('Quotas', { tree: would });
  const warnings = checked?.state === 'ok' ? (checked.answer.warnings ?? []) : [];
  const sums = sumsOf(tree, usedBy(now.report.accounts));
  const change = (next: Quota[]) => {
    clear();
    setTree(next);
    setOpen(null);
  };
  const remove = async (q: Quota) => {
    const children = tree.filter((c) => c.parent === q.name);
    const projects = q.projects ?? [];
    const yes = await ask({
      title: `Remove ${q.name}`,
      text: (
        <>
          {projects.length > 0 && <p>Projects without a quota then: {projects.join(', ')}.</p>}
          {children.length > 0 && (
            <p>
              {children.map((c) => c.name).join(', ')} go under {q.parent ?? 'the root'}.
            </p>
          )}
          <p>Nothing is saved before you save the whole tree.</p>
        </>
      ),
      act: 'Remove',
      risky: true,
    });
    if (yes !== null) change(withoutQuota(tree, q.name));
  };
  const save = async () => {
    const less = shortened(base.tree, tree, usedBy(now.report.accounts));
    if (less.length > 0) {
      const yes = await ask({
        title: `Set ${count(less.length, 'quota')} below what is used`,
        text: <Less of={less} />,
        act: 'Save',
        risky: true,
      });
      if (yes === null) return;
    }
    const done = await send(() => put(tree, base.version, false), 'The quotas are set');
    if (done) close();
  };
  return (
    <>
      {now.version !== base.version && (
        <p className="error" role="alert">
          The quotas were changed by somebody else meanwhile. What you changed stays.{' '}
          <button
            type="button"
            onClick={() => {
              setBase({ tree: now.quotas.tree ?? [], version: now.version });
              change(now.quotas.tree ?? []);
            }}
          >
            Discard it and start from the present ones
          </button>
        </p>
      )}
      <div className="columns">
        <div>
          <Panel
            title="Tree"
            note="what each would own, and what its projects use now"
            actions={
              <button type="button" disabled={open !== null} onClick={() => setOpen({ was: null })}>
                Add a quota
              </button>
            }
          >
            <TreeTable
              tree={tree}
              sums={sums}
              // What is open and not in the tree yet would be lost.
              off={busy || open !== null}
              edit={(was) => setOpen({ was })}
              remove={(q) => void remove(q)}
            />
          </Panel>
          {open && (
            <QuotaForm
              key={open.was?.name ?? ' new'}
              was={open.was}
              tree={tree}
              done={(q) => change(withQuota(tree, open.was?.name ?? null, q))}
              close={() => setOpen(null)}
            />
          )}
        </div>
        <Panel title="What would change" note="checked by the server with every change; nothing is saved yet">
          <DiffLines first={before} second={after} same="Nothing would change" what="The tree" />
          <div className="body">
            {[...warnings, ...remarks(tree, sums)].map((r) => (
              <p key={r} role="note">
                {r}
              </p>
            ))}
            <SaveChecked
              refusal={refusal}
              asking={checked?.state === 'asking'}
              off={busy || open !== null || before === after || checked?.state !== 'ok'}
              save={() => void save()}
              close={close}
            >
              {open && <span className="dim">Finish the quota that is open first.</span>}
            </SaveChecked>
          </div>
        </Panel>
      </div>
    </>
  );
}

/** Whose work becomes borrowed, named before anybody confirms it. */
function Less({ of: all }: { of: Shortened[] }) {
  return (
    <>
      <ul className="approvals">
        {all.map((s) => (
          <li key={s.name}>
            <b>{s.name}</b> would own {count(s.owns, 'GPU')} (
            {s.owned === null ? 'no limit until now' : `${s.owned.toLocaleString('en')} until now`}) and uses{' '}
            {gpus(s.usedMilli)}
            <br />
            {s.projects.length === 1 ? 'Project' : 'Projects'}: {s.projects.join(', ') || 'none'}
          </li>
        ))}
      </ul>
      <p>What is used above what is owned is borrowed then: running work may be stopped for its owners.</p>
    </>
  );
}

function TreeTable({
  tree,
  sums,
  off,
  edit,
  remove,
}: {
  tree: Quota[];
  sums: ReadonlyMap<string, Sums>;
  /** Nothing can be changed now. */
  off: boolean;
  edit: (q: Quota) => void;
  remove: (q: Quota) => void;
}) {
  if (tree.length === 0) return <Empty title="No quotas: everybody may use everything" />;
  return (
    <Table
      label="Tree of quotas"
      cards
      heads={[
        'Quota',
        'Projects',
        num('Used / owned'),
        unseen('Share used'),
        num('Below it'),
        unseen('Actions'),
      ]}
    >
      {rowsOf(tree).map(({ quota: q, depth }) => {
        const s = sums.get(q.name);
        const owns = s?.owns ?? null;
        return (
          <tr key={q.name}>
            <td className="whole" style={{ paddingLeft: 12 + depth * 16 }}>
              {q.name}
            </td>
            <td className="dim whole">{(q.projects ?? []).join(', ')}</td>
            <td className="num" data-l="used / owned">
              {gpus(s?.usedMilli ?? 0)} / {owns === null ? 'no limit' : owns.toLocaleString('en')}
            </td>
            <td>{owns !== null && <Bar used={s?.usedMilli ?? 0} owns={owns * 1000} />}</td>
            <td className="num" data-l="below it">
              {s && s.children > 0 ? s.children.toLocaleString('en') : ''}
            </td>
            <td className="whole row-actions">
              <RowButton word="Edit" of={q.name} disabled={off} onClick={() => edit(q)} />
              <RowButton
                word="Remove"
                of={q.name}
                className="risky"
                disabled={off}
                onClick={() => remove(q)}
              />
            </td>
          </tr>
        );
      })}
    </Table>
  );
}
