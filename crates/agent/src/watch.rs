//! Being woken when an attempt's directory changes: output grew, a rank ended. One watcher
//! serves every node of a process, because the kernel lends only a few of them to each user.

use muster_model::ids::AttemptKey;
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CStr;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;

/// Wakes those who wait for a directory. Where the kernel has no watcher to lend, nobody is
/// woken and the regular look once a second must do.
#[derive(Debug, Clone, Default)]
pub(crate) struct Watcher(Option<Arc<Inner>>);

#[derive(Debug)]
struct Inner {
    fd: AsyncFd<OwnedFd>,
    wakes: Mutex<BTreeMap<i32, (RunnerWakeup, AttemptKey)>>,
}

impl Inner {
    /// Anything may have changed.
    fn notify_all(&self) {
        let wakes = self.wakes.lock().unwrap_or_else(PoisonError::into_inner);
        wakes.values().for_each(|(wakeup, _)| wakeup.notify(None));
    }
}

/// Wakes one node's runner and says whose directory changed.
#[derive(Debug, Clone, Default)]
pub(crate) struct RunnerWakeup(Arc<WakeupState>);

#[derive(Debug, Default)]
struct WakeupState {
    wake: Arc<Notify>,
    changed: Mutex<ChangedAttempts>,
}

/// What changed since the last time somebody asked.
#[derive(Debug, Default)]
pub(crate) struct ChangedAttempts {
    /// Changes were missed: anything may have changed.
    pub(crate) all: bool,
    pub(crate) keys: BTreeSet<AttemptKey>,
}

impl RunnerWakeup {
    /// Completes when something changed.
    pub(crate) fn waker(&self) -> Arc<Notify> {
        self.0.wake.clone()
    }

    /// Wakes without naming anybody.
    pub(crate) fn nudge(&self) {
        self.0.wake.notify_one();
    }

    pub(crate) fn take(&self) -> ChangedAttempts {
        std::mem::take(&mut *self.0.changed.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn notify(&self, key: Option<AttemptKey>) {
        let mut changed = self.0.changed.lock().unwrap_or_else(PoisonError::into_inner);
        match key {
            Some(key) => {
                changed.keys.insert(key);
            }
            None => changed.all = true,
        }
        drop(changed);
        self.nudge();
    }
}

/// What the agent writes itself, and what is renamed once it is whole, is no news.
fn is_news(name: Option<&CStr>) -> bool {
    let name = name.map_or(&b""[..], CStr::to_bytes);
    let own = [&b"meta.json"[..], b"state.json", b"script"];
    !name.ends_with(b".tmp") && !own.iter().any(|o| name.starts_with(o))
}

impl Watcher {
    /// Starts watching; must be called within a runtime.
    pub(crate) fn start() -> Watcher {
        let fd = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)
            .map_err(io::Error::from)
            .and_then(register);
        match fd {
            Ok(fd) => {
                let inner = Arc::new(Inner { fd, wakes: Mutex::default() });
                let weak = Arc::downgrade(&inner);
                muster_supervise::task("agent-watch", move || serve(weak.clone()));
                Watcher(Some(inner))
            }
            Err(e) => {
                tracing::warn!(error = %e, "no file watcher: output is looked for once a second");
                Watcher(None)
            }
        }
    }

    /// Notifies `wakeup` of `key` whenever something in `dir` changes; says whether it will. A
    /// directory that goes away is forgotten by itself.
    pub(crate) fn watch(&self, dir: &Path, wakeup: &RunnerWakeup, key: AttemptKey) -> bool {
        let Some(inner) = &self.0 else { return false };
        let flags = WatchFlags::MODIFY | WatchFlags::MOVED_TO;
        // Held over both steps, so that no change is seen before it is known whose it is.
        let mut wakes = inner.wakes.lock().unwrap_or_else(PoisonError::into_inner);
        match inotify::add_watch(inner.fd.get_ref(), dir, flags) {
            Ok(id) => {
                wakes.insert(id, (wakeup.clone(), key));
                true
            }
            Err(_) => false,
        }
    }
}

fn register(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    #[expect(unsafe_code, reason = "the runtime must trust that the descriptor stays the same")]
    // SAFETY: the descriptor is owned, is moved in here, and is closed only with the `AsyncFd`.
    let registered = unsafe { AsyncFd::register(fd) };
    registered.map_err(io::Error::from)
}

async fn serve(inner: std::sync::Weak<Inner>) {
    let mut buffer = [MaybeUninit::<u8>::uninit(); 4096];
    // After a panic: what changed meanwhile was not seen.
    if let Some(inner) = inner.upgrade() {
        inner.notify_all();
    }
    while let Some(inner) = inner.upgrade() {
        let ready = tokio::time::timeout(std::time::Duration::from_secs(5), inner.fd.readable());
        // The pause lets the watcher end when nobody holds it any more.
        let Ok(ready) = ready.await else { continue };
        let Ok(mut ready) = ready else { return };
        let mut reader = inotify::Reader::new(inner.fd.get_ref(), &mut buffer);
        let mut missed = false;
        loop {
            match reader.next() {
                Ok(event) => {
                    let mut wakes = inner.wakes.lock().unwrap_or_else(PoisonError::into_inner);
                    if event.events().contains(ReadFlags::IGNORED) {
                        wakes.remove(&event.wd());
                    } else if event.events().contains(ReadFlags::QUEUE_OVERFLOW) {
                        missed = true;
                    } else if let Some((wakeup, key)) =
                        wakes.get(&event.wd()).filter(|_| is_news(event.file_name()))
                    {
                        wakeup.notify(Some(*key));
                    }
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => break,
            }
        }
        if missed {
            inner.notify_all();
        }
        ready.clear_ready();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_agent_writes_itself_is_no_news() {
        for (name, news) in [
            (c"0.out", true),
            (c"record", true),
            (c"state.json.tmp", false),
            (c"state.json", false),
        ] {
            assert_eq!(is_news(Some(name)), news, "{name:?}");
        }
    }
}
