//! What a rank tries in order to get out of its slot. Runs as a rank: the tests hand this very
//! executable to the agent as a job's program. Every attempt that works is printed as
//! `POSSIBLE`; one that is refused, as `refused`.

use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::{SocketAddr, UnixStream};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// First argument with which the executable is to call [`main`].
pub(crate) const ARG: &str = "__escape";

/// What was tried and what came of it.
fn tried<T>(what: &str, result: io::Result<T>) {
    match result {
        Ok(_) => println!("POSSIBLE {what}"),
        Err(e) => println!("refused {what}: {e}"),
    }
}

/// A call to the kernel that must not work. The arguments are numbers, or addresses that live
/// past the call.
fn call(what: &str, number: libc::c_long, args: [usize; 5]) {
    let [a, b, c, d, e] = args;
    #[expect(unsafe_code, reason = "the very calls are what is tried")]
    // SAFETY: pointers among the arguments are null or live past the call.
    let result = unsafe { libc::syscall(number, a, b, c, d, e, 0) };
    let error = io::Error::last_os_error();
    tried(what, if result < 0 { Err(error) } else { Ok(()) });
}

/// The same, where only a refusal counts: with these arguments it fails anyhow.
fn call_refused(what: &str, number: libc::c_long, args: [usize; 5]) {
    let [a, b, c, d, e] = args;
    #[expect(unsafe_code, reason = "the very calls are what is tried")]
    // SAFETY: the arguments are numbers that the kernel does not take for addresses it may use.
    let result = unsafe { libc::syscall(number, a, b, c, d, e, 0) };
    let error = io::Error::last_os_error();
    let refused = result < 0 && matches!(error.raw_os_error(), Some(libc::EPERM | libc::EACCES));
    tried(what, if refused { Err(error) } else { Ok(()) });
}

fn text(s: &str) -> CString {
    CString::new(s).unwrap()
}

fn read(path: &Path) -> io::Result<usize> {
    File::open(path)?.read(&mut [0; 16])
}

/// To have it open for writing is enough; nothing is written, should that work.
fn write(path: &Path) -> io::Result<()> {
    OpenOptions::new().append(true).open(path).map(drop)
}

fn create(path: &Path) -> io::Result<()> {
    let made = OpenOptions::new().write(true).create_new(true).open(path).map(drop);
    if made.is_ok() {
        let _ = fs::remove_file(path);
    }
    made
}

/// Does what the words after [`ARG`] say.
pub(crate) fn main(args: &[String]) -> ! {
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words[..] {
        ["whoami"] => println!("euid {}", rustix::process::geteuid().as_raw()),
        ["abort"] => std::process::abort(),
        ["connect", name] => match abstract_socket(name) {
            Ok(()) => println!("connected"),
            Err(e) => println!("not connected: {e}"),
        },
        ["all", program, config] => all(program, config),
        ["contained", program, config] => contained(program, config),
        _ => std::process::exit(2),
    }
    let _ = io::stdout().flush();
    std::process::exit(0)
}

fn abstract_socket(name: &str) -> io::Result<()> {
    UnixStream::connect_addr(&SocketAddr::from_abstract_name(name)?).map(drop)
}

/// What must not work in an image either. The first process there is the rank itself, and calls are
/// filtered by the runtime.
fn contained(program: &str, config: &str) {
    listed(config);
    mounts();
    devices();
    users(program);
}

/// The lines of the configuration: `kind value`.
fn listed(config: &str) {
    for line in fs::read_to_string(config).expect("a list of what to try").lines() {
        let (kind, value) = line.split_once(' ').unwrap_or((line, ""));
        let path = Path::new(value);
        match kind {
            "read" => tried(line, read(path)),
            "list" => tried(
                line,
                fs::read_dir(path).and_then(|mut d| match d.next() {
                    Some(first) => first,
                    None => Err(io::Error::other("it is empty")),
                }),
            ),
            "write" => tried(line, write(path)),
            "create" => tried(line, create(&path.join("muster-escape"))),
            "pid" => other_process(line, value.parse().expect("a number")),
            "abstract" => tried(line, abstract_socket(value)),
            "socket" => tried(line, UnixStream::connect(path)),
            "shm" => shared_memory(line, value.parse().expect("a number")),
            "setuid" => set_uid_program(line, path),
            "group" => other_group(line, value),
            _ => panic!("{line}"),
        }
    }
}

