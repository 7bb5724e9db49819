//! Where a volume is bound: at what is there already, or at a place that goes away with the slot.
//! Nothing of it stays on the node.

use super::account::Account;
use super::{as_account, sys};
use muster_model::node_paths::check_place;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};

/// Directories that are there to mount something in. A place that is missing there is made in a
/// copy that the slot alone sees.
const COPIED: [&str; 3] = ["/mnt", "/srv", "/media"];

/// Private directories and what they are called in the scratch space.
pub(super) const PRIVATE: [(&str, &str); 2] = [("/tmp", "tmp"), ("/var/tmp", "var-tmp")];
/// Memory of the slot's own.
const SHARED_MEMORY: &str = "/dev/shm";

/// Opens a path only to name it, and says where it is by now, whatever links led there.
pub(super) fn open(path: &Path) -> io::Result<(File, PathBuf)> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_PATH).open(path)?;
    let real = fs::read_link(descriptor(&file))?;
    Ok((file, real))
}

/// What is open, as a path that no link and no mount leads elsewhere.
pub(crate) fn descriptor(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// What each slot has of its own.
pub(super) fn private_places() -> impl Iterator<Item = &'static Path> {
    PRIVATE.iter().map(|(at, _)| *at).chain([SHARED_MEMORY]).map(Path::new)
}

/// Why what a job names of the node is not to be had where each job has one of its own instead, if
/// so.
pub(crate) fn replaced(real: &Path) -> Option<&'static str> {
    let replaced = private_places().any(|at| real == at);
    replaced.then_some("each job has its own, which is gone afterwards")
}

/// Where a path leads by now, of which a part may be missing.
pub(crate) fn leads_to(path: &Path) -> PathBuf {
    let real = path.ancestors().find_map(|d| Some((d.canonicalize().ok()?, d)));
    real.map_or_else(
        || path.to_owned(),
        |(real, d)| real.join(path.strip_prefix(d).unwrap_or(Path::new(""))),
    )
}

/// Why nothing may be bound there, if so, as far as that is known before anything is bound.
pub(crate) fn refused(at: &Path, hidden: &[PathBuf]) -> Option<String> {
    if !at.is_absolute() {
        return Some("the path must start with /".into());
    }
    // What links on the way lead to is what would be covered.
    let real = leads_to(at);
    refused_at(&real, hidden)
}

/// The same for a place that no link leads to.
pub(super) fn refused_at(real: &Path, hidden: &[PathBuf]) -> Option<String> {
    let elsewhere = "choose a directory of its own, such as /mnt/data";
    if let Err(why) = check_place(&real.to_string_lossy(), false) {
        return Some(format!("{why}: {elsewhere}"));
    }
    if hidden.iter().any(|d| real.starts_with(d)) {
        return Some(format!("this is the agent's or the server's own directory: {elsewhere}"));
    }
    None
}

/// Why what is there is neither the source of a volume nor a work directory, if so: nothing of it would
/// be seen.
pub(super) fn hidden_source(real: &Path, hidden: &[PathBuf]) -> Option<&'static str> {
    hidden.iter().any(|d| real.starts_with(d)).then_some(
        "it is in the agent's or the server's own directory, or in one that this node hides: name \
         another",
    )
}

/// Places to bind something at, made where there are none.
#[derive(Default)]
pub(crate) struct MountPoints {
    /// Directories that were covered with a copy, and its device.
    copied: Vec<(&'static str, u64)>,
}

impl MountPoints {
    /// Makes a place when there is none. As the account, where there is one: a job could name any
    /// place, and lead there by a link.
    pub(crate) fn make(
        &mut self,
        at: &Path,
        directory: bool,
        who: Option<&Account>,
    ) -> io::Result<()> {
        if at.exists() {
            return Ok(());
        }
        if let Some(who) = who {
            match as_account(who, || create(at, directory))? {
                Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {}
                done => return done,
            }
        }
        if self.in_copy(at)? {
            return create(at, directory);
        }
        let may_not = who.map_or_else(String::new, |w| {
            format!(", and {} may not make it", w.describe_account())
        });
        Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!(
                "it does not exist{may_not}: make the directory on the node, or choose a place in \
                 /mnt, /srv or /media, which is made for the job alone"
            ),
        ))
    }

    /// Whether a missing place would be made in a copy, which is made first when it is missing.
    fn in_copy(&mut self, at: &Path) -> io::Result<bool> {
        let Some(there) = at.ancestors().find(|d| d.exists()) else { return Ok(false) };
        let Some(root) = COPIED.into_iter().find(|r| there.starts_with(r)) else {
            return Ok(false);
        };
        let known = self.copied.iter().find(|(r, _)| *r == root).map(|(_, device)| *device);
        let device = match known {
            Some(device) => device,
            None if there == Path::new(root) => {
                copy(Path::new(root))?;
                let device = fs::metadata(root)?.dev();
                self.copied.push((root, device));
                device
            }
            None => return Ok(false),
        };
        // Not in something that was bound there since, and not by a link in that.
        let (dir, real) = open(there)?;
        let below = there.strip_prefix(root).unwrap_or(Path::new(""));
        Ok(dir.metadata()?.dev() == device && real == open(Path::new(root))?.1.join(below))
    }
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
        sys::mount(Some(&descriptor(&open)), &path, None, libc::MS_BIND | libc::MS_REC, None)?;
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
        let source = |real: &Path| hidden_source(real, std::slice::from_ref(&own));
        assert!(source(&own).is_some() && source(&own.join("a/b")).is_some());
        assert_eq!((source(&root), source(&root.join("owner"))), (None, None));
        assert_eq!(why(Path::new("/mnt/data")), None);
    }
}
