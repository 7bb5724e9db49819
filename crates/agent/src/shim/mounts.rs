//! The ranks' own view of the file system: volumes, and secrets that never touch a disk.

use super::Order;
use super::launch::LaunchError;
use crate::run_dir::write_private;
use std::ffi::CString;
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// Makes a private mount namespace when there is anything to mount, and mounts it. The
/// supervisor lives in it together with its ranks, so it goes away with the last of them.
pub(super) fn prepare(order: &Order) -> Result<(), LaunchError> {
    if order.volumes.is_empty() && order.secrets.is_empty() {
        return Ok(());
    }
    let private = own_namespace();
    if let (Err(e), false) = (&private, order.volumes.is_empty()) {
        return Err(LaunchError::Node(format!(
            "this node cannot bind volumes: {e} (the agent must run as root)"
        )));
    }
    // Sources are looked at before anything is mounted: a volume must not hide the next one's.
    for v in &order.volumes {
        if !Path::new(&v.from).exists() {
            return Err(LaunchError::Job(format!(
                "volume `{}` does not exist on this node: create it, or mend `from`",
                v.from
            )));
        }
    }
    for v in &order.volumes {
        bind(Path::new(&v.from), Path::new(&v.at), v.read_only).map_err(|e| {
            LaunchError::Job(format!("cannot bind volume `{}` at `{}`: {e}", v.from, v.at))
        })?;
    }
    if !order.secrets.is_empty() {
        secrets(order, private.is_ok())
            .map_err(|e| LaunchError::Node(format!("cannot hand over secrets: {e}")))?;
    }
    Ok(())
}

fn own_namespace() -> io::Result<()> {
    #[expect(unsafe_code, reason = "unshare has no safe interface that keeps to one thread")]
    // SAFETY: no memory is involved, and this process has a single thread.
    if unsafe { libc::unshare(libc::CLONE_NEWNS) } != 0 {
        return Err(io::Error::last_os_error());
    }
    mount(None, Path::new("/"), None, libc::MS_REC | libc::MS_PRIVATE, None)
}

fn bind(from: &Path, at: &Path, read_only: bool) -> io::Result<()> {
    if !at.is_absolute() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the path must start with /"));
    }
    if !at.exists() {
        if from.is_dir() {
            fs::create_dir_all(at)?;
        } else {
            if let Some(parent) = at.parent() {
                fs::create_dir_all(parent)?;
            }
            fs::write(at, "")?;
        }
    }
    mount(Some(from), at, None, libc::MS_BIND | libc::MS_REC, None)?;
    if read_only {
        mount(None, at, None, libc::MS_REMOUNT | libc::MS_BIND | libc::MS_RDONLY, None)?;
    }
    Ok(())
}

fn secrets(order: &Order, private: bool) -> io::Result<()> {
    let dir = &order.secrets_dir;
    if !dir.is_dir() {
        fs::DirBuilder::new().mode(0o700).create(dir)?;
    }
    let in_memory = private
        && mount(Some(Path::new("tmpfs")), dir, Some("tmpfs"), 0, Some("size=8m,mode=0700"))
            .is_ok();
    if !in_memory {
        // Without the right to mount, memory-backed storage is still better than the disk.
        let shared = PathBuf::from("/dev/shm").join(format!("muster-{}", std::process::id()));
        if fs::DirBuilder::new().mode(0o700).create(&shared).is_ok() {
            fs::remove_dir(dir)?;
            std::os::unix::fs::symlink(&shared, dir)?;
        }
    }
    for (name, value) in &order.secrets {
        // Names are checked where they are made; here only that none leaves the directory.
        if name.contains('/') || name.starts_with('.') || name.is_empty() {
            continue;
        }
        write_private(&dir.join(name), value.as_bytes())?;
    }
    Ok(())
}

/// Removes the secrets' files.
pub(super) fn clear_secrets(order: &Order) {
    if order.secrets.is_empty() {
        return;
    }
    remove_secrets(&order.secrets_dir);
}

/// Removes a directory of secrets, also when it is a link into shared memory.
pub(crate) fn remove_secrets(dir: &Path) {
    if let Ok(target) = fs::read_link(dir) {
        let _ = fs::remove_dir_all(target);
        let _ = fs::remove_file(dir);
    }
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let _ = fs::remove_file(entry.path());
    }
}

fn mount(
    from: Option<&Path>,
    at: &Path,
    kind: Option<&str>,
    flags: libc::c_ulong,
    data: Option<&str>,
) -> io::Result<()> {
    let text = |b: &[u8]| CString::new(b).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput));
    let path = |p: &Path| text(std::os::unix::ffi::OsStrExt::as_bytes(p.as_os_str()));
    let from = from.map(path).transpose()?;
    let at = path(at)?;
    let kind = kind.map(|k| text(k.as_bytes())).transpose()?;
    let data = data.map(|d| text(d.as_bytes())).transpose()?;
    let pointer = |s: &Option<CString>| s.as_ref().map_or(std::ptr::null(), |s| s.as_ptr());
    #[expect(unsafe_code, reason = "mount has no safe interface without another dependency")]
    // SAFETY: every pointer is null or a NUL-terminated string that lives past the call.
    let done = unsafe {
        libc::mount(pointer(&from), at.as_ptr(), pointer(&kind), flags, pointer(&data).cast())
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
