//! When a waiting job starts, looked for on a copy of the cluster.

use crate::state::State;
use muster_model::names::ProjectName;
use muster_model::units::{Span, Time};
use muster_scheduler::forecast::{
    Durations, ENOUGH, LOOKED_AT, PlannedPreemption, RunLength, later_preemption, range,
};
use muster_scheduler::history::KEEP;
use muster_scheduler::{Cluster, Estimate, Explanation, Work};
use std::sync::Arc;

/// Said where the queue is longer than [`LOOKED_AT`].
const CUT: &str = "; the first 2,000 waiting jobs are looked at";

type SeenDurations = Durations<(ProjectName, String), ProjectName>;

impl State {
    /// Gives a start its two ends, and says who may be stopped for the job later, where that is asked.
    /// Both are looked for on one copy of the cluster: to copy a large one takes milliseconds.
    pub(crate) fn look_ahead(&self, out: &mut Explanation, w: Work, preempts: bool, now: Time) {
        let reserved = out.estimate.as_ref().is_some_and(|e| e.reserved);
        let by_limits = out.estimate.as_ref().map(|e| e.basis.clone()).unwrap_or_default();
        let project = |(project, _): &(ProjectName, String)| project.clone();
        let seen = out.estimate.is_some().then(|| Durations::new(&self.history, project));
        // A reserved start is the late end: without durations there is nothing to look for.
        let enough = seen.as_ref().is_some_and(|d| d.seen() >= ENOUGH);
        let ranged = out.estimate.is_some() && (!reserved || enough);
        let mut later = None;
        let mut cut = "";
        if ranged || preempts {
            let job = w.job;
            let c = self.queued(w, now);
            if c.queue.is_cut() {
                cut = CUT;
            }
            if preempts {
                later = later_preemption(&c, job, &self.policy, now);
            }
            if let Some((e, seen)) = out.estimate.as_mut().zip(seen.as_ref()).filter(|_| ranged) {
                let length = |w: &Work, ran: Span, draw: u64| {
                    let user = (w.project.clone(), w.user.to_string());
                    seen.length((user, w.project.clone()), w, ran, draw)
                };
                let lasts: Option<&RunLength<'_>> = if enough { Some(&length) } else { None };
                let r = range(c, job, &self.policy, now, (e.at, reserved), lasts);
                (e.earliest, e.at) = (r.earliest, r.latest);
                if r.whole && !reserved {
                    e.basis =
                        "the time limits of what runs and of the jobs ahead as they are now; \
                               no start is reserved for it: later if jobs that are submitted after \
                               it go first"
                            .into();
                }
            }
        }
        if let Some((e, seen)) = out.estimate.as_mut().zip(seen.as_ref()) {
            if ranged {
                e.basis += cut;
            }
            say_what_was_seen(e, seen);
        }
        if let Some((from, room)) = later {
            self.explain_later_preemption(out, &by_limits, (from, room), cut);
        }
    }

    /// Says who may be stopped for a job, and from when on, where they have not run long enough yet
    /// and nothing else starts it earlier. A reserved start stays the late end, as every list shows
    /// it: `by_limits` is what it rests on.
    fn explain_later_preemption(
        &self,
        out: &mut Explanation,
        by_limits: &str,
        (from, room): (Time, PlannedPreemption),
        cut: &str,
    ) {
        if out.estimate.as_ref().is_some_and(|e| e.at <= room.at) {
            return;
        }
        let p = &self.policy;
        let long = match room.victims.is_empty() {
            true => ("shrunk", p.elastic.settle, "elastic.settle"),
            false => ("stopped", p.preemption.min_run, "preemption.min_run"),
        };
        let (what, ran, name) = long;
        let basis =
            format!("others may be {what} for it once they have run for {ran} (`{name}`){cut}");
        match out.estimate.as_mut().filter(|e| e.reserved) {
            Some(e) if e.earliest.is_some_and(|t| t <= room.at) => {
                e.basis += &format!("; {basis}");
            }
            Some(e) => {
                e.earliest = Some(room.at);
                e.basis = format!("{by_limits}; the early end follows from preemption: {basis}");
            }
            None => {
                let at = room.at;
                out.estimate = Some(Estimate { earliest: None, at, reserved: false, basis });
            }
        }
        out.gives_way = room.victims.iter().map(|v| v.job).chain(room.shrinks).collect();
        out.gives_way_from = Some(from);
    }

    /// A copy of the cluster in which this waits, if it does not yet. Of a long queue it has the
    /// beginning.
    pub(crate) fn queued(&self, w: Work, now: Time) -> Cluster {
        let job = w.job;
        let mut c = self.index.cluster.copy_for(job, LOOKED_AT, self.ranks(now));
        if c.queue.get(job).is_none() {
            let belief = self.runtime_estimate(&w);
            c.queue.insert(Arc::new(w));
            c.queue.set_estimate(job, belief);
        }
        c
    }
}

/// Adds what the early end rests on, or why there is none.
fn say_what_was_seen(e: &mut Estimate, seen: &SeenDurations) {
    let seen = seen.seen();
    e.basis += &match e.earliest {
        Some(t) if t < e.at => format!(
            "; the early end follows from how long {seen} past jobs ran compared with their limits"
        ),
        Some(_) => format!(
            "; by how long {seen} past jobs ran compared with their limits it starts no earlier"
        ),
        None => format!(
            "; sooner if jobs end before their limits: of the last {KEEP} jobs of each user too few had a time limit to say how much ({seen} of {ENOUGH})"
        ),
    };
}
