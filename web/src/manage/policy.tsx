import { useQuery } from '@tanstack/react-query';
import { api, must, type Schemas } from '../api/client';
import { policy } from '../queries';
import { Panel } from '../ui/parts';
import { documentText } from './document';
import { DocumentEditor, type Put, replacing } from './document-editor';
import { EditPage } from './frames';
import { PolicyForm } from './policy-form';

const put: Put = async (document, version, dry_run, signal) => {
  const body = { policy: document as Schemas['SitePolicy'] };
  return must(await api.PUT('/v1/policy', { params: replacing(version, dry_run), body, signal })).policy;
};

/** The site's scheduling policy: everybody of the site sees it, admins change it. */
export function PolicyPage() {
  return (
    <EditPage
      title="Scheduling policy"
      query={useQuery(policy())}
      editor={(p, close) => (
        <DocumentEditor
          kind="Policy"
          name="policy"
          now={p.policy}
          version={p.version}
          put={put}
          form={(of) => <PolicyForm {...of} />}
          close={close}
        />
      )}
    >
      {(p) => (
        <Panel title="As it is" note="every default filled in; muster policy -o yaml">
          {/* biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls */}
          <pre className="log document" tabIndex={0} aria-label="Policy">
            {documentText('Policy', p.policy)}
          </pre>
        </Panel>
      )}
    </EditPage>
  );
}
