//! What a rank says through `MUSTER_REPORT`: one JSON object a line. Whatever else is in the
//! file is counted and passed over; nothing a job writes there can harm the agent.

use muster_link::messages::VoiceReport;
use serde::Deserialize;
use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Longest line that is read; a longer one is passed over.
const LINE: usize = 64 * 1024;
/// Most that is read at one look.
const LOOK: usize = 1 << 20;
/// Checkpoint reports that wait while there is no server; the oldest go first.
const WAITING: usize = 256;
/// Steps are told at most this often.
const PACE: Duration = Duration::from_secs(1);

/// One rank's reports.
#[derive(Debug)]
pub(crate) struct Voice {
    path: PathBuf,
    file: Option<File>,
    /// Next byte to read.
    position: u64,
    /// Start of a line whose end has not been written yet.
    partial: Vec<u8>,
    /// The line is too long: pass over it up to its end.
    skipping: bool,
    step: Option<VoiceReport>,
    step_told: Option<Instant>,
    checkpoints: VecDeque<VoiceReport>,
    /// The newest finished checkpoint that was told. A server that dies may not have written it
    /// down, so the next one hears it again.
    done: Option<VoiceReport>,
    /// There is more in the file than one look may read.
    behind: bool,
    garbled: u64,
    warned: bool,
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

fn is_done(report: &VoiceReport) -> bool {
    matches!(report, VoiceReport::Checkpoint { state, .. } if state == "done")
}

/// Understands one line.
fn parse(line: &[u8]) -> Option<VoiceReport> {
    match serde_json::from_slice(line).ok()? {
        Line::Checkpoint { checkpoint: c } => {
            let known = matches!(c.state.as_str(), "started" | "done" | "failed");
            known.then_some(VoiceReport::Checkpoint {
                state: c.state,
                step: c.step,
                path: c.path,
                bytes: c.bytes,
                blocked_s: c.blocked_s,
            })
        }
        Line::Step { step, t, stages, loss } => {
            // A job with a thousand stages has lost its way; the first few tell enough.
            let stages = stages.into_iter().take(32).collect();
            Some(VoiceReport::Step { step, t, stages, loss })
        }
    }
}

impl Voice {
    /// Reads on from `position`; `done` is the newest finished checkpoint before it.
    pub(crate) fn new(path: &Path, position: u64, done: Option<VoiceReport>) -> Voice {
        Voice {
            path: path.to_path_buf(),
            file: None,
            position,
            partial: Vec::new(),
            skipping: false,
            step: None,
            step_told: None,
            checkpoints: done.into_iter().collect(),
            done: None,
            behind: false,
            garbled: 0,
            warned: false,
        }
    }

    /// How far it has been read, up to the last whole line.
    pub(crate) fn position(&self) -> u64 {
        self.position - self.partial.len() as u64
    }

    /// The newest finished checkpoint among what was read, told or not.
    pub(crate) fn newest_done(&self) -> Option<VoiceReport> {
        self.checkpoints.iter().rev().find(|r| is_done(r)).or(self.done.as_ref()).cloned()
    }

    /// A new connection: the newest finished checkpoint is told again.
    pub(crate) fn rewind(&mut self) {
        if let Some(done) = self.done.take() {
            self.checkpoints.push_front(done);
        }
    }

    /// Whether a checkpoint is still to be told, or may still be in the file.
    pub(crate) fn owes(&self) -> bool {
        self.behind || !self.checkpoints.is_empty()
    }

    /// Whether the file holds more than was read.
    pub(crate) fn behind(&self) -> bool {
        self.behind
    }

    /// Reads what is new.
    pub(crate) fn read(&mut self) -> io::Result<()> {
        self.behind = false;
        if self.file.is_none() {
            match File::open(&self.path) {
                Ok(f) => self.file = Some(f),
                Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
                Err(e) => return Err(e),
            }
        }
        let size = self.file.as_ref().map_or(Ok(0), |f| f.metadata().map(|m| m.len()))?;
        if size <= self.position {
            return Ok(());
        }
        let mut buffer = vec![0; 64 * 1024];
        let mut looked = 0;
        loop {
            if looked >= LOOK {
                self.behind = true;
                break;
            }
            let got = match &self.file {
                Some(file) => file.read_at(&mut buffer, self.position)?,
                None => 0,
            };
            if got == 0 {
                break;
            }
            self.position += got as u64;
            looked += got;
            let partial = std::mem::take(&mut self.partial);
            self.partial = self.lines(partial, &buffer[..got]);
        }
        Ok(())
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
        match parse(line) {
            Some(step @ VoiceReport::Step { .. }) => self.step = Some(step),
            Some(other) => {
                if self.checkpoints.len() >= WAITING {
                    self.checkpoints.pop_front();
                }
                self.checkpoints.push_back(other);
            }
            None => self.garbled += 1,
        }
    }