fn all(program: &str, config: &str) {
    listed(config);
    files_of_the_node();
    first_process();
    mounts();
    calls_to_mount();
    namespaces();
    devices();
    users(program);
    groups();
    core_dumps(program);
    oom_score();
    kernel();
    sockets();
}

fn files_of_the_node() {
    for path in [
        "/etc/shadow",
        "/proc/kcore",
        "/proc/kmsg",
        "/proc/1/environ",
        "/proc/1/maps",
        "/proc/1/mem",
        "/proc/1/auxv",
        "/proc/self/root/../etc/shadow",
    ] {
        if Path::new(path).exists() {
            tried(&format!("read {path}"), read(Path::new(path)));
        }
    }
    for path in ["/proc/1/root", "/proc/1/cwd", "/proc/1/fd", "/proc/1/map_files", "/root"] {
        tried(&format!("list {path}"), fs::read_dir(path));
    }
    // How others would run a program of ours.
    for dir in [
        "/etc",
        "/etc/cron.d",
        "/etc/cron.hourly",
        "/var/spool/cron",
        "/var/spool/cron/crontabs",
        "/etc/systemd/system",
        "/etc/profile.d",
        "/etc/ld.so.conf.d",
        "/usr/local/bin",
        "/usr/lib",
        "/root",
        "/run",
        "/run/muster",
        "/dev",
        "/",
    ] {
        tried(&format!("create in {dir}"), create(&Path::new(dir).join("muster-escape")));
    }
    for path in [
        "/etc/passwd",
        "/etc/crontab",
        "/etc/ld.so.cache",
        "/root/.bashrc",
        "/proc/sys/kernel/core_pattern",
        "/proc/sys/kernel/modprobe",
        "/proc/sys/vm/drop_caches",
        "/proc/sysrq-trigger",
        "/sys/kernel/uevent_helper",
        "/proc/1/oom_score_adj",
        "/bin/sh",
    ] {
        tried(&format!("write {path}"), write(Path::new(path)));
    }
}

/// A process by the number that the node knows: it is not there.
fn other_process(what: &str, pid: usize) {
    // Numbers begin anew inside; this one may be somebody else's here.
    if fs::read_to_string(format!("/proc/{pid}/comm")).is_ok() {
        println!("refused {what}: another one has its number");
        return;
    }
    call(&format!("signal {what}"), libc::SYS_kill, [pid, 0, 0, 0, 0]);
    call(&format!("trace {what}"), libc::SYS_ptrace, [libc::PTRACE_ATTACH as usize, pid, 0, 0, 0]);
    tried(&format!("environment of {what}"), read(&PathBuf::from(format!("/proc/{pid}/environ"))));
}

fn first_process() {
    call("kill the init", libc::SYS_kill, [1, libc::SIGKILL as usize, 0, 0, 0]);
    call("trace the init", libc::SYS_ptrace, [libc::PTRACE_ATTACH as usize, 1, 0, 0, 0]);
    call("seize the init", libc::SYS_ptrace, [libc::PTRACE_SEIZE as usize, 1, 0, 0, 0]);
    let mut byte = [0_u8; 16];
    let ours = libc::iovec { iov_base: byte.as_mut_ptr().cast(), iov_len: 16 };
    let (o, one) = (std::ptr::from_ref(&ours) as usize, 1);
    call("memory of the init", libc::SYS_process_vm_readv, [1, o, one, o, one]);
    call("limits of the init", libc::SYS_prlimit64, [1, 7, 0, byte.as_ptr() as usize, 0]);
    call("priority of the init", libc::SYS_setpriority, [0, 1, 19, 0, 0]);
    #[expect(unsafe_code, reason = "the very calls are what is tried")]
    // SAFETY: no memory is involved.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, 1, 0) };
    if let Ok(fd) = usize::try_from(fd) {
        call("a descriptor of the init", libc::SYS_pidfd_getfd, [fd, 0, 0, 0, 0]);
        call("namespaces by descriptor", libc::SYS_setns, [fd, 0x0002_0000, 0, 0, 0]);
    }
}

