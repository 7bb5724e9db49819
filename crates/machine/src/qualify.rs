//! The parent's side: starts the child, hears it, and knows what its silence or death means.

use crate::child;
use crate::order::{Answer, Order, TestOrder};
use muster_agent::hooks::{Progress, Qualifier};
use muster_model::qualification::{Check, Level, Outcome, Qualification};
use muster_model::units::{Span, Time};
use muster_supervise::wait_within;
use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant, SystemTime};

/// Why a child did not do its order.
#[derive(Debug, thiserror::Error)]
pub enum TestError {
    /// It could not be started.
    #[error("cannot start the test: {0}")]
    Start(#[source] std::io::Error),
    /// It said why.
    #[error("{0}")]
    Reported(String),
    /// It died.
    #[error("the test ended with {0} and no report: the driver or the device took it down")]
    Died(ExitStatus),
    /// It did not end.
    #[error("the test did not end within {0:?}: the driver or the device hangs")]
    Hung(Duration),
    /// It was asked to stop.
    #[error("the test was stopped")]
    Stopped,
}

/// Tests this machine in a child process.
#[derive(Debug, Clone)]
pub struct Spawned {
    /// The program to start, with [`child::ARG`] as its first argument.
    pub program: PathBuf,
    /// How; the level is put in by whoever asks.
    pub order: TestOrder,
}

/// How long a child may take to end when it was killed or has closed its output.
const LEAVE: Duration = Duration::from_secs(30);

/// Where CUDA's libraries are when the loader does not know.
fn library_path() -> OsString {
    let mut path = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let usual = ["/usr/local/cuda/lib64", "/usr/local/nvidia/lib64", "/opt/cuda/lib64"];
    for dir in usual.iter().filter(|d| Path::new(d).is_dir()) {
        if !path.is_empty() {
            path.push(":");
        }
        path.push(dir);
    }
    path
}

impl Spawned {
    /// This very program.
    ///
    /// # Errors
    /// When it does not know where it is.
    pub fn here(order: TestOrder) -> std::io::Result<Spawned> {
        Ok(Spawned { program: std::env::current_exe()?, order })
    }

    /// Carries out an order; `on_progress` hears everything the child says.
    ///
    /// # Errors
    /// When the child could not be started, died, hung, was stopped or refused.
    pub fn execute(
        &self,
        order: &Order,
        most: Duration,
        stop: &AtomicBool,
        on_progress: &mut dyn FnMut(Answer),
    ) -> Result<(), TestError> {
        let mut child = Command::new(&self.program)
            .arg(child::ARG)
            .env("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
            .env("LD_LIBRARY_PATH", library_path())
            .env_remove("CUDA_VISIBLE_DEVICES")
            .env_remove("MUSTER_JOIN")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(TestError::Start)?;
        let ended = read_answers(&mut child, order, most, stop, on_progress);
        if ended.is_err() {
            let _ = child.kill();
        }
        // One that is in a call to a driver that hangs does not even end when it is killed.
        let status = wait_within(child, LEAVE).map_err(|e| match e.kind() {
            io::ErrorKind::TimedOut => TestError::Hung(most),
            _ => TestError::Start(e),
        });
        match ended {
            Ok(true) => Ok(()),
            Ok(false) => Err(TestError::Died(status?)),
            Err(e) => Err(e),
        }
    }

    /// Does a whole test. A test that dies or hangs is a failed test, with the reason.
    pub fn test(
        &self,
        level: Level,
        on_progress: &mut dyn FnMut(u64, u64, &str),
        stop: &AtomicBool,
    ) -> Result<Qualification, TestError> {
        let order = TestOrder { level, ..self.order.clone() };
        let length = match level {
            Level::Full => Duration::from_secs(order.length_s.saturating_mul(2)),
            Level::Quick | Level::Standard => Duration::ZERO,
        };
        let most = level.time_limit().to_std().max(length);
        let mut report = None;
        let done = self.execute(&Order::Test(order), most, stop, &mut |answer| match answer {
            Answer::Progress { done, of, doing } => on_progress(done, of, &doing),
            Answer::Report(r) => report = Some(*r),
            Answer::Scrubbed(_) | Answer::Failed(_) => {}
        });
        match (report, done) {
            (Some(report), _) => Ok(report),
            (None, Err(e)) => Err(e),
            (None, Ok(())) => Err(TestError::Reported("no report came".into())),
        }
    }
}

/// Hears the child to its end; true when it said what it should.
fn read_answers(
    child: &mut Child,
    order: &Order,
    most: Duration,
    stop: &AtomicBool,
    on_progress: &mut dyn FnMut(Answer),
) -> Result<bool, TestError> {
    let text = serde_json::to_vec(order).map_err(|e| TestError::Start(e.into()))?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(&text).map_err(TestError::Start)?;
    }
    let (send, heard) = mpsc::channel();
    if let Some(out) = child.stdout.take() {
        std::thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                // A library may print what it likes; only what is ours is heard.
                if let Ok(answer) = serde_json::from_str::<Answer>(&line)
                    && send.send(answer).is_err()
                {
                    break;
                }
            }
        });
    }
    let until = Instant::now() + most;
    let mut done = false;
    loop {
        if stop.load(Ordering::Relaxed) {
            return Err(TestError::Stopped);
        }
        match heard.recv_timeout(Duration::from_millis(100)) {
            Ok(Answer::Failed(why)) => return Err(TestError::Reported(why)),
            Ok(answer) => {
                done |= matches!(answer, Answer::Report(_) | Answer::Scrubbed(_));
                on_progress(answer);
            }
            Err(RecvTimeoutError::Timeout) if Instant::now() >= until => {
                return Err(TestError::Hung(most));
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(done),
        }
    }
}

