//! The supervisor of one slot's ranks: a small process of its own that outlives the agent, so
//! that a restarted agent finds its ranks running and learns how they ended.

mod begun;
mod guard;
mod launch;
mod lease;
mod mounts;
mod order;

pub(crate) use order::{Order, RankOrder};

use crate::back_off::pauses;
use crate::cgroup::Group;
use crate::container;
use crate::isolation::{Inner, Refusal, remove_scratch};
use crate::lease::BootTime;
use crate::process::{self, ProcessId};
use crate::run_dir::{
    Cleanup, EndFile, Entry, FirstFailure, RankEnd, RunDir, note, note_end, reserve,
};
use launch::Launched;
use lease::Lease;
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::io::Read;
use std::time::Duration;

/// First argument with which an executable is to call [`main`].
pub const SHIM_ARG: &str = "__shim";

/// Runs the supervisor: reads its order from standard input, starts the ranks, waits for them
/// and writes down how they ended. An executable whose first argument is [`SHIM_ARG`] must call
/// this before anything else.
pub fn main() -> ! {
    detach();
    let mut text = Vec::new();
    let read = std::io::stdin().lock().read_to_end(&mut text);
    // A torn order means that the agent died while it wrote: nobody waits for these ranks.
    let order = read.ok().and_then(|_| serde_json::from_slice::<Order>(&text).ok());
    drop(text);
    let Some(order) = order else {
        eprintln!("no whole order on standard input; this is an internal command");
        std::process::exit(2);
    };
    let dir = order.dir.clone();
    std::process::exit(
        match guard::continue_as_supervisor(&order).and_then(|()| supervise(order)) {
            Ok(()) => 0,
            Err(e) => {
                eprintln!("{}: {e}", dir.display());
                1
            }
        },
    )
}

/// Leaves the agent's session and its fate, and becomes the parent of whatever the ranks leave
/// behind.
fn detach() {
    let _ = rustix::process::setsid();
    let _ = std::env::set_current_dir("/");
    #[expect(unsafe_code, reason = "signal dispositions have no safe interface")]
    // SAFETY: SIG_IGN is a valid disposition, no other thread exists in this process, and
    // nothing in it has opened a descriptor yet.
    unsafe {
        for s in [libc::SIGHUP, libc::SIGINT, libc::SIGPIPE] {
            libc::signal(s, libc::SIG_IGN);
        }
        // Whatever was left open by whoever started the agent is no business of the ranks. An
        // old kernel that cannot do this only leaves it open.
        libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0);
    }
    adopt_orphans();
}

/// Becomes the parent of whoever below loses its own. A fork does not hand this down.
fn adopt_orphans() {
    #[expect(unsafe_code, reason = "prctl has no safe interface")]
    // SAFETY: no memory is involved.
    unsafe {
        libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    }
}

fn supervise(order: Order) -> std::io::Result<()> {
    let claimed = RunDir(order.dir.clone());
    let Some(record) = claimed.claim(Some(ProcessId::me()?))? else { return Ok(()) };
    reserve(&record, order.ranks.len());
    // From here on the directory is reached through its descriptor: a volume may be mounted
    // over the path.
    let handle = std::fs::File::open(&order.dir)?;
    let fd = std::os::fd::AsRawFd::as_raw_fd(&handle);
    let dir = RunDir(format!("/proc/self/fd/{fd}").into());
    let group = order.group.clone();
    let mut up = Launched::default();
    let mut lease = Lease::take(&order)?;
    let launched = launch::launch(&order, &dir, &mut up, lease.as_mut());
    let Launched { mut ranks, inner, open } = up;
    let clean = |lease: Option<&Lease>| {
        lease.iter().for_each(|l| l.tidying());
        clean_up(&order, &dir, inner.as_ref(), lease)
    };
    if let Err(refusal) = launched {
        for pid in ranks.keys() {
            process::signal_group(*pid, Signal::KILL);
        }
        let mut end = EndFile { cleanup: clean(lease.as_ref()), ..EndFile::default() };
        match refusal {
            Refusal::Job(m) => end.unstartable = Some(m),
            Refusal::Node(m) => end.fault = Some(m),
            Refusal::NoServer(most) => end.lease = Some(most),
        }
        return note_end(&record, end);
    }
    if let Some(why) = open {
        note(&record, &Entry::Open(why))?;
    }
    let mut in_order: Vec<(u32, i32)> = ranks.iter().map(|(p, r)| (*r, *p)).collect();
    in_order.sort_unstable();
    note(&record, &Entry::Ranks(in_order.into_iter().map(|(_, p)| p).collect()))?;
    let oom = || group.as_ref().is_some_and(|g| g.oom_kills() > 0);
    let late = begun::watch(&order, &ranks);
    let mut end = EndFile::default();
    while !ranks.is_empty() {
        let (order, up, record) = (&order, &ranks, &record);
        let pause = lease.as_mut().map(|l| move || l.pause(order, up, record));
        let Some((pid, code, signal)) = wait_any(pause) else { break };
        let Some(rank) = ranks.remove(&pid) else { continue };
        let rank_end = RankEnd { rank, code, signal };
        end.ranks.push(rank_end);
        // Whoever dies of the end of its lease did not fail, nor whoever never began.
        let stopped = lease.as_ref().and_then(Lease::over).is_some() || late.why().is_some();
        if rank_end.failed() && end.first.is_none() && !stopped {
            let first = FirstFailure { end: rank_end, oom: oom() };
            if !ranks.is_empty() {
                note(record, &Entry::First(first.clone()))?;
            }
            end.first = Some(first);
        }
    }
    // Before what they left is removed: others wait for how long they ran, not for that.
    end.at = Some(BootTime::now());
    end.fault = late.why().filter(|_| end.first.is_none()).map(str::to_owned);
    end.lease = lease.as_ref().and_then(Lease::over).filter(|_| end.first.is_none());
    end.cleanup = clean(lease.as_ref());
    end.ranks.sort_by_key(|r| r.rank);
    note_end(&record, end)
}

