//! What a slot's ranks have of the attempt's directory: their reports, the script and the secrets,
//! in a place that every account can reach.

use super::account::Account;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Where they are inside. `/run` is the slot's own.
pub(crate) const OWN: &str = "/run/muster";

/// Where something of the attempt's directory is for ranks who find it at `base`.
pub(crate) fn moved_to(base: &Path, dir: &Path, path: &Path) -> Option<PathBuf> {
    path.strip_prefix(dir).ok().map(|name| base.join(name))
}

/// Lets an account use a file that stays root's. Its owner could do more than write: hold whoever
/// opens it up, for one.
pub(crate) fn grant_access(path: &Path, who: &Account, rights: u32) -> io::Result<()> {
    match std::os::unix::fs::lchown(path, None, Some(who.gid)) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(e) => Err(e),
        Ok(()) => fs::set_permissions(path, Permissions::from_mode(rights)),
    }
}
