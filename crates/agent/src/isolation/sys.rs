//! The few calls to the kernel that nobody wraps for us.

use std::ffi::CString;
use std::fs::Metadata;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

fn text(bytes: &[u8]) -> io::Result<CString> {
    CString::new(bytes).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))
}

/// A path as the kernel wants it.
pub(crate) fn c_path(path: &Path) -> io::Result<CString> {
    text(path.as_os_str().as_bytes())
}

fn done(result: i32) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Mounts; see mount(2).
pub(crate) fn mount(
    from: Option<&Path>,
    at: &Path,
    kind: Option<&str>,
    flags: libc::c_ulong,
    data: Option<&str>,
) -> io::Result<()> {
    let from = from.map(c_path).transpose()?;
    let at = c_path(at)?;
    let kind = kind.map(|k| text(k.as_bytes())).transpose()?;
    let data = data.map(|d| text(d.as_bytes())).transpose()?;
    let pointer = |s: &Option<CString>| s.as_ref().map_or(std::ptr::null(), |s| s.as_ptr());
    #[expect(unsafe_code, reason = "mount has no safe interface without another dependency")]
    // SAFETY: every pointer is null or a NUL-terminated string that lives past the call.
    let result = unsafe {
        libc::mount(pointer(&from), at.as_ptr(), pointer(&kind), flags, pointer(&data).cast())
    };
    done(result)
}

/// Leaves namespaces for new ones.
pub(crate) fn unshare(flags: i32) -> io::Result<()> {
    #[expect(unsafe_code, reason = "unshare has no safe interface that keeps to one thread")]
    // SAFETY: no memory is involved, and only this thread changes: the one of the supervisor, or
    // one that was started for it.
    let result = unsafe { libc::unshare(flags) };
    done(result)
}

/// Joins a namespace.
pub(crate) fn setns(namespace: BorrowedFd<'_>, kind: i32) -> io::Result<()> {
    #[expect(unsafe_code, reason = "setns has no safe interface that keeps to one thread")]
    // SAFETY: the descriptor is open, and no memory is involved.
    let result = unsafe { libc::setns(namespace.as_raw_fd(), kind) };
    done(result)
}

/// Forks: the child's number for the parent, zero for the child.
pub(crate) fn fork() -> io::Result<i32> {
    #[expect(unsafe_code, reason = "the child is not another program but goes on in this one")]
    // SAFETY: the supervisor has a single thread, so the child finds no lock held for ever.
    let pid = unsafe { libc::fork() };
    if pid < 0 { Err(io::Error::last_os_error()) } else { Ok(pid) }
}

/// Makes a device node like another one.
pub(crate) fn mknod_like(at: &Path, like: &Metadata) -> io::Result<()> {
    let path = c_path(at)?;
    #[expect(unsafe_code, reason = "mknod of a device has no safe interface here")]
    // SAFETY: the path is a NUL-terminated string that lives past both calls.
    let result = unsafe {
        match libc::mknod(path.as_ptr(), like.mode(), like.rdev()) {
            // The mask of this process must not take away what the node's owner gave.
            0 => libc::chmod(path.as_ptr(), like.mode() & 0o7777),
            error => error,
        }
    };
    done(result)?;
    std::os::unix::fs::chown(at, Some(like.uid()), Some(like.gid()))
}
