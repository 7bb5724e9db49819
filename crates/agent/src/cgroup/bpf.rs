//! The device fence of the unified tree: a program that the kernel asks about every opened
//! device. Small enough to be put together by hand; see `linux/bpf.h` for the numbers.

use super::rule::Rule;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;

/// One instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
struct Step {
    code: u8,
    /// Destination in the low four bits, source in the high ones.
    registers: u8,
    offset: i16,
    value: i32,
}

/// Loads 32 bits from memory.
const LOAD: u8 = 0x61;
/// Copies a register.
const COPY: u8 = 0xbf;
/// Sets a register.
const SET: u8 = 0xb7;
const AND: u8 = 0x57;
const SHIFT_RIGHT: u8 = 0x77;
const JUMP_IF_NOT: u8 = 0x55;
const EXIT: u8 = 0x95;

/// What is asked about is given in three words: kind and access, major, minor.
const KIND: u8 = 2;
const ACCESS: u8 = 3;
const MAJOR: u8 = 4;
const MINOR: u8 = 5;
const SPARE: u8 = 6;

const BLOCK: i32 = 1;
const CHARACTER: i32 = 2;
const MAKE: i32 = 1;

fn step(code: u8, to: u8, from: u8, offset: i16, value: i32) -> Step {
    Step { code, registers: to | from << 4, offset, value }
}

/// Says yes to reading and writing what is listed, and to nothing else.
fn program(rules: &[Rule]) -> Vec<Step> {
    let mut steps = vec![
        step(LOAD, KIND, 1, 0, 0),
        step(COPY, ACCESS, KIND, 0, 0),
        step(AND, KIND, 0, 0, 0xffff),
        step(SHIFT_RIGHT, ACCESS, 0, 0, 16),
        step(LOAD, MAJOR, 1, 4, 0),
        step(LOAD, MINOR, 1, 8, 0),
        step(COPY, SPARE, ACCESS, 0, 0),
        step(AND, SPARE, 0, 0, MAKE),
        // Nobody makes a node: straight to the refusal.
        step(JUMP_IF_NOT, SPARE, 0, 0, 0),
    ];
    let refused_early = steps.len() - 1;
    for rule in rules {
        let kind = if rule.block { BLOCK } else { CHARACTER };
        let mut tests = vec![(KIND, kind), (MAJOR, rule.major.cast_signed())];
        tests.extend(rule.minor.map(|m| (MINOR, m.cast_signed())));
        let mut left = i16::try_from(tests.len()).unwrap_or(3) + 2;
        for (register, value) in tests {
            left -= 1;
            steps.push(step(JUMP_IF_NOT, register, 0, left, value));
        }
        steps.extend([step(SET, 0, 0, 0, 1), step(EXIT, 0, 0, 0, 0)]);
    }
    let refusal = steps.len();
    steps[refused_early].offset = i16::try_from(refusal - refused_early - 1).unwrap_or(i16::MAX);
    steps.extend([step(SET, 0, 0, 0, 0), step(EXIT, 0, 0, 0, 0)]);
    steps
}

const LOAD_PROGRAM: libc::c_int = 5;
const ATTACH: libc::c_int = 8;
const TYPE_CGROUP_DEVICE: u32 = 15;
const CGROUP_DEVICE: u32 = 6;
const ALLOW_MULTI: u32 = 2;

#[repr(C)]
struct LoadArguments {
    kind: u32,
    count: u32,
    steps: u64,
    licence: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel: u32,
    flags: u32,
}

#[repr(C)]
struct AttachArguments {
    group: i32,
    program: i32,
    kind: u32,
    flags: u32,
}

