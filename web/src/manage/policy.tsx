import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { api, must, once, type Schemas } from '../api/client';
import { policy } from '../queries';
import { useRights } from '../rights';
import { Loaded, Panel } from '../ui/parts';
import { type Document, documentText } from './document';
import { DocumentEditor } from './document-editor';
import { PolicyForm } from './policy-form';

const put = async (document: Document, version: number, dry_run: boolean, signal?: AbortSignal) =>
  must(
    await api.PUT('/v1/policy', {
      params: {
        query: { dry_run },
        header: { ...(dry_run ? {} : once()), 'If-Match': String(version) },
      },
      body: { policy: document as Schemas['SitePolicy'] },
      signal,
    }),
  );

/** The site's scheduling policy: everybody of the site sees it, admins change it. */
export function PolicyPage() {
  const query = useQuery(policy());
  const { administers } = useRights();
  const [editing, setEditing] = useState(false);
  return (
    <main className="page" id="page">
      <div className="head">
        <h1>Scheduling policy</h1>
        {administers && !editing && query.data && (
          <div className="actions">
            <button type="button" className="main" onClick={() => setEditing(true)}>
              Edit
            </button>
          </div>
        )}
      </div>
      <Loaded query={query}>
        {(p) =>
          editing && administers ? (
            <DocumentEditor
              source={{
                kind: 'Policy',
                name: 'policy',
                now: p.policy as unknown as Document,
                version: p.version,
                check: async (d, v, signal) => (await put(d, v, true, signal)).policy as unknown as Document,
                set: (d, v) => put(d, v, false),
                done: 'The policy is set',
              }}
              form={(document, change) => <PolicyForm document={document} change={change} />}
              close={() => setEditing(false)}
            />
          ) : (
            <Panel title="As it is" note="every default filled in; muster policy -o yaml">
              {/* biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls */}
              <pre className="log document" tabIndex={0} aria-label="Policy">
                {documentText('Policy', p.policy)}
              </pre>
            </Panel>
          )
        }
      </Loaded>
    </main>
  );
}
