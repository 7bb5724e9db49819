//! Readings of the state for people: entitlement against what was received, and moves that
//! would make room.

use crate::state::State;
use muster_model::ids::JobId;
use muster_model::names::{Label, NodeName, ProjectName};
use muster_model::quota::{AccountRow, LimitRow, Quota, QuotaReport, QuotaRow};
use muster_model::units::Time;
use muster_scheduler::quota::KindUsage;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

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
        let used = Used { had, held, rank };
        QuotaReport { quotas: self.quota_rows(&used), accounts: self.account_rows(&used) }
    }

    fn quota_rows(&self, used: &Used) -> Vec<QuotaRow> {
        let tree = &self.quotas.tree;
        let mut out = Vec::new();
        let mut open: Vec<(&Quota, u32)> =
            tree.iter().rev().filter(|q| q.parent.is_none()).map(|q| (q, 0)).collect();
        while let Some((q, depth)) = open.pop() {
            let siblings = tree.iter().filter(|o| o.parent == q.parent);
            let shares: u64 = siblings.clone().map(|o| u64::from(o.shares)).sum();
            let all: u128 = siblings.map(|o| used.had_by(&self.below(&o.name))).sum();
            let mine = self.below(&q.name);
            let usage = used.had_by(&mine);
            let ledger = self.index.cluster.ledger.usage(&q.name);
            let limits = q.gpus.iter().map(|l| {
                let same = |u: &&KindUsage| u.kind.sku == l.sku && u.kind.tier == l.tier;
                let now = ledger.iter().find(same);
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
            out.push(QuotaRow {
                name: q.name.to_string(),
                parent: q.parent.as_ref().map(ToString::to_string),
                depth,
                shares: q.shares,
                order: q.order,
                projects: q.projects.iter().map(ToString::to_string).collect(),
                limits: limits.collect(),
                used_milli: Some(used.held_by(&mine)),
                entitled_milli: part(u128::from(q.shares), u128::from(shares)),
                received_milli: Some(part(usage, all)),
                usage_gpu_s: Some(gpu_seconds(usage)),
            });
            let below = tree.iter().rev().filter(|o| o.parent.as_ref() == Some(&q.name));
            open.extend(below.map(|o| (o, depth + 1)));
        }
        out
    }

    /// Projects of a node of the tree and of all below it.
    fn below(&self, name: &Label) -> BTreeSet<ProjectName> {
        let mut out = BTreeSet::new();
        let mut open = vec![name.clone()];
        while let Some(n) = open.pop() {
            for q in &self.quotas.tree {
                if q.name == n {
                    out.extend(q.projects.iter().cloned());
                }
                if q.parent.as_ref() == Some(&n) {
                    open.push(q.name.clone());
                }
            }
        }
        out
    }

    fn account_rows(&self, used: &Used) -> Vec<AccountRow> {
        let mut out = Vec::new();
        let projects: BTreeSet<&ProjectName> = used.had.keys().map(|(p, _)| p).collect();
        let queue = &self.index.cluster.queue;
        let of = |p: &ProjectName| -> Option<String> {
            self.quotas.tree.iter().find(|q| q.projects.contains(p)).map(|q| q.name.to_string())
        };
        for p in &projects {
            let one: BTreeSet<ProjectName> = [(*p).clone()].into();
            let quota = of(p);
            let siblings: Vec<&&ProjectName> = projects.iter().filter(|o| of(o) == quota).collect();
            let all: u128 = siblings.iter().map(|o| used.had_by(&[(**o).clone()].into())).sum();
            let usage = used.had_by(&one);
            let users: Vec<&String> =
                used.had.keys().filter(|(q, _)| q == *p).map(|(_, u)| u).collect();
            let waiting: usize = users.iter().map(|u| queue.waiting(p, u)).sum();
            out.push(AccountRow {
                project: (*p).to_string(),
                user: None,
                quota: quota.clone(),
                used_milli: used.held_by(&one),
                running: used.jobs_of(|(q, _)| q == *p),
                waiting: u32::try_from(waiting).unwrap_or(u32::MAX),
                entitled_milli: part(1, siblings.len() as u128),
                received_milli: Some(part(usage, all)),
                usage_gpu_s: gpu_seconds(usage),
                rank: users
                    .iter()
                    .filter_map(|u| used.rank.get(&((*p).clone(), (*u).clone())))
                    .min()
                    .copied()
                    .unwrap_or(1),
            });
            for u in &users {
                let key = ((*p).clone(), (*u).clone());
                let mine = used.had.get(&key).copied().unwrap_or(0);
                out.push(AccountRow {
                    project: (*p).to_string(),
                    user: Some((*u).clone()),
                    quota: quota.clone(),
                    used_milli: used.held.get(&key).map_or(0, |h| h.1),
                    running: used.held.get(&key).map_or(0, |h| h.0),
                    waiting: u32::try_from(queue.waiting(p, u)).unwrap_or(u32::MAX),
                    entitled_milli: part(1, users.len() as u128),
                    received_milli: Some(part(mine, usage)),
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

/// What accounts have had and hold.
struct Used {
    had: BTreeMap<(ProjectName, String), u128>,
    held: BTreeMap<(ProjectName, String), (u32, u64)>,
    rank: BTreeMap<(ProjectName, String), u32>,
}

impl Used {
    fn had_by(&self, projects: &BTreeSet<ProjectName>) -> u128 {
        self.had.iter().filter(|((p, _), _)| projects.contains(p)).map(|(_, u)| u).sum()
    }
    fn held_by(&self, projects: &BTreeSet<ProjectName>) -> u64 {
        self.held.iter().filter(|((p, _), _)| projects.contains(p)).map(|(_, h)| h.1).sum()
    }
    fn jobs_of(&self, test: impl Fn(&(ProjectName, String)) -> bool) -> u32 {
        self.held.iter().filter(|(k, _)| test(k)).map(|(_, h)| h.0).sum()
    }
}

/// Of all, in thousandths.
fn part(of: u128, all: u128) -> u32 {
    u32::try_from((of * 1000).checked_div(all).unwrap_or(0)).unwrap_or(1000)
}

/// From thousandths of GPU-milliseconds.
fn gpu_seconds(v: u128) -> u64 {
    u64::try_from(v / 1_000_000).unwrap_or(u64::MAX)
}
