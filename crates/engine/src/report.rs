//! Readings of the state for people: entitlement against what was received, and moves that
//! would make room.

use crate::state::State;
use muster_model::ids::JobId;
use muster_model::names::{Label, NodeName, ProjectName};
use muster_model::quota::{AccountRow, LimitRow, Quota, QuotaReport, QuotaRow};
use muster_model::units::Time;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A move that would let a waiting gang start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MoveProposal {
    /// The gang that would start.
    pub gang: JobId,
    /// Jobs that would be moved, with where they are and where they would go.
    pub moves: Vec<Move>,
    /// GPU-seconds that the moves lose.
    pub cost_gpu_s: u64,
    /// GPU-seconds that the gang gains by starting now.
    pub gain_gpu_s: u64,
}

/// One job that would be moved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Move {
    /// The job that would be moved.
    pub job: JobId,
    /// Nodes it is on.
    pub from: Vec<NodeName>,
    /// Nodes it would go to.
    pub to: Vec<NodeName>,
}

impl State {
    /// Who is entitled to what, and has had how much.
    #[must_use]
    pub fn quota_report(&self, now: Time) -> QuotaReport {
        let half = self.policy.fair_share.half_life;
        let mut had: BTreeMap<(ProjectName, String), u128> =
            self.usage.iter().map(|(k, u)| (k.clone(), u.at(now, half))).collect();
        let cluster = &self.index.cluster;
        let mut held: BTreeMap<(ProjectName, String), (u32, u64)> = BTreeMap::new();
        for r in cluster.running.values() {
            let key = (r.work.project.clone(), r.work.user.to_string());
            had.entry(key.clone()).or_default();
            let h = held.entry(key).or_default();
            h.0 += 1;
            h.1 += r.milli();
        }
        let ranks = self.ranks(now);
        let mut rank: BTreeMap<(ProjectName, String), u32> = BTreeMap::new();
        for ((p, u), i) in cluster.queue.accounts() {
            let key = (p.clone(), u.to_string());
            had.entry(key.clone()).or_default();
            rank.insert(key, ranks.get(i).copied().unwrap_or(0) + 1);
        }
        let used = Used::of(had, held, rank);
        QuotaReport { quotas: self.quota_rows(&used), accounts: self.account_rows(&used) }
    }

    fn quota_rows(&self, used: &Used) -> Vec<QuotaRow> {
        let tree = &self.quotas.tree;
        let mut below = Below::new();
        for (i, q) in tree.iter().enumerate() {
            below.entry(q.parent.as_ref()).or_default().push(i);
        }
        // From the roots down, each before those below it.
        let mut order: Vec<(usize, u32)> = Vec::new();
        let mut open: Vec<(usize, u32)> =
            below_of(&below, None).iter().rev().map(|i| (*i, 0)).collect();
        while let Some((i, depth)) = open.pop() {
            order.push((i, depth));
            let next = below_of(&below, Some(&tree[i].name)).iter().rev();
            open.extend(next.map(|c| (*c, depth + 1)));
        }
        // From the leaves up: what the projects of a node and of all below it had, and hold.
        let mut totals = vec![(0u128, 0u64); tree.len()];
        for (i, _) in order.iter().rev() {
            let q = &tree[*i];
            let own = q.projects.iter().filter_map(|p| used.of_project.get(p));
            let own = own.fold((0u128, 0u64), |(had, held), p| (had + p.had, held + p.held));
            let under = below_of(&below, Some(&q.name)).iter().map(|c| totals[*c]);
            let total = under.fold(own, |(had, held), (h, k)| (had + h, held + k));
            totals[*i] = total;
        }
        let sum = |all: &[usize]| -> (u64, u128) {
            let each = all.iter().map(|i| (u64::from(tree[*i].shares), totals[*i].0));
            each.fold((0u64, 0u128), |(shares, had), (s, h)| (shares + s, had + h))
        };
        // Of those that hang on one node together.
        let sums: BTreeMap<Option<&Label>, (u64, u128)> =
            below.iter().map(|(parent, all)| (*parent, sum(all))).collect();
        let row = |(i, depth): (usize, u32)| {
            let q = &tree[i];
            let (shares, all) = sums.get(&q.parent.as_ref()).copied().unwrap_or_default();
            let (usage, held) = totals[i];
            QuotaRow {
                name: q.name.to_string(),
                parent: q.parent.as_ref().map(ToString::to_string),
                depth,
                shares: q.shares,
                order: q.order,
                projects: q.projects.iter().map(ToString::to_string).collect(),
                limits: self.limit_rows(q),
                used_milli: Some(held),
                entitled_milli: part(u128::from(q.shares), u128::from(shares)),
                received_milli: Some(part(usage, all)),
                usage_gpu_s: Some(gpu_seconds(usage)),
            }
        };
        order.into_iter().map(row).collect()
    }

    fn limit_rows(&self, q: &Quota) -> Vec<LimitRow> {
        let ledger = &self.index.cluster.ledger;
        let limits = q.gpus.iter().map(|l| {
            let now = ledger.usage(&q.name, l.sku.as_deref(), l.tier);
            let nominal_milli = u64::from(l.nominal) * 1000;
            let borrow = l.borrow.map(|b| u64::from(b) * 1000);
            LimitRow {
                sku: l.sku.clone(),
                tier: l.tier,
                nominal_milli,
                owned_milli: now.map_or(nominal_milli, |u| u.owned),
                borrow_milli: if now.is_some_and(|u| !u.may_borrow) { Some(0) } else { borrow },
                lend_milli: l.lend.map(|b| u64::from(b) * 1000),
                used_milli: now.map_or(0, |u| u.used),
                borrowed_milli: now.map_or(0, |u| u.borrowed),
                left_milli: now.map_or(0, |u| u.left),
            }
        });
        limits.collect()
    }