/// Waits for any child; none when there is none left. While none has ended, `pause` is called.
fn wait_any(mut pause: Option<impl FnMut()>) -> Option<(i32, Option<i32>, Option<i32>)> {
    loop {
        let mut status = 0;
        let flags = if pause.is_some() { libc::WNOHANG } else { 0 };
        #[expect(unsafe_code, reason = "the ranks are waited for together, by number")]
        // SAFETY: `status` is a valid place for an int.
        let pid = unsafe { libc::waitpid(-1, &raw mut status, flags) };
        if pid > 0 {
            if libc::WIFEXITED(status) {
                return Some((pid, Some(libc::WEXITSTATUS(status)), None));
            }
            if libc::WIFSIGNALED(status) {
                return Some((pid, None, Some(libc::WTERMSIG(status))));
            }
        } else if pid == 0 {
            pause.iter_mut().for_each(|pause| pause());
        } else if std::io::Error::last_os_error().kind() != std::io::ErrorKind::Interrupted {
            return None;
        }
    }
}

/// Ends what the ranks left behind, and counts it: a slot that is over holds nothing.
fn clean_up(order: &Order, dir: &RunDir, inner: Option<&Inner>, lease: Option<&Lease>) -> Cleanup {
    let me = std::process::id().cast_signed();
    let init = inner.map(Inner::init);
    let others = || {
        let mut pids = process::descendants(me).unwrap_or_default();
        pids.extend(order.group.iter().flat_map(Group::pids));
        pids.sort_unstable();
        pids.dedup();
        pids.retain(|p| Some(*p) != init);
        pids
    };
    let killed = match inner {
        Some(inner) => inner.population(),
        None if no_children() => 0,
        None => others().len(),
    };
    let remove = |again| match &order.container {
        Some(c) => container::try_remove_all(&c.runtime, &c.names, again),
        None => Ok(()),
    };
    let removed = remove(container::AGAIN_BEFORE_KILL);
    if let Some(group) = &order.group {
        group.kill_and_wait(Duration::from_secs(5));
    }
    // The last word on a namespace is the kernel's: its init is gone when everybody else is.
    if let Some(inner) = inner {
        inner.kill();
    }
    // A runtime that hung or refused may have waited for a process that is gone now.
    let stuck = removed.or_else(|_| remove(container::AGAIN)).err();
    let patience = if inner.is_none() { Duration::ZERO } else { Duration::from_secs(1) };
    let empty = wait_for_children(patience);
    let left = if empty && order.group.as_ref().is_none_or(Group::is_empty) {
        Vec::new()
    } else {
        others()
    };
    if left.is_empty() {
        lease.iter().for_each(|l| l.kept());
    }
    mounts::clear_secrets(order);
    let killed = u32::try_from(killed).unwrap_or(u32::MAX);
    Cleanup { killed, left, scratch: remove_scratch(&dir.0).err().or(stuck) }
}

/// Waits until nobody is left, for a few seconds; says whether it is so. After `patience` whoever
/// is still there is killed.
fn wait_for_children(patience: Duration) -> bool {
    let mut waited = Duration::ZERO;
    for pause in pauses(Duration::from_secs(5)) {
        if no_children() {
            return true;
        }
        if waited >= patience {
            kill_descendants();
        }
        std::thread::sleep(pause);
        waited += pause;
    }
    false
}

fn kill_descendants() {
    let below = process::descendants(std::process::id().cast_signed());
    for pid in below.unwrap_or_default() {
        process::signal(pid, Signal::KILL);
    }
}

/// Reaps whoever has ended; true when nobody is left. Orphans become children of this process,
/// so that without a child there is no descendant either, and nothing to search for.
fn no_children() -> bool {
    loop {
        #[expect(unsafe_code, reason = "orphans are reaped by number")]
        // SAFETY: a null status pointer is allowed.
        let pid = unsafe { libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG) };
        match pid {
            0 => return false,
            1.. => {}
            _ => return std::io::Error::last_os_error().raw_os_error() == Some(libc::ECHILD),
        }
    }
}

/// Ranks by process number.
type Ranks = BTreeMap<i32, u32>;
