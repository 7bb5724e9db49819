import { useQuery } from '@tanstack/react-query';
import type { Schemas } from '../api/client';
import { jobSpec } from '../queries';
import { useAct } from '../ui/act';
import { Loaded, Panel } from '../ui/parts';
import { save } from './files';
import { specYaml } from './form';

async function copy(text: string) {
  // Browsers give it to pages that came over TLS, or from this machine.
  if (!navigator.clipboard) throw new Error('This browser lets the page copy nothing: use Download.');
  await navigator.clipboard.writeText(text);
}

/** What was submitted, script and environment included, as the file that submits it again. */
export function JobSpecPanel({ job: j }: { job: Pick<Schemas['Job'], 'id' | 'name'> }) {
  const query = useQuery(jobSpec(j.id));
  const { act, busy } = useAct();
  const text = query.data ? specYaml(query.data) : '';
  return (
    <Panel
      title="Spec"
      note="muster submit job.yaml"
      actions={
        text !== '' && (
          <span className="log-tools">
            <button
              type="button"
              disabled={busy}
              onClick={() => void act(() => copy(text), 'Copied the spec')}
            >
              Copy
            </button>
            <button type="button" onClick={() => save(`job-${j.id}.yaml`, text, 'application/yaml')}>
              Download
            </button>
          </span>
        )
      }
    >
      <Loaded query={query}>
        {() => (
          // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls
          <pre className="log" tabIndex={0} aria-label="Spec">
            {text}
          </pre>
        )}
      </Loaded>
    </Panel>
  );
}
