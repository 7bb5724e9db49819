import { type ReactNode, useState } from 'react';
import { Options } from '../ui/options';
import { Panel } from '../ui/parts';
import { valueAt, withValue } from './document';
import type { FormOf } from './document-editor';
import { placeOf, refusalWords } from './errors';
import { CheckField, SelectField, TextField } from './field';
import { changedIn, GROUPS, type Group, type Key, normalWords, noteOf, PATHS } from './policy-keys';
import { BudgetFields, ShareFields } from './policy-parts';
import { RuleFields } from './policy-rules';

/** Fields for the keys of the policy, group by group. What they do not show stays as it is. */
export function PolicyForm({ document, change, error }: FormOf) {
  const place = placeOf(error, PATHS);
  return (
    <Panel
      title="Settings"
      note="the same document as the text below; lengths of time are written like 90s, 30m, 24h or 1d12h"
    >
      <div className="body groups">
        {GROUPS.map((group) => (
          <GroupFields
            key={group.name}
            group={group}
            changed={changedIn(group, document)}
            refused={group.keys.some((k) => k.path === place)}
          >
            {group.keys.map((key) => (
              <KeyField
                key={key.path}
                of={key}
                value={valueAt(document, key.path)}
                problem={key.path === place ? refusalWords(error) : null}
                error={error}
                set={(v) => change(withValue(document, key.path, v))}
              />
            ))}
          </GroupFields>
        ))}
      </div>
    </Panel>
  );
}

function GroupFields({
  group,
  changed,
  refused,
  children,
}: {
  group: Group;
  changed: number;
  /** One of its fields is refused: it is to be seen. */
  refused: boolean;
  children: ReactNode;
}) {
  const [open, setOpen] = useState(false);
  return (
    <details className="group" open={open || refused} onToggle={(e) => setOpen(e.currentTarget.open)}>
      <summary>
        {group.name}{' '}
        {changed > 0 && <span className="dim">{changed.toLocaleString('en')} not as by default</span>}
      </summary>
      <div className="fields" role="group" aria-label={group.name}>
        {children}
      </div>
    </details>
  );
}

interface OfKey {
  of: Key;
  value: unknown;
  problem: string | null;
  error: Error | null;
  set: (value: unknown) => void;
}

function KeyField({ of, value, problem, error, set }: OfKey) {
  const { kind } = of;
  if (kind === 'share') return <ShareFields of={of} value={value} problem={problem} set={set} />;
  if (kind === 'watts') return <BudgetFields of={of} value={value} problem={problem} set={set} />;
  if (kind === 'rules') return <RuleFields value={value} problem={problem} error={error} set={set} />;
  const shown = { label: of.label, hint: noteOf(of), problem };
  if (kind === 'yes')
    return (
      <CheckField
        {...shown}
        checked={(value ?? of.normal) === true}
        onChange={(e) => set(e.target.checked)}
      />
    );
  if (typeof kind !== 'string') {
    const taken = String(value ?? of.normal ?? '');
    return (
      <SelectField {...shown} value={taken} onChange={(e) => set(e.target.value || undefined)}>
        {of.none && <option value="">by default: {of.none}</option>}
        <Options of={kind} taken={taken} />
      </SelectField>
    );
  }
  const number = kind === 'number';
  return (
    <TextField
      {...shown}
      type={number ? 'number' : 'text'}
      min={number ? 0 : undefined}
      autoComplete="off"
      placeholder={normalWords(of)}
      value={value === undefined || value === null ? '' : String(value)}
      onChange={(e) => {
        const typed = e.target.value;
        // What is left out has its default.
        if (typed === '') set(undefined);
        else set(number ? Number(typed) : typed);
      }}
    />
  );
}
