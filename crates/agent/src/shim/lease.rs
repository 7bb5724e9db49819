//! The lease of a slot's ranks, held by their supervisor: nobody else is needed to stop them. A
//! supervisor that cannot act itself is killed by the kernel, and its ranks with it.

use super::{Order, Ranks};
use crate::isolation::Refusal;
use crate::lease::{BootTime, LeaseOrder, last_renewal};
use crate::process::ProcessId;
use crate::run_dir::{Entry, note};
use crate::signals::SignalTargets;
use muster_model::units::Span;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::path::PathBuf;

/// What was killed and is still there is killed again after so long.
const AGAIN: Span = Span(200);
/// The kernel kills a supervisor that is so late with what it has to do: one that is stopped, say.
/// Well within what the server waits beyond the lease and its grace before it starts anybody else.
const LATE: Span = Span::secs(2);
/// How late it may be when its ranks are gone and it tidies up after them.
const TIDYING: Span = Span::secs(30);

/// Waits for children and for the end of a lease at the same time.
pub(super) struct Lease {
    order: LeaseOrder,
    /// The agent's directory, by its descriptor: a volume may be mounted over the path.
    renewals: PathBuf,
    _handle: File,
    /// Readable when a child has ended.
    children: OwnedFd,
    /// Readable when there is something to do.
    timer: OwnedFd,
    /// What holds the lease when this process does not run.
    last_resort: KillTimer,
    stage: Stage,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The ranks may go on until then, and longer if it was renewed meanwhile.
    Held { until: BootTime },
    /// It ran out: what is left is killed then, again and again.
    Over { kill: BootTime },
}

impl Lease {
    /// Takes up the lease; none when the ranks may go on for as long as they like. Called before
    /// anything is started: from here on children are waited for by [`Lease::pause`].
    pub(super) fn take(order: &Order) -> io::Result<Option<Lease>> {
        let Some(order) = order.lease.clone() else { return Ok(None) };
        let handle = File::open(&order.renewals)?;
        let renewals = format!("/proc/self/fd/{}", handle.as_raw_fd()).into();
        let (children, timer, last_resort) = (child_signals()?, boot_timer()?, KillTimer::new()?);
        let stage = Stage::Held { until: order.renewed.after(order.most) };
        let lease = Lease { order, renewals, _handle: handle, children, timer, last_resort, stage };
        Ok(Some(lease))
    }

    /// Whether another rank may be started. From here on the kernel holds the lease as well.
    pub(super) fn check(&mut self) -> Result<(), Refusal> {
        if !self.held(BootTime::now()) {
            return Err(Refusal::NoServer(self.order.most));
        }
        self.arm_last_resort().map_err(|e| Refusal::node("no timer for the lease", &e))
    }

    /// Every rank is gone; what they left behind is removed next, which may take a while.
    pub(super) fn tidying(&self) {
        // A lease that is held may be longer, and nobody has to be done before it ends.
        let held = match self.stage {
            Stage::Held { until } => until.after(self.order.grace).after(LATE),
            Stage::Over { .. } => BootTime(0),
        };
        // Where it is not put off, it only comes too early.
        let _ = self.last_resort.arm(BootTime::now().after(TIDYING).max(held));
    }

    /// No process is left that could break the lease: files may take as long as they like.
    pub(super) fn kept(&self) {
        let _ = self.last_resort.disarm();
    }

    /// Puts the kernel's kill off until this process is late.
    fn arm_last_resort(&self) -> io::Result<()> {
        let last = match self.stage {
            Stage::Held { until } => until.after(self.order.grace),
            Stage::Over { kill } => kill,
        };
        self.last_resort.arm(last.after(LATE))
    }

    /// Whether it has run out, and after how long without a renewal.
    pub(super) fn over(&self) -> Option<Span> {
        matches!(self.stage, Stage::Over { .. }).then_some(self.order.most)
    }

    /// Sleeps until a child has ended or the lease has, and stops the ranks in that case.
    pub(super) fn pause(&mut self, order: &Order, ranks: &Ranks, record: &File) {
        self.step(order, ranks, record);
        let (Stage::Held { until: next } | Stage::Over { kill: next }) = self.stage;
        if let Err(e) = arm(&self.timer, next).and_then(|()| self.arm_last_resort()) {
            // Without a timer nothing would ever stop the ranks.
            eprintln!("{}: no timer for the lease: {e}", order.dir.display());
            reach(order, ranks, |r| r.kill());
        }
        wait(&self.children, &self.timer);
    }

    /// Does what is due.
    fn step(&mut self, order: &Order, ranks: &Ranks, record: &File) {
        let now = BootTime::now();
        if self.held(now) {
            return;
        }
        match self.stage {
            Stage::Held { until } => {
                // That they stop matters more than that it is written down.
                let _ = note(record, &Entry::Lease(self.order.most));
                let kill = until.after(self.order.grace);
                self.stage = Stage::Over { kill };
                if now < kill {
                    reach(order, ranks, |r| r.terminate());
                } else {
                    self.step(order, ranks, record);
                }
            }
            Stage::Over { kill } if now >= kill => {
                reach(order, ranks, |r| r.kill());
                self.stage = Stage::Over { kill: now.after(AGAIN) };
            }
            Stage::Over { .. } => {}
        }
    }

