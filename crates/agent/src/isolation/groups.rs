//! Of the control groups a slot sees its own alone: the names of others say who else is here.

use super::sys;
use crate::cgroup::{Group, mount_points};
use std::fs::OpenOptions;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Puts the slot's own group in the place of each tree, and nothing where it has none. The ranks
/// have a namespace of their own besides, in which their group is called `/`.
pub(super) fn show_own(group: Option<&Group>, mountinfo: &str) -> io::Result<()> {
    // All are held first: covering one tree may cover the way to another.
    let mut trees = Vec::new();
    // One whose place is covered already cannot be seen.
    for point in mount_points(mountinfo).into_iter().filter(|p| p.is_dir()) {
        let own = group.and_then(|g| g.in_tree(&point));
        let open = |dir: &Path| OpenOptions::new().read(true).custom_flags(libc::O_PATH).open(dir);
        trees.push((own.map(open).transpose()?, point));
    }
    for (own, point) in trees {
        if let Some(own) = own {
            let from = PathBuf::from(format!("/proc/self/fd/{}", own.as_raw_fd()));
            sys::mount(Some(&from), &point, None, libc::MS_BIND, None)?;
            let flags = libc::MS_REMOUNT | libc::MS_BIND | libc::MS_RDONLY;
            sys::mount(None, &point, None, flags, None)?;
        } else {
            let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC | libc::MS_RDONLY;
            let options = Some("mode=0755,size=4k");
            sys::mount(Some(Path::new("tmpfs")), &point, Some("tmpfs"), flags, options)?;
        }
    }
    Ok(())
}
