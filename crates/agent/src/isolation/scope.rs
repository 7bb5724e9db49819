//! Abstract sockets belong to the network, which ranks share with the node. Landlock keeps them to
//! a slot where the kernel has it (6.12 and later); see `linux/landlock.h`.

/// The call that makes a set of rules; the same number on every architecture.
const CREATE_RULESET: libc::c_long = 444;
/// The call that puts it around this thread.
const RESTRICT_SELF: libc::c_long = 446;
/// No connecting to abstract sockets of whoever is outside.
const ABSTRACT_SOCKETS: u64 = 1;

/// Keeps this thread, and all that come from it, from abstract sockets of others. Those of one
/// slot reach each other: libraries that ranks use rely on it. False where the kernel cannot.
pub(crate) fn keep_abstract_sockets() -> bool {
    // Files, ports, and what is kept within.
    let rules: [u64; 3] = [0, 0, ABSTRACT_SOCKETS];
    #[expect(unsafe_code, reason = "landlock has no safe interface without another dependency")]
    // SAFETY: the rules live past the call and are as long as is said; the descriptor that comes
    // back is ours and is closed once.
    unsafe {
        // Whoever has no power over namespaces must give up new ones first; ranks do so anyhow.
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        let size = std::mem::size_of_val(&rules);
        let set = libc::syscall(CREATE_RULESET, rules.as_ptr(), size, 0);
        let Ok(set) = i32::try_from(set) else { return false };
        if set < 0 {
            return false;
        }
        let done = libc::syscall(RESTRICT_SELF, set, 0);
        libc::close(set);
        done == 0
    }
}
