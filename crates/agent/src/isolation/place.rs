//! Where a volume is bound: at what is there already, or at a place that goes away with the slot.
//! Nothing of it stays on the node.

use super::account::Account;
use super::{acting, sys};
use std::fs::{self, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};

/// What is the kernel's or the node's own stays so for the ranks.
const KEPT: [&str; 5] = ["/proc", "/sys", "/run", "/dev", "/etc"];
/// Directories that are there to mount something in. A place that is missing there is made in a
/// copy that the slot alone sees.
const COPIED: [&str; 3] = ["/mnt", "/srv", "/media"];

/// Why nothing may be bound there, if so.
pub(crate) fn refused(at: &Path, hidden: &[PathBuf]) -> Option<String> {
    if !at.is_absolute() {
        return Some("the path must start with /".into());
    }
    // What links on the way lead to is what would be covered.
    let real = at.ancestors().find_map(|d| Some((d.canonicalize().ok()?, d)));
    let real = real.map_or_else(
        || at.to_owned(),
        |(real, d)| real.join(at.strip_prefix(d).unwrap_or(Path::new(""))),
    );
    let elsewhere = "choose a directory of its own, such as /mnt/data";
    if real.parent().is_none() {
        return Some(format!("it would cover the whole node: {elsewhere}"));
    }
    if let Some(kept) = KEPT.iter().find(|d| real.starts_with(d)) {
        return Some(format!("what is in {kept} is the node's own: {elsewhere}"));
    }
    if hidden.iter().any(|d| real.starts_with(d)) {
        return Some(format!("this is the agent's or the server's own directory: {elsewhere}"));
    }
    None
}

/// Makes a place to bind something at, when there is none. As the account, where there is one: a
/// job could name any place, and lead there by a link.
pub(crate) fn make(at: &Path, directory: bool, who: Option<&Account>) -> io::Result<()> {
    if at.exists() {
        return Ok(());
    }
    if let Some(who) = who {
        match acting(who, || create(at, directory))? {
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {}
            done => return done,
        }
    }
    let there = at.ancestors().find(|d| d.exists());
    if let Some(root) = COPIED.iter().map(Path::new).find(|r| there == Some(*r)) {
        copy(root)?;
        return create(at, directory);
    }
    let may_not = who.map_or_else(String::new, |w| format!(", and {} may not make it", w.says()));
    Err(io::Error::new(
        io::ErrorKind::PermissionDenied,
        format!(
            "it does not exist{may_not}: make the directory on the node, or choose a place in \
             /mnt, /srv or /media, which is made for the job alone"
        ),
    ))
}

fn create(at: &Path, directory: bool) -> io::Result<()> {
    if directory {
        return fs::create_dir_all(at);
    }
    at.parent().map_or(Ok(()), fs::create_dir_all)?;
    OpenOptions::new().write(true).create_new(true).open(at).map(drop)
}

/// Covers a directory with one in memory that holds the same. What is made in it is seen in this
/// mount namespace alone and goes away with it.
fn copy(root: &Path) -> io::Result<()> {
    let mut held = Vec::new();
    for entry in fs::read_dir(root)? {
        let entry = entry?;
        let (path, kind) = (entry.path(), entry.file_type()?);
        let flags = libc::O_PATH | libc::O_NOFOLLOW;
        // What cannot be opened, a dead mount say, could not be used either.
        if let Ok(open) = OpenOptions::new().read(true).custom_flags(flags).open(&path) {
            let target = if kind.is_symlink() { fs::read_link(&path)? } else { PathBuf::new() };
            held.push((path, kind, open, target));
        }
    }
    let flags = libc::MS_NOSUID | libc::MS_NODEV;
    let options = Some("mode=0755,size=1m");
    sys::mount(Some(Path::new("tmpfs")), root, Some("tmpfs"), flags, options)?;
    for (path, kind, open, target) in held {
        if kind.is_symlink() {
            symlink(target, &path)?;
            continue;
        }
        create(&path, kind.is_dir())?;
        let from = PathBuf::from(format!("/proc/self/fd/{}", open.as_raw_fd()));
        sys::mount(Some(&from), &path, None, libc::MS_BIND | libc::MS_REC, None)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_the_nodes_own_is_no_place_for_a_volume() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let own = root.join("own");
        fs::create_dir(&own).unwrap();
        symlink("/etc", root.join("link")).unwrap();
        let why = |at: &Path| refused(at, std::slice::from_ref(&own));
        for (at, said) in [
            ("data", "must start with /"),
            ("/", "the whole node"),
            ("//.", "the whole node"),
            ("/proc", "in /proc"),
            ("/sys/fs/cgroup", "in /sys"),
            ("/run/not/there", "in /run"),
            ("/dev/shm", "in /dev"),
            ("/etc/passwd", "in /etc"),
        ] {
            let refusal = why(Path::new(at)).unwrap();
            assert!(refusal.contains(said), "{at}: {refusal}");
        }
        assert!(why(&root.join("link/new")).unwrap().contains("in /etc"));
        assert!(why(&own.join("a/b")).unwrap().contains("own directory"));
        assert!(why(&own).unwrap().contains("own directory"));
        assert_eq!(why(&root.join("other/a")), None);
        assert_eq!(why(Path::new("/mnt/data")), None);
    }
}
