//! What is kept on disk about one attempt, so that a restarted agent knows it again. Never a
//! secret, never the value of a variable.

use crate::cgroup::Group;
use crate::isolation::slot_dir;
use crate::lease::BootTime;
use crate::process::{ProcessId, is_shortage};
use crate::rank_file;
use crate::trash;
use muster_link::messages::{ProgressReport, RunDetail};
pub(crate) use muster_link::private::write as write_private;
use muster_model::ids::AttemptKey;
use muster_model::job::{Exit, SlotEnd};
use muster_model::spec::RunSpec;
use muster_model::units::{Span, Time};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What is to be removed, in the agent's directory.
pub(crate) const TRASH: &str = "trash";
/// Longest file of an attempt that is read; far more than any agent or supervisor writes.
const LONGEST: u64 = 64 << 20;

/// How one rank ended, as the supervisor saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RankEnd {
    pub(crate) rank: u32,
    #[serde(default)]
    pub(crate) code: Option<i32>,
    #[serde(default)]
    pub(crate) signal: Option<i32>,
}

impl RankEnd {
    pub(crate) fn failed(self) -> bool {
        self.code != Some(0)
    }

    pub(crate) fn exit(self, note: String) -> Exit {
        Exit { rank: self.rank, code: self.code, signal: self.signal, note }
    }
}

/// The first rank that failed, reported while others may still run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct FirstFailure {
    pub(crate) end: RankEnd,
    pub(crate) oom: bool,
}

/// What was found when the ranks were gone, and what became of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Cleanup {
    /// Processes that outlived the ranks and were killed.
    #[serde(default)]
    pub(crate) killed: u32,
    /// Processes that could not be killed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) left: Vec<i32>,
    /// Why scratch space is left, if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) scratch: Option<String>,
}

impl Cleanup {
    /// What is left of the slot, in words.
    pub(crate) fn remains(&self) -> Option<String> {
        let processes = (!self.left.is_empty()).then(|| {
            let pids: Vec<String> = self.left.iter().map(i32::to_string).collect();
            format!("processes that cannot be killed: {}", pids.join(", "))
        });
        let all: Vec<String> = processes.into_iter().chain(self.scratch.clone()).collect();
        (!all.is_empty()).then(|| all.join("; "))
    }
}

/// Every rank is gone.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct EndFile {
    pub(crate) ranks: Vec<RankEnd>,
    #[serde(default)]
    pub(crate) first: Option<FirstFailure>,
    /// Could not be started, and the job is the cause.
    #[serde(default)]
    pub(crate) unstartable: Option<String>,
    /// Could not be started, and the node is the cause.
    #[serde(default)]
    pub(crate) fault: Option<String>,
    /// They were stopped because their lease ran out: so long without a server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) lease: Option<Span>,
    #[serde(default)]
    pub(crate) cleanup: Cleanup,
    /// When the last rank ended. Older supervisors do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) at: Option<BootTime>,
}

/// A line of the `record`: what a supervisor reports of its slot. Lines are only ever appended,
/// each by one write, and one that was not finished does not count.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Entry {
    /// Who supervises; nobody when an agent gave the attempt up. The first line decides, whoever
    /// wrote it.
    Supervisor(Option<ProcessId>),
    /// Only their account separates the ranks, and why.
    Open(String),
    /// The ranks are up.
    Ranks(Vec<i32>),
    First(FirstFailure),
    /// Their lease ran out after so long without a server; they are being stopped.
    Lease(Span),
    End(EndFile),
}

/// What the `record` says so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct Record {
    /// None while nobody has come.
    pub(crate) supervisor: Option<Option<ProcessId>>,
    pub(crate) open: Option<String>,
    pub(crate) ranks: Vec<i32>,
    pub(crate) first: Option<FirstFailure>,
    pub(crate) lease: Option<Span>,
    pub(crate) end: Option<EndFile>,
}

impl Record {
    fn parse(text: &[u8]) -> Record {
        let mut record = Record::default();
        let whole = text.iter().rposition(|b| *b == b'\n').map_or(&[][..], |at| &text[..at]);
        for (i, line) in whole.split(|b| *b == b'\n').enumerate() {
            match (i, serde_json::from_slice(line)) {
                (0, Ok(Entry::Supervisor(who))) => record.supervisor = Some(who),
                // A torn claim is nobody's.
                (0, _) if !whole.is_empty() => record.supervisor = Some(None),
                (_, Ok(Entry::Open(why))) => record.open = Some(why),
                (_, Ok(Entry::Ranks(pids))) => record.ranks = pids,
                (_, Ok(Entry::First(first))) => record.first = Some(first),
                (_, Ok(Entry::Lease(most))) => record.lease = Some(most),
                (_, Ok(Entry::End(end))) => record.end = Some(end),
                _ => {}
            }
        }
        record
    }
}

