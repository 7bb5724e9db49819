import { type FormEvent, useEffect, useState } from 'react';

/** What the address says, as fields; Enter or the button asks for what they hold. */
export function useDraft<S extends object>(search: S, show: (next: S) => void) {
  const [draft, setDraft] = useState<S>(search);
  useEffect(() => setDraft(search), [search]);
  const set = (part: Partial<S>) => setDraft({ ...draft, ...part });
  const submit = (e: FormEvent) => {
    e.preventDefault();
    show(draft);
  };
  const field = (name: keyof S & string, label: string, like: string, type = 'text') => (
    <label>
      {label}
      <input
        type={type}
        value={String(draft[name] ?? '')}
        placeholder={like}
        maxLength={200}
        autoComplete="off"
        spellCheck={false}
        onChange={(e) => setDraft({ ...draft, [name]: e.target.value })}
      />
    </label>
  );
  return { draft, set, submit, field };
}