    /// What is to be told now. `last` tells everything, whatever the pace.
    pub(crate) fn tell(&mut self, now: Instant, last: bool) -> Vec<VoiceReport> {
        if !self.checkpoints.is_empty() {
            self.done = self.newest_done();
        }
        let mut out: Vec<VoiceReport> = self.checkpoints.drain(..).collect();
        let due = self.step_told.is_none_or(|t| now.duration_since(t) >= PACE);
        if (due || last)
            && let Some(step) = self.step.take()
        {
            out.push(step);
            self.step_told = Some(now);
        }
        if self.garbled > 0 && (due || last) {
            if !std::mem::replace(&mut self.warned, true) {
                tracing::warn!(file = %self.path.display(), lines = self.garbled,
                    "lines in the report file are not understood and were ignored");
            }
            out.push(VoiceReport::Garbled { lines: std::mem::take(&mut self.garbled) });
        }
        out
    }

    /// When a step that waits for its turn may be told.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.step.as_ref().and(self.step_told).map(|t| t + PACE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Write;

    fn heard(data: &[u8]) -> Vec<VoiceReport> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("0.report");
        std::fs::write(&path, data).unwrap();
        let mut v = Voice::new(&path, 0, None);
        v.read().unwrap();
        v.tell(Instant::now(), true)
    }

    #[test]
    fn the_newest_finished_checkpoint_is_told_again_on_every_connection() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("0.report");
        let done =
            |step: u64| format!("{{\"checkpoint\":{{\"state\":\"done\",\"step\":{step}}}}}\n");
        let started = "{\"checkpoint\":{\"state\":\"started\",\"step\":3}}\n";
        std::fs::write(&path, done(1) + &done(2) + started).unwrap();
        let mut v = Voice::new(&path, 0, None);
        v.read().unwrap();
        let now = Instant::now();
        assert_eq!(v.tell(now, false).len(), 3);
        assert!(v.tell(now, false).is_empty() && !v.owes());
        let is_two = |r: &[VoiceReport]| matches!(r, [VoiceReport::Checkpoint { state, step: Some(2), .. }] if state == "done");
        for _ in 0..3 {
            v.rewind();
            v.rewind();
            assert!(v.owes());
            assert!(is_two(&v.tell(now, false)));
        }
        // And by an agent that starts where this one ends.
        let mut v = Voice::new(&path, v.position(), v.newest_done());
        v.read().unwrap();
        assert!(is_two(&v.tell(now, false)));
    }

    #[test]
    fn steps_are_coalesced_and_checkpoints_are_not() {
        let text = r#"{"step":1,"t":0.4}
{"checkpoint":{"state":"started","step":1}}
{"step":2,"t":0.412,"stages":{"read":0.02},"loss":2.1}
{"checkpoint":{"state":"done","step":2,"path":"/c/2","bytes":5,"blocked_s":1.1}}
"#;
        let reports = heard(text.as_bytes());
        assert_eq!(reports.len(), 3, "{reports:?}");
        assert!(matches!(&reports[1], VoiceReport::Checkpoint { state, path: Some(p), .. }
            if state == "done" && p == "/c/2"));
        assert!(matches!(&reports[2], VoiceReport::Step { step: 2, loss: Some(_), .. }));
    }

    #[test]
    fn the_pace_of_steps_keeps_their_stages() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("0.report");
        let mut file = File::create(&path).unwrap();
        let mut v = Voice::new(&path, 0, None);
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
        let told = |v: &mut Voice, now| {
            v.read().unwrap();
            match &v.tell(now, false)[..] {
                [VoiceReport::Step { step, stages, .. }] => Some((*step, stages.clone())),
                [] => None,
                other => panic!("{other:?}"),
            }
        };
        let now = Instant::now();
        let stages =
            |compute| BTreeMap::from([("compute".to_owned(), compute), ("comm".to_owned(), 0.25)]);
        say(0);
        assert_eq!(told(&mut v, now), Some((49, stages(0.49))));
        say(50);
        assert_eq!(told(&mut v, now + PACE / 2), None, "at most one a second");
        say(100);
        assert_eq!(told(&mut v, now + PACE), Some((149, stages(1.49))), "the newest, whole");
    }

    #[test]
    fn a_line_written_in_two_halves_is_one_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("0.report");
        let mut file = File::create(&path).unwrap();
        let mut v = Voice::new(&path, 0, None);
        file.write_all(b"{\"step\":").unwrap();
        v.read().unwrap();
        assert_eq!(v.position(), 0, "an unfinished line is read again after a restart");
        assert!(v.tell(Instant::now(), true).is_empty());
        file.write_all(b"7}\n").unwrap();
        v.read().unwrap();
        assert!(matches!(v.tell(Instant::now(), true)[..], [VoiceReport::Step { step: 7, .. }]));
    }

    #[test]
    fn garbage_and_overlong_lines_are_counted_and_passed_over() {
        let mut data = b"hello\n\xff\xfe\x00\n{\"checkpoint\":{\"state\":\"maybe\"}}\n".to_vec();
        data.extend(std::iter::repeat_n(b'a', 200_000));
        data.extend(b"\n{\"step\":3}\n");
        let reports = heard(&data);
        assert!(matches!(reports[0], VoiceReport::Step { step: 3, .. }), "{reports:?}");
        assert_eq!(reports[1], VoiceReport::Garbled { lines: 4 });
    }

    proptest! {
        #[test]
        fn no_bytes_panic(data in prop::collection::vec(any::<u8>(), 0..2000)) {
            heard(&data);
        }
    }
}
