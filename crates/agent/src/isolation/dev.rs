//! A `/dev` of the slot's own.

use super::{IsolationView, sys};
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

/// Builds it at `stage` and moves it over `/dev`.
pub(super) fn build(inside: &IsolationView, stage: &Path) -> io::Result<()> {
    fs::create_dir_all(stage)?;
    let tmpfs = Path::new("tmpfs");
    sys::mount(Some(tmpfs), stage, Some("tmpfs"), libc::MS_NOSUID, Some("mode=0755,size=1m"))?;
    for node in &inside.nodes {
        let Ok(name) = node.strip_prefix("/dev") else { continue };
        let at = stage.join(name);
        if let Some(parent) = at.parent() {
            fs::create_dir_all(parent)?;
        }
        let Ok(meta) = fs::metadata(node) else { continue };
        if sys::mknod_like(&at, &meta).and_then(|()| give(&at, inside, node)).is_err() {
            // Without the right to make a node there may still be the right to show one.
            fs::write(&at, "")?;
            sys::mount(Some(node), &at, None, libc::MS_BIND, None)?;
        }
    }
    for (name, to) in [
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
        ("ptmx", "pts/ptmx"),
    ] {
        symlink(to, stage.join(name))?;
    }
    let pts = stage.join("pts");
    fs::create_dir(&pts)?;
    let safe = libc::MS_NOSUID | libc::MS_NOEXEC;
    let options = Some("newinstance,ptmxmode=0666,mode=0620,gid=5");
    sys::mount(Some(Path::new("devpts")), &pts, Some("devpts"), safe, options)?;
    let shm = stage.join("shm");
    fs::create_dir(&shm)?;
    if inside.share_ipc {
        sys::mount(Some(Path::new("/dev/shm")), &shm, None, libc::MS_BIND, None)?;
    } else {
        let options = format!("mode=1777,size={}", inside.shm);
        let flags = libc::MS_NOSUID | libc::MS_NODEV;
        sys::mount(Some(tmpfs), &shm, Some("tmpfs"), flags, Some(&options))?;
    }
    let queues = stage.join("mqueue");
    fs::create_dir(&queues)?;
    // Not every kernel has message queues.
    let flags = safe | libc::MS_NODEV;
    let _ = sys::mount(Some(Path::new("mqueue")), &queues, Some("mqueue"), flags, None);
    sys::mount(Some(stage), Path::new("/dev"), None, libc::MS_MOVE, None)?;
    let _ = fs::remove_dir(stage);
    Ok(())
}

/// A node that was made for the slot alone is its account's, so that it opens whatever the rights
/// of the node's own are. What every program has stays as it is.
fn give(at: &Path, inside: &IsolationView, node: &Path) -> io::Result<()> {
    let mode = fs::metadata(node)?.permissions().mode() & 0o777;
    if mode & 0o006 == 0o006 {
        return Ok(());
    }
    std::os::unix::fs::chown(at, Some(inside.account.uid), None)?;
    fs::set_permissions(at, Permissions::from_mode(mode | 0o600))
}
