//! Search over kept output: one thread follows what is kept and indexes it, and nobody waits for it.

mod indexer;
#[cfg(test)]
mod tests;

use crate::brain::Brain;
use crate::logs::LogKeeper;
use crate::supervise::SupervisedThread;
use indexer::Indexer;
use muster_model::names::ProjectName;
use muster_model::units::Bytes;
use muster_outsearch::{
    IndexError, IndexStats, MatchedLine, SearchRequest, SearchResults, find, newest,
};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use tokio_util::sync::CancellationToken;

/// Less holds too little to be worth its files.
pub const LEAST_BYTES: Bytes = Bytes::mib(16);
/// What it may take where nobody says, on a large file system.
const USUAL_BYTES: Bytes = Bytes::gib(5);
/// The part of a file system that it may take where nobody says.
const PART_OF_DISK: u64 = 20;
/// A file system that is smaller has no space for it, where nobody says otherwise.
const LEAST_DISK: Bytes = Bytes::gib(20);

/// Whether output is indexed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OutputSearchSwitch {
    /// Where the file system of the data directory is large enough.
    #[default]
    Auto,
    /// It is.
    On,
    /// It is not.
    Off,
}

/// Where the index of output is, and how large it may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputSearchConfig {
    /// The directory, which is its own.
    pub dir: PathBuf,
    /// Bytes of all its files.
    pub bytes: Bytes,
}

/// Why output is not indexed.
#[derive(Debug, Clone, PartialEq, Eq, Default, thiserror::Error)]
pub enum OffReason {
    /// Nothing was said of it.
    #[default]
    #[error("this server was started without it")]
    Absent,
    /// Somebody said so.
    #[error("this server was started with --output-search off")]
    Flag,
    /// The rule for those who say nothing.
    #[error(
        "the file system of the data directory has {size}, and by default it is on from {least} on"
    )]
    SmallDisk {
        /// What that file system holds.
        size: Bytes,
        /// From where on it is on.
        least: Bytes,
    },
}

impl OutputSearchConfig {
    /// What operators chose, or what follows from the file system of the data directory.
    ///
    /// # Errors
    /// Why it is off.
    pub fn choose(
        data_dir: &Path,
        switch: OutputSearchSwitch,
        bytes: Option<Bytes>,
    ) -> Result<OutputSearchConfig, OffReason> {
        let disk = rustix::fs::statvfs(data_dir);
        let disk = disk.map(|d| Bytes(d.f_blocks.saturating_mul(d.f_frsize))).ok();
        let bytes = decide(switch, bytes, disk)?;
        Ok(OutputSearchConfig { dir: data_dir.join("output-index"), bytes })
    }
}

/// How large the index may be; `disk` is the size of the file system, where it is known.
fn decide(
    switch: OutputSearchSwitch,
    bytes: Option<Bytes>,
    disk: Option<Bytes>,
) -> Result<Bytes, OffReason> {
    match (switch, disk) {
        (OutputSearchSwitch::Off, _) => return Err(OffReason::Flag),
        // Whoever says how large it may be wants it.
        (OutputSearchSwitch::Auto, Some(disk)) if bytes.is_none() && disk < LEAST_DISK => {
            let size = Bytes::mib(disk.0 >> 20);
            return Err(OffReason::SmallDisk { size, least: LEAST_DISK });
        }
        _ => {}
    }
    let usual = disk.map_or(USUAL_BYTES, |disk| USUAL_BYTES.min(Bytes(disk.0 / PART_OF_DISK)));
    Ok(bytes.unwrap_or(usual).max(LEAST_BYTES))
}

/// Why output cannot be searched.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoOutputSearch {
    /// It is not indexed.
    #[error("output search is off: {0}")]
    Off(OffReason),
    /// The index is being opened.
    #[error("the index of output is being opened")]
    Opening,
    /// The index cannot be used.
    #[error(
        "output cannot be searched now: its index cannot be used, and the server's log says why"
    )]
    Failed,
}

/// The state of the index.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OutputSearchStatus {
    /// Not all kept output is indexed yet.
    pub is_behind: bool,
    /// Its files.
    pub files: IndexStats,
}

enum State {
    None(NoOutputSearch),
    Open(OutputSearchStatus),
}

struct Inner {
    /// None while output is not indexed.
    dir: Option<PathBuf>,
    state: Mutex<State>,
    /// Projects in whose files a reader met damage.
    damaged: Mutex<BTreeSet<String>>,
    /// None while output is not indexed, and once somebody waits for its end.
    thread: Mutex<Option<SupervisedThread>>,
}

impl Inner {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn damaged(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.damaged.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn thread(&self) -> MutexGuard<'_, Option<SupervisedThread>> {
        self.thread.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Search over kept output. Clones share it; the default one is off.
#[derive(Clone)]
pub struct OutputSearch {
    inner: Arc<Inner>,
}

impl Default for OutputSearch {
    fn default() -> OutputSearch {
        OutputSearch::off(OffReason::Absent)
    }
}

impl std::fmt::Debug for OutputSearch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OutputSearch").field("dir", &self.inner.dir).finish_non_exhaustive()
    }
}

impl OutputSearch {
    fn new(dir: Option<PathBuf>, why: NoOutputSearch) -> OutputSearch {
        let state = Mutex::new(State::None(why));
        let (damaged, thread) = (Mutex::default(), Mutex::default());
        OutputSearch { inner: Arc::new(Inner { dir, state, damaged, thread }) }
    }

