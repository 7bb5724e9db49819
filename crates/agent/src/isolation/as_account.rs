//! Touching files as somebody else does: what a job names is looked up with its own rights, so
//! that neither a guessed path nor a link that changes meanwhile leads further than the job may go.

use super::account::Account;
use std::io;

/// Does something with the file system as an account would. For this thread alone.
pub(crate) fn as_account<T>(who: &Account, act: impl FnOnce() -> T) -> io::Result<T> {
    let before = PreviousIdentity::leave(who)?;
    let done = act();
    drop(before);
    Ok(done)
}

/// Who this thread was. Root's rights over files leave the thread together with the user id and
/// come back with it.
struct PreviousIdentity {
    uid: u32,
    gid: u32,
    groups: Vec<u32>,
}

impl PreviousIdentity {
    fn leave(who: &Account) -> io::Result<PreviousIdentity> {
        let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
        let groups = rustix::process::getgroups()?.into_iter().map(|g| g.as_raw()).collect();
        let before = PreviousIdentity { uid: uid.as_raw(), gid: gid.as_raw(), groups };
        set_groups(&who.groups)?;
        set_file_ids(who.uid, who.gid)?;
        Ok(before)
    }
}

impl Drop for PreviousIdentity {
    fn drop(&mut self) {
        let back = set_file_ids(self.uid, self.gid).and_then(|()| set_groups(&self.groups));
        if back.is_err() {
            // Whoever cannot become himself again must not go on as somebody else.
            std::process::abort();
        }
    }
}

#[expect(unsafe_code, reason = "the wrappers change all threads, or do not exist")]
fn set_groups(groups: &[u32]) -> io::Result<()> {
    // SAFETY: the kernel reads as many numbers as there are.
    let result = unsafe { libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[expect(unsafe_code, reason = "the wrappers do not exist")]
fn set_file_ids(uid: u32, gid: u32) -> io::Result<()> {
    // SAFETY: no memory is involved. Both calls answer who it was before; only asking again, with
    // an id that cannot be, says whether it worked.
    let now = unsafe {
        libc::syscall(libc::SYS_setfsgid, gid);
        libc::syscall(libc::SYS_setfsuid, uid);
        (libc::syscall(libc::SYS_setfsuid, u32::MAX), libc::syscall(libc::SYS_setfsgid, u32::MAX))
    };
    if now == (i64::from(uid), i64::from(gid)) {
        Ok(())
    } else {
        Err(io::Error::from_raw_os_error(libc::EPERM))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    #[test]
    fn files_are_touched_with_the_rights_of_another() {
        let root = super::super::account::possible();
        if !muster_testkit::vital(root.is_ok(), format!("{root:?}")) {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o700)).unwrap();
        let open = dir.path().join("open");
        std::fs::create_dir(&open).unwrap();
        std::fs::set_permissions(&open, PermissionsExt::from_mode(0o777)).unwrap();
        let who = Account {
            uid: 200_001,
            gid: 200_001,
            groups: vec![],
            name: "x".into(),
            home: "/".into(),
            made_up: true,
        };
        let refused = as_account(&who, || std::fs::metadata(&open)).unwrap();
        assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::PermissionDenied, "the way there");
        std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o711)).unwrap();
        as_account(&who, || std::fs::write(open.join("a"), "")).unwrap().unwrap();
        assert_eq!(std::fs::metadata(open.join("a")).unwrap().uid(), 200_001);
        std::fs::write(open.join("b"), "").unwrap();
        assert_eq!(std::fs::metadata(open.join("b")).unwrap().uid(), 0, "and back");
    }
}
