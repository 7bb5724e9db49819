//! Becoming the account: the last thing that happens before a rank's program starts.

use super::account::Account;
use super::caps;

/// What a rank writes is its project's alone unless it says otherwise.
const UMASK: libc::mode_t = 0o077;

/// An account as it is needed between fork and exec, where nothing may be allocated.
pub(crate) struct TargetAccount {
    uid: u32,
    gid: u32,
    groups: Vec<u32>,
}

impl TargetAccount {
    pub(crate) fn new(a: &Account) -> TargetAccount {
        TargetAccount { uid: a.uid, gid: a.gid, groups: a.groups.clone() }
    }

    /// Becomes it for good: no capability is left, and none can come back. Makes nothing but
    /// plain calls, so it may run between fork and exec. False when it did not work.
    #[must_use]
    pub(crate) fn for_good(&self) -> bool {
        limits();
        if caps::drop_all().is_err() {
            return false;
        }
        #[expect(unsafe_code, reason = "the wrappers may allocate, or wait for other threads")]
        // SAFETY: the kernel reads as many numbers as there are, and the header and the sets live
        // past the call; otherwise no memory is involved.
        unsafe {
            let groups = self.groups.as_ptr();
            if libc::syscall(libc::SYS_setgroups, self.groups.len(), groups) != 0
                || libc::syscall(libc::SYS_setresgid, self.gid, self.gid, self.gid) != 0
                || libc::syscall(libc::SYS_setresuid, self.uid, self.uid, self.uid) != 0
            {
                return false;
            }
            // Version 3 of the sets, this process, nothing in any of them.
            let header: [u32; 2] = [0x2008_0522, 0];
            let sets: [u32; 6] = [0; 6];
            if libc::syscall(libc::SYS_capset, header.as_ptr(), sets.as_ptr()) != 0 {
                return false;
            }
            libc::umask(UMASK);
            // A change of user takes this away.
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0);
            // It cannot be undone, or it was not done.
            libc::syscall(libc::SYS_setresuid, u32::MAX, 0, u32::MAX) != 0
        }
    }
}

/// Memory that network cards use must be locked, which root could do without a limit. A dump of
/// memory would be written where others look, by the kernel or by whoever the node has for it:
/// one byte is too small for a file, and the value that stops the kernel from starting a program.
fn limits() {
    let all = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    let none = libc::rlimit { rlim_cur: 1, rlim_max: 1 };
    #[expect(unsafe_code, reason = "a wrapper may allocate")]
    // SAFETY: both limits live past the calls. One that is refused stays as it is.
    unsafe {
        libc::setrlimit(libc::RLIMIT_MEMLOCK, &raw const all);
        libc::setrlimit(libc::RLIMIT_CORE, &raw const none);
    }
}