fn mounts() {
    let (tmpfs, tmp, etc) = (text("tmpfs"), text("/tmp"), text("/etc"));
    let at = |s: &CString| s.as_ptr() as usize;
    call("mount", libc::SYS_mount, [at(&tmpfs), at(&tmp), at(&tmpfs), 0, 0]);
    call("bind", libc::SYS_mount, [at(&etc), at(&tmp), 0, libc::MS_BIND as usize, 0]);
    let again = (libc::MS_REMOUNT | libc::MS_BIND) as usize;
    for dir in ["/sys", "/proc/sys", "/"] {
        let dir = text(dir);
        call(&format!("remount {dir:?}"), libc::SYS_mount, [0, at(&dir), 0, again, 0]);
    }
    for dir in ["/proc", "/dev", "/run", "/tmp", "/sys"] {
        let dir = text(dir);
        let detach = libc::MNT_DETACH as usize;
        call(&format!("unmount {dir:?}"), libc::SYS_umount2, [at(&dir), detach, 0, 0, 0]);
    }
    call("pivot_root", libc::SYS_pivot_root, [at(&tmp), at(&tmp), 0, 0, 0]);
    call("chroot", libc::SYS_chroot, [at(&tmp), 0, 0, 0, 0]);
    call("fsopen", libc::SYS_fsopen, [at(&tmpfs), 0, 0, 0, 0]);
    let here = libc::AT_FDCWD as usize;
    call("open_tree", libc::SYS_open_tree, [here, at(&etc), 1, 0, 0]);
}

/// The same calls where they would change nothing: only a filter refuses these.
fn calls_to_mount() {
    let (tmp, etc) = (text("/tmp"), text("/etc"));
    let at = |s: &CString| s.as_ptr() as usize;
    let here = libc::AT_FDCWD as usize;
    // Without a copy of the tree anybody may call these, where nobody refuses them.
    call_refused("open_tree to look", libc::SYS_open_tree, [here, at(&etc), 0, 0, 0]);
    call_refused("open_tree_attr", 467, [here, at(&etc), 0, 0, 0]);
    call_refused("move_mount", libc::SYS_move_mount, [here, at(&tmp), here, at(&tmp), 0]);
    call_refused("fsconfig", libc::SYS_fsconfig, [0; 5]);
    call_refused("fsmount", libc::SYS_fsmount, [0; 5]);
    call_refused("fspick", libc::SYS_fspick, [here, at(&etc), 0, 0, 0]);
    call("mount_setattr", libc::SYS_mount_setattr, [here, at(&etc), 0, 0, 0]);
    call("open_by_handle_at", libc::SYS_open_by_handle_at, [here, at(&etc), 0, 0, 0]);
}

fn namespaces() {
    for (name, flag) in [
        ("user", libc::CLONE_NEWUSER),
        ("mount", libc::CLONE_NEWNS),
        ("network", libc::CLONE_NEWNET),
        ("process", libc::CLONE_NEWPID),
        ("group", libc::CLONE_NEWCGROUP),
    ] {
        call(&format!("a {name} namespace"), libc::SYS_unshare, [flag as usize, 0, 0, 0, 0]);
    }
    let flags = (libc::CLONE_NEWUSER | libc::SIGCHLD) as usize;
    call_refused("a child in a user namespace", libc::SYS_clone, [flags, 0, 0, 0, 0]);
    for name in ["mnt", "pid", "user", "net"] {
        tried(&format!("the init's {name} namespace"), File::open(format!("/proc/1/ns/{name}")));
    }
}

fn devices() {
    let node = text("/tmp/muster-escape-node");
    for (what, kind) in [("a block", libc::S_IFBLK), ("a character", libc::S_IFCHR)] {
        let mode = (kind | 0o600) as usize;
        let at = node.as_ptr() as usize;
        let here = libc::AT_FDCWD as usize;
        call(&format!("make {what} device"), libc::SYS_mknodat, [here, at, mode, 0x0101, 0]);
    }
    for path in ["/dev/mem", "/dev/kmsg", "/dev/vda", "/dev/sda", "/dev/loop0", "/dev/kvm"] {
        tried(&format!("open {path}"), OpenOptions::new().read(true).open(path));
    }
}