/// Appends one line.
pub(crate) fn note(mut record: &fs::File, entry: &Entry) -> io::Result<()> {
    let mut line = serde_json::to_vec(entry)?;
    line.push(b'\n');
    let written = record.write(&line)?;
    if written < line.len() {
        return Err(io::Error::new(io::ErrorKind::StorageFull, "the record was cut short"));
    }
    Ok(())
}

/// Takes the room that the record of so many ranks needs, while there is some. Where that cannot
/// be done, it only may be missing later.
pub(crate) fn reserve(record: &fs::File, ranks: usize) {
    let room = 8192 + 256 * u64::try_from(ranks).unwrap_or(0);
    let _ = rustix::fs::fallocate(record, rustix::fs::FallocateFlags::KEEP_SIZE, 0, room);
}

/// Appends the last line. A full disk is waited for: without it, a success would be run again.
pub(crate) fn note_end(mut record: &fs::File, end: EndFile) -> io::Result<()> {
    let end = Entry::End(end);
    loop {
        match note(record, &end) {
            Err(e)
                if e.kind() == io::ErrorKind::StorageFull
                    || e.raw_os_error() == Some(libc::EDQUOT) => {}
            written => return written,
        }
        std::thread::sleep(Duration::from_millis(200));
        // What was cut short must not spoil the next line.
        let _ = record.write_all(b"\n");
    }
}

/// `meta.json`: what the agent must know after a restart.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct MetaFile {
    pub(crate) detail: RunDetail,
    #[serde(default)]
    pub(crate) group: Option<Group>,
    pub(crate) boot: String,
    /// The supervisor stops the ranks when their lease runs out. One that an older agent started
    /// does not; then the agent must.
    #[serde(default)]
    pub(crate) lease: bool,
    /// Which directory the supervisor works in.
    #[serde(default)]
    pub(crate) place: Option<DirIdentity>,
}

/// Which directory it is. One that was only renamed, or is at its path again, is the same; a copy
/// is another one.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct DirIdentity {
    path: String,
    dev: u64,
    ino: u64,
}

impl DirIdentity {
    pub(crate) fn of(dir: &Path) -> Option<DirIdentity> {
        let (real, meta) = (dir.canonicalize().ok()?, dir.metadata().ok()?);
        let path = real.to_string_lossy().into_owned();
        Some(DirIdentity { path, dev: meta.dev(), ino: meta.ino() })
    }

    pub(crate) fn is(&self, dir: &Path) -> bool {
        let same = |p: DirIdentity| p.path == self.path || (p.dev, p.ino) == (self.dev, self.ino);
        DirIdentity::of(dir).is_none_or(same)
    }
}

/// Why ranks are being stopped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RankStopCause {
    /// The server said so.
    Asked,
    /// A rank of this slot failed; the rest goes with it.
    RankFailed,
    /// No server was there for so long.
    NoServer(Span),
    /// This node is at fault.
    Fault(String),
}

/// The end of a grace, by the wall clock: the only one that goes on without the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KillBy {
    pub(crate) at: Time,
    /// The whole of it in milliseconds: a number comes back as it was, however large.
    pub(crate) grace: u64,
}

impl KillBy {
    pub(crate) fn after(grace: Span, now: Time) -> KillBy {
        KillBy { at: now + grace, grace: grace.0 }
    }

    /// What is left of the grace; never more than all of it, whatever became of the clock.
    pub(crate) fn remaining(self, now: Time) -> Span {
        self.at.since(now).min(Span(self.grace))
    }
}

/// `state.json`: how far things have come. Losing it repeats work, never loses it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct StateFile {
    /// Output kept by the server, by local rank: stdout, stderr.
    #[serde(default)]
    pub(crate) kept: Vec<[u64; 2]>,
    /// How far the reports were read, by local rank.
    #[serde(default)]
    pub(crate) progress: Vec<u64>,
    /// The newest finished checkpoint, by local rank: reported again until the attempt is
    /// forgotten.
    #[serde(default)]
    pub(crate) done: Vec<Option<ProgressReport>>,
    #[serde(default)]
    pub(crate) stop: Option<RankStopCause>,
    /// When that began; of no use after the machine started anew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) stopped: Option<BootTime>,
    /// When what is being stopped is killed.
    #[serde(default)]
    pub(crate) kill: Option<KillBy>,
    /// The end, once it is known.
    #[serde(default)]
    pub(crate) end: Option<SlotEnd>,
    /// When that was; of no use after the machine started anew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ended: Option<BootTime>,
    /// Nobody has to be asked about the end any more.
    #[serde(default)]
    pub(crate) finished: bool,
    /// What is left on the node although it should not be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) leftover: Option<String>,
}

