import { type ReactNode, useState } from 'react';
import { useSend } from '../ui/act';
import { DiffLines } from '../ui/diff';
import { Panel } from '../ui/parts';
import { useChecked } from './checked';
import { type Document, documentText, readDocument } from './document';
import { Field, FormError } from './field';

/** A whole document of the site, how it is checked and how it is set. */
export interface Source {
  /** `Policy`, as its file is headed. */
  kind: string;
  /** Its name in what the API gives. */
  name: string;
  /** The document as it is now, and the version that was seen. */
  now: Document;
  version: number;
  /** What it would be were it set now; nothing is set. */
  check: (document: Document, version: number, signal: AbortSignal) => Promise<Document>;
  set: (document: Document, version: number) => Promise<unknown>;
  /** Said once it is set. */
  done: string;
}

/**
 * Edits a whole document as its file. Every change is checked by the server before it can be saved, and shown as what
 * differs. What was typed stays when it is refused, and when the document is changed by somebody else meanwhile.
 */
export function DocumentEditor({
  source,
  form,
  close,
}: {
  source: Source;
  /** Fields for some of its keys, beside the text. */
  form?: (document: Document, change: (document: Document) => void) => ReactNode;
  close: () => void;
}) {
  // What was there when the work began: a later version must not be replaced unseen.
  const [base, setBase] = useState({ now: source.now, version: source.version });
  const before = documentText(source.kind, base.now);
  const [text, setText] = useState(before);
  const { send, busy, error, clear } = useSend();
  const read = readDocument(source.kind, source.name, text);
  const document = 'document' in read ? read.document : null;
  const checked = useChecked(document && JSON.stringify([document, base.version]), (signal) =>
    source.check(document ?? {}, base.version, signal),
  );
  const refusal = error ?? (checked?.state === 'refused' ? checked.error : null);
  const would = checked?.state === 'ok' ? documentText(source.kind, checked.answer) : null;
  const type = (next: string) => {
    clear();
    setText(next);
  };
  const restart = () => {
    clear();
    setBase({ now: source.now, version: source.version });
    setText(documentText(source.kind, source.now));
  };
  const save = async () => {
    if (!document) return;
    const set = await send(() => source.set(document, base.version), source.done);
    if (set !== null) close();
  };
  return (
    <div className="columns">
      <div>
        {form && document && form(document, (next) => type(documentText(source.kind, next)))}
        <Panel title="As YAML" note={`the file that muster ${source.name} apply takes`}>
          <div className="body fields">
            {source.version !== base.version && (
              <p className="error whole" role="alert">
                It was changed by somebody else meanwhile. What you typed stays.{' '}
                <button type="button" onClick={restart}>
                  Discard it and start from the present one
                </button>
              </p>
            )}
            <Field label={`${source.kind} as YAML`} whole problem={'problem' in read ? read.problem : null}>
              {(a) => (
                <textarea
                  {...a}
                  className="mono document"
                  rows={24}
                  spellCheck={false}
                  autoComplete="off"
                  value={text}
                  onChange={(e) => type(e.target.value)}
                />
              )}
            </Field>
          </div>
        </Panel>
      </div>
      <Panel title="What would change" note="checked by the server with every change; nothing is saved yet">
        {would !== null ? (
          <DiffLines first={before} second={would} same="Nothing would change" what="The document" />
        ) : (
          <p className="state" role="status">
            {checked?.state === 'asking' ? 'Checking…' : 'It cannot be saved as it is.'}
          </p>
        )}
        <div className="body">
          <FormError error={refusal} fields={[]} />
          {refusal && 'field' in refusal && refusal.field ? (
            <p className="dim">Look at: {String(refusal.field)}</p>
          ) : null}
          <div className="form-actions">
            <button
              type="button"
              className="main"
              disabled={busy || would === null || would === before}
              onClick={() => void save()}
            >
              Save
            </button>
            <button type="button" onClick={close}>
              Cancel
            </button>
          </div>
        </div>
      </Panel>
    </div>
  );
}
