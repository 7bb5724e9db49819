import { type ReactNode, useState } from 'react';
import { once } from '../api/client';
import { useSend } from '../ui/act';
import { DiffLines } from '../ui/diff';
import { Panel } from '../ui/parts';
import { useChecked } from './checked';
import { type Document, documentText, readDocument } from './document';
import { ofDocument } from './errors';
import { Field, FormError } from './field';

/** Sets a whole document in place of the version that was seen, or says what it would be; gives it as it is then. */
export type Put = (
  document: Document,
  version: number,
  dry_run: boolean,
  signal?: AbortSignal,
) => Promise<object>;

/** What a form for some keys of a document is given: the document, how to change it, and what the server refuses of it. */
export interface FormOf {
  document: Document;
  change: (document: Document) => void;
  error: Error | null;
}

/** What a request says that replaces a version, and no other one. A dry run changes nothing. */
export const replacing = (version: number, dry_run: boolean) => ({
  query: { dry_run },
  header: { ...(dry_run ? {} : once()), 'If-Match': String(version) },
});

/**
 * Edits a whole document as its file. Every change is checked by the server before it can be saved, and shown as what
 * differs. What was typed stays when it is refused, and when the document is changed by somebody else meanwhile.
 */
export function DocumentEditor({
  kind,
  name,
  now,
  version,
  put,
  form,
  close,
}: {
  /** `Policy`, as its file is headed. */
  kind: string;
  /** Its name in what the API gives. */
  name: string;
  /** The document as it is now, and the version that was seen. */
  now: object;
  version: number;
  put: Put;
  /** Fields for its keys, beside the text. */
  form: (of: FormOf) => ReactNode;
  close: () => void;
}) {
  // What was there when the work began: a later version must not be replaced unseen.
  const [base, setBase] = useState({ now, version });
  const before = documentText(kind, base.now);
  const [text, setText] = useState(before);
  const { send, busy, error, clear } = useSend();
  const read = readDocument(kind, name, text);
  const document = 'document' in read ? read.document : null;
  const checked = useChecked(document && JSON.stringify([document, base.version]), (signal) =>
    put(document ?? {}, base.version, true, signal),
  );
  const refusal = ofDocument(error ?? (checked?.state === 'refused' ? checked.error : null), name);
  const would = checked?.state === 'ok' ? documentText(kind, checked.answer) : null;
  const type = (next: string) => {
    clear();
    setText(next);
  };
  const restart = () => {
    clear();
    setBase({ now, version });
    setText(documentText(kind, now));
  };
  const save = async () => {
    if (!document) return;
    const set = await send(() => put(document, base.version, false), `The ${name} is set`);
    if (set !== null) close();
  };
  return (
    <div className="columns">
      <div>
        {document && form({ document, change: (next) => type(documentText(kind, next)), error: refusal })}
        <Panel title="As YAML" note={`the file that muster ${name} apply takes`}>
          <div className="body fields">
            {version !== base.version && (
              <p className="error whole" role="alert">
                It was changed by somebody else meanwhile. What you typed stays.{' '}
                <button type="button" onClick={restart}>
                  Discard it and start from the present one
                </button>
              </p>
            )}
            <Field label={`${kind} as YAML`} whole problem={'problem' in read ? read.problem : null}>
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
      <div className="beside">
        <Panel title="What would change" note="checked by the server with every change; nothing is saved yet">
          {would !== null ? (
            <DiffLines first={before} second={would} same="Nothing would change" what="The document" />
          ) : (
            <p className="state" role="status">
              {checked?.state === 'asking' ? 'Checking…' : 'It cannot be saved as it is.'}
            </p>
          )}
          <div className="body">
            <SaveChecked
              refusal={refusal}
              off={busy || would === null || would === before}
              save={() => void save()}
              close={close}
            />
          </div>
        </Panel>
      </div>
    </div>
  );
}

/** The end of a document's form: why it is refused, and the buttons. */
export function SaveChecked({
  refusal,
  asking,
  off,
  save,
  close,
  children,
}: {
  refusal: Error | null;
  /** The server has not answered yet. */
  asking?: boolean;
  off: boolean;
  save: () => void;
  close: () => void;
  /** Said beside the buttons. */
  children?: ReactNode;
}) {
  return (
    <>
      <FormError error={refusal} fields={[]} />
      {refusal && 'field' in refusal && refusal.field ? (
        <p className="dim">Look at: {String(refusal.field)}</p>
      ) : null}
      {asking && (
        <p className="dim" role="status">
          Checking…
        </p>
      )}
      <div className="form-actions">
        <button type="button" className="main" disabled={off} onClick={save}>
          Save
        </button>
        <button type="button" onClick={close}>
          Cancel
        </button>
        {children}
      </div>
    </>
  );
}
