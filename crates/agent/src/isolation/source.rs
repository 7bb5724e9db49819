//! Where a volume comes from: opened once, without the links of `/proc` that lead past every path,
//! and looked at before it is bound.

use super::Refusal;
use super::account::Account;
use super::place::descriptor;
use muster_model::node_paths::{RefusedSource, check_source};
use muster_model::spec::Volume;
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// Why a path cannot be the source of a volume.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SourceError {
    /// By where it is.
    #[error(transparent)]
    Refused(#[from] RefusedSource),
    /// By what it is.
    #[error("it is of the kernel's own {0}, which is the node's alone")]
    KernelFiles(&'static str),
    /// A link of `/proc` leads to what a process has open, whatever its path is; a circle of links
    /// looks the same to the kernel.
    #[error("a link on the way there leads through /proc, which is the node's alone, or to itself")]
    Link,
    /// The kernel cannot be asked to leave such links alone.
    #[error("this node's kernel cannot open it safely: volumes need openat2 (Linux 5.6 or later)")]
    OldKernel,
    /// It could not be opened.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl SourceError {
    /// The same as a refusal of the volume, which was looked up as this account, or as the agent.
    pub(crate) fn refusal(&self, v: &Volume, who: Option<&Account>) -> Refusal {
        let why = match (self, who) {
            (SourceError::Io(e), _) if e.kind() == io::ErrorKind::NotFound => {
                return Refusal::Job(format!(
                    "volume `{}` does not exist on this node: create it, or fix `from`",
                    v.from
                ));
            }
            (SourceError::Io(e), Some(who)) if e.kind() == io::ErrorKind::PermissionDenied => {
                format!("{} may not go there", who.describe_account())
            }
            _ => self.to_string(),
        };
        let said = format!("cannot bind volume `{}` at `{}`: {why}", v.from, v.at);
        match self {
            SourceError::OldKernel => Refusal::Node(said),
            _ => Refusal::Job(said),
        }
    }
}

/// Opens a path only to name it, and says where it is by now, whatever links led there.
///
/// # Errors
/// [`SourceError`] when it cannot be a volume.
pub(crate) fn open_source(path: &Path) -> Result<(File, PathBuf), SourceError> {
    check_source(&path.to_string_lossy())?;
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let opened = rustix::fs::openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_MAGICLINKS);
    let file = File::from(opened.map_err(|e| match e {
        Errno::LOOP => SourceError::Link,
        Errno::NOSYS => SourceError::OldKernel,
        e => SourceError::Io(e.into()),
    })?);
    let real = fs::read_link(descriptor(&file))?;
    check_source(&real.to_string_lossy())?;
    match kernel_files(&file)? {
        Some(kind) => Err(SourceError::KernelFiles(kind)),
        None => Ok((file, real)),
    }
}

/// The kernel's own file system that a file is of, if so, wherever that is mounted.
fn kernel_files(file: &File) -> io::Result<Option<&'static str>> {
    let stat = rustix::fs::fstatfs(file)?;
    let kinds = [
        (0x9fa0, "procfs"),
        (0x6265_6572, "sysfs"),
        (0x6e73_6673, "nsfs"),
        (0x0027_e0eb, "cgroup"),
        (0x6367_7270, "cgroup2"),
        (0x6462_6720, "debugfs"),
        (0x7472_6163, "tracefs"),
        (0x7363_6673, "securityfs"),
    ];
    Ok(kinds.into_iter().find(|(magic, _)| *magic == stat.f_type).map(|(_, kind)| kind))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn no_way_leads_through_proc() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        // Held open, so that a link of /proc leads to a directory that would be fine by its path.
        let held = File::open(&root).unwrap();
        let held = descriptor(&held).display().to_string();
        for (i, to) in
            ["/proc/self/root", "/proc/thread-self/cwd", "/proc/self/ns/mnt", &held, "/proc", "/"]
                .into_iter()
                .enumerate()
        {
            assert!(matches!(open_source(Path::new(to)), Err(SourceError::Refused(_))), "{to}");
            let link = root.join(format!("link-{i}"));
            symlink(to, &link).unwrap();
            let refused = open_source(&link).unwrap_err();
            let is_reported = matches!(refused, SourceError::Refused(_) | SourceError::Link);
            assert!(is_reported, "a link to {to}: {refused:?}");
        }
        symlink(&root, root.join("plain")).unwrap();
        assert_eq!(open_source(&root.join("plain")).unwrap().1, root);
        let missing = open_source(&root.join("missing")).unwrap_err();
        let v = Volume { from: "/data".into(), at: "/mnt/x".into(), read_only: true };
        let refusal = missing.refusal(&v, None);
        assert!(
            matches!(&refusal, Refusal::Job(why) if why.contains("`/data` does not exist")),
            "{refusal:?}"
        );
    }

    #[test]
    fn the_kernels_files_are_known_wherever_they_are() {
        let kind = |path: &str| kernel_files(&File::open(path).unwrap()).unwrap();
        assert_eq!(kind("/proc/self/status"), Some("procfs"));
        assert_eq!(kind("/proc/self/ns/mnt"), Some("nsfs"));
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(kernel_files(&File::open(dir.path()).unwrap()).unwrap(), None);
    }
}
