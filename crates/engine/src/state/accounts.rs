//! Which account the ranks of each project run as: a number that no two projects share.

use super::State;
use muster_model::names::ProjectName;
use muster_model::tenant::{ACCOUNTS, Project, first_choice_of_account};
use std::collections::{BTreeMap, BTreeSet};

/// Follows from the projects in the order in which they were made, and from nothing else: a
/// project that comes later never moves one that is there. Projects are never removed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Accounts {
    of: BTreeMap<ProjectName, u32>,
    taken: BTreeSet<u32>,
}

impl Accounts {
    pub(crate) fn build<'a>(projects: impl Iterator<Item = &'a Project>) -> Accounts {
        let mut oldest_first: Vec<&Project> = projects.collect();
        oldest_first.sort_by_key(|p| p.version);
        let mut accounts = Accounts::default();
        for p in oldest_first {
            accounts.add(&p.name);
        }
        accounts
    }

    /// Takes the account that the name chooses, or the next one that is free.
    pub(crate) fn add(&mut self, project: &ProjectName) {
        if self.of.contains_key(project) {
            return;
        }
        let first = first_choice_of_account(project);
        let mut all = (first..ACCOUNTS).chain(0..first);
        // With more projects than there are accounts the last ones have none of their own.
        if let Some(free) = all.find(|a| !self.taken.contains(a)) {
            self.taken.insert(free);
            self.of.insert(project.clone(), free);
        }
    }
}

impl State {
    /// The account of a project, below [`ACCOUNTS`]: no other project has it.
    #[must_use]
    pub fn account_of(&self, project: &ProjectName) -> Option<u32> {
        self.index.accounts.of.get(project).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_model::ids::Seq;

    fn project(name: &str, version: u64) -> Project {
        let name = name.parse().unwrap();
        Project { name, description: String::new(), version: Seq(version) }
    }

    /// Two names that choose the same account.
    fn twins() -> (String, String) {
        let mut seen: BTreeMap<u32, String> = BTreeMap::new();
        for i in 0..100_000 {
            let name = format!("team-{i}");
            let account = first_choice_of_account(&name.parse().unwrap());
            if let Some(other) = seen.insert(account, name.clone()) {
                return (other, name);
            }
        }
        panic!("more names than accounts, and none share one");
    }

    #[test]
    fn two_projects_never_share_an_account_and_keep_theirs() {
        let (a, b) = twins();
        let (a, b) = (project(&a, 7), project(&b, 9));
        let both = Accounts::build([&b, &a].into_iter());
        let first = first_choice_of_account(&a.name);
        assert_eq!(both.of[&a.name], first, "who came first has what its name chooses");
        assert_eq!(both.of[&b.name], (first + 1) % ACCOUNTS);
        let mut one_by_one = Accounts::default();
        one_by_one.add(&a.name);
        one_by_one.add(&b.name);
        one_by_one.add(&a.name);
        assert_eq!(one_by_one.of, both.of, "as after a snapshot");
    }
}
