//! Who the ranks of a project are on this node: a user of their own, and nobody else's.

use super::has_power;
use crate::env::Env;
use muster_link::messages::RunDetail;
use muster_model::names::ProjectName;
use muster_model::tenant::{ACCOUNTS, first_choice_of_account};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// A user as the kernel knows it. Never root.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Account {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// Groups besides its own: those of the account, and those of the slot's devices.
    pub(crate) groups: Vec<u32>,
    /// What it is called.
    pub(crate) name: String,
    pub(crate) home: String,
    /// Whether the node's own list of users lacks it.
    pub(crate) made_up: bool,
}

impl Account {
    /// Who it is, for a message.
    pub(crate) fn describe_account(&self) -> String {
        format!("user {} ({})", self.uid, self.name)
    }

    /// Joins the groups that open these devices to their members alone. Never root's.
    pub(crate) fn join_groups_of(&mut self, devices: &[PathBuf]) {
        for meta in devices.iter().filter_map(|d| fs::metadata(d).ok()) {
            let (group, others) = (meta.mode() & 0o060, meta.mode() & 0o006);
            if meta.gid() != 0 && group != 0 && others == 0 && !self.groups.contains(&meta.gid()) {
                self.groups.push(meta.gid());
            }
        }
    }

    /// What a rank that runs as this user must know of itself, unless the job says it. Of the
    /// agent's path it gets what others may enter: programs would take the rest for a refusal.
    pub(crate) fn env(&self, said: &Env, base: &Env) -> Env {
        let path = base.get("PATH").map_or("", String::as_str);
        let path: Vec<&str> = path.split(':').filter(|d| others_enter(Path::new(d))).collect();
        let all = [
            ("HOME", self.home.clone()),
            ("USER", self.name.clone()),
            ("LOGNAME", self.name.clone()),
            ("PATH", path.join(":")),
        ];
        let unsaid = all.into_iter().filter(|(name, _)| !said.contains_key(*name));
        unsaid.map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

fn others_enter(dir: &Path) -> bool {
    let closed = |d: &Path| fs::metadata(d).is_ok_and(|m| m.mode() & 1 == 0);
    dir.is_absolute() && !dir.ancestors().any(closed)
}

/// The numbers that projects are given on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UidRange {
    first: u32,
}

impl Default for UidRange {
    fn default() -> UidRange {
        UidRange { first: 200_000 }
    }
}

/// Below this are the users of the system and of people.
const LOWEST: u32 = 1000;

impl FromStr for UidRange {
    type Err = String;

    fn from_str(text: &str) -> Result<UidRange, String> {
        let bad = || format!("`{text}` is not a range of user ids, such as `200000-265535`");
        let (first, last) = text.split_once('-').ok_or_else(bad)?;
        let first: u32 = first.trim().parse().map_err(|_| bad())?;
        let last: u32 = last.trim().parse().map_err(|_| bad())?;
        if first < LOWEST {
            return Err(format!("user ids below {LOWEST} belong to the system: begin above"));
        }
        // The very last one means nobody to the kernel.
        if last == u32::MAX || last < first || last - first < ACCOUNTS - 1 {
            return Err(format!(
                "`{text}` has too few user ids: projects need {ACCOUNTS}, such as `{first}-{}`",
                u64::from(first) + u64::from(ACCOUNTS) - 1
            ));
        }
        Ok(UidRange { first })
    }
}

/// An account that a site's users or projects really have.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Real {
    uid: u32,
    gid: u32,
    groups: Vec<u32>,
    home: Option<String>,
}

/// Which user ranks run as.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Accounts {
    range: UidRange,
    projects: BTreeMap<String, Real>,
    users: BTreeMap<String, Real>,
}

impl Accounts {
    /// With user ids of this range.
    #[must_use]
    pub fn in_range(range: UidRange) -> Accounts {
        Accounts { range, ..Accounts::default() }
    }

