//! What goes into a store and what comes out.

use crate::StoreError;
use muster_model::{Epoch, JobId, Seq, Span, Time};
use std::path::{Path, PathBuf};

/// One row of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its place; dense.
    pub seq: Seq,
    /// When it was written, by the leader's clock.
    pub at: Time,
    /// The record as its writer serialised it; opaque here.
    pub body: Vec<u8>,
}

/// A secret to write or to delete.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretWrite {
    /// The project it belongs to.
    pub project: String,
    /// Its name within the project.
    pub name: String,
    /// The sealed value (see [`crate::seal`]); `None` deletes it.
    pub value: Option<Vec<u8>>,
}

impl std::fmt::Debug for SecretWrite {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SecretWrite")
            .field("project", &self.project)
            .field("name", &self.name)
            .field("bytes", &self.value.as_ref().map(Vec::len))
            .finish()
    }
}

/// What one append writes: all of it or nothing.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    /// The leader's fencing token.
    pub epoch: Epoch,
    /// Entries that follow the head of the log without a gap.
    pub entries: Vec<Entry>,
    /// Scripts and environments of jobs: beside the log.
    pub payloads: Vec<(JobId, Vec<u8>)>,
    /// Those that are not needed any more.
    pub unneeded: Vec<JobId>,
    /// Secrets to write or delete.
    pub secrets: Vec<SecretWrite>,
}

/// The state after `seq`, so that a start need not read the whole log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// The last entry it includes.
    pub seq: Seq,
    /// The time of that entry.
    pub at: Time,
    /// Shape of the body.
    pub format: u32,
    /// The state as its writer serialised it; opaque here.
    pub body: Vec<u8>,
}

/// The answer to a request for the lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeaseAnswer {
    /// It is yours under this fencing token.
    Granted(Epoch),
    /// Somebody else has it.
    Held {
        /// The server that leads.
        holder: String,
        /// For how long, unless it is renewed.
        expires_in: Span,
    },
}

/// Where the log begins and ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// The oldest entry that is not archived; one past the end when the log holds none.
    pub first_seq: Seq,
    /// The newest entry; 0 when nothing was ever written.
    pub last_seq: Seq,
    /// The time of the newest entry.
    pub last_at: Time,
    /// The fencing token of the newest grant of the lease.
    pub epoch: Epoch,
}

/// What kind of store this is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreInfo {
    /// `sqlite` or `postgres`.
    pub kind: &'static str,
    /// Where it is, without its password.
    pub url: String,
    /// Version of its schema.
    pub schema: u32,
}

/// What an archiving did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchiveReport {
    /// First entry that was moved out.
    pub from: Seq,
    /// Last entry that was moved out; before `from` when there was nothing to move.
    pub to: Seq,
    /// The segment that now holds them.
    pub file: Option<PathBuf>,
}

impl ArchiveReport {
    /// How many entries were moved out.
    #[must_use]
    pub fn entries(&self) -> u64 {
        (self.to.0 + 1).saturating_sub(self.from.0)
    }
}

/// What a full check found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckReport {
    /// Where the log begins and ends.
    pub head: Head,
    /// Entries whose checksum was verified.
    pub entries: u64,
    /// Snapshots kept.
    pub snapshots: u64,
    /// Payloads kept.
    pub payloads: u64,
    /// Secrets kept.
    pub secrets: u64,
    /// What is wrong, in words; empty when all is well.
    pub problems: Vec<String>,
}

impl CheckReport {
    /// Whether nothing is wrong.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        self.problems.is_empty()
    }
}

/// The first item of a dump: what the rest must add up to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DumpHeader {
    /// The last entry that was archived before the log begins; 0 when it begins at 1.
    pub base_seq: Seq,
    /// The chain at `base_seq`.
    pub base_chain: [u8; 16],
    /// The newest entry.
    pub last_seq: Seq,
    /// The time of the newest entry.
    pub last_at: Time,
    /// The chain at `last_seq`.
    pub last_chain: [u8; 16],
    /// The fencing token of the newest grant: a copy must never grant it again.
    pub epoch: Epoch,
}

/// One piece of a store's whole content, in the order of the variants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DumpItem {
    /// Comes first, once.
    Header(DumpHeader),
    /// A snapshot, oldest first.
    Snapshot(Snapshot),
    /// An entry of the log, in order.
    Entry(Entry),
    /// A job's payload.
    Payload(JobId, Vec<u8>),
    /// A sealed secret.
    Secret {
        /// The project it belongs to.
        project: String,
        /// Its name, unique in its project.
        name: String,
        /// The sealed value.
        value: Vec<u8>,
    },
}

/// Whether what is loaded is a site that moves, or an older state of one that comes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoadMode {
    /// The site moves here; nothing was lost.
    Move,
    /// A backup comes back: the store remembers at which entry (see [`Store::restored`]).
    Restore,
}

/// What was given up for lost (see [`Store::accept_loss`]).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcceptedLoss {
    /// What was missing.
    pub lost: String,
    /// The newest entry that is left.
    pub last_seq: Seq,
}

/// The log, its snapshots, the lease on them and the side tables.
pub trait Store: Send {
    /// What and where it is.
    fn info(&self) -> StoreInfo;