fn users(program: &str) {
    call("become root", libc::SYS_setuid, [0; 5]);
    call("root's group", libc::SYS_setgid, [0; 5]);
    call("another user", libc::SYS_setresuid, [200_000, 200_000, 200_000, 0, 0]);
    let groups = [0_u32];
    call("more groups", libc::SYS_setgroups, [1, groups.as_ptr() as usize, 0, 0, 0]);
    let all = [u32::MAX; 6];
    let header: [u32; 2] = [0x2008_0522, 0];
    let (h, a) = (header.as_ptr() as usize, all.as_ptr() as usize);
    call("every capability", libc::SYS_capset, [h, a, 0, 0, 0]);
    let raise = [libc::PR_CAP_AMBIENT as usize, libc::PR_CAP_AMBIENT_RAISE as usize, 21, 0, 0];
    call("an ambient capability", libc::SYS_prctl, raise);
    call("new privileges", libc::SYS_prctl, [libc::PR_SET_NO_NEW_PRIVS as usize, 0, 0, 0, 0]);
    let own = Path::new("/tmp/muster-escape-own");
    fs::write(own, "").expect("a file of its own");
    tried("give a file to root", std::os::unix::fs::chown(own, Some(0), Some(0)));
    for name in ["su", "sudo", "mount", "passwd", "crontab", "at", "newgrp", "pkexec"] {
        for dir in ["/usr/bin", "/bin"] {
            set_uid_program(name, &Path::new(dir).join(name));
        }
    }
    let who = Command::new(program).args([ARG, "whoami"]).output().expect("itself");
    let root = who.stdout == b"euid 0\n";
    tried("a child that is root", if root { Ok(()) } else { Err(io::Error::other("it is not")) });
}

/// A program that is root's for whoever starts it.
fn set_uid_program(what: &str, program: &Path) {
    let Ok(meta) = fs::metadata(program) else { return };
    if meta.permissions().mode() & 0o4000 == 0 || meta.uid() != 0 {
        return;
    }
    // Only ours says who it is; of the others it is enough that the kernel gives them nothing.
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kept = status.contains("NoNewPrivs:\t1\n");
    let out = Command::new(program).args([ARG, "whoami"]).output();
    let root = out.is_ok_and(|o| o.stdout.starts_with(b"euid 0\n"));
    let result = if root || !kept { Ok(()) } else { Err(io::Error::other("it gives nothing")) };
    tried(&format!("set-uid program {what} {}", program.display()), result);
}

/// The control group of somebody else, by its name: it is nowhere to be seen.
fn other_group(what: &str, name: &str) {
    for file in ["/proc/self/cgroup", "/proc/1/cgroup", "/proc/self/mountinfo"] {
        let text = fs::read_to_string(file).unwrap_or_default();
        let named = text.lines().any(|l| l.split(['/', ' ']).any(|word| word == name));
        let seen = if named { Ok(()) } else { Err(io::Error::other("it is not there")) };
        tried(&format!("{what} in {file}"), seen);
    }
    let mut dirs = vec![Path::new("/sys/fs/cgroup").to_path_buf()];
    let mut found = Err(io::Error::other("it is not there"));
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            if entry.file_name() == name {
                found = Ok(());
            }
            if entry.file_type().is_ok_and(|t| t.is_dir()) {
                dirs.push(entry.path());
            }
        }
    }
    tried(&format!("{what} in /sys/fs/cgroup"), found);
}

/// Everything of a control group that its limits are kept in, at its own place and at the root.
fn groups() {
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    for line in own.lines() {
        let mut parts = line.splitn(3, ':');
        let (_, names, path) = (parts.next(), parts.next().unwrap_or(""), parts.next());
        let at = path.unwrap_or("/").trim_start_matches('/');
        let base = Path::new("/sys/fs/cgroup").join(names.trim_start_matches("name="));
        for dir in [base.clone(), base.join(at), base.join(at).join("..")] {
            if !dir.is_dir() {
                continue;
            }
            let files = [
                "cgroup.procs",
                "tasks",
                "memory.max",
                "memory.limit_in_bytes",
                "devices.allow",
                "pids.max",
                "release_agent",
                "notify_on_release",
                "cgroup.subtree_control",
                "cgroup.kill",
            ];
            for file in files.iter().map(|f| dir.join(f)).filter(|f| f.exists()) {
                let open = OpenOptions::new().write(true).custom_flags(libc::O_CLOEXEC).open(&file);
                tried(&format!("write {}", file.display()), open);
            }
            tried(&format!("a group in {}", dir.display()), fs::create_dir(dir.join("escape")));
        }
    }
}

