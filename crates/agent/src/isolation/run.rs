//! A `/run` of the slot's own: sockets and process numbers of the node's services are no business
//! of the ranks.

use super::own::OWN;
use super::sys;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// What is shown again, read-only: how names are looked up, and whom NVIDIA's libraries ask.
const SHOWN: [&str; 6] = [
    "systemd/resolve",
    "resolvconf",
    "NetworkManager/resolv.conf",
    "nscd",
    "nvidia-persistenced",
    "nvidia-fabricmanager",
];

/// What is kept of the node's `/run`, held open because it is about to be covered.
pub(super) struct RetainedRunFiles(Vec<(File, PathBuf)>);

impl RetainedRunFiles {
    pub(super) fn open() -> RetainedRunFiles {
        let open = |name: &&str| {
            let path = Path::new("/run").join(name);
            let file = OpenOptions::new().read(true).custom_flags(libc::O_PATH).open(&path);
            file.ok().map(|f| (f, path))
        };
        RetainedRunFiles(SHOWN.iter().filter_map(open).collect())
    }

    /// Covers `/run`, and makes the place for the slot's own files in it.
    pub(super) fn build(&self) -> io::Result<()> {
        let run = Path::new("/run");
        fs::create_dir_all(run)?;
        let flags = libc::MS_NOSUID | libc::MS_NODEV;
        let options = Some("mode=0755,size=16m");
        sys::mount(Some(Path::new("tmpfs")), run, Some("tmpfs"), flags, options)?;
        fs::create_dir(OWN)?;
        let lock = run.join("lock");
        fs::create_dir(&lock)?;
        fs::set_permissions(&lock, Permissions::from_mode(0o1777))?;
        for (file, at) in &self.0 {
            let from = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
            if file.metadata()?.is_dir() {
                fs::create_dir_all(at)?;
            } else {
                at.parent().map_or(Ok(()), fs::create_dir_all)?;
                fs::write(at, "")?;
            }
            sys::mount(Some(&from), at, None, libc::MS_BIND | libc::MS_REC, None)?;
            let flags = libc::MS_REMOUNT | libc::MS_BIND | libc::MS_RDONLY;
            sys::mount(None, at, None, flags, None)?;
        }
        Ok(())
    }
}
