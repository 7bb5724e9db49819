//! Being woken when an attempt's directory changes: output grew, a rank ended. One watcher
//! serves every node of a process, because the kernel lends only a few of them to each user.

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use std::collections::BTreeMap;
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
    wakes: Mutex<BTreeMap<i32, Arc<Notify>>>,
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
                tokio::spawn(serve(Arc::downgrade(&inner)));
                Watcher(Some(inner))
            }
            Err(e) => {
                tracing::warn!(error = %e, "no file watcher: output is looked for once a second");
                Watcher(None)
            }
        }
    }

    /// Wakes `wake` whenever something in `dir` changes. A directory that goes away is
    /// forgotten by itself.
    pub(crate) fn watch(&self, dir: &Path, wake: &Arc<Notify>) {
        let Some(inner) = &self.0 else { return };
        let flags = WatchFlags::MODIFY | WatchFlags::MOVED_TO;
        if let Ok(id) = inotify::add_watch(inner.fd.get_ref(), dir, flags) {
            let mut wakes = inner.wakes.lock().unwrap_or_else(PoisonError::into_inner);
            wakes.insert(id, wake.clone());
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
    while let Some(inner) = inner.upgrade() {
        let ready = tokio::time::timeout(std::time::Duration::from_secs(5), inner.fd.readable());
        // The pause lets the watcher end when nobody holds it any more.
        let Ok(ready) = ready.await else { continue };
        let Ok(mut ready) = ready else { return };
        let mut reader = inotify::Reader::new(inner.fd.get_ref(), &mut buffer);
        let mut woken = Vec::new();
        loop {
            match reader.next() {
                Ok(event) => {
                    let mut wakes = inner.wakes.lock().unwrap_or_else(PoisonError::into_inner);
                    if event.events().contains(ReadFlags::IGNORED) {
                        wakes.remove(&event.wd());
                    } else if let Some(wake) = wakes.get(&event.wd()) {
                        wake.notify_one();
                    } else if event.events().contains(ReadFlags::QUEUE_OVERFLOW) {
                        woken.extend(wakes.values().cloned());
                    }
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => break,
            }
        }
        for wake in woken {
            wake.notify_one();
        }
        ready.clear_ready();
    }
}
