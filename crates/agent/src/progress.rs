//! What a rank says through `MUSTER_REPORT`: one JSON object a line. Whatever else is in the
//! file is counted and passed over; nothing a job writes there can harm the agent, and nobody waits
//! for the reading of more than the newest of it.

use crate::rank_file::{self, RankFile};
use muster_link::messages::ProgressReport;
use muster_model::text::is_odd;
use serde::Deserialize;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// Longest line that is read; a longer one is passed over.
const LINE: usize = 64 * 1024;
/// Most that may wait in one file, and most that is read of it in a second while its rank runs. What
/// is older is passed over: a file can be made larger than any disk by one call.
const WAITS: usize = 1 << 20;
/// Most that is read of a slot's files at one look.
pub(crate) const LOOK: usize = 1 << 20;
/// Most that is read of a slot's files after its ranks have ended: their end waits for no more.
pub(crate) const LAST: usize = 16 << 20;
/// Most that the file of a rank takes of the disk for long; beyond it what was read is cut out.
const ON_DISK: u64 = 16 << 20;
/// What the output of a job says once about a rank that writes more than is read.
const NOTE: &str = "muster: more was written to MUSTER_REPORT than is read (1 MiB a second): \
                    some of it was ignored, and is not stored";
/// Read at a time.
const BUFFER: usize = 64 * 1024;
/// A line costs as much as so many bytes, however short it is.
const LINE_COST: usize = 64;
/// Checkpoint reports that wait while there is no server; the oldest go first.
const WAITING: usize = 32;
/// Steps are reported at most this often.
const PACE: Duration = Duration::from_secs(1);
/// Checkpoint reports that are sent in this time while the rank runs: each may be kept for ever.
const REPORTED: usize = 8;
const REPORTED_IN: Duration = Duration::from_secs(10);
/// Longest path of a checkpoint; a server takes none that is longer, nor one that is not plain text.
const PATH: usize = 1024;

/// One rank's reports.
#[derive(Debug)]
pub(crate) struct ProgressReader {
    file: RankFile,
    /// Next byte to read.
    position: u64,
    /// Bytes that were never read.
    passed: u64,
    /// Beginning of the second that `spent` counts in.
    second: Option<Instant>,
    /// What reading has cost since, in bytes.
    spent: usize,
    /// Start of a line whose end has not been written yet.
    partial: Vec<u8>,
    /// The line is too long: pass over it up to its end.
    skipping: bool,
    step: Option<ProgressReport>,
    step_reported: Option<Instant>,
    checkpoints: VecDeque<ProgressReport>,
    /// How many were reported in the time that began then.
    reported: (Option<Instant>, usize),
    /// The newest finished checkpoint that was reported. A server that dies may not have written it
    /// down, so the next one hears it again.
    done: Option<ProgressReport>,
    /// There is more in the file than one look may read.
    behind: bool,
    garbled: u64,
    warned: bool,
    /// That some was never read was noted.
    noted: bool,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Line {
    Checkpoint {
        checkpoint: CheckpointLine,
    },
    Step {
        step: u64,
        #[serde(default)]
        t: Option<f64>,
        #[serde(default)]
        stages: BTreeMap<String, f64>,
        #[serde(default)]
        loss: Option<f64>,
    },
}

#[derive(Deserialize)]
struct CheckpointLine {
    state: String,
    #[serde(default)]
    step: Option<u64>,
    #[serde(default)]
    path: Option<String>,
    #[serde(default)]
    bytes: Option<u64>,
    #[serde(default)]
    blocked_s: Option<f64>,
}

fn is_done(report: &ProgressReport) -> bool {
    matches!(report, ProgressReport::Checkpoint { state, .. } if state == "done")
}

/// Understands one line.
fn parse(line: &[u8]) -> Option<ProgressReport> {
    match serde_json::from_slice(line).ok()? {
        Line::Checkpoint { checkpoint: c } => {
            let known = matches!(c.state.as_str(), "started" | "done" | "failed");
            let fits = c.path.as_ref().is_none_or(|p| p.len() <= PATH && !p.contains(is_odd));
            (known && fits).then_some(ProgressReport::Checkpoint {
                state: c.state,
                step: c.step,
                path: c.path,
                bytes: c.bytes,
                blocked_s: c.blocked_s,
            })
        }
        Line::Step { step, t, stages, loss } => {
            // A job with a thousand stages has lost its way; the first few are enough.
            let stages = stages.into_iter().take(32).collect();
            Some(ProgressReport::Step { step, t, stages, loss })
        }
    }
}

impl ProgressReader {
    /// Reads on from `position`; `done` is the newest finished checkpoint before it.
    pub(crate) fn new(path: &Path, position: u64, done: Option<ProgressReport>) -> ProgressReader {
        ProgressReader {
            file: RankFile::new(path, true),
            position,
            passed: 0,
            second: None,
            spent: 0,
            partial: Vec::new(),
            skipping: false,
            step: None,
            step_reported: None,
            checkpoints: done.into_iter().collect(),
            reported: (None, 0),
            done: None,
            behind: false,
            garbled: 0,
            warned: false,
            noted: false,
        }
    }