/// The directory of one attempt.
#[derive(Debug, Clone)]
pub(crate) struct RunDir(pub(crate) PathBuf);

impl RunDir {
    pub(crate) fn of(runs: &Path, key: AttemptKey) -> RunDir {
        RunDir(runs.join(key.to_string()))
    }

    pub(crate) fn create(&self) -> io::Result<()> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.0)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub(crate) fn secrets(&self) -> PathBuf {
        self.path("secrets")
    }

    /// Reads a file; none when it is missing or torn, or cannot be read.
    pub(crate) fn read<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        self.find(name).ok().flatten()
    }

    /// Reads a file; none when it is lost: missing, torn, or replaced by something else.
    ///
    /// # Errors
    /// It may be there, but cannot be read now.
    pub(crate) fn find<T: DeserializeOwned>(&self, name: &str) -> io::Result<Option<T>> {
        Ok(self.text(name)?.and_then(|text| serde_json::from_slice(&text).ok()))
    }

    fn text(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        let path = self.path(name);
        let text = rank_file::read(&path, LONGEST).or_else(|e| {
            if e.kind() != io::ErrorKind::PermissionDenied {
                return Err(e);
            }
            // A rank that runs as this agent does may have taken the right to read away.
            let _ = fs::set_permissions(&self.0, fs::Permissions::from_mode(0o700));
            let _ = fs::set_permissions(&path, fs::Permissions::from_mode(0o600));
            rank_file::read(&path, LONGEST)
        });
        match text {
            Ok(text) => Ok(Some(text)),
            Err(e) if lost(&e) => Ok(None),
            // As it is: it says nothing of the file.
            Err(e) if is_shortage(&e) => Err(e),
            Err(e) => Err(io::Error::new(e.kind(), format!("cannot read {}: {e}", path.display()))),
        }
    }

    /// Writes a file so that it is seen whole or not at all.
    pub(crate) fn write<T: Serialize>(&self, name: &str, value: &T) -> io::Result<()> {
        let tmp = self.path(&format!("{name}.tmp"));
        write_private(&tmp, &serde_json::to_vec(value)?)?;
        fs::rename(tmp, self.path(name))
    }

    /// What the supervisor has reported.
    ///
    /// # Errors
    /// It may have reported something, but that cannot be read now.
    pub(crate) fn find_record(&self) -> io::Result<Record> {
        Ok(Record::parse(&self.text("record")?.unwrap_or_default()))
    }

    /// Takes the attempt for a supervisor, or gives it up; the record when that succeeded.
    pub(crate) fn claim(&self, who: Option<ProcessId>) -> io::Result<Option<fs::File>> {
        let mut options = fs::OpenOptions::new();
        // Nothing that somebody put in its place may hold us up.
        options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
        let file = options.append(true).create(true).mode(0o600).open(self.path("record"))?;
        note(&file, &Entry::Supervisor(who.clone()))?;
        let record = match self.find_record() {
            Err(e) if is_shortage(&e) => return Err(e),
            found => found.unwrap_or_default(),
        };
        Ok((record.supervisor == Some(who)).then_some(file))
    }

    /// Notes what containers the ranks run in, for whoever must clean up alone.
    pub(crate) fn name_containers(&self, names: &[String]) -> io::Result<()> {
        self.write("containers.json", &names)
    }

    /// The containers that the ranks run in.
    pub(crate) fn containers(&self) -> Vec<String> {
        self.read("containers.json").unwrap_or_default()
    }

    /// Where what is to be removed waits for that: beside the directory of all attempts.
    pub(crate) fn trash(&self) -> PathBuf {
        self.0.ancestors().nth(2).unwrap_or(&self.0).join(TRASH)
    }

    pub(crate) fn remove(&self) {
        slot_dir::remove(&self.0);
        let _ = trash::discard(&self.trash(), &self.0);
    }
}

