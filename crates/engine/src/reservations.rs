//! Reservations: which nodes they cover, and what they mean for what is there.

mod choose;

use crate::lookup::no_project;
use crate::state::index::block;
use crate::state::{BookedReservation, State};
use choose::{Candidate, choose_nodes};
use muster_model::command::{Refusal, RefusalCode};
use muster_model::ids::JobId;
use muster_model::job::Job;
use muster_model::names::{Label, NodeName, ProjectName};
use muster_model::node::{Node, NodeRole, Stage};
use muster_model::reservation::{Overrun, Reservation, ReservationTarget};
use muster_model::spec::Tier;
use muster_model::topology::Level;
use muster_model::units::Time;
use muster_scheduler::Block;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

impl State {
    /// Nodes of a domain, named by its whole path or by its last name.
    pub fn in_domain<'a>(
        &'a self,
        level: Level,
        path: &'a str,
    ) -> impl Iterator<Item = &'a Arc<Node>> + use<'a> {
        self.nodes.values().filter(move |n| {
            let p = n.location.path(&n.name, level);
            n.stage != Stage::Retired && (p.last() == Some(&path) || p.join("/") == path)
        })
    }

    /// Whether a project may know a reservation by its name; none where there is none of that name.
    #[must_use]
    pub fn may_name_reservation(&self, name: &Label, project: &ProjectName) -> Option<bool> {
        self.reservations.get(name).map(|b| b.reservation.name_for(project).is_some())
    }

    /// Nodes that a reservation covers now.
    #[must_use]
    pub fn reserved_nodes(&self, b: &BookedReservation) -> Vec<NodeName> {
        match &b.reservation.over {
            ReservationTarget::Nodes(n) => n.clone(),
            ReservationTarget::Gpus { .. } => b.nodes.clone(),
            ReservationTarget::Domain { level, path } => {
                self.in_domain(*level, path).map(|n| n.name.clone()).collect()
            }
        }
    }

    /// Nodes whose maintenance window is open, and what that is called: no new work is placed there. Everybody
    /// may know of them.
    #[must_use]
    pub fn nodes_in_maintenance(&self, now: Time) -> BTreeMap<NodeName, Label> {
        let mut out = BTreeMap::new();
        for b in self.reservations.values() {
            let r = &b.reservation;
            if r.is_maintenance() && r.window(now).is_some_and(|(start, _)| start <= now) {
                for node in self.reserved_nodes(b) {
                    out.entry(node).or_insert_with(|| r.name.clone());
                }
            }
        }
        out
    }

    /// Checks a reservation against the site, and chooses its nodes where it asks for GPUs: nothing
    /// is reserved yet.
    ///
    /// # Errors
    /// Why it cannot be made, with the field and how to fix it.
    pub fn plan_reservation(&self, r: &Reservation, now: Time) -> Result<Vec<NodeName>, Refusal> {
        r.check()?;
        for p in &r.projects {
            if !self.projects.contains_key(p) {
                return Err(no_project(self, p).field("projects"));
            }
        }
        if r.window(now).is_none() {
            return Err(Refusal::new(RefusalCode::Invalid, "its only window is over already")
                .field("start")
                .hint("give a start in the future, or `every` to make it recur"));
        }
        match &r.over {
            ReservationTarget::Nodes(names) => {
                if let Some(n) = names.iter().find(|n| !self.nodes.contains_key(*n)) {
                    return Err(Refusal::new(
                        RefusalCode::NotFound,
                        format!("there is no node {n}"),
                    )
                    .field("over.nodes")
                    .hint("`muster nodes` lists them"));
                }
                Ok(Vec::new())
            }
            ReservationTarget::Domain { level, path } => {
                if self.in_domain(*level, path).next().is_none() {
                    return Err(Refusal::new(
                        RefusalCode::NotFound,
                        format!("there is no {level} called `{path}`, or it has no nodes"),
                    )
                    .field("over.domain.path")
                    .hint("`muster topology` shows the domains"));
                }
                Ok(Vec::new())
            }
            ReservationTarget::Gpus { count, sku } => {
                self.choose_for_reservation(r, *count, sku, now)
            }
        }
    }

    /// Whole nodes with so many GPUs in all that no other reservation covers in the same windows, however
    /// far ahead they meet.
    fn choose_for_reservation(
        &self,
        r: &Reservation,
        count: u32,
        sku: &Option<String>,
        now: Time,
    ) -> Result<Vec<NodeName>, Refusal> {
        let taken: BTreeSet<NodeName> = self
            .reservations
            .values()
            .filter(|b| b.reservation.name != r.name && overlap(&b.reservation, r, now))
            .flat_map(|b| self.reserved_nodes(b))
            .collect();
        let start = r.window(now).map_or(now, |(start, _)| start.max(now));
        let kept = self.kept_at(r, start);
        let all: Vec<Candidate<'_>> = self
            .nodes
            .values()
            .filter(|n| n.stage != Stage::Retired && !n.inventory.gpus.is_empty())
            .filter(|n| sku.as_ref().is_none_or(|s| s == n.sku()))
            .filter(|n| !taken.contains(&n.name))
            .map(|n| Candidate {
                node: n,
                gpus: n.gpu_set().minus(n.excluded_gpus).len().into(),
                serves: not_serving(n).is_none(),
                doubtful: kept.contains(&n.name) || self.avoids(&n.name),
                displaced: self
                    .attempts_on(&n.name)
                    .filter(|j| is_displaced(r, j, start, now))
                    .map(|j| j.id)
                    .collect(),
            })
            .filter(|c| c.gpus > 0)
            .collect();
        let have: u64 = all.iter().map(|c| c.gpus).sum();
        choose_nodes(all, count.into()).ok_or_else(|| {
            Refusal::new(
                RefusalCode::Policy,
                format!("only {have} GPUs of that kind are not reserved in that time"),
            )
            .field("over.gpus.count")
            .hint(
                "ask for fewer, for another time, for an `every` whose windows never meet those of \
                 others, or see `muster reservation`",
            )
        })
    }

    /// Nodes that are reserved for waiting jobs of others which would still be there at `start`.
    fn kept_at(&self, r: &Reservation, start: Time) -> BTreeSet<NodeName> {
        let jobs = self.index.reserved_starts.iter().filter_map(|(_, id)| self.jobs.get(id));
        jobs.filter(|j| !admits(r, j))
            .filter_map(|j| j.reserved_start.as_ref().map(|p| (j, p)))
            .filter(|(j, p)| j.spec.time_limit.is_none_or(|l| p.at + l > start))
            .flat_map(|(_, p)| p.nodes.iter().cloned())
            .collect()
    }

    /// What a reservation means for what is on its nodes now.
    #[must_use]
    pub fn reservation_effect(&self, b: &BookedReservation, now: Time) -> ReservationEffect {
        let r = &b.reservation;
        let mut out = ReservationEffect::default();
        let Some((start, _)) = r.window(now) else { return out };
        for name in self.reserved_nodes(b) {
            let Some(node) = self.nodes.get(&name) else { continue };
            if r.overrun == Overrun::Stop {
                let here = self.attempts_on(&name);
                out.stops.extend(here.filter(|j| is_stopped(r, j, start, now)).map(|j| j.id));
            }
            if let Some(why) = not_serving(node) {
                out.not_serving.push((name, why));
            }
        }
        out
    }
}