    /// Reads who has an account of his own, a line for each:
    /// `project NAME UID:GID[:GROUP,...] [HOME]` or `user NAME UID:GID[:GROUP,...] [HOME]`.
    /// Whoever submitted a job goes before its project.
    ///
    /// # Errors
    /// Which line is wrong, and how it should be.
    pub fn with_file(mut self, text: &str) -> Result<Accounts, String> {
        for (i, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            let bad = |why: &str| {
                format!("line {}: {why}; write `project NAME UID:GID[:GROUP,...] [HOME]`", i + 1)
            };
            let words: Vec<&str> = line.split_whitespace().collect();
            let (kind, name, ids, home) = match words[..] {
                [kind, name, ids] => (kind, name, ids, None),
                [kind, name, ids, home] => (kind, name, ids, Some(home.to_owned())),
                _ => return Err(bad("three or four words are expected")),
            };
            let real = real(ids, home).map_err(|e| bad(&e))?;
            let known = match kind {
                "project" => {
                    name.parse::<ProjectName>().map_err(|e| bad(&e.to_string()))?;
                    self.projects.insert(name.to_owned(), real)
                }
                "user" => self.users.insert(name.to_owned(), real),
                other => return Err(bad(&format!("`{other}` is neither `project` nor `user`"))),
            };
            if known.is_some() {
                return Err(bad(&format!("{kind} `{name}` has an account already")));
            }
        }
        Ok(self)
    }

    /// Whether the kernel knows the users of the range here: in a user namespace only some are.
    pub(crate) fn mapped(&self) -> Result<(), String> {
        let (first, last) = (self.range.first, self.range.first + (ACCOUNTS - 1));
        for file in ["/proc/self/uid_map", "/proc/self/gid_map"] {
            // A kernel without user namespaces has no such files, and every user.
            if fs::read_to_string(file).is_ok_and(|map| !covers(&map, first, last)) {
                return Err(format!(
                    "the ids {first}-{last} of the ranks' users are not in {file}: map them into \
                     this user namespace, or choose others with `--uid-range`"
                ));
            }
        }
        Ok(())
    }

    /// Whose ranks these are.
    pub(crate) fn of(&self, d: &RunDetail) -> Account {
        let project = d.project.as_str();
        let real = self.users.get(&d.user).map(|r| (r, &*d.user));
        if let Some((r, name)) = real.or(self.projects.get(project).map(|r| (r, project))) {
            let (uid, gid, groups) = (r.uid, r.gid, r.groups.clone());
            let home = r.home.clone().unwrap_or_else(|| "/tmp".to_owned());
            return Account { uid, gid, groups, name: name.to_owned(), home, made_up: false };
        }
        let place = d.account.unwrap_or_else(|| first_choice_of_account(&d.project));
        let uid = self.range.first + place % ACCOUNTS;
        let (name, home) = (project.to_owned(), "/tmp".to_owned());
        Account { uid, gid: uid, groups: Vec::new(), name, home, made_up: true }
    }
}

/// Whether every id of a range is in a map as `user_namespaces(7)` describes it.
fn covers(map: &str, first: u32, last: u32) -> bool {
    let mut next = u64::from(first);
    let mut parts: Vec<(u64, u64)> = map
        .lines()
        .filter_map(|line| {
            let mut numbers = line.split_whitespace().map(|n| n.parse::<u64>().ok());
            let (inside, _, length) = (numbers.next()??, numbers.next()??, numbers.next()??);
            Some((inside, inside.saturating_add(length)))
        })
        .collect();
    parts.sort_unstable();
    for (from, end) in parts {
        if from <= next {
            next = next.max(end);
        }
    }
    next > u64::from(last)
}