    /// Nothing is indexed.
    #[must_use]
    pub fn off(why: OffReason) -> OutputSearch {
        OutputSearch::new(None, NoOutputSearch::Off(why))
    }

    /// Starts the thread that indexes; it ends with `stop`.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn start(
        config: OutputSearchConfig,
        keeper: LogKeeper,
        brain: Brain,
        stop: CancellationToken,
    ) -> std::io::Result<OutputSearch> {
        let search = OutputSearch::new(Some(config.dir.clone()), NoOutputSearch::Opening);
        let inner = search.inner.clone();
        let thread = crate::supervise::thread("output-index", move || {
            lower_priority();
            Indexer::new(&config, &keeper, &brain, &inner, &stop).run();
        })?;
        *search.inner.thread() = Some(thread);
        Ok(search)
    }

    /// Waits until the thread that indexes has ended; what ends it comes first. Not on a thread that
    /// answers requests.
    pub fn wait_for_end(&self) {
        let thread = self.inner.thread().take();
        if let Some(thread) = thread {
            thread.end();
        }
    }

    /// The state of the index.
    ///
    /// # Errors
    /// Why there is none.
    pub fn status(&self) -> Result<OutputSearchStatus, NoOutputSearch> {
        match &*self.inner.state() {
            State::Open(status) => Ok(*status),
            State::None(why) => Err(why.clone()),
        }
    }

    /// Lines of these projects that have the words, the newest first. Reads a disk: not on a thread
    /// that answers requests. Who may read them is for the caller to look at.
    ///
    /// # Errors
    /// Why there is nothing to search.
    pub fn find(
        &self,
        projects: &[ProjectName],
        wanted: &SearchRequest<'_>,
    ) -> Result<ProjectLines, NoOutputSearch> {
        self.status()?;
        let Some(dir) = &self.inner.dir else {
            return Err(NoOutputSearch::Off(OffReason::Absent));
        };
        let mut order = Vec::new();
        for project in projects {
            let id = newest(dir, project.as_str(), wanted.below)
                .map_err(|e| self.report_unreadable(project, &e))?;
            order.extend(id.map(|id| (id, project)));
        }
        let is_over = || wanted.until.is_some_and(|until| Instant::now() >= until);
        let mut all = search_in_order(order, is_over, |project| {
            find(dir, project.as_str(), wanted).map_err(|e| self.report_unreadable(project, &e))
        })?;
        all.cut(wanted.limit);
        Ok(all)
    }

    /// What is wrong is for the log alone: it names projects and paths.
    fn report_unreadable(&self, project: &ProjectName, e: &IndexError) -> NoOutputSearch {
        if e.is_damaged() {
            self.inner.damaged().insert(project.to_string());
        }
        tracing::warn!(%project, error = with_source(e), "the index of output cannot be read");
        NoOutputSearch::Failed
    }
}

/// Searches projects, each with the number of its newest line, those with newer lines first. Once it is
/// over, the rest is for the next page. The first is searched in any case, so that every page comes
/// further.
fn search_in_order<E>(
    mut projects: Vec<(u64, &ProjectName)>,
    is_over: impl Fn() -> bool,
    search: impl Fn(&ProjectName) -> Result<SearchResults, E>,
) -> Result<ProjectLines, E> {
    projects.sort_unstable_by_key(|(newest, _)| std::cmp::Reverse(*newest));
    let mut all = ProjectLines::default();
    for (n, (newest, project)) in projects.into_iter().enumerate() {
        // Nothing of this one and of those that follow is on this page.
        if all.floor > Some(newest) {
            break;
        }
        if n > 0 && is_over() {
            all.floor = Some(newest.saturating_add(1));
            break;
        }
        all.add(project, search(project)?);
    }
    Ok(all)
}

/// Lines of several projects, the newest first.
#[derive(Debug, Default)]
pub struct ProjectLines {
    /// The lines.
    pub lines: Vec<(ProjectName, MatchedLine)>,
    /// What is before this one was not looked at; none when everything was.
    pub floor: Option<u64>,
}

impl ProjectLines {
    fn add(&mut self, project: &ProjectName, found: SearchResults) {
        self.lines.extend(found.lines.into_iter().map(|l| (project.clone(), l)));
        // As far as all were looked at.
        self.floor = self.floor.max(found.floor);
    }

    fn cut(&mut self, limit: usize) {
        self.lines.sort_unstable_by_key(|(_, l)| std::cmp::Reverse(l.id));
        if let Some(floor) = self.floor {
            self.lines.retain(|(_, l)| l.id >= floor);
        }
        if self.lines.len() > limit {
            self.lines.truncate(limit);
            self.floor = self.lines.last().map(|(_, l)| l.id);
        }
    }
}

/// An error with what is behind it.
fn with_source(e: &dyn std::error::Error) -> String {
    match e.source() {
        Some(source) => format!("{e}: {source}"),
        None => e.to_string(),
    }
}

/// Everything else on this machine goes first.
fn lower_priority() {
    // There it is the calling thread's alone.
    #[cfg(target_os = "linux")]
    {
        if let Err(e) = rustix::process::setpriority_process(None, 19) {
            tracing::debug!(error = %e, "the index of output keeps its priority");
        }
    }
}
