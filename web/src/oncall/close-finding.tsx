import { api, once, type Schemas } from '../api/client';
import { affectedWords, closeWords } from '../nodes/offers';
import { useAsked } from '../ui/asked';

type Finding = Schemas['Finding'];
type Job = Pick<Schemas['NodeJob'], 'id' | 'name' | 'project'>;

/** The jobs that a finding is about: those on its node, or its own; null when they could not be read. */
async function jobsOf(f: Finding): Promise<Job[] | null> {
  try {
    if (f.node) {
      const { data } = await api.GET('/v1/nodes/{name}', { params: { path: { name: f.node } } });
      return data?.jobs ?? null;
    }
    if (f.job === null || f.job === undefined) return [];
    const { data } = await api.GET('/v1/jobs/{id}', { params: { path: { id: String(f.job) } } });
    return data ? [data] : null;
  } catch {
    return null;
  }
}

/** Closes a finding, after naming the jobs where it is. */
export function useCloseFinding() {
  const { asked, busy } = useAsked();
  const close = async (f: Finding) => {
    const jobs = await jobsOf(f);
    await asked(
      {
        title: `Close finding ${f.id}`,
        text: (
          <>
            <p>
              {f.title || f.kind} <span className="dim">({f.entity})</span>
            </p>
            <p>{closeWords(f)}</p>
            <p>{affectedWords(jobs)}</p>
          </>
        ),
        act: 'Close the finding',
        risky: true,
        reason: 'needed',
      },
      (reason) =>
        api.POST('/v1/findings/{id}/close', {
          params: { path: { id: f.id }, header: once() },
          body: { reason },
        }),
      `Finding ${f.id} is closed`,
    );
  };
  return { close, busy };
}