fn real(ids: &str, home: Option<String>) -> Result<Real, String> {
    let number = |s: &str| match s.parse::<u32>() {
        Ok(0) => Err("no account may be root's".to_owned()),
        Ok(n) if n < u32::MAX => Ok(n),
        _ => Err(format!("`{s}` is not the number of a user or a group")),
    };
    let mut parts = ids.split(':');
    let (Some(uid), Some(gid), more, None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(format!("`{ids}` is not UID:GID"));
    };
    let groups = more.unwrap_or_default().split(',').filter(|g| !g.is_empty()).map(number);
    let groups = groups.collect::<Result<Vec<u32>, String>>()?;
    Ok(Real { uid: number(uid)?, gid: number(gid)?, groups, home })
}

/// What an agent must be able to do to start a program as somebody else, by the numbers of
/// `capabilities(7)`.
const NEEDED: [(u32, &str); 5] =
    [(0, "CAP_CHOWN"), (5, "CAP_KILL"), (6, "CAP_SETGID"), (7, "CAP_SETUID"), (8, "CAP_SETPCAP")];

/// Whether this process can start ranks as other users.
pub(crate) fn possible() -> Result<(), String> {
    if !rustix::process::geteuid().is_root() {
        return Err("ranks run as the user of the agent: run it as root".into());
    }
    match NEEDED.iter().find(|(number, _)| !has_power(*number)) {
        Some((_, name)) => Err(format!("ranks cannot be other users: the agent lacks {name}")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::detail;

    #[test]
    fn a_project_has_the_account_that_the_server_says_or_its_name_chooses() {
        let mut d = detail("");
        let accounts = Accounts::in_range("300000-365535".parse().unwrap());
        d.account = Some(7);
        let a = accounts.of(&d);
        assert_eq!((a.uid, a.gid, &*a.name, a.made_up), (300_007, 300_007, "default", true));
        d.account = None;
        let place = first_choice_of_account(&d.project);
        assert_eq!(accounts.of(&d).uid, 300_000 + place);
    }

    #[test]
    fn users_that_a_namespace_lacks_are_seen() {
        let all = "         0          0 4294967295\n";
        assert!(covers(all, 200_000, 265_535));
        let few = "0 1000 1\n1 100000 65536\n";
        assert!(!covers(few, 200_000, 265_535) && covers(few, 1000, 65_536));
        assert!(covers("100 0 50\n0 500 100\n", 10, 149) && !covers("100 0 50\n", 10, 149));
        assert!(!covers("", 1, 1) && !covers("x y z", 1, 1));
    }

    #[test]
    fn people_go_before_projects_and_both_before_the_range() {
        let text =
            "# who    is\nproject default 5001:5002:44,45 /home/vision\nuser ann 6001:6001\n";
        let accounts = Accounts::default().with_file(text).unwrap();
        let mut d = detail("");
        let a = accounts.of(&d);
        assert_eq!((a.uid, a.gid, a.groups, a.made_up), (5001, 5002, vec![44, 45], false));
        assert_eq!(a.home, "/home/vision");
        d.user = "ann".into();
        assert_eq!(accounts.of(&d).uid, 6001);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, why) in [
            ("project a 0:5", "line 1: no account may be root's"),
            ("\nproject a 5:0", "line 2: no account may be root's"),
            ("project a 5", "is not UID:GID"),
            ("project a 5:x", "`x` is not the number"),
            ("team a 5:5", "neither `project` nor `user`"),
            ("project a", "three or four words"),
            ("user a 5:5\nuser a 6:6", "line 2: user `a` has an account already"),
            ("project ../a 5:5", "line 1"),
        ] {
            let said = Accounts::default().with_file(text).unwrap_err();
            assert!(said.contains(why), "{text}: {said}");
        }
        for (text, why) in [
            ("200000", "such as `200000-265535`"),
            ("0-65535", "below 1000"),
            ("200000-200100", "such as `200000-265535`"),
            ("4294900000-4294967295", "too few"),
        ] {
            let said = text.parse::<UidRange>().unwrap_err();
            assert!(said.contains(why), "{text}: {said}");
        }
    }
}