    fn account_rows(&self, used: &Used) -> Vec<AccountRow> {
        let queue = &self.index.cluster.queue;
        let mut quota_of: BTreeMap<&ProjectName, &Label> = BTreeMap::new();
        for q in &self.quotas.tree {
            for p in &q.projects {
                quota_of.entry(p).or_insert(&q.name);
            }
        }
        // Of the projects that hang on one node, or on none: how many, and what they had.
        let mut together: BTreeMap<Option<&Label>, (u128, u128)> = BTreeMap::new();
        for (p, of) in &used.of_project {
            let sum = together.entry(quota_of.get(p).copied()).or_default();
            *sum = (sum.0 + 1, sum.1 + of.had);
        }
        let mut out = Vec::new();
        for (p, of) in &used.of_project {
            let quota = quota_of.get(p).copied();
            let (siblings, all) = together.get(&quota).copied().unwrap_or_default();
            let quota = quota.map(ToString::to_string);
            let waiting: usize = of.users.iter().map(|u| queue.waiting(p, u)).sum();
            let keys = || of.users.iter().map(move |u| (p.clone(), u.clone()));
            out.push(AccountRow {
                project: p.to_string(),
                user: None,
                quota: quota.clone(),
                used_milli: of.held,
                running: of.jobs,
                waiting: u32::try_from(waiting).unwrap_or(u32::MAX),
                entitled_milli: part(1, siblings),
                received_milli: Some(part(of.had, all)),
                usage_gpu_s: gpu_seconds(of.had),
                rank: keys().filter_map(|key| used.rank.get(&key)).min().copied().unwrap_or(1),
            });
            for key in keys() {
                let mine = used.had.get(&key).copied().unwrap_or(0);
                out.push(AccountRow {
                    project: p.to_string(),
                    user: Some(key.1.clone()),
                    quota: quota.clone(),
                    used_milli: used.held.get(&key).map_or(0, |h| h.1),
                    running: used.held.get(&key).map_or(0, |h| h.0),
                    waiting: u32::try_from(queue.waiting(p, &key.1)).unwrap_or(u32::MAX),
                    entitled_milli: part(1, of.users.len() as u128),
                    received_milli: Some(part(mine, of.had)),
                    usage_gpu_s: gpu_seconds(mine),
                    rank: used.rank.get(&key).copied().unwrap_or(1),
                });
            }
        }
        out
    }

    /// Moves of checkpointable work that would let waiting gangs start, best first.
    #[must_use]
    pub fn move_proposals(&self, now: Time) -> Vec<MoveProposal> {
        let nodes_of = |id: &JobId| -> Vec<NodeName> {
            let slots = self.jobs.get(id).and_then(|j| j.attempt.as_ref());
            let slots = slots.map(|a| a.placement.slots.iter().map(|s| s.node.clone()));
            slots.map(Iterator::collect).unwrap_or_default()
        };
        muster_scheduler::moves(&self.index.cluster, &self.policy, now)
            .into_iter()
            .map(|m| MoveProposal {
                gang: m.gang,
                moves: m
                    .moves
                    .into_iter()
                    .map(|(job, to)| Move { job, from: nodes_of(&job), to })
                    .collect(),
                cost_gpu_s: gpu_seconds(m.cost),
                gain_gpu_s: gpu_seconds(m.gain),
            })
            .collect()
    }
}

/// Which nodes of the tree hang on each, and on none: the roots.
type Below<'a> = BTreeMap<Option<&'a Label>, Vec<usize>>;

fn below_of<'a>(below: &'a Below<'a>, parent: Option<&'a Label>) -> &'a [usize] {
    below.get(&parent).map(Vec::as_slice).unwrap_or_default()
}

/// What accounts have had and hold.
struct Used {
    had: BTreeMap<(ProjectName, String), u128>,
    held: BTreeMap<(ProjectName, String), (u32, u64)>,
    rank: BTreeMap<(ProjectName, String), u32>,
    of_project: BTreeMap<ProjectName, ProjectUse>,
}

/// The same of all users of a project.
#[derive(Default)]
struct ProjectUse {
    had: u128,
    held: u64,
    jobs: u32,
    /// In order of their names.
    users: Vec<String>,
}

impl Used {
    /// Each account is looked at once: there may be thousands, and whoever asks for the report has
    /// the state locked.
    fn of(
        had: BTreeMap<(ProjectName, String), u128>,
        held: BTreeMap<(ProjectName, String), (u32, u64)>,
        rank: BTreeMap<(ProjectName, String), u32>,
    ) -> Used {
        let mut of_project: BTreeMap<ProjectName, ProjectUse> = BTreeMap::new();
        for (key, value) in &had {
            let of = of_project.entry(key.0.clone()).or_default();
            let (jobs, milli) = held.get(key).copied().unwrap_or_default();
            of.had += value;
            of.held += milli;
            of.jobs += jobs;
            of.users.push(key.1.clone());
        }
        Used { had, held, rank, of_project }
    }
}

/// Of all, in thousandths, rounded: 2 of 12 are 16.7%.
fn part(of: u128, all: u128) -> u32 {
    u32::try_from((of * 1000 + all / 2).checked_div(all).unwrap_or(0)).unwrap_or(1000)
}

/// From thousandths of GPU-milliseconds.
fn gpu_seconds(v: u128) -> u64 {
    u64::try_from(v / 1_000_000).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::part;

    #[test]
    fn parts_are_rounded_and_not_cut() {
        let parts = [(2, 12), (1, 3), (0, 8), (8, 8), (1, 4000), (3, 0)];
        assert_eq!(parts.map(|(of, all)| part(of, all)), [167, 333, 0, 1000, 0, 0]);
    }
}