    /// How far it has been read, up to the last whole line.
    pub(crate) fn position(&self) -> u64 {
        self.position - self.partial.len() as u64
    }

    /// The newest finished checkpoint among what was read, reported or not.
    pub(crate) fn newest_done(&self) -> Option<ProgressReport> {
        self.checkpoints.iter().rev().find(|r| is_done(r)).or(self.done.as_ref()).cloned()
    }

    /// A new connection: the newest finished checkpoint is reported again.
    pub(crate) fn rewind(&mut self) {
        if let Some(done) = self.done.take() {
            self.checkpoints.push_front(done);
        }
    }

    /// Whether something is still to be reported, or may still be in the file.
    pub(crate) fn owes(&self) -> bool {
        self.behind || !self.checkpoints.is_empty() || self.step.is_some() || self.garbled > 0
    }

    /// Whether the file holds more than was read.
    pub(crate) fn behind(&self) -> bool {
        self.behind
    }

    /// How long the file is; none while it is not there.
    fn size(&mut self) -> io::Result<Option<u64>> {
        match self.file.get() {
            Ok(file) => file.map(|f| f.metadata().map(|m| m.len())).transpose(),
            Err(e) => {
                if e.kind() == io::ErrorKind::InvalidInput {
                    self.garbled += 1;
                }
                Err(e)
            }
        }
    }

    /// Reads what is new while that costs no more than `left`, which it takes from. While the rank
    /// runs, only so much is read in a second; `last` reads on whatever the pace.
    pub(crate) fn read(&mut self, now: Instant, last: bool, left: &mut usize) -> io::Result<()> {
        self.behind = false;
        let Some(size) = self.size()? else { return Ok(()) };
        if size < self.position {
            // The rank emptied it.
            self.begin_anew();
        }
        if size - self.position > WAITS as u64 {
            self.pass_over(size - WAITS as u64);
        }
        if self.second.is_none_or(|t| now.saturating_duration_since(t) >= PACE) {
            self.second = Some(now);
            self.spent = 0;
        }
        let mut buffer: Vec<u8> = Vec::new();
        while self.position < size {
            if !last && self.spent >= WAITS {
                // Read on in the next second, by the regular look.
                break;
            }
            if *left == 0 {
                self.behind = true;
                break;
            }
            let want = usize::try_from(size - self.position).unwrap_or(BUFFER).min(BUFFER);
            buffer.resize(want, 0);
            let got = match self.file.opened() {
                Some(file) => file.read_at(&mut buffer, self.position)?,
                None => 0,
            };
            if got == 0 {
                break;
            }
            self.position += got as u64;
            let before = self.spent;
            self.spent += got;
            let partial = std::mem::take(&mut self.partial);
            self.partial = self.lines(partial, &buffer[..got]);
            *left = left.saturating_sub(self.spent - before);
        }
        Ok(())
    }

    /// Leaves what was not read for lack of room: nobody waits for it.
    pub(crate) fn give_up(&mut self) {
        if std::mem::take(&mut self.behind)
            && let Ok(Some(size)) = self.size()
            && size > self.position
        {
            self.pass_over(size);
        }
    }

    /// Gives back what a file that has grown large takes of the disk, but for the newest that was read
    /// and what is still to be read. Says whether it did.
    pub(crate) fn free(&mut self) -> bool {
        let Some(file) = self.file.opened() else { return false };
        let taken = || file.metadata().map(|m| (rank_file::on_disk(&m), m.len()));
        let Ok((before, size)) = taken() else { return false };
        if before <= ON_DISK {
            return false;
        }
        let cut = rank_file::cut_out(file, 0, self.position().saturating_sub(WAITS as u64) & !4095);
        match (cut, taken()) {
            (Ok(()), Ok((after, _))) if after <= ON_DISK => {}
            // It was reserved after the end, where nothing is read.
            (Ok(()), Ok((_, size))) => {
                let _ = file.set_len(size);
            }
            // A file system that can cut nothing out: it begins anew.
            _ if file.set_len(0).is_ok() => {
                self.passed = self.passed.saturating_add(size.saturating_sub(self.position));
                self.begin_anew();
            }
            _ => return false,
        }
        true
    }

