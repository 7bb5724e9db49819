//! Which control groups this machine has, and which of them we may use.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The controllers that fence a slot.
const WANTED: [&str; 3] = ["memory", "cpu", "pids"];

/// Where slots' groups are made. `None` for a controller that is not to be had.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cgroups {
    /// Parent directory of each controller of version 1.
    pub(super) v1: Vec<(&'static str, PathBuf)>,
    /// Parent directory in the unified tree, with the controllers usable in it.
    pub(super) v2: Option<(PathBuf, Vec<&'static str>)>,
    pub(super) warning: Option<String>,
}

impl Cgroups {
    /// No control groups: ranks are held together by process groups alone.
    #[must_use]
    pub fn none() -> Cgroups {
        Cgroups::default()
    }

    /// Looks at this machine and tries out what it may do.
    #[must_use]
    pub fn detect() -> Cgroups {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        Cgroups::from_mounts(&mounts, &own)
    }

    fn from_mounts(mountinfo: &str, own: &str) -> Cgroups {
        let mut found = Cgroups::default();
        let mut refused = Vec::new();
        for (kind, point, options) in mounts(mountinfo) {
            if kind == "cgroup2" {
                let mut error = None;
                for base in v2_bases(&point, own) {
                    match prepare_v2(&base) {
                        Ok(controllers) => {
                            found.v2 = Some((base.join("muster"), controllers));
                            error = None;
                            break;
                        }
                        Err(e) => error = Some(format!("{}: {e}", base.display())),
                    }
                }
                refused.extend(error);
            } else {
                for name in WANTED.into_iter().chain(["freezer", "devices"]) {
                    let here = options.split(',').any(|o| o == name);
                    if !here || found.v1.iter().any(|(n, _)| *n == name) {
                        continue;
                    }
                    let parent = point.join("muster");
                    match fs::create_dir_all(&parent) {
                        Ok(()) => found.v1.push((name, parent)),
                        Err(e) => refused.push(format!("{}: {e}", parent.display())),
                    }
                }
            }
        }
        let missing: Vec<&str> = WANTED.into_iter().filter(|c| !found.has(c)).collect();
        if !missing.is_empty() {
            let why = if refused.is_empty() {
                "the machine does not offer them".to_owned()
            } else {
                refused.join("; ")
            };
            found.warning = Some(format!(
                "no control group for {}: {why}; limits on it are not enforced (run the agent as \
                 root, or as a systemd unit with Delegate=yes)",
                missing.join(", ")
            ));
        }
        found
    }

    /// Whether a controller can be used.
    #[must_use]
    pub fn has(&self, controller: &str) -> bool {
        // In the unified tree devices are fenced by a program, not by a controller.
        (controller == "devices" && self.v2.is_some())
            || self.v1.iter().any(|(n, _)| *n == controller)
            || self.v2.as_ref().is_some_and(|(_, c)| c.contains(&controller))
    }

    /// What cannot be enforced here and why, if anything.
    #[must_use]
    pub fn warning(&self) -> Option<&str> {
        self.warning.as_deref()
    }

    /// How ranks are fenced in, as the inventory says it.
    #[must_use]
    pub fn isolation(&self) -> &'static str {
        match (self.v1.is_empty(), &self.v2) {
            (true, None) => "process-group",
            (true, Some(_)) => "cgroup2",
            (false, None) => "cgroup1",
            (false, Some(_)) => "hybrid",
        }
    }

    /// The controller of version 1 that holds a slot's processes together: none where the
    /// unified tree does, and can kill them at once.
    pub(super) fn holding(&self) -> Option<&'static str> {
        if self.v2.as_ref().is_some_and(|(parent, _)| parent.join("cgroup.kill").exists()) {
            return None;
        }
        let freezer = self.v1.iter().find(|(n, _)| *n == "freezer");
        // With a unified tree that cannot kill, anything but the freezer adds nothing.
        let mut others = self.v1.iter().filter(|(n, _)| *n != "devices");
        freezer.or(others.next().filter(|_| self.v2.is_none())).map(|(n, _)| *n)
    }

    /// True when there is any group to put ranks into.
    #[must_use]
    pub fn usable(&self) -> bool {
        !self.v1.is_empty() || self.v2.is_some()
    }
}

/// Control group mounts: kind, mount point, super options.
pub(super) fn mounts(mountinfo: &str) -> impl Iterator<Item = (&str, PathBuf, &str)> {
    mountinfo.lines().filter_map(|line| {
        let (left, right) = line.split_once(" - ")?;
        let point = left.split(' ').nth(4)?;
        let mut right = right.split(' ');
        let kind = right.next().filter(|k| k.starts_with("cgroup"))?;
        let options = right.nth(1)?;
        Some((kind, PathBuf::from(point), options))
    })
}