/// What a reservation means for what is on its nodes now.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReservationEffect {
    /// Jobs of others that are stopped when its window begins.
    pub stops: BTreeSet<JobId>,
    /// Nodes of it that take no work now, and why.
    pub not_serving: Vec<(NodeName, &'static str)>,
}

/// Why a node takes no work now, if so.
fn not_serving(n: &Node) -> Option<&'static str> {
    match (block(n), n.role) {
        (Some(b), _) => Some(b.words()),
        (None, NodeRole::Suspect) => Some(Block::Suspect.words()),
        (None, NodeRole::Spare) => Some("reserved as a spare"),
        (None, _) => None,
    }
}

/// May a job be on nodes of a reservation while its window goes on?
fn admits(r: &Reservation, job: &Job) -> bool {
    r.projects.contains(&job.project) || (r.lend && job.spec.tier == Tier::Spot)
}

/// Is work of others still there when a window begins?
pub(crate) fn is_displaced(r: &Reservation, job: &Job, start: Time, now: Time) -> bool {
    let Some(a) = job.attempt.as_ref() else { return false };
    // An attempt whose ranks are not up yet has its limit before it.
    let limit = job.spec.time_limit.filter(|_| start > now);
    let ends = a.deadline.or(limit.map(|l| a.placed_at + l));
    // One that is on its way out is gone by then.
    let leaves = a.stop.as_ref().map(|s| s.at + s.grace).filter(|_| start > now);
    !admits(r, job) && ![ends, leaves].into_iter().flatten().any(|t| t <= start)
}

/// Does a reservation stop a job when its window begins, or has it just done so?
fn is_stopped(r: &Reservation, job: &Job, start: Time, now: Time) -> bool {
    let Some(a) = job.attempt.as_ref() else { return false };
    match &a.stop {
        Some(s) => s.reason.reservation() == Some(&r.name),
        None => is_displaced(r, job, start, now),
    }
}

/// Do two reservations cover the same moment, now or at any later time?
fn overlap(a: &Reservation, b: &Reservation, now: Time) -> bool {
    match (period(a), period(b)) {
        (None, _) => meets_window(a, b, now),
        (_, None) => meets_window(b, a, now),
        (Some(of_a), Some(of_b)) => {
            // By how much a window of `b` begins later than one of `a` changes by multiples of what
            // divides both periods, and each of them comes up again and again: the smallest from
            // zero on and the one below it say all.
            let step = i128::from(common_divisor(of_a, of_b));
            let later = (i128::from(b.start.0) - i128::from(a.start.0)).rem_euclid(step);
            later < i128::from(a.length.0) || step - later < i128::from(b.length.0)
        }
    }
}

/// Does a window of `other` meet what is left of the only window of `once`?
fn meets_window(once: &Reservation, other: &Reservation, now: Time) -> bool {
    once.window(now).is_some_and(|(start, end)| {
        other.window(start.max(now)).is_some_and(|(begins, _)| begins < end)
    })
}

/// After how many milliseconds a recurring one begins again.
fn period(r: &Reservation) -> Option<u64> {
    r.every.map(|e| e.0).filter(|ms| *ms > 0)
}

fn common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}
