//! What the operating system allows one process.

use rustix::process::{Resource, getrlimit, setrlimit};

/// Raises the number of files this process may have open as far as it may, and says how far.
/// Each connection is one: the usual 1024 would end a site at a thousand nodes.
#[must_use]
pub fn raise_open_files() -> u64 {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current == limit.maximum {
        return limit.current.unwrap_or(u64::MAX);
    }
    let before = limit.current;
    limit.current = limit.maximum;
    match setrlimit(Resource::Nofile, limit) {
        Ok(()) => limit.current.unwrap_or(u64::MAX),
        Err(e) => {
            tracing::warn!(error = %e, "cannot raise the limit of open files");
            before.unwrap_or(u64::MAX)
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_limit_only_grows() {
        let first = super::raise_open_files();
        assert!(first >= 256);
        assert_eq!(super::raise_open_files(), first);
    }
}
