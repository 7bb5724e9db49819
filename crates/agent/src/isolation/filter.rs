//! No user namespaces inside: in one of its own, a program has every power again over what belongs
//! to it, and one that runs as root could mount the control groups and lift its slot's limits.
//! A classic BPF program for seccomp, by hand; see `linux/filter.h` and `linux/seccomp.h`.

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

/// Where the number of the call, its architecture and its first argument are.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const FIRST_ARGUMENT: u32 = 16;
const NEW_USER: u32 = libc::CLONE_NEWUSER.cast_unsigned();

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

/// Refuses new user namespaces, and calls in the manner of another architecture.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
static FILTER: [libc::sock_filter; 12] = [
    step(LOAD, 0, 0, ARCHITECTURE),
    step(IF_EQUAL, 0, 9, NATIVE),
    step(LOAD, 0, 0, NUMBER),
    // Numbers of the other kind of x86 calls; nothing else is so large.
    step(IF_AT_LEAST, 7, 0, 0x4000_0000),
    step(IF_EQUAL, 6, 0, number(libc::SYS_clone3)),
    step(IF_EQUAL, 1, 0, number(libc::SYS_clone)),
    step(IF_EQUAL, 0, 2, number(libc::SYS_unshare)),
    step(LOAD, 0, 0, FIRST_ARGUMENT),
    step(IF_ANY_BIT, 1, 0, NEW_USER),
    step(ANSWER, 0, 0, ALLOW),
    step(ANSWER, 0, 0, NOT_PERMITTED),
    step(ANSWER, 0, 0, UNKNOWN),
];

/// Puts the filter around this process and all that come from it. Makes nothing but plain calls,
/// so it may run between fork and exec; needs `no_new_privs`.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(crate) fn filter() -> io::Result<()> {
    let program = libc::sock_fprog {
        len: 12,
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
    fn ask(architecture: u32, call: u32, argument: u32) -> u32 {
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
                        FIRST_ARGUMENT => argument,
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
    fn only_user_namespaces_are_refused() {
        let call = |c: libc::c_long, a: i32| ask(NATIVE, number(c), a.cast_unsigned());
        assert_eq!(call(libc::SYS_read, 0), ALLOW);
        assert_eq!(call(libc::SYS_read, libc::CLONE_NEWUSER), ALLOW);
        assert_eq!(call(libc::SYS_clone, libc::SIGCHLD), ALLOW);
        assert_eq!(call(libc::SYS_clone, libc::CLONE_NEWUSER | libc::SIGCHLD), NOT_PERMITTED);
        assert_eq!(call(libc::SYS_unshare, libc::CLONE_NEWNS), ALLOW);
        assert_eq!(call(libc::SYS_unshare, libc::CLONE_NEWUSER), NOT_PERMITTED);
        assert_eq!(call(libc::SYS_clone3, 0), UNKNOWN);
        assert_eq!(ask(NATIVE, number(libc::SYS_unshare) | 0x4000_0000, 0), UNKNOWN);
        assert_eq!(ask(0x4000_0003, number(libc::SYS_read), 0), UNKNOWN, "32 bits");
    }
}
