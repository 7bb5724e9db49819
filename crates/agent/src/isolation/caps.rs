//! What is left of root's powers inside.

/// What a rank keeps: its files, its own processes, locked memory for network cards, and ports.
/// Everything else goes, also what kernels of the future add. Numbers of `capabilities(7)`.
const KEPT: [u32; 12] = [
    0,  // CHOWN
    1,  // DAC_OVERRIDE
    3,  // FOWNER
    4,  // FSETID
    5,  // KILL
    6,  // SETGID
    7,  // SETUID
    10, // NET_BIND_SERVICE
    13, // NET_RAW
    14, // IPC_LOCK
    18, // SYS_CHROOT
    23, // SYS_NICE
];

/// The same by name, for a container runtime.
pub(crate) const KEPT_NAMES: &str = "CHOWN,DAC_OVERRIDE,FOWNER,FSETID,KILL,SETGID,SETUID,\
                                     NET_BIND_SERVICE,NET_RAW,IPC_LOCK,SYS_CHROOT,SYS_NICE";

/// Takes the rest out of the set that a program started from here can ever have. Makes nothing
/// but plain calls, so it may run between fork and exec.
pub(crate) fn drop_rest() -> std::io::Result<()> {
    for cap in 0..64 {
        if KEPT.contains(&cap) {
            continue;
        }
        #[expect(unsafe_code, reason = "prctl has no safe interface")]
        // SAFETY: no memory is involved.
        let result =
            unsafe { libc::prctl(libc::PR_CAPBSET_DROP, libc::c_ulong::from(cap), 0, 0, 0) };
        if result != 0 {
            let error = std::io::Error::last_os_error();
            // Beyond the last one that this kernel knows.
            if error.raw_os_error() == Some(libc::EINVAL) {
                return Ok(());
            }
            return Err(error);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_are_as_many() {
        assert_eq!(KEPT_NAMES.split(',').count(), KEPT.len());
        assert!(!KEPT_NAMES.contains(' '));
        // SYS_ADMIN, MKNOD, SYS_MODULE, SYS_RAWIO, SYS_PTRACE, DAC_READ_SEARCH, SETPCAP, BPF.
        assert!([21, 27, 16, 17, 19, 2, 8, 39].iter().all(|c| !KEPT.contains(c)));
    }
}
