//! Fair share over the accounts that wait.

use crate::state::State;
use muster_model::names::{Label, ProjectName};
use muster_model::units::Time;
use muster_scheduler::Work;
use muster_scheduler::fairshare::{ShareNode, ranks};
use muster_scheduler::history::RuntimeEstimate;

impl State {
    /// Each waiting account's place in fair share, by its number in the queue.
    pub(crate) fn ranks(&self, now: Time) -> Vec<u32> {
        let count = self.index.cluster.queue.accounts().len();
        if count < 2 || !self.policy.fair_share.enabled {
            return Vec::new();
        }
        ranks(self.share_tree(now), count)
    }

    /// Quotas, then projects, then users, with what each has had. Those who hold something or
    /// have had something count, whether they wait or not.
    fn share_tree(&self, now: Time) -> Vec<ShareNode> {
        let half = self.policy.fair_share.half_life;
        // Both are in the order of projects, then users: they are walked side by side.
        let waiting = self.index.cluster.queue.accounts();
        let mut waiting = waiting.map(|((p, u), i)| ((p, &**u), i)).peekable();
        let mut had = self.usage.iter().map(|((p, u), had)| ((p, u.as_str()), had)).peekable();
        let mut users: Vec<(&ProjectName, Vec<ShareNode>)> = Vec::new();
        loop {
            let next = [waiting.peek().map(|(who, _)| *who), had.peek().map(|(who, _)| *who)];
            let Some(next) = next.into_iter().flatten().min() else { break };
            let account = waiting.next_if(|(who, _)| *who == next).map(|(_, i)| i);
            let usage = had.next_if(|(who, _)| *who == next).map_or(0, |(_, u)| u.at(now, half));
            let user = ShareNode { shares: 1, usage, children: Vec::new(), account };
            match users.last_mut() {
                Some((p, of)) if *p == next.0 => of.push(user),
                _ => users.push((next.0, vec![user])),
            }
        }
        let mut projects: Vec<(&ProjectName, Option<ShareNode>)> =
            users.into_iter().map(|(p, children)| (p, Some(parent(1, children)))).collect();
        let mut roots: Vec<ShareNode> = self
            .quotas
            .tree
            .iter()
            .filter(|q| q.parent.is_none())
            .map(|q| self.quota_node(&q.name, &mut projects, 0))
            .collect();
        roots.extend(projects.into_iter().filter_map(|(_, project)| project));
        roots
    }

    fn quota_node(
        &self,
        name: &Label,
        projects: &mut [(&ProjectName, Option<ShareNode>)],
        depth: usize,
    ) -> ShareNode {
        let mut children = Vec::new();
        let mut shares = 1;
        if depth < 64 {
            for q in &self.quotas.tree {
                if q.name == *name {
                    shares = q.shares;
                    children.extend(q.projects.iter().filter_map(|p| {
                        let i = projects.binary_search_by(|of| of.0.cmp(p)).ok()?;
                        projects[i].1.take()
                    }));
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

#[cfg(test)]
mod tests {
    use super::*;
    use muster_model::ids::JobId;
    use muster_model::policy::SitePolicy;
    use muster_model::spec::{Priority, Tier};
    use muster_model::units::Span;
    use muster_scheduler::Demand;
    use std::collections::BTreeMap;
    use std::sync::Arc;

    fn who(n: u64) -> (ProjectName, String) {
        (format!("p{}", n % 5).parse().unwrap(), format!("u{}", n * 7 % 11))
    }

    fn waits(job: u64, (project, user): (ProjectName, String)) -> Arc<Work> {
        let demand = Demand {
            groups: Arc::default(),
            required: None,
            preferred: None,
            segment: None,
            spread: None,
            simulated: false,
        };
        Arc::new(Work {
            job: JobId(job),
            demand: Arc::new(demand),
            priority: Priority::Normal,
            tier: Tier::OnDemand,
            project,
            user: user.into(),
            since: Time(0),
            limit: None,
            checkpoints: false,
            elastic: None,
        })
    }

    /// The same places, with each user looked up.
    fn looked_up(s: &State, now: Time) -> Vec<u32> {
        let numbers: BTreeMap<(ProjectName, String), usize> = s
            .index
            .cluster
            .queue
            .accounts()
            .map(|((p, u), i)| ((p.clone(), u.to_string()), i))
            .collect();
        let half = s.policy.fair_share.half_life;
        let mut users: BTreeMap<(ProjectName, String), u128> =
            numbers.keys().map(|k| (k.clone(), 0)).collect();
        users.extend(s.usage.iter().map(|(k, u)| (k.clone(), u.at(now, half))));
        let mut projects: BTreeMap<ProjectName, Vec<ShareNode>> = BTreeMap::new();
        for (k, usage) in users {
            let account = numbers.get(&k).copied();
            let user = ShareNode { shares: 1, usage, children: Vec::new(), account };
            projects.entry(k.0).or_default().push(user);
        }
        let roots: Vec<ShareNode> = projects.into_values().map(|of| parent(1, of)).collect();
        ranks(roots, numbers.len())
    }

    #[test]
    fn those_who_wait_and_those_who_had_something_are_ranked_together() {
        let mut policy = SitePolicy::default();
        policy.fair_share.enabled = true;
        let half = policy.fair_share.half_life;
        let mut s = State { policy: Arc::new(policy), ..State::default() };
        for n in 0..40u64 {
            // Some only wait, some only had something, some both.
            if !n.is_multiple_of(3) {
                s.index.cluster.queue.insert(waits(n, who(n)));
            }
            if n.is_multiple_of(2) {
                let at = Time(i64::try_from(n).unwrap() * 1000);
                s.usage.entry(who(n)).or_default().change(at, half, n, true);
            }
            let now = Time(50_000) + Span::hours(n);
            let count = s.index.cluster.queue.accounts().len();
            let want = if count < 2 { Vec::new() } else { looked_up(&s, now) };
            assert_eq!(s.ranks(now), want, "after {n}");
        }
        let mut places = s.ranks(Time(50_000));
        places.sort_unstable();
        places.dedup();
        assert!(places.len() > 10, "{places:?}");
    }
}
