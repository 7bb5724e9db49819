//! Secrets of an attempt as files: which they are, where, and how they go away.

use crate::env::Env;
use crate::process::random_id;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// A place for the secrets of an attempt, in memory that the whole node shares. Nobody can foretell
/// its name.
pub(crate) fn shared() -> PathBuf {
    Path::new("/dev/shm").join(format!("muster-{}", random_id()))
}

/// Makes such a place, for this user alone. One that is there already is somebody else's, whoever it
/// belongs to.
pub(crate) fn make_shared(dir: &Path) -> io::Result<()> {
    let named = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", dir.display()));
    DirBuilder::new().mode(0o700).create(dir).map_err(named)?;
    let no_link = libc::O_DIRECTORY | libc::O_NOFOLLOW;
    let made = OpenOptions::new().read(true).custom_flags(no_link).open(dir).map_err(named)?;
    let about = made.metadata().map_err(named)?;
    if about.uid() != rustix::process::geteuid().as_raw() || about.mode() & 0o077 != 0 {
        let said = format!("{} is not this user's alone", dir.display());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, said));
    }
    Ok(())
}

/// The secrets that can be files. Names are checked where they are made; here only that none
/// leaves the directory.
pub(crate) fn files(secrets: &Env) -> impl Iterator<Item = (&String, &String)> {
    let sound = |n: &str| !(n.contains('/') || n.starts_with('.') || n.is_empty());
    secrets.iter().filter(move |(n, _)| sound(n))
}

/// Removes a directory of secrets, also when it is a link into shared memory.
pub(crate) fn remove(dir: &Path) {
    if let Ok(target) = fs::read_link(dir) {
        let _ = fs::remove_dir_all(target);
        let _ = fs::remove_file(dir);
    }
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let _ = fs::remove_file(entry.path());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn what_somebody_else_made_first_gets_no_secrets() {
        let tmp = tempfile::tempdir().unwrap();
        let at = |name: &str| tmp.path().join(name);
        fs::create_dir(at("theirs")).unwrap();
        fs::write(at("file"), "").unwrap();
        symlink(at("theirs"), at("link")).unwrap();
        symlink(at("nowhere"), at("dangling")).unwrap();
        for name in ["theirs", "file", "link", "dangling"] {
            let refused = make_shared(&at(name)).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists, "{name}");
        }
        assert!(!at("nowhere").exists());
        make_shared(&at("ours")).unwrap();
        assert_eq!(fs::metadata(at("ours")).unwrap().mode() & 0o777, 0o700);
        assert_ne!(shared(), shared(), "nobody can foretell it");
    }
}
