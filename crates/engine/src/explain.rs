//! Why a job waits, with holds, dependencies and the queue on top of the scheduler's answer.

use crate::index::{Depends, demand, depends, ticket};
use crate::state::State;
use muster_model::command::{Refusal, RefusalCode};
use muster_model::ids::JobId;
use muster_model::job::JobState;
use muster_model::names::NodeName;
use muster_model::resolve::resolve;
use muster_model::spec::JobSpec;
use muster_model::units::Time;
use muster_scheduler::explain::{FreeAt, explain};
use muster_scheduler::{Ahead, Constraint, Demand, Explanation};
use std::collections::{BTreeMap, BTreeSet};

/// Jobs ahead that are named one by one.
const AHEAD_SHOWN: usize = 5;

impl State {
    /// Why a job waits (or that it does not). `None` when there is no such job.
    #[must_use]
    pub fn explain(&self, id: JobId, now: Time) -> Option<Explanation> {
        let job = self.jobs.get(&id)?;
        if job.state != JobState::Queued {
            let mut summary = match (&job.attempt, job.state) {
                (Some(a), _) => match &a.stop {
                    Some(s) => format!("is stopping: {}", s.reason),
                    None => format!("is {} on {}", job.state, a.placement.domain),
                },
                (None, s) => format!("has {s}"),
            };
            if job.state.is_final()
                && let Some(r) = &job.reason
            {
                summary += &format!(": {r}");
            }
            return Some(Explanation { summary, ..Explanation::default() });
        }
        let mut out = explain(&self.index.fleet, &demand(job), &self.free_at(), now);
        let mut first = |name: &str, text: String| {
            let nodes_left = 0;
            let c = Constraint {
                name: name.into(),
                detail: text.clone(),
                nodes_left,
                gpus_left: 0,
                binding: true,
            };
            for c in &mut out.constraints {
                c.binding = false;
            }
            out.constraints.insert(0, c);
            out.summary = text;
            out.starts_now = false;
            out.estimate = None;
            out.suggestions.clear();
        };
        if let Some(by) = &job.held {
            first(
                "hold",
                format!("is held by {by}; `muster release {}` lets it go on", job.display_id()),
            );
            return Some(out);
        }
        match depends(self, job) {
            Depends::Waits(other) => {
                let how = self.jobs.get(&other).map_or("gone", |j| j.state.word());
                first("dependency", format!("waits for job {other}, which is {how}"));
                return Some(out);
            }
            Depends::Broken(other) => {
                first("dependency", format!("job {other} did not end as required"));
                return Some(out);
            }
            Depends::Met => {}
        }
        if job.not_before > now {
            let wait = job.not_before.since(now);
            first(
                "back-off",
                format!(
                    "is tried again in {wait} after: {}",
                    job.reason.as_deref().unwrap_or("a failure")
                ),
            );
            return Some(out);
        }
        let t = ticket(job);
        out.ahead_count = u32::try_from(self.index.queue.before(&t).count()).unwrap_or(u32::MAX);
        out.ahead = self
            .index
            .queue
            .before(&t)
            .take(AHEAD_SHOWN)
            .map(|(o, _)| {
                let other = self.jobs.get(&o.job);
                let higher = other.is_some_and(|j| j.spec.priority > job.spec.priority);
                let why = if higher { "higher priority" } else { "submitted earlier" };
                Ahead { job: o.job, why: why.into() }
            })
            .collect();
        if out.starts_now && out.ahead_count > 0 {
            out.starts_now = false;
            out.summary = format!(
                "there is room, but {} ahead of it in the queue",
                match out.ahead_count {
                    1 => "1 job is".into(),
                    n => format!("{n} jobs are"),
                }
            );
        }
        Some(out)
    }

    /// What would happen to a spec, without submitting it.
    ///
    /// # Errors
    /// The refusal that submitting it would give.
    pub fn explain_spec(&self, spec: &JobSpec, now: Time) -> Result<Explanation, Refusal> {
        let r = resolve(spec)?;
        let d = Demand {
            groups: r.groups.into(),
            required: spec.topology.required,
            preferred: spec.topology.preferred,
            simulated: spec.simulate.is_some(),
        };
        Ok(explain(&self.index.fleet, &d, &self.free_at(), now))
    }

    /// Refuses a gang that could not start even on the empty fleet. A fleet without nodes refuses
    /// nobody: it is still being built.
    pub(crate) fn refuse_impossible(&self, d: &Demand, now: Time) -> Result<(), Refusal> {
        if self.index.fleet.is_empty() {
            return Ok(());
        }
        let e = explain(&self.index.fleet, d, &FreeAt::new(), now);
        if !e.impossible {
            return Ok(());
        }
        let mut refusal = Refusal::new(RefusalCode::Policy, e.summary).field("gang");
        refusal.hint = e
            .suggestions
            .into_iter()
            .next()
            .or_else(|| Some("`muster nodes` shows what there is".into()));
        Err(refusal)
    }

    fn free_at(&self) -> FreeAt {
        let mut out: BTreeMap<NodeName, Option<Time>> = BTreeMap::new();
        let active: BTreeSet<JobId> = self.index.on_node.values().flatten().copied().collect();
        for job in active.iter().filter_map(|id| self.jobs.get(id)) {
            let Some(a) = &job.attempt else { continue };
            let until = match &a.stop {
                Some(s) => Some(s.at + s.grace),
                None => a.deadline.or(job.spec.time_limit.map(|l| a.placed_at + l)),
            };
            for s in &a.placement.slots {
                let e = out.entry(s.node.clone()).or_insert(Some(Time(0)));
                *e = match (*e, until) {
                    (Some(x), Some(y)) => Some(x.max(y)),
                    _ => None,
                };
            }
        }
        out
    }
}
