//! What is left of root's powers: nothing for a rank that runs as its project's user.

/// What a container that runs as root keeps, because an operator asked for that: its
/// files, its own processes, locked memory for network cards, and ports.
pub(crate) const KEPT_NAMES: &str = "CHOWN,DAC_OVERRIDE,FOWNER,FSETID,KILL,SETGID,SETUID,\
                                     NET_BIND_SERVICE,NET_RAW,IPC_LOCK,SYS_CHROOT,SYS_NICE";

/// Takes every power out of the set that a program started from here can ever have, also what
/// kernels of the future add. Makes nothing but plain calls, so it may run between fork and exec.
pub(crate) fn drop_all() -> std::io::Result<()> {
    for cap in 0_u32..64 {
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
