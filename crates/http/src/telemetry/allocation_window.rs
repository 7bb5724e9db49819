//! When an attempt held its GPUs. What is reported of them before and after is of others' work.

use muster_model::job::{Job, SlotState};
use muster_model::names::NodeName;
use muster_model::units::Time;
use muster_server::agents::Window;
use std::collections::BTreeSet;

/// What is an attempt's of what its nodes reported, and what of it a caller who is bound to a
/// project may see.
#[derive(Debug)]
pub(super) struct AllocationWindow {
    from: Time,
    until: Time,
    /// It goes on.
    live: bool,
    /// Nodes with a slot that is over while the others go on. When it ended is not kept, and its
    /// GPUs may be somebody else's by now.
    left: BTreeSet<NodeName>,
}

impl AllocationWindow {
    /// The time of one attempt of a job, until `now` if it goes on; no time if nobody knows of it.
    pub(super) fn by(job: &Job, no: Option<u32>, now: Time) -> AllocationWindow {
        if let Some(a) = job.attempt.as_ref().filter(|a| Some(a.no) == no) {
            let slots = a.placement.slots.iter().zip(&a.slots);
            let over =
                slots.filter(|(_, s)| a.freed_at.is_none() && matches!(s, SlotState::Ended { .. }));
            let left = over.map(|(slot, _)| slot.node.clone()).collect();
            let (until, live) = (a.freed_at.unwrap_or(now), a.freed_at.is_none());
            return AllocationWindow { from: a.placed_at, until, live, left };
        }
        let past = job.past.iter().find(|p| Some(p.no) == no);
        let (from, until) =
            past.map_or((Time(i64::MAX), Time(i64::MIN)), |p| (p.placed_at, p.freed()));
        AllocationWindow { from, until, live: false, left: BTreeSet::new() }
    }

    /// From when until when the GPUs of a node were allocated to the attempt, without an end while it
    /// goes on. `whole` is for those who may also see a node whose slot is over.
    pub(super) fn time_of(&self, node: &NodeName, whole: bool) -> Option<(Time, Time)> {
        let until = if self.live { Time(i64::MAX) } else { self.until };
        (whole || !self.left.contains(node)).then_some((self.from, until))
    }

    /// Leaves the rows of a node that were heard while the attempt held its GPUs. `whole` as in
    /// [`AllocationWindow::time_of`].
    pub(super) fn cut(&self, node: &NodeName, window: &mut Window, whole: bool) {
        let gone = !whole && self.left.contains(node);
        window.rows.retain(|r| !gone && self.from <= r.heard && r.heard <= self.until);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{PATIENCE, site};
    use muster_model::JobId;
    use muster_model::job::{PastAttempt, SlotEnd, Verdict};
    use muster_model::units::Span;
    use muster_server::agents::Row;
    use serde_json::json;

    /// Rows at these times that are left to see of node `n1`, for a project.
    fn seen(job: &Job, no: u32, now: Time, at: &[Time]) -> Vec<Time> {
        seen_by(job, no, now, at, false)
    }

    fn seen_by(job: &Job, no: u32, now: Time, at: &[Time], whole: bool) -> Vec<Time> {
        let row = |heard: &Time| Row {
            at: Time(0),
            heard: *heard,
            gpus: vec![50.0f32].into(),
            host: Vec::new().into(),
        };
        let mut window = Window { rows: at.iter().map(row).collect(), ..Window::default() };
        AllocationWindow::by(job, Some(no), now).cut(&"n1".parse().unwrap(), &mut window, whole);
        window.rows.iter().map(|r| r.heard).collect()
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_project_sees_figures_of_the_time_in_which_its_attempt_held_the_gpus() {
        let s = site().await;
        let spec = json!({"name": "train", "gang": {"gpus": 4}, "run": {"command": ["train"]}});
        let made = s.post(&s.user, "/v1/jobs", &spec).await.json();
        let id = JobId(made["number"].as_u64().unwrap());
        let mut durable = s.brain.watch();
        while s.brain.read(|st| st.jobs[&id].attempt.is_none()) {
            tokio::time::timeout(PATIENCE, durable.changed()).await.unwrap().unwrap();
        }
        let mut job = s.brain.read(|st| (*st.jobs[&id]).clone());
        let attempt = job.attempt.clone().unwrap();
        let placed = attempt.placed_at;
        let (before, later, now) =
            (placed - Span::secs(1), placed + Span::secs(10), placed + Span::secs(20));
        let all = [before, placed, later, now + Span::secs(1)];
        assert_eq!(seen(&job, 1, now, &all), [placed, later], "not who was there before");
        let whole = seen_by(&job, 1, now, &all, true);
        assert_eq!(whole, [placed, later], "that is not the job's, whoever looks");
        // Its rank is over, and its end is not settled yet.
        let a = job.attempt.as_mut().unwrap();
        a.slots.iter_mut().for_each(|s| *s = SlotState::Ended { end: SlotEnd::Ok });
        assert!(seen(&job, 1, now, &all).is_empty(), "others may have it since nobody knows when");
        assert_eq!(seen_by(&job, 1, now, &all, true), [placed, later]);
        job.attempt.as_mut().unwrap().freed_at = Some(placed + Span::secs(5));
        assert_eq!(seen(&job, 1, now, &all), [placed], "not who came after");
        // Its end is settled.
        job.attempt = None;
        job.past.push(PastAttempt {
            no: 1,
            nodes: vec!["n1".parse().unwrap()],
            placed_at: placed,
            started_at: None,
            ended_at: now,
            freed_at: Some(placed + Span::secs(5)),
            stopped_at: None,
            verdict: Verdict::Success,
            reason: String::new(),
            findings: Vec::new(),
            stopped_for: None,
        });
        assert_eq!(seen(&job, 1, now, &all), [placed]);
        assert!(seen(&job, 2, now, &all).is_empty(), "an attempt that never was");
    }
}