/// Where the trees of control groups are.
pub(crate) fn mount_points(mountinfo: &str) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = mounts(mountinfo).map(|(_, point, _)| point).collect();
    all.sort();
    all.dedup();
    all
}

/// Places in the unified tree to try: a service that systemd delegated to us first, then the
/// root of the tree, then wherever we are.
fn v2_bases(point: &Path, own: &str) -> Vec<PathBuf> {
    let own = own
        .lines()
        .find_map(|l| l.strip_prefix("0::"))
        .map(|p| point.join(p.trim_start_matches('/')))
        .unwrap_or_else(|| point.to_path_buf());
    let mut bases = vec![point.to_path_buf(), own.clone()];
    if own.extension().is_some_and(|e| e == "service") {
        bases.reverse();
    }
    bases.dedup();
    bases
}

/// Makes `base/muster` with as many of the wanted controllers as there are.
fn prepare_v2(base: &Path) -> io::Result<Vec<&'static str>> {
    let there = fs::read_to_string(base.join("cgroup.controllers"))?;
    let wanted: Vec<&'static str> =
        WANTED.into_iter().filter(|c| there.split_whitespace().any(|t| t == *c)).collect();
    if let Err(e) = enable(base, &wanted) {
        // A group that holds processes may not hand controllers down: step aside into a leaf.
        let leaf = base.join("agent");
        fs::create_dir_all(&leaf)?;
        for pid in fs::read_to_string(base.join("cgroup.procs"))?.lines() {
            fs::write(leaf.join("cgroup.procs"), pid)?;
        }
        enable(base, &wanted).map_err(|_| e)?;
    }
    let parent = base.join("muster");
    fs::create_dir_all(&parent)?;
    enable(&parent, &wanted)?;
    Ok(wanted)
}

/// Hands controllers down to the groups below `dir`.
pub(super) fn enable(dir: &Path, controllers: &[&str]) -> io::Result<()> {
    let file = dir.join("cgroup.subtree_control");
    let on = fs::read_to_string(&file).unwrap_or_default();
    for c in controllers {
        if !on.split_whitespace().any(|o| o == *c) {
            fs::write(&file, format!("+{c}"))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unified_tree_is_prepared_and_named_cgroup2() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("cg");
        fs::create_dir_all(root.join("system.slice/agent.service")).unwrap();
        for d in [&root, &root.join("system.slice/agent.service")] {
            fs::write(d.join("cgroup.controllers"), "cpuset cpu io memory pids").unwrap();
            fs::write(d.join("cgroup.subtree_control"), "").unwrap();
            fs::write(d.join("cgroup.procs"), "").unwrap();
        }
        let info = format!("30 20 0:26 / {} rw - cgroup2 cgroup2 rw,nsdelegate\n", root.display());
        let c = Cgroups::from_mounts(&info, "0::/system.slice/agent.service\n");
        assert_eq!(c.isolation(), "cgroup2");
        assert!(c.has("memory") && c.has("cpu") && c.has("pids"), "{c:?}");
        assert_eq!(c.v2.unwrap().0, root.join("system.slice/agent.service/muster"));
    }

    #[test]
    fn a_controller_is_used_where_it_lives_on_a_hybrid_host() {
        let dir = tempfile::tempdir().unwrap();
        let (u, m) = (dir.path().join("unified"), dir.path().join("memory"));
        fs::create_dir_all(&u).unwrap();
        fs::create_dir_all(&m).unwrap();
        fs::write(u.join("cgroup.controllers"), "hugetlb").unwrap();
        let info = format!(
            "30 20 0:26 / {} rw - cgroup2 cgroup2 rw\n31 20 0:27 / {} rw - cgroup cgroup rw,memory\n",
            u.display(),
            m.display()
        );
        let c = Cgroups::from_mounts(&info, "0::/\n");
        assert_eq!(c.isolation(), "hybrid");
        assert!(c.has("memory") && !c.has("cpu"));
        assert!(c.warning().is_some_and(|w| w.contains("cpu, pids")), "{c:?}");
    }

    #[test]
    fn without_control_groups_there_is_a_warning_that_says_what_to_do() {
        let c = Cgroups::from_mounts("", "");
        assert_eq!(c.isolation(), "process-group");
        assert!(!c.usable());
        assert!(c.warning().is_some_and(|w| w.contains("Delegate=yes")));
    }
}
