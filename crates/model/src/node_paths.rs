//! What of a node a job may have, by its path: as a volume, as the place of one, as the directory for
//! checkpoints. Servers ask before they take a job, agents again once links are followed.

/// What is the kernel's or the node's own. A volume of it would show what each slot has of its own.
const REFUSED_SOURCES: [&str; 4] = ["proc", "sys", "dev", "run"];

/// Where nothing is bound: what is the kernel's or the node's own stays so for the ranks.
const REFUSED_PLACES: &[&str] = &["proc", "sys", "run", "dev", "etc"];
/// The same for a container: the rest is its image's.
const REFUSED_IN_IMAGE: &[&str] = &["proc", "sys", "dev"];

/// Why a path cannot be the source of a volume, or the directory for checkpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RefusedSource {
    /// It is `/`.
    #[error("it is the whole node")]
    WholeNode,
    /// It is one of the node's own directories, or in it.
    #[error("what is in /{0} is the node's alone")]
    Kept(&'static str),
}

/// Why nothing can be bound at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RefusedPlace {
    /// It is `/`.
    #[error("it would cover the whole node")]
    WholeNode,
    /// It is one of the node's own directories, or in it.
    #[error("what is in /{0} is the node's own")]
    Kept(&'static str),
}

/// The text of an absolute path alone: no link is followed, and `..` leads to the directory that is
/// written before it.
fn parts(path: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts
}

/// Looks at the text of an absolute path alone.
///
/// # Errors
/// Why it cannot be the source of a volume.
pub fn check_source(path: &str) -> Result<(), RefusedSource> {
    let parts = parts(path);
    let Some(first) = parts.first() else { return Err(RefusedSource::WholeNode) };
    let kept = REFUSED_SOURCES.into_iter().find(|dir| dir == first);
    kept.map_or(Ok(()), |dir| Err(RefusedSource::Kept(dir)))
}

/// Looks at the text of an absolute path alone.
///
/// # Errors
/// Why nothing can be bound there: for ranks on the node, or in a container.
pub fn check_place(path: &str, in_image: bool) -> Result<(), RefusedPlace> {
    let parts = parts(path);
    let Some(first) = parts.first() else { return Err(RefusedPlace::WholeNode) };
    let kept = if in_image { REFUSED_IN_IMAGE } else { REFUSED_PLACES };
    kept.iter().copied().find(|dir| dir == first).map_or(Ok(()), |dir| Err(RefusedPlace::Kept(dir)))
}

/// Looks at the text of absolute paths alone: of the directory for checkpoints, and of the places of
/// the volumes, which it may be in. What is written there is to last, and to be found on other nodes.
///
/// # Errors
/// Why it cannot be that.
pub fn check_checkpoints<'a>(
    path: &str,
    mut places: impl Iterator<Item = &'a str>,
) -> Result<(), RefusedSource> {
    let dir = parts(path);
    if places.any(|at| dir.starts_with(&parts(at))) { Ok(()) } else { check_source(path) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_the_nodes_own_is_no_source() {
        for whole in ["/", "//", "/.", "/data/..", "/../..", ""] {
            assert_eq!(check_source(whole), Err(RefusedSource::WholeNode), "{whole}");
        }
        for (path, dir) in [
            ("/proc", "proc"),
            ("//proc/self/fd/5", "proc"),
            ("/proc/self/root", "proc"),
            ("/./proc/thread-self/cwd", "proc"),
            ("/data/../proc/1/root", "proc"),
            ("/sys/fs/cgroup", "sys"),
            ("/dev", "dev"),
            ("/dev/shm/x", "dev"),
            ("/run/user/0", "run"),
        ] {
            assert_eq!(check_source(path), Err(RefusedSource::Kept(dir)), "{path}");
        }
        assert_eq!(
            check_checkpoints("/dev/shm/x", ["/data"].into_iter()),
            Err(RefusedSource::Kept("dev"))
        );
        assert_eq!(check_checkpoints("/run/v/x", ["/data", "/run/v/"].into_iter()), Ok(()));
        for fine in ["/data", "/process", "/data/proc", "/devel/x", "/proc/../data", "/var/run2"] {
            assert_eq!(check_source(fine), Ok(()), "{fine}");
        }
    }

    #[test]
    fn nothing_covers_what_is_the_nodes_own() {
        for (path, dir) in [("/proc", "proc"), ("/dev/shm", "dev"), ("/a/../sys/x", "sys")] {
            for in_image in [false, true] {
                assert_eq!(check_place(path, in_image), Err(RefusedPlace::Kept(dir)), "{path}");
            }
        }
        for path in ["/etc", "/etc/passwd", "/run/x"] {
            assert!(check_place(path, false).is_err(), "{path}");
            assert_eq!(check_place(path, true), Ok(()), "{path} of an image");
        }
        assert_eq!(check_place("//.", true), Err(RefusedPlace::WholeNode));
        assert_eq!(check_place("/mnt/etc", false), Ok(()));
    }
}
