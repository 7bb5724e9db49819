//! Calls to the kernel that a rank has no use for. No namespaces: in a user namespace of its own, a
//! program has every power again over what belongs to it, and most of what was ever wrong with the
//! kernel begins there. And nothing that only root may do anyhow, so that a mistake in the kernel's own
//! checks is not enough. A classic BPF program for seccomp, by hand; see `linux/filter.h` and
//! `linux/seccomp.h`.

use std::io;

const LOAD: u16 = 0x20;
const IF_EQUAL: u16 = 0x15;
const IF_AT_LEAST: u16 = 0x35;
const IF_ANY_BIT: u16 = 0x45;
const ANSWER: u16 = 0x06;

const ALLOW: u32 = 0x7fff_0000;
const REFUSE: u32 = 0x0005_0000;
const NOT_PERMITTED: u32 = REFUSE | libc::EPERM.cast_unsigned();
/// Makes a C library fall back to calls that can be looked into.
const UNKNOWN: u32 = REFUSE | libc::ENOSYS.cast_unsigned();

/// Where the number of the call, its architecture, its first and its third argument are.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const FIRST_ARGUMENT: u32 = 16;
const THIRD_ARGUMENT: u32 = 32;
/// Namespaces of every kind that `clone` and `unshare` make.
const NEW_NAMESPACE: u32 = (libc::CLONE_NEWUSER
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET)
    .cast_unsigned();
/// Families of sockets that a rank has a use for. All others are refused: `AF_VSOCK` speaks to the
/// hypervisor, and the rest is code of the kernel that nobody here needs. Of netlink only addresses
/// and routes (C libraries, NCCL) and the names of RDMA devices (libibverbs, librdmacm).
const UNIX: u32 = libc::AF_UNIX.cast_unsigned();
const INET: u32 = libc::AF_INET.cast_unsigned();
const INET6: u32 = libc::AF_INET6.cast_unsigned();
const NETLINK: u32 = libc::AF_NETLINK.cast_unsigned();
const NETLINK_ROUTE: u32 = 0;
const NETLINK_RDMA: u32 = 20;
/// Since Linux 6.15; the same number on every architecture.
const OPEN_TREE_ATTR: libc::c_long = 467;

#[cfg(target_arch = "x86_64")]
const NATIVE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const NATIVE: u32 = 0xc000_00b7;

