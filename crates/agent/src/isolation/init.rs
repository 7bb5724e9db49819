//! The first process of a slot's namespaces.

use super::{IsolationView, Refusal, SlotPlan, sys, view};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;

/// A slot's namespaces, as long as its init lives.
pub(crate) struct Inner {
    init: i32,
    mounts: File,
    /// The slot's processes, opened while this process may still look at the init.
    processes: File,
    /// Where this process's children are born otherwise.
    home: File,
}

impl Inner {
    /// Makes the namespaces and everything in them. When that fails nothing is left of them.
    pub(crate) fn make(plan: &SlotPlan<'_>, inside: &IsolationView) -> Result<Inner, Refusal> {
        let node = |what: &'static str| move |e: io::Error| Refusal::node(what, &e);
        let home = File::open("/proc/self/ns/pid").map_err(node("no process namespaces"))?;
        let (ours, theirs) = UnixStream::pair().map_err(node("cannot make a socket"))?;
        let ipc = if inside.share_ipc { 0 } else { libc::CLONE_NEWIPC };
        sys::unshare(libc::CLONE_NEWPID | ipc).map_err(node("cannot make namespaces"))?;
        let init = match sys::fork() {
            Ok(0) => {
                drop(ours);
                be_init(theirs, plan, inside)
            }
            Ok(pid) => pid,
            Err(e) => {
                let _ = sys::setns(home.as_fd(), libc::CLONE_NEWPID);
                return Err(node("cannot start the namespaces' init")(e));
            }
        };
        drop(theirs);
        let mut inner = Err(Refusal::Node("the namespaces' init process ended".into()));
        if let Some(answer) = ask(ours) {
            inner = answer.map_or_else(Err, |()| {
                let open = |what: &str| File::open(format!("/proc/{init}/{what}"));
                let mounts = open("ns/mnt").map_err(node("no mount namespace"))?;
                Ok((mounts, open("root/proc").map_err(node("no processes"))?))
            });
        }
        match inner {
            Ok((mounts, processes)) => Ok(Inner { init, mounts, processes, home }),
            Err(e) => {
                crate::process::signal(init, rustix::process::Signal::KILL);
                crate::process::reap(init);
                let _ = sys::setns(home.as_fd(), libc::CLONE_NEWPID);
                Err(e)
            }
        }
    }

    /// The mount namespace that ranks join.
    pub(crate) fn mounts(&self) -> &File {
        &self.mounts
    }

    /// The init's process number.
    pub(crate) fn init(&self) -> i32 {
        self.init
    }

    /// How many processes there are besides the init.
    pub(crate) fn population(&self) -> usize {
        let proc = std::fs::read_dir(format!("/proc/self/fd/{}", self.processes.as_raw_fd()));
        let numbers = proc.into_iter().flatten().flatten().filter(|e| {
            e.file_name().to_str().is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit()))
        });
        numbers.count().saturating_sub(1)
    }

    /// Kills the init, with which the kernel kills everything else in the namespace.
    pub(crate) fn kill(&self) {
        crate::process::signal(self.init, rustix::process::Signal::KILL);
        // Nobody can be born into a namespace without an init.
        let _ = sys::setns(self.home.as_fd(), libc::CLONE_NEWPID);
    }
}

/// Lets the init go on and waits for what it has to say.
fn ask(mut to: UnixStream) -> Option<Result<(), Refusal>> {
    to.write_all(b"!").ok()?;
    let mut answer = Vec::new();
    to.read_to_end(&mut answer).ok()?;
    serde_json::from_slice(&answer).ok()
}

fn be_init(mut to: UnixStream, plan: &SlotPlan<'_>, inside: &IsolationView) -> ! {
    #[expect(unsafe_code, reason = "signal dispositions have no safe interface")]
    // SAFETY: these are valid dispositions and arguments, and this process has one thread.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0);
        libc::prctl(libc::PR_SET_NAME, c"muster-init".as_ptr(), 0, 0, 0);
        // Whoever is orphaned ends up here, and is reaped by the kernel itself.
        libc::signal(libc::SIGCHLD, libc::SIG_IGN);
    }
    // A supervisor that died before the call above is seen here.
    if to.read_exact(&mut [0]).is_err() {
        std::process::exit(1);
    }
    let built = view::build(plan, inside);
    #[expect(unsafe_code, reason = "prctl has no safe interface")]
    // SAFETY: no memory is involved. Acting as somebody else closed this process to its own
    // supervisor; to the ranks, who are other users, it stays closed. It also took away that this
    // process dies with its supervisor: one that died meanwhile is seen by the answer below.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0);
        libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0);
    }
    let written = serde_json::to_vec(&built).map(|text| to.write_all(&text));
    drop(to);
    if built.is_err() || !matches!(written, Ok(Ok(()))) {
        std::process::exit(1);
    }
    let _ = std::env::set_current_dir("/");
    #[expect(unsafe_code, reason = "waiting for ever has no safe interface")]
    // SAFETY: nothing here uses a descriptor any more; pause only waits.
    unsafe {
        libc::syscall(libc::SYS_close_range, 0, libc::c_uint::MAX, 0);
        loop {
            libc::pause();
        }
    }
}
