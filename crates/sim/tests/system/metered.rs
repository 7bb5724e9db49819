//! What the report of the fleet and the reports of the jobs make of one history.

use muster_engine::State;
use muster_metering::{Fleet, JobHistories, Part, Step, Work, goodput, no_observation};
use muster_model::event::{Event, Record};
use muster_model::ids::JobId;
use muster_model::units::Time;
use std::collections::BTreeMap;

/// Parts that both give in the same way. What waits is weighed by what is wanted in one, and by what was
/// allocated in the end in the other.
const PARTS: [Part; 5] =
    [Part::Starting, Part::Productive, Part::Checkpointing, Part::Restarting, Part::Lost];

/// Where the two reports disagree about a submission, at that moment, which is within a day of the first record.
pub(crate) fn contradictions(log: &[Record], s: &State, now: Time) -> Vec<String> {
    let (mut fleet, mut lives) = (Fleet::default(), JobHistories::default());
    let mut submitted: Vec<JobId> = Vec::new();
    for r in log {
        // Each is a project of its own, so that no two differences add up to none.
        let mut own = r.clone();
        if let Event::JobSubmitted { id, project, .. } = &mut own.event {
            *project = format!("job-{}", id.0).parse().expect("a name");
            submitted.push(*id);
        }
        fleet.apply(&own, &no_observation);
        lives.apply(r);
    }
    submitted.sort_unstable();
    let report = fleet.report(now, (Time(0), now), Step::Day, None, &no_observation);
    // The tasks of an array belong to one submission.
    let mut by_jobs: BTreeMap<JobId, Option<Work>> = BTreeMap::new();
    for job in s.jobs.values() {
        let before = submitted.partition_point(|id| *id <= job.id);
        let Some(id) = before.checked_sub(1).and_then(|n| submitted.get(n)) else { continue };
        let g = goodput(job, lives.get(job.id), &BTreeMap::new(), now);
        let sum = by_jobs.entry(*id).or_insert_with(|| Some(Work::default()));
        if !g.complete {
            *sum = None;
        }
        if let Some(w) = sum {
            PARTS.into_iter().for_each(|p| w.held.add(p, g.gpu.get(p)));
            w.up += g.up.0;
        }
    }
    let mut out = Vec::new();
    for (id, jobs) in by_jobs {
        let Some(jobs) = jobs else { continue };
        let all = report.projects.get(&format!("job-{}", id.0)).cloned().unwrap_or_default();
        for part in PARTS {
            let (one, other) = (all.parts().get(part), jobs.held.get(part));
            if one != other {
                let word = part.word();
                out.push(format!("job {id}: {word} {one} for the fleet, {other} for the job"));
            }
        }
        if all.up != jobs.up {
            out.push(format!("job {id}: up {} for the fleet, {} for the job", all.up, jobs.up));
        }
    }
    out
}