impl Qualifier for Spawned {
    fn run(&self, level: Level, progress: &dyn Fn(Progress), stop: &AtomicBool) -> Qualification {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let start = Instant::now();
        let mut on_progress = |done: u64, of: u64, doing: &str| {
            progress(Progress {
                done: u32::try_from(done).unwrap_or(u32::MAX),
                of: u32::try_from(of).unwrap_or(u32::MAX),
                doing: doing.to_owned(),
                eta: Some(Span::secs(of.saturating_sub(done))),
            });
        };
        self.test(level, &mut on_progress, stop).unwrap_or_else(|e| Qualification {
            level,
            started_at: Time(i64::try_from(since.as_millis()).unwrap_or(i64::MAX)),
            took: Span(u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX)),
            outcome: Outcome::Failed,
            checks: vec![Check::plain("test-ran", None, Outcome::Failed, e.to_string())],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(dir: &Path, text: &str) -> Spawned {
        let program = dir.join("child");
        // Written by another process: what this one has open for writing, or a child that another
        // test has just forked off it, cannot be started.
        let made = Command::new("sh")
            .args(["-c", r#"printf '%s' "$1" > "$0" && chmod 755 "$0""#])
            .arg(&program)
            .arg(format!("#!/bin/sh\ncat >/dev/null\n{text}\n"))
            .output()
            .unwrap();
        assert!(made.status.success(), "{made:?}");
        Spawned { program, order: TestOrder::of(Level::Quick) }
    }

    fn carry_out(text: &str, most: Duration, stop: bool) -> (Result<(), TestError>, Vec<Answer>) {
        let dir = tempfile::tempdir().unwrap();
        let mut heard = Vec::new();
        let order = Order::Scrub { gpus: vec![0] };
        let done =
            script(dir.path(), text)
                .execute(&order, most, &AtomicBool::new(stop), &mut |a| heard.push(a));
        (done, heard)
    }

    const LONG: Duration = Duration::from_secs(30);

    #[test]
    fn a_child_is_heard_past_what_its_libraries_print() {
        let (done, heard) = carry_out("echo NCCL INFO hello; echo '{\"scrubbed\":7}'", LONG, false);
        assert!(done.is_ok(), "{done:?}");
        assert_eq!(heard, vec![Answer::Scrubbed(7)]);
    }

    #[test]
    fn a_child_that_dies_hangs_refuses_or_is_stopped_is_distinguished() {
        let (died, _) = carry_out("kill -SEGV $$", LONG, false);
        assert!(matches!(died, Err(TestError::Died(_))), "{died:?}");
        let (hung, _) = carry_out("exec sleep 60", Duration::from_millis(300), false);
        assert!(matches!(hung, Err(TestError::Hung(_))), "{hung:?}");
        let (said, _) = carry_out("echo '{\"failed\":\"no driver\"}'; exit 1", LONG, false);
        assert!(matches!(&said, Err(TestError::Reported(w)) if w == "no driver"), "{said:?}");
        let (stopped, _) = carry_out("exec sleep 60", LONG, true);
        assert!(matches!(stopped, Err(TestError::Stopped)), "{stopped:?}");
    }

    #[test]
    fn a_test_that_died_is_a_failed_test_with_its_reason() {
        let dir = tempfile::tempdir().unwrap();
        let q =
            script(dir.path(), "kill -BUS $$").run(Level::Quick, &|_| {}, &AtomicBool::new(false));
        assert_eq!(q.outcome, Outcome::Failed);
        assert!(q.checks[0].note.contains("took it down"), "{q:?}");
    }
}