const fn step(code: u16, yes: u8, no: u8, value: u32) -> libc::sock_filter {
    libc::sock_filter { code, jt: yes, jf: no, k: value }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small numbers")]
const fn number(call: libc::c_long) -> u32 {
    call as u32
}

/// What is refused, whatever its arguments. Tracing and memory of other processes are not in it:
/// debuggers and MPI use both, and ranks reach the processes of their slot alone.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
const REFUSED: [libc::c_long; 43] = [
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    OPEN_TREE_ATTR,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_setns,
    libc::SYS_chroot,
    libc::SYS_open_by_handle_at,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_vhangup,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_adjtimex,
    libc::SYS_clock_adjtime,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_syslog,
    libc::SYS_fanotify_init,
];

/// The steps before and after those that look for what is refused.
const AROUND: usize = 22;

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
const fn program() -> [libc::sock_filter; REFUSED.len() + AROUND] {
    const N: usize = REFUSED.len();
    let refuse = N + AROUND - 2;
    // How far it is from one step to another.
    const fn far(from: usize, to: usize) -> u8 {
        (to - from - 1) as u8
    }
    let unknown = refuse + 1;
    let mut all = [step(ANSWER, 0, 0, ALLOW); N + AROUND];
    all[0] = step(LOAD, 0, 0, ARCHITECTURE);
    all[1] = step(IF_EQUAL, 0, far(1, unknown), NATIVE);
    all[2] = step(LOAD, 0, 0, NUMBER);
    // Numbers of the other kind of x86 calls; nothing else is so large.
    all[3] = step(IF_AT_LEAST, far(3, unknown), 0, 0x4000_0000);
    all[4] = step(IF_EQUAL, far(4, unknown), 0, number(libc::SYS_clone3));
    let mut i = 0;
    while i < N {
        all[5 + i] = step(IF_EQUAL, far(5 + i, refuse), 0, number(REFUSED[i]));
        i += 1;
    }
    let at = 5 + N;
    let (namespaces, families, allow) = (at + 4, at + 6, refuse - 1);
    all[at] = step(IF_EQUAL, far(at, namespaces), 0, number(libc::SYS_clone));
    all[at + 1] = step(IF_EQUAL, far(at + 1, namespaces), 0, number(libc::SYS_unshare));
    all[at + 2] = step(IF_EQUAL, far(at + 2, families), 0, number(libc::SYS_socket));
    let (pair, no) = (number(libc::SYS_socketpair), far(at + 3, allow));
    all[at + 3] = step(IF_EQUAL, far(at + 3, families), no, pair);
    all[at + 4] = step(LOAD, 0, 0, FIRST_ARGUMENT);
    all[at + 5] = step(IF_ANY_BIT, far(at + 5, refuse), far(at + 5, allow), NEW_NAMESPACE);
    all[at + 6] = step(LOAD, 0, 0, FIRST_ARGUMENT);
    all[at + 7] = step(IF_EQUAL, far(at + 7, allow), 0, UNIX);
    all[at + 8] = step(IF_EQUAL, far(at + 8, allow), 0, INET);
    all[at + 9] = step(IF_EQUAL, far(at + 9, allow), 0, INET6);
    all[at + 10] = step(IF_EQUAL, 0, far(at + 10, refuse), NETLINK);
    all[at + 11] = step(LOAD, 0, 0, THIRD_ARGUMENT);
    all[at + 12] = step(IF_EQUAL, far(at + 12, allow), 0, NETLINK_ROUTE);
    all[at + 13] = step(IF_EQUAL, far(at + 13, allow), far(at + 13, refuse), NETLINK_RDMA);
    all[allow] = step(ANSWER, 0, 0, ALLOW);
    all[refuse] = step(ANSWER, 0, 0, NOT_PERMITTED);
    all[unknown] = step(ANSWER, 0, 0, UNKNOWN);
    all
}

/// Refuses new namespaces, what only root may do, sockets of other families, and calls in the manner
/// of another architecture.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
static FILTER: [libc::sock_filter; REFUSED.len() + AROUND] = program();

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
const STEPS: u16 = (REFUSED.len() + AROUND) as u16;

/// Puts the filter around this process and all that come from it. Makes nothing but plain calls,
/// so it may run between fork and exec; needs `no_new_privs`.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(crate) fn filter() -> io::Result<()> {
    let program = libc::sock_fprog {
        len: STEPS,
        // The kernel only reads it.
        filter: std::ptr::addr_of!(FILTER).cast_mut().cast(),
    };
    #[expect(unsafe_code, reason = "prctl has no safe interface")]
    // SAFETY: the program is a valid one of the given length and lives for ever.
    let result = unsafe {
        libc::prctl(
            libc::PR_SET_SECCOMP,
            libc::SECCOMP_MODE_FILTER,
            std::ptr::from_ref(&program),
            0,
            0,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(crate) fn filter() -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod tests {
    use super::*;

    /// What the kernel would answer.
    fn ask(architecture: u32, call: u32, first: u32, third: u32) -> u32 {
        let (mut at, mut word) = (0, 0);
        loop {
            let s = &FILTER[at];
            at += 1;
            let jump = |yes: bool| usize::from(if yes { s.jt } else { s.jf });
            match s.code {
                LOAD => {
                    word = match s.k {
                        NUMBER => call,
                        ARCHITECTURE => architecture,
                        FIRST_ARGUMENT => first,
                        THIRD_ARGUMENT => third,
                        other => panic!("{other}"),
                    }
                }
                IF_EQUAL => at += jump(word == s.k),
                IF_AT_LEAST => at += jump(word >= s.k),
                IF_ANY_BIT => at += jump(word & s.k != 0),
                ANSWER => return s.k,
                other => panic!("{other}"),
            }
        }
    }

    #[test]
    fn namespaces_and_what_is_for_root_are_refused() {
        let call = |c: libc::c_long, a: i32| ask(NATIVE, number(c), a.cast_unsigned(), 0);
        assert_eq!(call(libc::SYS_read, 0), ALLOW);
        assert_eq!(call(libc::SYS_read, libc::CLONE_NEWUSER), ALLOW);
        assert_eq!(call(libc::SYS_clone, libc::SIGCHLD), ALLOW);
        assert_eq!(call(libc::SYS_clone, libc::CLONE_NEWUSER | libc::SIGCHLD), NOT_PERMITTED);
        assert_eq!(call(libc::SYS_unshare, libc::CLONE_FS | libc::CLONE_FILES), ALLOW);
        for kind in [libc::CLONE_NEWUSER, libc::CLONE_NEWNS, libc::CLONE_NEWNET] {
            assert_eq!(call(libc::SYS_unshare, kind), NOT_PERMITTED, "{kind:x}");
        }
        let thread = libc::CLONE_VM | libc::CLONE_THREAD | libc::CLONE_SIGHAND;
        assert_eq!(call(libc::SYS_clone, thread), ALLOW);
        for refused in REFUSED {
            assert_eq!(call(refused, 0), NOT_PERMITTED, "{refused}");
        }
        for used in [
            libc::SYS_execve,
            libc::SYS_ptrace,
            libc::SYS_process_vm_readv,
            libc::SYS_mknodat,
            libc::SYS_sched_setaffinity,
            libc::SYS_mbind,
            libc::SYS_memfd_create,
            libc::SYS_pidfd_open,
        ] {
            assert_eq!(call(used, 0), ALLOW, "{used}");
        }
        assert_eq!(call(libc::SYS_clone3, 0), UNKNOWN);
        assert_eq!(ask(NATIVE, number(libc::SYS_unshare) | 0x4000_0000, 0, 0), UNKNOWN);
        assert_eq!(ask(0x4000_0003, number(libc::SYS_read), 0, 0), UNKNOWN, "32 bits");
    }

    #[test]
    fn only_sockets_that_a_rank_has_a_use_for_are_made() {
        let made = |family: i32, protocol: u32| {
            ask(NATIVE, number(libc::SYS_socket), family.cast_unsigned(), protocol)
        };
        for family in [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6] {
            assert_eq!(made(family, 6), ALLOW, "{family}");
        }
        let pair =
            |family: i32| ask(NATIVE, number(libc::SYS_socketpair), family.cast_unsigned(), 0);
        assert_eq!(pair(libc::AF_UNIX), ALLOW);
        assert_eq!(pair(libc::AF_TIPC), NOT_PERMITTED);
        let asked_for = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];
        for family in (0..64).filter(|f| !asked_for.contains(f)) {
            assert_eq!(made(family, 0), NOT_PERMITTED, "{family}");
        }
        for protocol in 0..32 {
            let used = matches!(protocol, NETLINK_ROUTE | NETLINK_RDMA);
            let answer = if used { ALLOW } else { NOT_PERMITTED };
            assert_eq!(made(libc::AF_NETLINK, protocol), answer, "{protocol}");
        }
        assert_eq!(ask(NATIVE, number(libc::SYS_connect), 40, 9), ALLOW);
    }
}
