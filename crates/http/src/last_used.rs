//! When each token was last used, to about a minute. It is no part of the log, where each use would be
//! a record: it is in memory, and in a small file of the data directory.

use muster_api::{Timestamp, Token};
use muster_link::private;
use muster_model::{Span, Time};
use muster_server::brain::Brain;
use muster_server::supervise;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use tokio_util::sync::CancellationToken;

/// A use within this time after the last one is not counted as another, and the file is written at
/// most so often.
const GRAIN: Span = Span::mins(1);
/// Tokens that are in memory; beyond it that which was used longest ago is left out.
const MOST: usize = 10_000;

/// What is known, as the file has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Uses {
    /// Every use since then is known.
    since: Time,
    /// The lead under which it was known.
    epoch: u64,
    /// By the public part of the token.
    used: HashMap<String, Time>,
    /// There is something that the file does not have.
    #[serde(skip)]
    changed: bool,
}

impl Uses {
    fn new(epoch: u64, now: Time) -> Uses {
        Uses { since: now, epoch, used: HashMap::new(), changed: true }
    }

    /// This server leads under this epoch now. Where another one led since the last, that one saw uses
    /// that nobody knows here.
    fn follow(&mut self, epoch: u64, now: Time) {
        if epoch == self.epoch {
            return;
        }
        if Some(epoch) != self.epoch.checked_add(1) {
            self.since = now;
        }
        (self.epoch, self.changed) = (epoch, true);
    }

    fn is_fresh(&self, id: &str, now: Time) -> bool {
        // A clock that was set back must not leave a time of the future.
        self.used.get(id).is_some_and(|at| *at <= now && now.since(*at) < GRAIN)
    }

    fn add(&mut self, id: &str, now: Time) {
        if self.used.len() >= MOST && !self.used.contains_key(id) {
            self.drop_oldest();
        }
        self.used.insert(id.to_owned(), now);
        self.changed = true;
    }

    fn drop_oldest(&mut self) {
        let oldest = self.used.iter().min_by_key(|(_, at)| **at);
        let Some((id, at)) = oldest.map(|(id, at)| (id.clone(), *at)) else { return };
        self.used.remove(&id);
        // What is left out was used before that, so that nothing wrong follows from its absence.
        self.since = self.since.max(at + GRAIN);
    }
}

#[derive(Debug)]
struct Shared {
    file: Option<PathBuf>,
    uses: RwLock<Uses>,
    /// One writes at a time.
    writing: Mutex<()>,
}

/// When each token was last used. Cheap to clone.
#[derive(Debug, Clone)]
pub struct LastUsed(Arc<Shared>);

impl LastUsed {
    /// Goes on with what the file has; without one, or with one that cannot be read, it begins now.
    pub(crate) fn open(file: Option<PathBuf>, epoch: u64, now: Time) -> LastUsed {
        let mut uses = file.as_deref().and_then(read).unwrap_or_else(|| Uses::new(epoch, now));
        uses.follow(epoch, now);
        LastUsed(Arc::new(Shared { file, uses: RwLock::new(uses), writing: Mutex::new(()) }))
    }

    /// This token is used now.
    pub(crate) fn note(&self, id: &str, now: Time) {
        let uses = self.0.uses.read().unwrap_or_else(PoisonError::into_inner);
        let fresh = uses.is_fresh(id, now);
        drop(uses);
        if !fresh {
            self.0.uses.write().unwrap_or_else(PoisonError::into_inner).add(id, now);
        }
    }

    /// Puts what is known into these tokens. Agents join by another way, which is not seen here.
    pub(crate) fn fill(&self, tokens: &mut [Token]) {
        let uses = self.0.uses.read().unwrap_or_else(PoisonError::into_inner);
        for t in tokens.iter_mut().filter(|t| !t.join) {
            match uses.used.get(&t.id) {
                Some(at) => t.last_used = Some(Timestamp(*at)),
                None => t.not_used_since = Some(t.created_at.max(Timestamp(uses.since))),
            }
        }
    }

    /// Writes to the file what it does not have. Waits for the disk.
    ///
    /// # Errors
    /// Whatever the system says; it is tried again the next time.
    pub fn flush(&self, brain: &Brain) -> io::Result<()> {
        self.write(brain.epoch().0, brain.now())
    }