fn core_dumps(program: &str) {
    let unlimited = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    let at = std::ptr::from_ref(&unlimited) as usize;
    call("dumps of any size", libc::SYS_setrlimit, [libc::RLIMIT_CORE as usize, at, 0, 0, 0]);
    let died = Command::new(program).args([ARG, "abort"]).status().expect("itself");
    let dumped = died.core_dumped();
    tried("a core dump", if dumped { Ok(()) } else { Err(io::Error::other("there is none")) });
}

/// Being ended later than the agent when memory is short.
fn oom_score() {
    let dirs = ["/proc/self", "/proc/thread-self"].map(Path::new);
    for (file, values) in [("oom_score_adj", ["499", "0", "-1000"]), ("oom_adj", ["6", "0", "-17"])]
    {
        for path in dirs.iter().map(|d| d.join(file)).filter(|p| p.exists()) {
            for value in values {
                tried(&format!("{value} in {}", path.display()), fs::write(&path, value));
            }
        }
    }
}

fn kernel() {
    call_refused("kexec_load", libc::SYS_kexec_load, [0, 0, 0, 0, 0]);
    call_refused("init_module", libc::SYS_init_module, [0; 5]);
    call_refused("delete_module", libc::SYS_delete_module, [0; 5]);
    call_refused("bpf", libc::SYS_bpf, [0; 5]);
    call_refused("perf_event_open", libc::SYS_perf_event_open, [0; 5]);
    call_refused("userfaultfd", libc::SYS_userfaultfd, [0; 5]);
    call_refused("io_uring_setup", libc::SYS_io_uring_setup, [0; 5]);
    call_refused("keyctl", libc::SYS_keyctl, [0, (-4_isize).cast_unsigned(), 0, 0, 0]);
    call_refused("add_key", libc::SYS_add_key, [0; 5]);
    call_refused("settimeofday", libc::SYS_settimeofday, [1, 0, 0, 0, 0]);
    call_refused("clock_settime", libc::SYS_clock_settime, [0, 0, 0, 0, 0]);
    call_refused("sethostname", libc::SYS_sethostname, [0; 5]);
    call_refused("swapon", libc::SYS_swapon, [0; 5]);
    call_refused("acct", libc::SYS_acct, [1, 0, 0, 0, 0]);
    call_refused("syslog", libc::SYS_syslog, [3, 0, 0, 0, 0]);
    // Numbers that mean nothing: it must be refused before they are looked at.
    call_refused("reboot", libc::SYS_reboot, [1, 1, 1, 0, 0]);
    call_refused("fanotify_init", libc::SYS_fanotify_init, [0; 5]);
}

/// Sockets of families that no rank needs; those that programs need are there.
fn sockets() {
    let (stream, raw) = (libc::SOCK_STREAM as usize, libc::SOCK_RAW as usize);
    for (what, family, kind, protocol) in [
        ("a socket to the hypervisor", libc::AF_VSOCK, stream, 0),
        ("a socket of the kernel's ciphers", libc::AF_ALG, libc::SOCK_SEQPACKET as usize, 0),
        ("a socket for packets", libc::AF_PACKET, raw, 0),
        ("netlink: audit", libc::AF_NETLINK, raw, 9),
        ("netlink: devices of the node", libc::AF_NETLINK, raw, 15),
    ] {
        call_refused(what, libc::SYS_socket, [family as usize, kind, protocol, 0, 0]);
    }
    UnixStream::pair().expect("a pair of sockets");
    std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    #[expect(unsafe_code, reason = "there is no safe interface")]
    // SAFETY: no memory is involved.
    let routes = unsafe { libc::socket(libc::AF_NETLINK, libc::SOCK_RAW, 0) };
    assert!(routes >= 0, "addresses and routes: {}", io::Error::last_os_error());
}

/// Shared memory of System V that somebody else made.
fn shared_memory(what: &str, key: usize) {
    call(what, libc::SYS_shmget, [key, 0, 0, 0, 0]);
}
