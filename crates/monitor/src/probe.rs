//! Probes of file systems: a little is read, written and looked up every half minute, on a thread
//! of its own for each. A file system that does not answer holds up that thread and nobody else;
//! how long it has been waiting is reported all the same.

use rustix::fs::{Advice, fadvise};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Between two probes.
pub const EVERY: Duration = Duration::from_secs(30);
/// File systems probed at most.
const MOST: usize = 16;
/// What is written and read: one small piece for the latency, one larger for the way.
const SMALL: usize = 4 << 10;
const LARGE: usize = 1 << 20;

/// What a probe does to a file system. Any of it may take for ever.
pub trait Files: Send + 'static {
    /// Writes a small and a larger file, down to the storage.
    ///
    /// # Errors
    /// What the file system says.
    fn write(&mut self) -> io::Result<()>;
    /// Reads both again, from the storage.
    ///
    /// # Errors
    /// What the file system says.
    fn read(&mut self) -> io::Result<()>;
    /// Makes a file, looks it up and removes it.
    ///
    /// # Errors
    /// What the file system says.
    fn meta(&mut self) -> io::Result<()>;
}

/// Files of a real file system.
#[derive(Debug)]
pub struct RealFiles {
    small: PathBuf,
    large: PathBuf,
    meta: PathBuf,
    bytes: Vec<u8>,
}

impl RealFiles {
    /// In this directory, under names that no other agent uses.
    #[must_use]
    pub fn new(dir: &Path) -> RealFiles {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let name = |what: &str| dir.join(format!(".muster-probe-{host}-{what}"));
        // Not all alike, so that storage which compresses or folds has something to do.
        let bytes = (0..LARGE).map(|i| (i.wrapping_mul(0x9e37_79b1) >> 13) as u8).collect();
        RealFiles { small: name("small"), large: name("large"), meta: name("meta"), bytes }
    }

    fn put(path: &Path, bytes: &[u8]) -> io::Result<()> {
        let mut file = File::create(path)?;
        file.write_all(bytes)?;
        file.sync_all()
    }

    fn get(path: &Path) -> io::Result<()> {
        let mut file = File::open(path)?;
        // What this machine still has in memory says nothing of the storage.
        let _ = fadvise(&file, 0, None, Advice::DontNeed);
        let mut buffer = vec![0; 64 << 10];
        while file.read(&mut buffer)? > 0 {}
        Ok(())
    }
}

impl Files for RealFiles {
    fn write(&mut self) -> io::Result<()> {
        RealFiles::put(&self.small, &self.bytes[..SMALL])?;
        RealFiles::put(&self.large, &self.bytes)
    }

    fn read(&mut self) -> io::Result<()> {
        RealFiles::get(&self.small)?;
        RealFiles::get(&self.large)
    }

    fn meta(&mut self) -> io::Result<()> {
        drop(File::create(&self.meta)?);
        std::fs::metadata(&self.meta)?;
        std::fs::remove_file(&self.meta)
    }
}