    /// What is to be said once in the job's output, when some was never read.
    pub(crate) fn take_note(&mut self) -> Option<&'static str> {
        let due = self.passed > 0 && !std::mem::replace(&mut self.noted, self.passed > 0);
        due.then_some(NOTE)
    }

    fn begin_anew(&mut self) {
        self.position = 0;
        self.partial.clear();
        self.skipping = false;
    }

    /// Reads on at `to`, after the end of the line that is there.
    fn pass_over(&mut self, to: u64) {
        self.passed = self.passed.saturating_add(to - self.position);
        self.garbled += 1;
        self.position = to;
        self.partial.clear();
        self.skipping = true;
    }

    /// Takes whole lines; returns the start of the unfinished one.
    fn lines(&mut self, mut partial: Vec<u8>, mut data: &[u8]) -> Vec<u8> {
        while let Some(end) = data.iter().position(|b| *b == b'\n') {
            let (line, rest) = data.split_at(end);
            data = &rest[1..];
            if std::mem::take(&mut self.skipping) || partial.len() + line.len() > LINE {
                self.garbled += 1;
                partial.clear();
            } else if partial.is_empty() {
                self.take(line);
            } else {
                partial.extend_from_slice(line);
                self.take(&partial);
                partial.clear();
            }
        }
        if !self.skipping {
            partial.extend_from_slice(data);
        }
        if partial.len() > LINE {
            self.skipping = true;
            partial.clear();
        }
        partial
    }

    fn take(&mut self, line: &[u8]) {
        if line.iter().all(u8::is_ascii_whitespace) {
            return;
        }
        self.spent += LINE_COST;
        match parse(line) {
            Some(step @ ProgressReport::Step { .. }) => self.step = Some(step),
            Some(other) => {
                self.checkpoints.push_back(other);
                if self.checkpoints.len() > WAITING {
                    // The next attempt begins at the newest that is finished: that one stays.
                    let newest = self.checkpoints.iter().rposition(is_done);
                    self.checkpoints.remove(usize::from(newest == Some(0)));
                }
            }
            None => self.garbled += 1,
        }
    }

    /// What is to be reported now. `last` reports everything, whatever the pace.
    pub(crate) fn take_reports(&mut self, now: Instant, last: bool) -> Vec<ProgressReport> {
        let (since, reported) = &mut self.reported;
        let fresh = since.is_none_or(|t| now.saturating_duration_since(t) >= REPORTED_IN);
        if fresh {
            (*since, *reported) = (Some(now), 0);
        }
        let most = if last { usize::MAX } else { REPORTED.saturating_sub(*reported) };
        if self.checkpoints.len() > most
            && let Some(newest) = self.checkpoints.iter().rposition(is_done)
        {
            // The next attempt begins at the newest: it does not wait behind older ones.
            self.checkpoints.drain(..newest);
        }
        let some = self.checkpoints.len().min(most);
        *reported += some;
        let mut out: Vec<ProgressReport> = self.checkpoints.drain(..some).collect();
        if let Some(done) = out.iter().rev().find(|r| is_done(r)) {
            self.done = Some(done.clone());
        }
        let due = self.step_reported.is_none_or(|t| now.duration_since(t) >= PACE);
        if (due || last)
            && let Some(step) = self.step.take()
        {
            out.push(step);
            self.step_reported = Some(now);
        }
        if self.garbled > 0 && (fresh || last) {
            if !std::mem::replace(&mut self.warned, true) {
                tracing::warn!(file = %self.file.path().display(), lines = self.garbled,
                    bytes_passed_over = self.passed,
                    "lines in the report file are not understood, or too many, and were ignored");
            }
            out.push(ProgressReport::Garbled { lines: std::mem::take(&mut self.garbled) });
        }
        out
    }

    /// When a step that waits for its turn may be reported.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.step.as_ref().and(self.step_reported).map(|t| t + PACE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::fs::File;
    use std::io::Write;