    fn write(&self, epoch: u64, now: Time) -> io::Result<()> {
        let Some(file) = &self.0.file else { return Ok(()) };
        let _turn = self.0.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let text = {
            let mut uses = self.0.uses.write().unwrap_or_else(PoisonError::into_inner);
            uses.follow(epoch, now);
            if !uses.changed {
                return Ok(());
            }
            uses.changed = false;
            serde_json::to_vec(&*uses)?
        };
        let written = replace(file, &text);
        if written.is_err() {
            self.0.uses.write().unwrap_or_else(PoisonError::into_inner).changed = true;
        }
        written
    }

    /// Writes it once a minute until `stop`, on the runtime that this is called on.
    pub(crate) fn start(&self, brain: Brain, stop: &CancellationToken) {
        let (used, stop) = (self.clone(), stop.clone());
        supervise::task("token-use", move || keep(used.clone(), brain.clone(), stop.clone()));
    }
}

async fn keep(used: LastUsed, brain: Brain, stop: CancellationToken) {
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(GRAIN.to_std()) => {}
        }
        let (used, brain) = (used.clone(), brain.clone());
        let written = tokio::task::spawn_blocking(move || used.flush(&brain)).await;
        if let Ok(Err(e)) = written {
            tracing::warn!(error = %e, "when tokens were last used could not be written");
        }
    }
}

fn read(file: &Path) -> Option<Uses> {
    let text = match fs::read(file) {
        Ok(text) => text,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return None,
        Err(e) => {
            tracing::warn!(error = %e, file = %file.display(), "it is not known when tokens were used");
            return None;
        }
    };
    let known = serde_json::from_slice(&text);
    if let Err(e) = &known {
        tracing::warn!(error = %e, file = %file.display(), "it is not known when tokens were used");
    }
    known.ok()
}

/// The whole file or none of it, for its owner alone.
fn replace(file: &Path, text: &[u8]) -> io::Result<()> {
    let new = file.with_extension("new");
    private::write(&new, text)?;
    File::open(&new)?.sync_all()?;
    fs::rename(&new, file)
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Time = Time(1_000_000);

    fn open(file: &Path, epoch: u64, now: Time) -> LastUsed {
        LastUsed::open(Some(file.to_owned()), epoch, now)
    }

    fn uses(of: &LastUsed) -> Uses {
        of.0.uses.read().unwrap().clone()
    }

    #[test]
    fn a_use_is_counted_once_a_minute_and_is_in_the_file() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("token-use.json");
        let first = open(&file, 1, AT);
        first.note("a", AT);
        first.note("a", AT + Span::secs(59));
        assert_eq!(uses(&first).used["a"], AT);
        first.note("a", AT + GRAIN);
        assert_eq!(uses(&first).used["a"], AT + GRAIN);
        first.note("a", AT);
        assert_eq!(uses(&first).used["a"], AT, "the clock was set back");
        first.write(1, AT).unwrap();
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(!uses(&first).changed && !dir.path().join("token-use.new").exists());
        let later = open(&file, 2, AT + Span::hours(1));
        assert_eq!((uses(&later).since, uses(&later).used["a"]), (AT, AT));
    }

    #[test]
    fn what_another_server_saw_is_not_taken_for_no_use() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("token-use.json");
        let first = open(&file, 1, AT);
        first.note("a", AT);
        first.write(1, AT).unwrap();
        let later = AT + Span::hours(1);
        let again = open(&file, 3, later);
        assert_eq!((uses(&again).since, uses(&again).used["a"]), (later, AT));
    }

    #[test]
    fn a_file_that_cannot_be_read_begins_anew() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("token-use.json");
        fs::write(&file, "{\"since\": ").unwrap();
        let fresh = open(&file, 7, AT);
        assert_eq!(uses(&fresh), Uses::new(7, AT));
    }

    #[test]
    fn the_table_does_not_grow_without_bound() {
        let all = LastUsed::open(None, 1, Time(0));
        for i in 0..MOST {
            all.note(&i.to_string(), AT + Span(i as u64));
        }
        assert_eq!(uses(&all).since, Time(0));
        all.note("one more", AT + Span::hours(1));
        let known = uses(&all);
        assert_eq!(known.used.len(), MOST);
        assert!(!known.used.contains_key("0") && known.used.contains_key("one more"));
        assert_eq!(known.since, AT + GRAIN, "it was used before that");
    }
}
