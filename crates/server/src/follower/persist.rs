//! A projection that is written down with its place in the log, so that a start need not read the whole
//! log again. It can always be read anew: a file that is missing, broken or of another log costs time,
//! and a server that cannot write goes on.

use crate::brain::Brain;
use muster_engine::State;
use muster_model::ids::{Epoch, Seq};
use muster_model::projection::Projection;
use muster_model::units::{Span, Time};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Between two times that it is written down.
const EVERY: Span = Span::mins(1);

/// A projection that is written down.
pub(crate) trait PersistedProjection: Projection {
    /// What is written down of it.
    type Fold: Serialize + DeserializeOwned + Default;

    /// What is written down of it now.
    fn fold(&self) -> &Self::Fold;

    /// The last record that is in it: reading goes on behind that.
    fn place(fold: &Self::Fold) -> Seq;

    /// How often something entered it that the log does not have. It is written down at once then:
    /// after a crash nobody could read it again.
    fn samples(&self) -> u64 {
        0
    }
}

/// As it is written down.
#[derive(Serialize, Deserialize)]
struct StoredProjection<F> {
    site: String,
    /// Under which lead its last record was written: a log that was restored from a backup has
    /// another at that place.
    epoch: Epoch,
    // The name that files have had since the first of them.
    #[serde(rename = "fleet")]
    fold: F,
}

fn site(s: &State) -> String {
    s.site.clone().unwrap_or_default().to_string()
}

/// The lead under which a record was written.
fn epoch_at(s: &State, seq: Seq) -> Epoch {
    let before = s.leads.iter().rev().find(|(first, _)| *first <= seq);
    before.map_or(Epoch(0), |(_, epoch)| *epoch)
}

/// What was written down, if it is of this log.
pub(super) fn read<P: PersistedProjection>(
    part: &str,
    brain: &Brain,
    file: &Path,
) -> Option<P::Fold> {
    let text = match std::fs::read(file) {
        Ok(text) => text,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return None,
        Err(error) => {
            tracing::warn!(part, %error, "what was read cannot be read back; the log is read anew");
            return None;
        }
    };
    let w: StoredProjection<P::Fold> = serde_json::from_slice(&text)
        .inspect_err(|error| {
            tracing::warn!(part, %error, "what was read makes no sense; the log is read anew");
        })
        .ok()?;
    let seq = P::place(&w.fold);
    let fits = brain.read(|s| w.site == site(s) && seq <= s.seq && w.epoch == epoch_at(s, seq));
    if !fits {
        tracing::info!(part, "what was read is of another log; this one is read anew");
    }
    fits.then_some(w.fold)
}

/// All of it is on the disk before it takes the place of the last one.
fn write(file: &Path, text: &[u8]) -> std::io::Result<()> {
    let mut f = std::fs::File::create(file)?;
    f.write_all(text)?;
    f.sync_all()
}

/// Where a projection is written down, and when it last was.
pub(super) struct ProjectionFile<P> {
    /// Held by whoever writes.
    file: Arc<Mutex<PathBuf>>,
    place: fn(&P) -> Seq,
    samples: fn(&P) -> u64,
    text: fn(&P, String, Epoch) -> serde_json::Result<Vec<u8>>,
    saved: Seq,
    saved_samples: u64,
    saved_at: Time,
}

impl<P: PersistedProjection> ProjectionFile<P> {
    pub(super) fn new(file: PathBuf, saved: Seq, saved_at: Time) -> ProjectionFile<P> {
        ProjectionFile {
            file: Arc::new(Mutex::new(file)),
            place: |p| P::place(p.fold()),
            samples: P::samples,
            text: |p, site, epoch| {
                serde_json::to_vec(&StoredProjection { site, epoch, fold: p.fold() })
            },
            saved,
            saved_samples: 0,
            saved_at,
        }
    }
}

impl<P> ProjectionFile<P> {
    /// Writes it down when it moved and its time has come, or there will be no other time; and at
    /// once when it took in what the log does not have.
    pub(super) fn save(&mut self, projection: &P, brain: &Brain, now: Time, last: bool) {
        let (seq, samples) = ((self.place)(projection), (self.samples)(projection));
        let due = last || now.since(self.saved_at) >= EVERY;
        if samples == self.saved_samples && (!due || seq <= self.saved) {
            return;
        }
        (self.saved, self.saved_samples, self.saved_at) = (seq, samples, now);
        let (site, epoch) = brain.read(|s| (site(s), epoch_at(s, seq)));
        let (file, text) = (self.file.clone(), (self.text)(projection, site, epoch));
        tokio::task::spawn_blocking(move || {
            let file = file.lock().unwrap_or_else(PoisonError::into_inner);
            let new = file.with_extension("new");
            let done = text
                .map_err(std::io::Error::other)
                .and_then(|text| write(&new, &text))
                .and_then(|()| std::fs::rename(&new, &*file));
            if let Err(error) = done {
                let file = file.display();
                tracing::warn!(%file, %error, "what was read from the log cannot be written down");
            }
        });
    }
}