    /// Reads everything that is there.
    fn read_all(v: &mut ProgressReader) {
        let mut left = usize::MAX;
        v.read(Instant::now(), true, &mut left).unwrap();
    }

    fn read_reports(data: &[u8]) -> Vec<ProgressReport> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("0.report");
        std::fs::write(&path, data).unwrap();
        let mut v = ProgressReader::new(&path, 0, None);
        read_all(&mut v);
        v.take_reports(Instant::now(), true)
    }

    #[test]
    fn the_newest_finished_checkpoint_is_reported_again_on_every_connection() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("0.report");
        let done =
            |step: u64| format!("{{\"checkpoint\":{{\"state\":\"done\",\"step\":{step}}}}}\n");
        let started = "{\"checkpoint\":{\"state\":\"started\",\"step\":3}}\n";
        std::fs::write(&path, done(1) + &done(2) + started).unwrap();
        let mut v = ProgressReader::new(&path, 0, None);
        read_all(&mut v);
        let now = Instant::now();
        assert_eq!(v.take_reports(now, false).len(), 3);
        assert!(v.take_reports(now, false).is_empty() && !v.owes());
        let is_two = |r: &[ProgressReport]| matches!(r, [ProgressReport::Checkpoint { state, step: Some(2), .. }] if state == "done");
        for _ in 0..3 {
            v.rewind();
            v.rewind();
            assert!(v.owes());
            assert!(is_two(&v.take_reports(now, false)));
        }
        // And by an agent that starts where this one ends.
        let mut v = ProgressReader::new(&path, v.position(), v.newest_done());
        read_all(&mut v);
        assert!(is_two(&v.take_reports(now, false)));
    }

    #[test]
    fn steps_are_coalesced_and_checkpoints_are_not() {
        let text = r#"{"step":1,"t":0.4}
{"checkpoint":{"state":"started","step":1}}
{"step":2,"t":0.412,"stages":{"read":0.02},"loss":2.1}
{"checkpoint":{"state":"done","step":2,"path":"/c/2","bytes":5,"blocked_s":1.1}}
"#;
        let reports = read_reports(text.as_bytes());
        assert_eq!(reports.len(), 3, "{reports:?}");
        assert!(matches!(&reports[1], ProgressReport::Checkpoint { state, path: Some(p), .. }
            if state == "done" && p == "/c/2"));
        assert!(matches!(&reports[2], ProgressReport::Step { step: 2, loss: Some(_), .. }));
    }

    #[test]
    fn only_so_many_checkpoints_are_reported_at_a_time_and_the_newest_goes_first() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("0.report");
        let mut file = File::create(&path).unwrap();
        let mut say = |steps: std::ops::Range<u64>| {
            for step in steps {
                let line = r#""state":"done","step""#;
                writeln!(file, "{{\"checkpoint\":{{{line}:{step}}}}}").unwrap();
            }
        };
        let reported = |v: &mut ProgressReader, now, last| -> Vec<u64> {
            read_all(v);
            let step = |r: ProgressReport| match r {
                ProgressReport::Checkpoint { step, .. } => step.unwrap(),
                other => panic!("{other:?}"),
            };
            v.take_reports(now, last).into_iter().map(step).collect()
        };
        let mut v = ProgressReader::new(&path, 0, None);
        let now = Instant::now();
        say(0..300);
        assert_eq!(reported(&mut v, now, false), [299], "of too many, the newest");
        say(300..307);
        let next: Vec<u64> = (300..307).collect();
        assert_eq!(reported(&mut v, now, false), next, "as many as may be reported");
        say(307..320);
        assert!(reported(&mut v, now + PACE, false).is_empty() && v.owes());
        say(320..330);
        assert_eq!(
            reported(&mut v, now + REPORTED_IN, false),
            [329],
            "and not the oldest that waits"
        );
        assert!(!v.owes());
        say(330..333);
        assert_eq!(
            reported(&mut v, now + REPORTED_IN, true),
            [330, 331, 332],
            "at the end everything"
        );
        let newest = v.newest_done();
        assert!(matches!(newest, Some(ProgressReport::Checkpoint { step: Some(332), .. })));
    }

    #[test]
    fn what_came_before_the_newest_finished_checkpoint_does_not_delay_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("0.report");
        let line = |state: &str, step: usize| {
            format!("{{\"checkpoint\":{{\"state\":\"{state}\",\"step\":{step}}}}}\n")
        };
        let both = |step| line("started", step) + &line("done", step);
        let text: String = (0..30).map(both).collect();
        std::fs::write(&path, text + &line("started", 30)).unwrap();
        let mut v = ProgressReader::new(&path, 0, None);
        read_all(&mut v);
        let reported = v.take_reports(Instant::now(), false);
        let first = reported.first().filter(|r| is_done(r));
        assert!(matches!(first, Some(ProgressReport::Checkpoint { step: Some(29), .. })));
        assert_eq!(reported.len(), 2, "{reported:?}");
    }

    #[test]
    fn a_checkpoint_whose_path_leads_nowhere_replaces_none() {
        let line = |step: usize, path: &str| {
            format!(r#"{{"checkpoint":{{"state":"done","step":{step},"path":"{path}"}}}}"#) + "\n"
        };
        let long = "p".repeat(PATH + 1);
        let bad = [(2, "/c/\u{202e}2"), (3, r"/c/\u001b3"), (4, long.as_str())];
        let bad: String = bad.iter().map(|(step, path)| line(*step, path)).collect();
        let reports = read_reports((line(1, "/c/1") + &bad).as_bytes());
        assert!(matches!(&reports[0], ProgressReport::Checkpoint { step: Some(1), .. }));
        assert_eq!(reports[1..], [ProgressReport::Garbled { lines: 3 }]);
    }

    #[test]
    fn the_newest_finished_checkpoint_is_not_lost_among_others() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("0.report");
        let line = |state: &str, step: usize| {
            format!("{{\"checkpoint\":{{\"state\":\"{state}\",\"step\":{step}}}}}\n")
        };
        let begun: String = (3..300).map(|step| line("started", step)).collect();
        std::fs::write(&path, line("done", 1) + &line("done", 2) + &begun).unwrap();
        let mut v = ProgressReader::new(&path, 0, None);
        read_all(&mut v);
        let mut reported = v.take_reports(Instant::now(), true);
        reported.retain(is_done);
        assert!(
            matches!(reported[..], [ProgressReport::Checkpoint { step: Some(2), .. }]),
            "{reported:?}"
        );
    }

    #[test]
    fn the_pace_of_steps_keeps_their_stages() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("0.report");
        let mut file = File::create(&path).unwrap();
        let mut v = ProgressReader::new(&path, 0, None);
        let mut say = |from: u64| {
            for step in from..from + 50 {
                let compute = step as f64 / 100.0;
                writeln!(
                    file,
                    r#"{{"step":{step},"t":1.0,"stages":{{"compute":{compute},"comm":0.25}}}}"#
                )
                .unwrap();
            }
        };
        let reported = |v: &mut ProgressReader, now| {
            read_all(v);
            match &v.take_reports(now, false)[..] {
                [ProgressReport::Step { step, stages, .. }] => Some((*step, stages.clone())),
                [] => None,
                other => panic!("{other:?}"),
            }
        };
        let now = Instant::now();
        let stages =
            |compute| BTreeMap::from([("compute".to_owned(), compute), ("comm".to_owned(), 0.25)]);
        say(0);
        assert_eq!(reported(&mut v, now), Some((49, stages(0.49))));
        say(50);
        assert_eq!(reported(&mut v, now + PACE / 2), None, "at most one a second");
        say(100);
        assert_eq!(reported(&mut v, now + PACE), Some((149, stages(1.49))), "the newest, whole");
    }

    #[test]
    fn a_line_written_in_two_halves_is_one_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("0.report");
        let mut file = File::create(&path).unwrap();
        let mut v = ProgressReader::new(&path, 0, None);
        file.write_all(b"{\"step\":").unwrap();
        read_all(&mut v);
        assert_eq!(v.position(), 0, "an unfinished line is read again after a restart");
        assert!(v.take_reports(Instant::now(), true).is_empty());
        file.write_all(b"7}\n").unwrap();
        read_all(&mut v);
        assert!(matches!(
            v.take_reports(Instant::now(), true)[..],
            [ProgressReport::Step { step: 7, .. }]
        ));
    }

    #[test]
    fn garbage_and_overlong_lines_are_counted_and_passed_over() {
        let mut data = b"hello\n\xff\xfe\x00\n{\"checkpoint\":{\"state\":\"maybe\"}}\n".to_vec();
        data.extend(std::iter::repeat_n(b'a', 200_000));
        data.extend(b"\n{\"step\":3}\n");
        let reports = read_reports(&data);
        assert!(matches!(reports[0], ProgressReport::Step { step: 3, .. }), "{reports:?}");
        assert_eq!(reports[1], ProgressReport::Garbled { lines: 4 });
    }

    #[test]
    fn of_a_file_that_was_made_huge_only_the_newest_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("0.report");
        let mut file = File::options().create(true).append(true).open(&path).unwrap();
        file.write_all(b"{\"step\":1}\n").unwrap();
        let mut v = ProgressReader::new(&path, 0, None);
        read_all(&mut v);
        let huge = 1 << 43;
        file.set_len(huge).unwrap();
        let mut left = LOOK;
        v.read(Instant::now(), true, &mut left).unwrap();
        assert!(!v.behind(), "nothing is left to wait for");
        assert_eq!(v.position(), huge);
        assert_eq!(v.passed, huge - WAITS as u64 - 11);
        file.write_all(b"\n{\"step\":2}\n").unwrap();
        read_all(&mut v);
        let reported = v.take_reports(Instant::now(), true);
        assert!(matches!(reported[0], ProgressReport::Step { step: 2, .. }), "{reported:?}");
        assert_eq!(reported[1], ProgressReport::Garbled { lines: 2 });
    }

    #[test]
    fn a_file_that_grows_without_end_does_not_fill_the_disk_and_that_is_noted_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("0.report");
        let mut file = File::options().create(true).append(true).open(&path).unwrap();
        let mut v = ProgressReader::new(&path, 0, None);
        let taken = || rank_file::on_disk(&std::fs::metadata(&path).unwrap());
        let mut notes = 0;
        for step in 0..3 {
            for _ in 0..24 {
                file.write_all(&vec![b'x'; 1 << 20]).unwrap();
            }
            writeln!(file, "\n{{\"step\":{step}}}").unwrap();
            assert!(taken() > ON_DISK);
            read_all(&mut v);
            assert!(v.free());
            assert!(taken() <= ON_DISK, "{} bytes are left", taken());
            assert!(!v.free());
            notes += usize::from(v.take_note().is_some());
            let reported = v.take_reports(Instant::now(), true);
            assert!(matches!(reported[0], ProgressReport::Step { step: s, .. } if s == step));
        }
        assert_eq!(notes, 1);
    }

    #[test]
    fn a_second_and_a_look_read_only_so_much_and_the_rest_can_be_given_up() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("0.report");
        let mut file = File::create(&path).unwrap();
        let junk = b"x\n".repeat(2 * BUFFER);
        file.write_all(&junk).unwrap();
        let mut v = ProgressReader::new(&path, 0, None);
        let now = Instant::now();
        let (mut left, mut looks) = (usize::MAX, 0);
        v.read(now, false, &mut left).unwrap();
        let first = v.position();
        assert!(first > 0 && first < junk.len() as u64, "short lines cost more than their bytes");
        v.read(now, false, &mut left).unwrap();
        assert_eq!(v.position(), first, "only so much a second");
        assert!(!v.behind(), "and nobody looks again at once for it");
        v.read(now + PACE, false, &mut left).unwrap();
        assert!(v.position() > first);
        loop {
            let mut left = LOOK;
            v.read(now, true, &mut left).unwrap();
            looks += 1;
            if !v.behind() {
                break;
            }
        }
        assert!(looks > 1);
        assert_eq!(v.position(), junk.len() as u64);
        file.write_all(&junk).unwrap();
        v.read(now, true, &mut 0).unwrap();
        assert!(v.behind());
        v.give_up();
        assert!(!v.behind());
        assert_eq!(v.position(), 2 * junk.len() as u64);
    }

    #[test]
    fn a_file_that_its_rank_empties_is_read_from_its_beginning() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("0.report");
        std::fs::write(&path, "{\"step\":1}\n{\"step\":").unwrap();
        let mut v = ProgressReader::new(&path, 0, None);
        read_all(&mut v);
        std::fs::write(&path, "{\"step\":2}\n").unwrap();
        read_all(&mut v);
        assert!(matches!(
            v.take_reports(Instant::now(), true)[..],
            [ProgressReport::Step { step: 2, .. }]
        ));
    }

    proptest! {
        #[test]
        fn no_bytes_panic(data in prop::collection::vec(any::<u8>(), 0..2000)) {
            read_reports(&data);
        }
    }
}
