//! What of a job can be part of the command line that runs its containers. Servers ask before they
//! take a job, agents again before they build that line.

/// Why a path cannot be bound into a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RefusedPath {
    /// It does not start at the root: a runtime takes it as the name of something else.
    #[error("containers take only paths that start with `/`")]
    Relative,
    /// It has a character that is more than a letter to a runtime.
    #[error("containers take no `{0}` in a path")]
    Separator(char),
    /// It has a control character, such as the end of a line.
    #[error("containers take no control characters in a path")]
    Control,
}

/// What separates the parts of a runtime's argument (`src=/a,dst=/b`, `/a:/b:ro`), or quotes them.
const SEPARATORS: [char; 4] = [':', ',', '"', '\\'];

/// Where else than in a registry or on the node a runtime would look for an image of such a name:
/// `oci-archive:/data/x.tar` is a file that it opens as root.
const TRANSPORTS: [&str; 10] = [
    "atomic",
    "containers-storage",
    "dir",
    "docker-archive",
    "docker-daemon",
    "oci",
    "oci-archive",
    "ostree",
    "sif",
    "tarball",
];

/// Looks at a path that is bound into a container: it becomes a part of one argument, and has to
/// stay one part of it.
///
/// # Errors
/// Why it cannot be bound.
pub fn check_path(path: &str) -> Result<(), RefusedPath> {
    if !path.starts_with('/') {
        return Err(RefusedPath::Relative);
    }
    match path.chars().find(|c| c.is_control() || SEPARATORS.contains(c)) {
        Some(c) if c.is_control() => Err(RefusedPath::Control),
        Some(c) => Err(RefusedPath::Separator(c)),
        None => Ok(()),
    }
}

/// Whether a text can only be the name of an image: no option, no filter, no file of the node.
#[must_use]
pub fn is_image_name(text: &str) -> bool {
    let known = |c: char| c.is_ascii_alphanumeric() || "._-/:@+".contains(c);
    let transport = text.split_once(':').is_some_and(|(before, _)| TRANSPORTS.contains(&before));
    text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.chars().all(known)
        && !text.contains("//")
        && !transport
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_could_be_more_than_one_part_of_an_argument_is_refused() {
        for (path, c) in
            [("/ckpt,src=/etc", ','), ("/data:/etc", ':'), ("/data\"", '"'), ("/data\\", '\\')]
        {
            assert_eq!(check_path(path), Err(RefusedPath::Separator(c)), "{path}");
        }
        for path in ["/data\n/etc", "/data\0", "/data\r"] {
            assert_eq!(check_path(path), Err(RefusedPath::Control), "{path:?}");
        }
        for path in ["", "volume", "./data", "~/data"] {
            assert_eq!(check_path(path), Err(RefusedPath::Relative), "{path}");
        }
        for path in ["/", "/data/a b", "/data/a=b;c", "/dätä/'x'"] {
            assert_eq!(check_path(path), Ok(()), "{path}");
        }
    }

    #[test]
    fn an_image_is_named_and_not_found_on_the_nodes_disk() {
        for name in [
            "busybox",
            "docker:dind",
            "localhost:5000/team/x:1",
            "docker.io/library/python:3.12@sha256:00ff",
        ] {
            assert!(is_image_name(name), "{name}");
        }
        for bad in [
            "",
            "-v",
            "/etc",
            "./x",
            "a b",
            "a,b",
            "a==b",
            "dir:/etc",
            "oci-archive:/data/x.tar",
            "containers-storage:x",
            "docker://x",
            "{variables}",
        ] {
            assert!(!is_image_name(bad), "{bad}");
        }
    }
}
