//! What of a node can be a volume, by its path. Servers ask before they take a job, agents again
//! once links are followed.

/// What is the kernel's or the node's own. A volume of it would show what each slot has of its own.
const KEPT: [&str; 4] = ["proc", "sys", "dev", "run"];

/// Why a path cannot be the source of a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RefusedSource {
    /// It is `/`.
    #[error("it is the whole node: name a directory in it")]
    WholeNode,
    /// It is one of the node's own directories, or in it.
    #[error("what is in /{0} is the node's alone")]
    Kept(&'static str),
}

/// Looks at the text of an absolute path alone: at no link, and as if `..` led to the directory
/// that is written before it.
///
/// # Errors
/// Why it cannot be the source of a volume.
pub fn check_source(path: &str) -> Result<(), RefusedSource> {
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
    let Some(first) = parts.first() else { return Err(RefusedSource::WholeNode) };
    let kept = KEPT.into_iter().find(|dir| dir == first);
    kept.map_or(Ok(()), |dir| Err(RefusedSource::Kept(dir)))
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
        for fine in ["/data", "/process", "/data/proc", "/devel/x", "/proc/../data", "/var/run2"] {
            assert_eq!(check_source(fine), Ok(()), "{fine}");
        }
    }
}
