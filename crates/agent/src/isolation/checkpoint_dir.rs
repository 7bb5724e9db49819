//! The directory for checkpoints: what is written there is to last, and whether it can be written
//! is known before the first step, not after the first hour.

use super::Refusal;
use super::account::Account;
use super::place::{leads_to, replaced};
use muster_model::node_paths::check_source;
use rustix::fs::{Access, AtFlags, CWD, accessat};
use std::fs::DirBuilder;
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

/// Looks at where it leads by now, whatever links are on the way, for ranks that have a `/tmp` and a
/// `/dev/shm` of their own: before anything is made there.
///
/// # Errors
/// Why checkpoints cannot be written there, with what to do.
pub(crate) fn allowed(dir: &Path) -> Result<(), Refusal> {
    let refused = |why: &dyn std::fmt::Display| {
        let dir = dir.display();
        Refusal::Job(format!(
            "checkpoints cannot be written to `{dir}`: {why}; name a directory on a disk that all \
             nodes share, such as /shared/ckpt"
        ))
    };
    let real = leads_to(dir);
    for path in [dir, &real] {
        check_source(&path.to_string_lossy()).map_err(|why| refused(&why))?;
    }
    replaced(&real).map_or(Ok(()), |why| Err(refused(&why)))
}

/// Makes it when it is missing, for its owner alone, and looks whether it can be written: as
/// whoever this thread acts as.
pub(crate) fn ready(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    let wanted = Access::WRITE_OK | Access::EXEC_OK;
    accessat(CWD, dir, wanted, AtFlags::EACCESS).map_err(io::Error::from)
}

/// What is wrong with it, and what to do.
pub(crate) fn refusal(dir: &Path, who: Option<&Account>, e: &io::Error) -> Refusal {
    let link = dir.ancestors().find(|d| d.is_symlink());
    let dir = dir.display();
    // Nobody is to be asked to change the owner of what a tenant's link leads to.
    if let Some(link) = link {
        let link = link.display();
        let who = who.map_or_else(|| "the agent's user".into(), Account::describe_account);
        let remediation = match e.kind() {
            ErrorKind::AlreadyExists | ErrorKind::NotFound | ErrorKind::PermissionDenied => {
                format!(
                    "`{link}` is a link that leads where that user may not write; name a directory \
                     by its own path"
                )
            }
            // A full or unhealthy disk is no fault of the link.
            _ => "choose another, or have the node inspected".into(),
        };
        return Refusal::Job(format!(
            "checkpoint directory `{dir}` cannot be made or written by {who}: {e}; {remediation}"
        ));
    }
    Refusal::Job(match who {
        Some(who) => format!(
            "checkpoint directory `{dir}` cannot be made or written by {}: {e}; make it on the \
             node and `chown {}:{} {dir}`, or choose another",
            who.describe_account(),
            who.uid,
            who.gid
        ),
        None => {
            let uid = rustix::process::geteuid().as_raw();
            format!(
                "checkpoint directory `{dir}` cannot be made or written by user {uid}, who the \
                 agent is: {e}; make it on the node and `chown {uid} {dir}`, or choose another"
            )
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_not_write_somewhere_reads_once_where_instead() {
        for (dir, why) in [
            ("/tmp", "each job has its own, which is gone afterwards"),
            ("/dev/shm/x", "what is in /dev is the node's alone"),
            ("/", "it is the whole node"),
        ] {
            let Err(Refusal::Job(text)) = allowed(Path::new(dir)) else { panic!("{dir}") };
            let instead = "name a directory on a disk that all nodes share, such as /shared/ckpt";
            let want = format!("checkpoints cannot be written to `{dir}`: {why}; {instead}");
            assert_eq!(text, want);
        }
    }

    #[test]
    fn nobody_is_asked_to_change_the_owner_of_a_link() {
        let tmp = tempfile::tempdir().unwrap();
        let (link, below) = (tmp.path().join("link"), tmp.path().join("link/ckpt"));
        std::os::unix::fs::symlink("/proc/nowhere", &link).unwrap();
        for dir in [link, below] {
            let e = ready(&dir).unwrap_err();
            let Refusal::Job(said) = refusal(&dir, None, &e) else { panic!("the job's fault") };
            assert!(said.contains("link` is a link") && !said.contains("chown"), "{said}");
            assert!(said.contains(&e.to_string()), "{said}");
            let e = io::Error::from_raw_os_error(libc::EROFS);
            let Refusal::Job(said) = refusal(&dir, None, &e) else { panic!("the job's fault") };
            assert!(!said.contains("is a link") && !said.contains("chown"), "{said}");
            assert!(said.contains(&e.to_string()), "{said}");
        }
    }
}