    /// Whether the ranks may go on, after a look at the renewals if that is needed to know.
    fn held(&mut self, now: BootTime) -> bool {
        let Stage::Held { until } = &mut self.stage else { return false };
        if now >= *until
            && let Some(renewed) = last_renewal(&self.renewals)
        {
            *until = renewed.after(self.order.most).max(*until);
        }
        now < *until
    }
}

fn reach(order: &Order, ranks: &Ranks, act: impl FnOnce(&SignalTargets<'_>)) {
    let (me, ranks) = (ProcessId::me().ok(), ranks.keys().copied().collect::<Vec<i32>>());
    act(&SignalTargets {
        group: order.group.as_ref(),
        shim: me.as_ref(),
        ranks: &ranks,
        contained: order.container.is_some(),
    });
}

fn owned(fd: i32) -> io::Result<OwnedFd> {
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    #[expect(unsafe_code, reason = "a descriptor from a call that nobody wraps for us")]
    // SAFETY: the kernel just gave us this descriptor, and nobody else knows it.
    let owned = unsafe { OwnedFd::from_raw_fd(fd) };
    Ok(owned)
}

/// Turns the end of children into something to wait for. What is blocked here is handed down to
/// programs that are started later: each of them unblocks it first.
fn child_signals() -> io::Result<OwnedFd> {
    #[expect(unsafe_code, reason = "signal sets have no safe interface")]
    // SAFETY: the set is initialised by sigemptyset before it is used, and outlives the calls.
    let fd = unsafe {
        let mut set = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), libc::SIGCHLD);
        if libc::sigprocmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut()) != 0 {
            return Err(io::Error::last_os_error());
        }
        libc::signalfd(-1, set.as_ptr(), libc::SFD_CLOEXEC | libc::SFD_NONBLOCK)
    };
    owned(fd)
}

/// A timer by the clock that nobody can set and that goes on while the machine sleeps.
fn boot_timer() -> io::Result<OwnedFd> {
    #[expect(unsafe_code, reason = "timers have no safe interface here")]
    // SAFETY: no memory is involved.
    let fd = unsafe {
        libc::timerfd_create(libc::CLOCK_BOOTTIME, libc::TFD_CLOEXEC | libc::TFD_NONBLOCK)
    };
    owned(fd)
}

/// Once, at this moment.
fn once(at: BootTime) -> libc::itimerspec {
    let zero = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // A moment of zero would switch the timer off; one beyond all time never comes.
    let at = at.0.clamp(1, u64::from(u32::MAX) * 1000);
    let it_value = libc::timespec {
        tv_sec: i64::try_from(at / 1000).unwrap_or(i64::MAX),
        tv_nsec: i64::try_from(at % 1000).unwrap_or(0) * 1_000_000,
    };
    libc::itimerspec { it_interval: zero, it_value }
}

/// A timer of the kernel that kills this process, also while it is stopped. Its ranks die with it,
/// and everybody else with the namespaces' init or by the guard. Children do not have it.
struct KillTimer(libc::timer_t);

impl KillTimer {
    fn new() -> io::Result<KillTimer> {
        let mut timer: libc::timer_t = std::ptr::null_mut();
        #[expect(unsafe_code, reason = "timers have no safe interface here")]
        // SAFETY: all zeroes are a valid event of numbers and pointers; it and the place for the
        // timer live past the call.
        let result = unsafe {
            let mut event: libc::sigevent = std::mem::zeroed();
            event.sigev_notify = libc::SIGEV_SIGNAL;
            event.sigev_signo = libc::SIGKILL;
            libc::timer_create(libc::CLOCK_BOOTTIME, &raw mut event, &raw mut timer)
        };
        if result == 0 { Ok(KillTimer(timer)) } else { Err(io::Error::last_os_error()) }
    }

    fn arm(&self, at: BootTime) -> io::Result<()> {
        self.set(once(at))
    }

    fn disarm(&self) -> io::Result<()> {
        let zero = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        self.set(libc::itimerspec { it_interval: zero, it_value: zero })
    }

    fn set(&self, spec: libc::itimerspec) -> io::Result<()> {
        #[expect(unsafe_code, reason = "timers have no safe interface here")]
        // SAFETY: the timer was made above and lives as long as the process; the pointer is to a
        // value of this function.
        let result = unsafe {
            libc::timer_settime(self.0, libc::TIMER_ABSTIME, &raw const spec, std::ptr::null_mut())
        };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

fn arm(timer: &OwnedFd, at: BootTime) -> io::Result<()> {
    let spec = once(at);
    #[expect(unsafe_code, reason = "timers have no safe interface here")]
    // SAFETY: the descriptor is open, and the pointer is to a value of this function.
    let result = unsafe {
        libc::timerfd_settime(
            timer.as_raw_fd(),
            libc::TFD_TIMER_ABSTIME,
            &raw const spec,
            std::ptr::null_mut(),
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Waits until one of them is readable, and empties both.
fn wait(children: &OwnedFd, timer: &OwnedFd) {
    use rustix::event::{PollFd, PollFlags, poll};
    let mut both = [children, timer].map(|fd| PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN));
    let _ = poll(&mut both, None);
    let mut buffer = [0u8; 256];
    for fd in [children, timer] {
        while rustix::io::read(fd, &mut buffer).is_ok_and(|n| n > 0) {}
    }
}