    /// Where the log begins and ends.
    fn head(&mut self) -> Result<Head, StoreError>;

    /// Writes the batch in one transaction, if the lease is still of the batch's epoch and of this
    /// handle's holder, and its entries follow the head without a gap.
    fn append(&mut self, batch: &Batch) -> Result<(), StoreError>;

    /// Up to `limit` entries after `after`, each verified against the chain.
    fn read(&mut self, after: Seq, limit: usize) -> Result<Vec<Entry>, StoreError>;

    /// The chain of the log at an entry, which stands for all up to there. Where it has left the log:
    /// that of the last entry that has; where it is not written yet: that of the newest. The entry is
    /// named with it.
    fn chain_at(&mut self, seq: Seq) -> Result<(Seq, [u8; 16]), StoreError>;

    /// The newest snapshot that is whole; a damaged one is passed over for the one before it.
    fn latest_snapshot(&mut self) -> Result<Option<Snapshot>, StoreError>;

    /// Keeps the snapshot and the one before it, and forgets older ones.
    fn put_snapshot(&mut self, epoch: Epoch, snapshot: &Snapshot) -> Result<(), StoreError>;

    /// Moves the entries up to `upto` into a compressed segment under `dir`, never past the
    /// older of the kept snapshots.
    fn archive(&mut self, epoch: Epoch, upto: Seq, dir: &Path)
    -> Result<ArchiveReport, StoreError>;

    /// What the clock of the store's own machine says, where that may be another than this one.
    ///
    /// # Errors
    /// When the store cannot be asked.
    fn clock(&mut self) -> Result<Option<Time>, StoreError> {
        Ok(None)
    }

    /// Asks for the lease: granted when it is free, expired or already of this holder, each
    /// time with the next epoch. Where the clock is the machine's own, nobody waits for longer
    /// than `ttl`: all who ask have the same.
    fn acquire_lease(&mut self, holder: &str, ttl: Span) -> Result<LeaseAnswer, StoreError>;

    /// Whose lease this handle goes by from now on, as one that acquired it does: what needs the
    /// lease is refused while another holder has it, also one to whom a database that lost its last
    /// writes gave the same epoch. A handle that does not know it goes by the epoch alone; so does
    /// a store that is a file of one machine.
    fn lead_as(&mut self, _holder: &str) {}

    /// Extends the lease from now.
    fn renew_lease(&mut self, epoch: Epoch, ttl: Span) -> Result<(), StoreError>;

    /// Gives the lease up; appends under this epoch are refused from now on.
    fn release_lease(&mut self, epoch: Epoch) -> Result<(), StoreError>;

    /// A job's payload, if it has one.
    fn payload(&mut self, job: JobId) -> Result<Option<Vec<u8>>, StoreError>;

    /// A sealed secret.
    fn secret(&mut self, project: &str, name: &str) -> Result<Option<Vec<u8>>, StoreError>;

    /// Reads everything and says what is wrong. An `Err` means that the check itself could not
    /// run.
    fn check(&mut self) -> Result<CheckReport, StoreError>;

    /// Hands the whole content, as of one moment, to `sink`.
    fn dump(
        &mut self,
        sink: &mut dyn FnMut(DumpItem) -> Result<(), StoreError>,
    ) -> Result<DumpHeader, StoreError>;

    /// Fills an empty store from a dump, all of it or nothing. Verifies the chain. No lease is
    /// held afterwards.
    fn load(
        &mut self,
        items: &mut dyn Iterator<Item = Result<DumpItem, StoreError>>,
        mode: LoadMode,
    ) -> Result<DumpHeader, StoreError>;

    /// Notes in an empty store that `what` is about to be loaded into it. Until [`Store::load`] is
    /// through, or [`Store::cancel_load`], [`Store::verify_head`] and a check say so: a store whose
    /// restore was killed must not be taken for a new site. Says what an earlier one that did not
    /// come to its end noted.
    fn begin_load(&mut self, what: &str) -> Result<Option<String>, StoreError>;

    /// Nothing was loaded and nobody is about to; `before` is what [`Store::begin_load`] said, and
    /// is noted again.
    fn cancel_load(&mut self, before: Option<&str>) -> Result<(), StoreError>;

    /// The last entry of the backup this store was restored from, until that is cleared.
    fn restored(&mut self) -> Result<Option<Seq>, StoreError>;

    /// Forgets that the store was restored from a backup.
    fn clear_restored(&mut self) -> Result<(), StoreError>;

    /// Compares the log with its head as it was last kept outside the database:
    /// [`StoreError::Lost`] when it does not reach that far any more, or has another entry there.
    /// A head that was never kept says nothing. [`StoreError::Unfinished`] while something is about
    /// to be loaded.
    fn verify_head(&mut self) -> Result<(), StoreError>;

    /// Goes on without the entries that [`Store::verify_head`] misses, as if what is left had been
    /// restored from a backup; `None` when nothing is missing. Refused while the lease is held.
    fn accept_loss(&mut self) -> Result<Option<AcceptedLoss>, StoreError>;

    /// The end of a clean stop: everything is in the database's own file, and the head is kept.
    fn close(&mut self) -> Result<(), StoreError>;
}
