//! Secrets of an attempt as files: which they are, where, and how they go away.

use crate::env::Env;
use std::fs;
use std::path::{Path, PathBuf};

/// Where the secrets of an attempt are in memory that the whole node shares.
pub(crate) fn shared(run_dir: &Path) -> PathBuf {
    let path = std::os::unix::ffi::OsStrExt::as_bytes(run_dir.as_os_str());
    let hash = path
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x100_0000_01b3));
    PathBuf::from("/dev/shm").join(format!("muster-{hash:016x}"))
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
