//! Readings of the state for people: entitlement against what was received, and moves that
//! would make room.

use crate::state::State;
use muster_model::ids::JobId;
use muster_model::names::{Label, NodeName, ProjectName};
use muster_model::quota::{AccountRow, LimitRow, Quota, QuotaReport, QuotaRow};
use muster_model::units::Time;

/// A move that would let a waiting gang start.
#[derive(Debug, Clone, PartialEq, Eq)]
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
#[derive(Debug, Clone, PartialEq, Eq)]
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
        let used = self.used(now);
        QuotaReport { quotas: self.quota_rows(&used), accounts: self.account_rows(&used) }
    }

    /// What each project has had and holds, in order of their names. Each account is looked at once:
    /// there may be thousands, and whoever asks for the report has the state locked.
    fn used(&self, now: Time) -> Vec<ProjectUse<'_>> {
        let half = self.policy.fair_share.half_life;
        let cluster = &self.index.cluster;
        let ranks = self.ranks(now);
        let mut all: Vec<(&ProjectName, &str, AccountUse)> = Vec::new();
        for ((p, u), of) in &self.usage {
            all.push((
                p,
                u.as_str(),
                AccountUse { had: of.at(now, half), ..AccountUse::default() },
            ));
        }
        for r in cluster.running.values() {
            let held = AccountUse { held: r.milli(), jobs: 1, ..AccountUse::default() };
            all.push((&r.work.project, &*r.work.user, held));
        }
        for ((p, u), i) in cluster.queue.accounts() {
            let rank = Some(ranks.get(i).copied().unwrap_or(0) + 1);
            all.push((p, &**u, AccountUse { rank, ..AccountUse::default() }));
        }
        all.sort_by_key(|(p, u, _)| (*p, *u));
        let mut out: Vec<ProjectUse<'_>> = Vec::new();
        for of in all.chunk_by(|a, b| a.0 == b.0) {
            let users = of.chunk_by(|a, b| a.1 == b.1);
            let users = users.map(|of| (of[0].1, AccountUse::of(of.iter().map(|a| a.2)))).collect();
            out.push(ProjectUse {
                name: of[0].0,
                all: AccountUse::of(of.iter().map(|a| a.2)),
                users,
            });
        }
        out
    }

    fn quota_rows(&self, used: &[ProjectUse<'_>]) -> Vec<QuotaRow> {
        let tree = &self.quotas.tree;
        let mut by_parent: Vec<usize> = (0..tree.len()).collect();
        by_parent.sort_by_key(|i| &tree[*i].parent);
        let below = |parent: Option<&Label>| below_of(tree, &by_parent, parent);
        // From the roots down, each before those below it.
        let mut order: Vec<(usize, u32)> = Vec::new();
        let mut open: Vec<(usize, u32)> = below(None).iter().rev().map(|i| (*i, 0)).collect();
        while let Some((i, depth)) = open.pop() {
            order.push((i, depth));
            let next = below(Some(&tree[i].name)).iter().rev();
            open.extend(next.map(|c| (*c, depth + 1)));
        }
        // From the leaves up: what the projects of a node and of all below it had, and hold.
        let mut totals = vec![(0u128, 0u64); tree.len()];
        for (i, _) in order.iter().rev() {
            let q = &tree[*i];
            let own = q.projects.iter().filter_map(|p| {
                let at = used.binary_search_by(|of| of.name.cmp(p)).ok()?;
                Some(used[at].all)
            });
            let own = own.fold((0u128, 0u64), |(had, held), p| (had + p.had, held + p.held));
            let under = below(Some(&q.name)).iter().map(|c| totals[*c]);
            let total = under.fold(own, |(had, held), (h, k)| (had + h, held + k));
            totals[*i] = total;
        }
        // To each, what those have that hang on the same node together.
        let mut sums = vec![(0u64, 0u128); tree.len()];
        for all in by_parent.chunk_by(|a, b| tree[*a].parent == tree[*b].parent) {
            let each = all.iter().map(|i| (u64::from(tree[*i].shares), totals[*i].0));
            let sum = each.fold((0u64, 0u128), |(shares, had), (s, h)| (shares + s, had + h));
            for i in all {
                sums[*i] = sum;
            }
        }
        let row = |(i, depth): (usize, u32)| {
            let q = &tree[i];
            let (shares, all) = sums[i];
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

    fn account_rows(&self, used: &[ProjectUse<'_>]) -> Vec<AccountRow> {
        let queue = &self.index.cluster.queue;
        let mut quota_of: Vec<(&ProjectName, &Label)> = Vec::new();
        for q in &self.quotas.tree {
            quota_of.extend(q.projects.iter().map(|p| (p, &q.name)));
        }
        // The first that names a project counts.
        quota_of.sort_by_key(|(p, _)| *p);
        quota_of.dedup_by_key(|(p, _)| *p);
        let mut quotas: Vec<Option<&Label>> = Vec::new();
        let mut together: Vec<(Option<&Label>, u128)> = Vec::new();
        for of in used {
            let at = quota_of.binary_search_by(|(p, _)| p.cmp(&of.name)).ok();
            let quota = at.map(|at| quota_of[at].1);
            quotas.push(quota);
            together.push((quota, of.all.had));
        }
        // Of the projects that hang on one node, or on none: how many, and what they had.
        together.sort_by_key(|(quota, _)| *quota);
        let together: Vec<(Option<&Label>, u128, u128)> = together
            .chunk_by(|a, b| a.0 == b.0)
            .map(|of| (of[0].0, of.len() as u128, of.iter().map(|a| a.1).sum::<u128>()))
            .collect();
        let mut out = Vec::new();
        for (of, quota) in used.iter().zip(quotas) {
            let p = of.name;
            let at = together.binary_search_by(|sum| sum.0.cmp(&quota)).ok();
            let (siblings, all) = at.map_or((0, 0), |at| (together[at].1, together[at].2));
            let quota = quota.map(ToString::to_string);
            let waiting: usize = of.users.iter().map(|(u, _)| queue.waiting(p, u)).sum();
            out.push(AccountRow {
                project: p.to_string(),
                user: None,
                quota: quota.clone(),
                used_milli: of.all.held,
                running: of.all.jobs,
                waiting: u32::try_from(waiting).unwrap_or(u32::MAX),
                entitled_milli: part(1, siblings),
                received_milli: Some(part(of.all.had, all)),
                usage_gpu_s: gpu_seconds(of.all.had),
                rank: of.all.rank.unwrap_or(1),
            });
            for (user, mine) in &of.users {
                out.push(AccountRow {
                    project: p.to_string(),
                    user: Some((*user).to_owned()),
                    quota: quota.clone(),
                    used_milli: mine.held,
                    running: mine.jobs,
                    waiting: u32::try_from(queue.waiting(p, user)).unwrap_or(u32::MAX),
                    entitled_milli: part(1, of.users.len() as u128),
                    received_milli: Some(part(mine.had, of.all.had)),
                    usage_gpu_s: gpu_seconds(mine.had),
                    rank: mine.rank.unwrap_or(1),
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

/// Which nodes of the tree hang on one of them, or on none: the roots.
fn below_of<'a>(tree: &[Quota], by_parent: &'a [usize], parent: Option<&Label>) -> &'a [usize] {
    let from = by_parent.partition_point(|i| tree[*i].parent.as_ref() < parent);
    let to = by_parent.partition_point(|i| tree[*i].parent.as_ref() <= parent);
    &by_parent[from..to]
}

/// What an account has had and holds.
#[derive(Clone, Copy, Default)]
struct AccountUse {
    had: u128,
    held: u64,
    jobs: u32,
    /// Its place among those that wait.
    rank: Option<u32>,
}

impl AccountUse {
    /// Of several together.
    fn of(all: impl Iterator<Item = AccountUse>) -> AccountUse {
        all.fold(AccountUse::default(), |a, b| AccountUse {
            had: a.had + b.had,
            held: a.held + b.held,
            jobs: a.jobs + b.jobs,
            rank: a.rank.into_iter().chain(b.rank).min(),
        })
    }
}

/// The same of a project.
struct ProjectUse<'a> {
    name: &'a ProjectName,
    all: AccountUse,
    /// And of its users, in order of their names.
    users: Vec<(&'a str, AccountUse)>,
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