/// Whether reading failed because there is nothing to read, and never will be. What a rank can put in
/// a file's place counts as that: it must not keep the agent from starting.
fn lost(e: &io::Error) -> bool {
    use io::ErrorKind::{InvalidData, InvalidInput, NotADirectory, NotFound};
    match e.kind() {
        NotFound | NotADirectory => true,
        // Not from the kernel: no regular file, or far too long.
        InvalidInput | InvalidData => e.raw_os_error().is_none(),
        _ => false,
    }
}

/// The order without what must not be stored: secrets, the values of variables, the script.
pub(crate) fn sanitised(detail: &RunDetail) -> RunDetail {
    let mut d = detail.clone();
    d.secrets.0.clear();
    let env = d.run.env.into_keys().map(|k| (k, String::new())).collect();
    d.run = RunSpec { env, image: d.run.image, ..RunSpec::default() };
    d
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::detail;

    #[test]
    fn what_is_stored_holds_no_secret_and_no_value() {
        let mut d = detail("echo $TOKEN topsecret1");
        d.run.env.insert("TOKEN".into(), "topsecret2".into());
        d.secrets.0.insert("key".into(), "topsecret3".into());
        let text = serde_json::to_string(&sanitised(&d)).unwrap();
        assert!(!text.contains("topsecret"), "{text}");
        assert!(text.contains("TOKEN"));
    }

    #[test]
    fn what_is_left_of_a_grace_is_never_more_than_all_of_it() {
        let by = KillBy::after(Span::secs(30), Time(100_000));
        assert_eq!(by.remaining(Time(110_000)), Span::secs(20));
        assert_eq!(by.remaining(Time(500_000)), Span(0));
        assert_eq!(by.remaining(Time(0)), Span::secs(30), "the clock was set back");
    }

    #[test]
    fn what_cannot_be_read_now_is_not_lost() {
        let tmp = tempfile::tempdir().unwrap();
        let dir = RunDir(tmp.path().join("1.1"));
        let found = |name: &str| dir.find::<u32>(name).unwrap();
        assert_eq!(found("missing"), None);
        std::os::unix::fs::symlink("x".repeat(300), &dir.0).unwrap();
        assert!(dir.find::<u32>("file").unwrap_err().to_string().contains("1.1/file"));
        assert!(dir.find_record().is_err());
        fs::remove_file(&dir.0).unwrap();
        fs::write(&dir.0, "no directory").unwrap();
        assert_eq!(found("file"), None);
        fs::remove_file(&dir.0).unwrap();
        dir.create().unwrap();
        fs::create_dir(dir.path("directory")).unwrap();
        for (name, text) in [("empty", ""), ("torn", "[7"), ("whole", "7")] {
            fs::write(dir.path(name), text).unwrap();
        }
        assert_eq!(["directory", "empty", "torn", "whole"].map(found), [None, None, None, Some(7)]);
    }

    #[test]
    fn only_one_of_two_claims_wins() {
        let tmp = tempfile::tempdir().unwrap();
        let dir = RunDir(tmp.path().join("1.1"));
        dir.create().unwrap();
        let me = ProcessId::me().unwrap();
        assert!(dir.claim(Some(me.clone())).unwrap().is_some());
        assert!(dir.claim(None).unwrap().is_none());
        assert_eq!(dir.find_record().unwrap().supervisor, Some(Some(me)));
    }

    #[test]
    fn room_that_was_reserved_is_not_part_of_the_record() {
        let tmp = tempfile::tempdir().unwrap();
        let dir = RunDir(tmp.path().to_owned());
        let record = dir.claim(Some(ProcessId::me().unwrap())).unwrap().unwrap();
        reserve(&record, 8);
        note_end(&record, EndFile::default()).unwrap();
        assert!(dir.find_record().unwrap().end.is_some());
    }

    #[test]
    fn an_unfinished_line_does_not_count() {
        let first = b"{\"supervisor\":null}\n{\"ranks\":[7]}\n{\"end\":{\"ranks\":[]}}";
        let record = Record::parse(first);
        assert_eq!((record.supervisor, record.ranks), (Some(None), vec![7]));
        assert!(record.end.is_none());
        assert!(Record::parse(&[&first[..], b"\n"].concat()).end.is_some());
        let again = Record::parse(b"{\"supervisor\":null}\n{\"en\n\n{\"end\":{\"ranks\":[]}}\n");
        assert!(again.end.is_some(), "written again after a full disk");
        assert!(Record::parse(b"{\"supervisor\":nu").supervisor.is_none());
        assert_eq!(Record::parse(b"{\"supervi{\"supervisor\":null}\n").supervisor, Some(None));
    }
}
