//! Fair share over the accounts that wait.

use crate::state::State;
use muster_model::names::{Label, ProjectName};
use muster_model::units::Time;
use muster_scheduler::Work;
use muster_scheduler::fairshare::{ShareNode, ranks};
use muster_scheduler::history::RuntimeEstimate;
use std::collections::BTreeMap;

impl State {
    /// Each waiting account's place in fair share, by its number in the queue.
    pub(crate) fn ranks(&self, now: Time) -> Vec<u32> {
        let accounts: Vec<(ProjectName, String, usize)> = self
            .index
            .cluster
            .queue
            .accounts()
            .map(|((p, u), i)| (p.clone(), u.to_string(), i))
            .collect();
        let count = accounts.len();
        if count < 2 || !self.policy.fair_share.enabled {
            return Vec::new();
        }
        let roots = self.share_tree(now, &accounts);
        ranks(roots, count)
    }

    /// Quotas, then projects, then users, with what each has had. Those who hold something or
    /// have had something count, whether they wait or not.
    fn share_tree(&self, now: Time, accounts: &[(ProjectName, String, usize)]) -> Vec<ShareNode> {
        let half = self.policy.fair_share.half_life;
        let number: BTreeMap<(&ProjectName, &str), usize> =
            accounts.iter().map(|(p, u, i)| ((p, u.as_str()), *i)).collect();
        let mut users: BTreeMap<&ProjectName, BTreeMap<&str, u128>> = BTreeMap::new();
        for (p, u, _) in accounts {
            users.entry(p).or_default().insert(u, 0);
        }
        for ((p, u), usage) in &self.usage {
            users.entry(p).or_default().insert(u, usage.at(now, half));
        }
        let mut projects: BTreeMap<&ProjectName, ShareNode> = users
            .into_iter()
            .map(|(p, users)| {
                let children: Vec<ShareNode> = users
                    .into_iter()
                    .map(|(u, usage)| ShareNode {
                        shares: 1,
                        usage,
                        children: Vec::new(),
                        account: number.get(&(p, u)).copied(),
                    })
                    .collect();
                (p, parent(1, children))
            })
            .collect();
        let mut roots: Vec<ShareNode> = self
            .quotas
            .tree
            .iter()
            .filter(|q| q.parent.is_none())
            .map(|q| self.quota_node(&q.name, &mut projects, 0))
            .collect();
        roots.extend(projects.into_values());
        roots
    }

    fn quota_node(
        &self,
        name: &Label,
        projects: &mut BTreeMap<&ProjectName, ShareNode>,
        depth: usize,
    ) -> ShareNode {
        let mut children = Vec::new();
        let mut shares = 1;
        if depth < 64 {
            for q in &self.quotas.tree {
                if q.name == *name {
                    shares = q.shares;
                    children.extend(q.projects.iter().filter_map(|p| projects.remove(p)));
                }
                if q.parent.as_ref() == Some(name) {
                    children.push(self.quota_node(&q.name, projects, depth + 1));
                }
            }
        }
        parent(shares, children)
    }

    /// What is believed of a job's run time.
    pub(crate) fn runtime_estimate(&self, w: &Work) -> RuntimeEstimate {
        let user = (w.project.clone(), w.user.to_string());
        self.history.runtime_estimate(&user, w.width(), w.limit_ms())
    }
}

fn parent(shares: u32, children: Vec<ShareNode>) -> ShareNode {
    let usage = children.iter().map(|c| c.usage).sum();
    ShareNode { shares, usage, children, account: None }
}
