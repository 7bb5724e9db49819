//! What is done with ranks, by what this machine lets the agent do. Ranks of an agent that is root
//! are never root themselves, unless an operator asked for it.

use super::account::{self, Accounts};
use super::{Isolation, probe};
use muster_model::node::{ACCOUNTS_ONLY, REFUSES_RANKS};

/// What this process can do to separate ranks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Abilities {
    /// Whether it is root.
    pub root: bool,
    /// Whether the kernel makes namespaces for it, or what is missing.
    pub namespaces: Result<(), String>,
    /// Whether it can start programs as other users, or what is missing.
    pub accounts: Result<(), String>,
}

impl Abilities {
    /// Those of this process, with the users that its ranks would have.
    #[must_use]
    pub fn of_this_process(accounts: &Accounts) -> Abilities {
        Abilities {
            root: rustix::process::geteuid().is_root(),
            namespaces: probe::namespaces(),
            accounts: account::possible().and_then(|()| accounts.mapped()),
        }
    }
}

/// What separates the ranks of a slot from the node and from each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Separation {
    /// Namespaces, and the account of their project.
    Full,
    /// The account alone, and why.
    Account(String),
    /// Nothing: they are whoever the agent is. And why, unless an operator asked for it.
    Agent(Option<String>),
    /// They are not started, and why.
    Refused(String),
}

/// What an operator can do where ranks are refused.
const INSTEAD: &str = "give the agent what it lacks, run it as another user than root, or start it \
                       with `--isolation off`, which makes every rank root";

impl Isolation {
    /// What is done with plain ranks.
    #[must_use]
    pub fn separation(self, can: &Abilities) -> Separation {
        match (self, &can.namespaces, &can.accounts) {
            (Isolation::Off, ..) => Separation::Agent(None),
            (_, Ok(()), Ok(())) => Separation::Full,
            (Isolation::Required, Err(why), _) | (Isolation::Required, _, Err(why)) => {
                Separation::Refused(why.clone())
            }
            (Isolation::Best, Err(why), Ok(())) => Separation::Account(why.clone()),
            (Isolation::Best, _, Err(why)) if can.root => {
                Separation::Refused(format!("{why}: {INSTEAD}"))
            }
            (Isolation::Best, Err(why), _) | (_, _, Err(why)) => {
                Separation::Agent(Some(why.clone()))
            }
        }
    }

    /// Whether ranks in containers have the account of their project; the runtime makes its own
    /// namespaces.
    ///
    /// # Errors
    /// Why they are not started.
    pub fn contained(self, can: &Abilities) -> Result<bool, String> {
        match (self, &can.accounts) {
            (Isolation::Off, _) => Ok(false),
            (_, Ok(())) => Ok(true),
            (Isolation::Required, Err(why)) => Err(why.clone()),
            (Isolation::Best, Err(why)) if can.root => Err(format!("{why}: {INSTEAD}")),
            (Isolation::Best, Err(_)) => Ok(false),
        }
    }
}

/// Most of a reason that a node's inventory repeats.
const MOST: usize = 200;

impl Separation {
    /// As the inventory says it, after how ranks are fenced in by control groups.
    #[must_use]
    pub fn in_inventory(&self, groups: &str) -> String {
        match self {
            Separation::Full | Separation::Agent(_) => groups.to_owned(),
            Separation::Account(_) => format!("{groups}, {ACCOUNTS_ONLY}"),
            Separation::Refused(why) => {
                let why: String = why.chars().take(MOST).collect();
                format!("{REFUSES_RANKS}{why}")
            }
        }
    }

    /// What an operator should know of it; nothing where all is as it should be.
    #[must_use]
    pub fn warning(&self) -> Option<String> {
        match self {
            Separation::Full | Separation::Agent(None) => None,
            Separation::Account(why) => Some(format!(
                "{why}; ranks run as their project's user, but see the node's processes, devices, \
                 /tmp and /dev/shm, and have no volumes"
            )),
            Separation::Agent(Some(why)) => Some(why.clone()),
            Separation::Refused(why) => Some(format!("no rank starts here: {why}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn can(root: bool, namespaces: bool, accounts: bool) -> Abilities {
        let or = |able: bool, why: &str| if able { Ok(()) } else { Err(why.to_owned()) };
        Abilities {
            root,
            namespaces: or(namespaces, "no namespaces"),
            accounts: or(accounts, "no accounts"),
        }
    }

    fn describe(s: &Separation) -> &'static str {
        match s {
            Separation::Full => "full",
            Separation::Account(_) => "account",
            Separation::Agent(_) => "agent",
            Separation::Refused(_) => "refused",
        }
    }

    #[test]
    fn ranks_of_root_are_root_only_where_an_operator_asked_for_it() {
        for (option, root, namespaces, accounts, plain, contained) in [
            (Isolation::Best, true, true, true, "full", Some(true)),
            (Isolation::Best, true, false, true, "account", Some(true)),
            (Isolation::Best, true, true, false, "refused", None),
            (Isolation::Best, true, false, false, "refused", None),
            (Isolation::Best, false, false, false, "agent", Some(false)),
            (Isolation::Best, false, true, false, "agent", Some(false)),
            (Isolation::Required, true, true, true, "full", Some(true)),
            (Isolation::Required, true, false, true, "refused", Some(true)),
            (Isolation::Required, true, true, false, "refused", None),
            (Isolation::Required, false, false, false, "refused", None),
            (Isolation::Off, true, true, true, "agent", Some(false)),
            (Isolation::Off, true, false, false, "agent", Some(false)),
            (Isolation::Off, false, false, false, "agent", Some(false)),
        ] {
            let can = can(root, namespaces, accounts);
            let case = format!("{option:?} {can:?}");
            let plainly = option.separation(&can);
            assert_eq!(describe(&plainly), plain, "{case}");
            let inside = option.contained(&can);
            assert_eq!(inside.clone().ok(), contained, "{case}");
            // As the rule says, whatever the table above was changed to.
            if root && option != Isolation::Off {
                assert_ne!(describe(&plainly), "agent", "{case}");
                assert_ne!(inside, Ok(false), "{case}");
            }
        }
    }

    #[test]
    fn a_node_says_what_it_does_not_separate_and_why_it_refuses() {
        let option = Isolation::Best;
        let full = option.separation(&can(true, true, true));
        assert_eq!((full.in_inventory("cgroup2"), full.warning()), ("cgroup2".into(), None));
        let account = option.separation(&can(true, false, true));
        assert_eq!(account.in_inventory("hybrid"), "hybrid, accounts only");
        assert!(account.warning().unwrap().starts_with("no namespaces; "));
        let refused = option.separation(&can(true, true, false));
        let said = refused.in_inventory("cgroup2");
        assert!(said.starts_with("refuses ranks: no accounts: ") && said.len() <= 256, "{said}");
        assert!(refused.warning().unwrap().contains("--isolation off"));
        let plain = option.separation(&can(false, false, false));
        assert_eq!(plain.in_inventory("process-group"), "process-group");
        assert_eq!(plain.warning().unwrap(), "no namespaces");
    }
}
