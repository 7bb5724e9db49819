//! A name for a user that the node does not know: programs ask who they are, and some end when
//! nobody can say.

use super::SCRATCH;
use super::account::Account;
use super::sys;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// One of the node's lists with a line more.
pub(super) struct List {
    from: fs::File,
    at: PathBuf,
}

/// Writes the lists of users and groups into the scratch space of the attempt's directory. The
/// user's name there is its project's, unless the node has somebody of that name.
pub(super) fn write(dir: &Path, who: &Account) -> io::Result<Vec<List>> {
    if !who.made_up {
        return Ok(Vec::new());
    }
    let Account { uid, gid, name, home, .. } = who;
    let mut all = Vec::new();
    for (at, line) in [
        ("/etc/passwd", format!("{name}:x:{uid}:{gid}:project {name}:{home}:/bin/sh\n")),
        ("/etc/group", format!("{name}:x:{gid}:\n")),
    ] {
        let Ok(mut text) = fs::read_to_string(at) else { continue };
        if text.lines().any(|l| l.split(':').next() == Some(name.as_str())) {
            continue;
        }
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(&line);
        let file = Path::new(at).file_name().unwrap_or_default();
        let path = dir.join(SCRATCH).join(file);
        let mut options = fs::OpenOptions::new();
        let mut from = options.write(true).create(true).truncate(true).mode(0o644).open(&path)?;
        from.write_all(text.as_bytes())?;
        all.push(List { from, at: at.into() });
    }
    Ok(all)
}

impl List {
    /// Puts it in the place of the node's.
    pub(super) fn show(self) -> io::Result<()> {
        let fd = std::os::fd::AsRawFd::as_raw_fd(&self.from);
        let from = PathBuf::from(format!("/proc/self/fd/{fd}"));
        sys::mount(Some(&from), &self.at, None, libc::MS_BIND, None)?;
        let flags = libc::MS_REMOUNT | libc::MS_BIND | libc::MS_RDONLY;
        sys::mount(None, &self.at, None, flags, None)
    }
}
