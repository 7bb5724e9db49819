import { api, once, type Schemas } from '../api/client';
import { useRights } from '../rights';
import { useAsked } from '../ui/asked';

/** Ends the force on a breaker, for operators; nothing where nobody forced it. */
export function ReleaseBreaker({ of: b }: { of: Schemas['Breaker'] }) {
  const { operates } = useRights();
  const { asked, busy } = useAsked();
  if (!operates || !b.pinned) return null;
  const release = () =>
    asked(
      {
        title: `Release breaker ${b.entity}`,
        text: 'It follows its own rules again: it may close or open by itself.',
        act: 'Release',
      },
      () =>
        api.POST('/v1/breakers/force', {
          params: { header: once() },
          body: { entity: b.entity, state: null },
        }),
      `Breaker ${b.entity} follows its own rules again`,
    );
  return (
    <div className="actions">
      <button type="button" disabled={busy} onClick={() => void release()}>
        Release
      </button>
    </div>
  );
}