impl Drop for RealFiles {
    fn drop(&mut self) {
        for path in [&self.small, &self.large, &self.meta] {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// What is known of one file system.
#[derive(Debug, Default)]
struct FilesystemState {
    /// Milliseconds of the last probe: reading, writing, metadata. What failed is absent.
    last: [Option<f64>; 3],
    /// The probe that is under way.
    since: Option<Instant>,
    /// It was reported that it fails.
    warned: bool,
}

fn lock(known: &Mutex<FilesystemState>) -> MutexGuard<'_, FilesystemState> {
    known.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Probes of several file systems.
#[derive(Debug, Default)]
pub struct Probes {
    all: Vec<(String, Arc<Mutex<FilesystemState>>)>,
    stop: Arc<AtomicBool>,
}

/// A probe that takes longer than this has stalled: what the one before found says nothing of now.
const STALLED: Duration = Duration::from_secs(5);

impl Probes {
    /// Starts probing these directories.
    ///
    /// # Errors
    /// When the machine gives no threads.
    pub fn start(dirs: &[PathBuf], every: Duration) -> io::Result<Probes> {
        let mut probes = Probes::default();
        for dir in dirs.iter().take(MOST) {
            let name = dir.display().to_string();
            let real = dir.clone();
            probes.add(name, every, move || RealFiles::new(&real))?;
        }
        Ok(probes)
    }

    /// Probes one more.
    ///
    /// # Errors
    /// When the machine gives no thread.
    pub fn add<F: Files>(
        &mut self,
        name: String,
        every: Duration,
        files: impl FnOnce() -> F + Send + 'static,
    ) -> io::Result<()> {
        let known = Arc::new(Mutex::new(FilesystemState::default()));
        let (theirs, stop, said) = (known.clone(), self.stop.clone(), name.clone());
        // Never joined: it may be inside a call that never returns.
        let (mut start, mut made) = (Some(files), None);
        muster_supervise::thread("fs-probe", move || {
            if let Some(make) = start.take() {
                made = Some(make());
            }
            // None when it panicked over that: then there is nothing to probe with.
            let Some(files) = made.as_mut() else { return };
            while !stop.load(Ordering::Relaxed) {
                probe(files, &theirs, &said);
                let until = Instant::now() + every;
                while !stop.load(Ordering::Relaxed) && Instant::now() < until {
                    let left = until.saturating_duration_since(Instant::now());
                    std::thread::park_timeout(left.min(Duration::from_millis(500)));
                }
            }
        })?;
        self.all.push((name, known));
        Ok(())
    }

    /// What is known now, by the names that the server reads. Waits for nobody.
    #[must_use]
    pub fn metrics(&self) -> BTreeMap<String, f64> {
        let mut all = BTreeMap::new();
        for (name, known) in &self.all {
            let known = lock(known);
            let waits = known.since.map_or(Duration::ZERO, |s| s.elapsed());
            all.insert(format!("fs.{name}.stalled_s"), waits.as_secs_f64());
            if waits >= STALLED {
                continue;
            }
            for (what, ms) in ["read_ms", "write_ms", "meta_ms"].iter().zip(known.last) {
                if let Some(ms) = ms {
                    all.insert(format!("fs.{name}.{what}"), ms);
                }
            }
        }
        all
    }
}

impl Drop for Probes {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// One probe.
fn probe(files: &mut impl Files, known: &Mutex<FilesystemState>, name: &str) {
    lock(known).since = Some(Instant::now());
    let mut failed = None;
    let mut time = |f: &mut dyn FnMut() -> io::Result<()>| {
        let began = Instant::now();
        match f() {
            Ok(()) => Some(began.elapsed().as_secs_f64() * 1000.0),
            Err(e) => {
                failed.get_or_insert(e);
                None
            }
        }
    };
    // There must be something before it can be read.
    let write = time(&mut || files.write());
    let read = time(&mut || files.read());
    let meta = time(&mut || files.meta());
    let mut known = lock(known);
    known.last = [read, write, meta];
    known.since = None;
    let warned = std::mem::replace(&mut known.warned, failed.is_some());
    drop(known);
    if let (Some(e), false) = (failed, warned) {
        tracing::warn!(fs = name, error = %e, "cannot probe the file system");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Receiver, Sender, channel};

    /// Each probe waits until it is let go; reading fails when asked to.
    struct Hanging {
        go: Receiver<io::Result<()>>,
        began: Sender<()>,
    }

    impl Files for Hanging {
        fn write(&mut self) -> io::Result<()> {
            let _ = self.began.send(());
            self.go.recv().unwrap_or(Ok(()))
        }
        fn read(&mut self) -> io::Result<()> {
            Err(io::Error::other("no"))
        }
        fn meta(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn until(what: impl Fn() -> bool) {
        let end = Instant::now() + Duration::from_secs(60);
        while !what() {
            assert!(Instant::now() < end, "it did not happen");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    #[test]
    fn a_file_system_that_hangs_holds_up_nobody_and_is_seen_to_hang() {
        let (go, wait) = channel();
        let (began, seen) = channel();
        let mut probes = Probes::default();
        let files = move || Hanging { go: wait, began };
        probes.add("/data".into(), Duration::from_millis(1), files).expect("a thread");
        seen.recv_timeout(Duration::from_secs(60)).expect("it begins");
        until(|| probes.metrics()["fs./data.stalled_s"] > 0.0);
        let stalled = probes.metrics();
        assert_eq!(stalled.len(), 1, "nothing was measured yet: {stalled:?}");
        until(|| probes.metrics()["fs./data.stalled_s"] > stalled["fs./data.stalled_s"]);
        // It answers: what worked is reported, what failed is absent.
        go.send(Ok(())).expect("it waits");
        seen.recv_timeout(Duration::from_secs(60)).expect("the next begins");
        let f = probes.metrics();
        assert!(f.contains_key("fs./data.write_ms") && f.contains_key("fs./data.meta_ms"), "{f:?}");
        assert!(!f.contains_key("fs./data.read_ms"), "{f:?}");
        drop(probes);
        let _ = go.send(Ok(()));
    }

    #[test]
    fn a_real_one_is_measured_and_left_as_it_was() {
        let dir = tempfile::tempdir().expect("a directory");
        let probes = Probes::start(&[dir.path().to_path_buf()], EVERY).expect("threads");
        let name = |what: &str| format!("fs.{}.{what}", dir.path().display());
        until(|| probes.metrics().len() == 4);
        let f = probes.metrics();
        for what in ["read_ms", "write_ms", "meta_ms", "stalled_s"] {
            assert!(f[&name(what)] >= 0.0, "{f:?}");
        }
        drop(probes);
        until(|| std::fs::read_dir(dir.path()).is_ok_and(|d| d.count() == 0));
    }

    #[test]
    fn one_that_is_not_there_reports_nothing_but_that_it_does_not_hang() {
        let gone = PathBuf::from("/nowhere/at/all");
        let probes = Probes::start(&[gone], Duration::from_millis(1)).expect("threads");
        until(|| lock(&probes.all[0].1).warned);
        assert!(probes.metrics().keys().all(|k| k.ends_with("stalled_s")));
    }
}