fn bpf<T>(command: libc::c_int, arguments: &T) -> io::Result<libc::c_long> {
    #[expect(unsafe_code, reason = "bpf has no safe interface")]
    // SAFETY: the arguments are of the size that is given, and whatever they point to lives as
    // long as the caller's borrow.
    let result = unsafe {
        libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(arguments), size_of::<T>())
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Fences a group of the unified tree. The fence lasts as long as the group.
pub(super) fn fence(group: &Path, rules: &[Rule]) -> io::Result<()> {
    let steps = program(rules);
    let address = |p: *const u8| p as u64;
    let loaded = bpf(
        LOAD_PROGRAM,
        &LoadArguments {
            kind: TYPE_CGROUP_DEVICE,
            count: u32::try_from(steps.len()).unwrap_or(u32::MAX),
            steps: address(steps.as_ptr().cast()),
            licence: address(c"Apache-2.0".as_ptr().cast()),
            log_level: 0,
            log_size: 0,
            log: 0,
            kernel: 0,
            flags: 0,
        },
    )?;
    let raw = i32::try_from(loaded).map_err(io::Error::other)?;
    #[expect(unsafe_code, reason = "the kernel hands out a plain number")]
    // SAFETY: the descriptor was just opened for us and belongs to nobody else.
    let program = unsafe { OwnedFd::from_raw_fd(raw) };
    let dir = std::fs::File::open(group)?;
    bpf(
        ATTACH,
        &AttachArguments {
            group: dir.as_raw_fd(),
            program: program.as_raw_fd(),
            kind: CGROUP_DEVICE,
            flags: ALLOW_MULTI,
        },
    )?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const READ: u32 = 2;
    const WRITE: u32 = 4;

    /// What the kernel would do.
    fn ask(steps: &[Step], kind: u32, access: u32, major: u32, minor: u32) -> u64 {
        let context = [access << 16 | kind, major, minor];
        let mut r = [0_u64; 11];
        let mut at = 0;
        for _ in 0..10_000 {
            let s = steps[at];
            let (to, from) = (usize::from(s.registers & 15), usize::from(s.registers >> 4));
            let value = i64::from(s.value).cast_unsigned();
            at += 1;
            match s.code {
                LOAD => {
                    assert_eq!(from, 1, "only the question is read");
                    r[to] = u64::from(context[usize::try_from(s.offset).unwrap() / 4]);
                }
                COPY => r[to] = r[from],
                SET => r[to] = value,
                AND => r[to] &= value,
                SHIFT_RIGHT => r[to] >>= value,
                JUMP_IF_NOT if r[to] != value => at += usize::try_from(s.offset).unwrap(),
                JUMP_IF_NOT => {}
                EXIT => return r[0],
                other => panic!("unknown instruction {other:#x}"),
            }
        }
        panic!("no end");
    }

    #[test]
    fn what_is_listed_may_be_opened_and_nothing_else() {
        let char_dev = |major, minor| Rule { block: false, major, minor };
        let steps = program(&[char_dev(195, Some(3)), char_dev(136, None)]);
        let char_kind = CHARACTER.cast_unsigned();
        assert_eq!(ask(&steps, char_kind, READ | WRITE, 195, 3), 1);
        assert_eq!(ask(&steps, char_kind, READ, 195, 3), 1);
        assert_eq!(ask(&steps, char_kind, READ, 195, 4), 0, "another GPU");
        assert_eq!(ask(&steps, BLOCK.cast_unsigned(), READ, 195, 3), 0, "another kind");
        assert_eq!(ask(&steps, char_kind, READ, 136, 7), 1, "any terminal");
        assert_eq!(ask(&steps, char_kind, MAKE.cast_unsigned(), 195, 3), 0, "nodes are not made");
        assert_eq!(ask(&program(&[]), char_kind, READ, 1, 3), 0);
    }

    #[test]
    fn the_kernel_takes_the_program() {
        let Some(parent) = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"]
            .map(Path::new)
            .into_iter()
            .find(|p| p.join("cgroup.controllers").exists())
        else {
            let _ = muster_testkit::machine(false, "no unified tree of control groups");
            return;
        };
        let group = parent.join(format!("muster-bpf-{}", std::process::id()));
        if let Err(e) = std::fs::create_dir(&group) {
            let _ = muster_testkit::machine(false, format!("no control group can be made ({e})"));
            return;
        }
        let null = Rule::of(Path::new("/dev/null")).unwrap();
        let fenced = fence(&group, &[null]);
        // A shell that joins opens what it may, and not what it may not.
        let script = format!(
            "echo $$ > {}/cgroup.procs && : < /dev/null && ! (: < /dev/zero) 2>/dev/null",
            group.display()
        );
        let shell = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
        std::fs::remove_dir(&group).unwrap();
        match fenced {
            Ok(()) => assert!(shell.status.success(), "{}", muster_testkit::printed(&shell)),
            Err(e) if e.raw_os_error() == Some(libc::EPERM) => {
                let _ = muster_testkit::machine(false, format!("no program for devices ({e})"));
            }
            Err(e) => panic!("{e}"),
        }
    }
}
