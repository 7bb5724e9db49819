//! Runs a command, passes on what it says, and stops it when it stands still.

use crate::proc::{describe, forgotten, is_running, remembered};
use crate::progress::{self, PATIENCE, Progress};
use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use std::cell::Cell;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

thread_local! {
    /// Stands before every line of what this thread's commands say.
    static NAME: Cell<&'static str> = const { Cell::new("") };
}

/// Does it with this name before every line that its commands say: others run beside it.
pub(crate) fn named<T>(name: &'static str, what: impl FnOnce() -> T) -> T {
    NAME.set(name);
    let done = what();
    NAME.set("");
    done
}

/// In one piece, so that no two lines are mixed.
fn say(name: &str, line: &str) {
    let text = if name.is_empty() { line.to_owned() } else { format!("{name} | {line}") };
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// Runs to the end, passing its lines on as they come, and gives them all. Stopped only when it
/// stands still: for ten minutes it printed nothing and none of its processes used the processor.
pub fn tee(command: &mut Command) -> Result<(ExitStatus, String)> {
    watched(command, PATIENCE, None)
}

/// Like [`tee`], for what may be busy without end: stopped after `cap` as well.
pub fn tee_within(command: &mut Command, cap: Duration) -> Result<(ExitStatus, String)> {
    watched(command, PATIENCE, Some(cap))
}

fn watched(
    command: &mut Command,
    patience: Duration,
    cap: Option<Duration>,
) -> Result<(ExitStatus, String)> {
    let (words, name) = (describe(command), NAME.get());
    say(name, &format!("$ {words}\n"));
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start `{words}`"))?;
    let pid = Pid::from_child(&child);
    remembered(pid);
    let all = Arc::new(Mutex::new(String::new()));
    let mut readers = Vec::new();
    if let Some(out) = child.stdout.take() {
        let all = Arc::clone(&all);
        readers.push(std::thread::spawn(move || pass_on(out, name, &all)));
    }
    if let Some(err) = child.stderr.take() {
        let all = Arc::clone(&all);
        readers.push(std::thread::spawn(move || pass_on(err, name, &all)));
    }
    let said = || all.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let began = Instant::now();
    let mut progress = Progress::new(patience);
    let mut looked = began;
    let (status, stopped) = loop {
        if let Some(status) = child.try_wait()? {
            break (status, None);
        }
        let mut why = None;
        if cap.is_some_and(|cap| began.elapsed() > cap) {
            why = cap.map(|cap| format!("it took longer than {cap:?}"));
        } else if looked.elapsed() >= Duration::from_secs(5).min(patience / 4) {
            looked = Instant::now();
            if progress.stands_still(began.elapsed(), said().len(), progress::used_by(pid)) {
                let idle = "it printed nothing and none of its processes used the processor";
                why = Some(format!("for {patience:?} {idle}"));
            }
        }
        if let Some(why) = why {
            break (stop_family(&mut child)?, Some(why));
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    forgotten(pid);
    // Something it left running may hold its output open for ever; what was said counts.
    let patience = Instant::now() + Duration::from_secs(5);
    while !readers.iter().all(std::thread::JoinHandle::is_finished) && Instant::now() < patience {
        std::thread::sleep(Duration::from_millis(10));
    }
    if !readers.iter().all(std::thread::JoinHandle::is_finished) {
        eprintln!("warning: `{words}` left something running that holds its output open");
    }
    if let Some(why) = stopped {
        bail!("`{words}` was stopped: {why}");
    }
    let said = said().clone();
    Ok((status, said))
}

/// Asks a process to end, then ends it with all that it started.
fn stop_family(child: &mut Child) -> Result<ExitStatus> {
    let pid = Pid::from_child(child);
    // Before the first is gone: who has lost his parent is not found any more.
    let family = progress::family_ids(pid);
    let _ = kill_process(pid, Signal::TERM);
    let until = Instant::now() + Duration::from_secs(3);
    while is_running(pid) && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(20));
    }
    for pid in family.into_iter().filter(|pid| is_running(*pid)) {
        let _ = kill_process(pid, Signal::KILL);
    }
    Ok(child.wait()?)
}

fn pass_on(stream: impl std::io::Read, name: &str, all: &Mutex<String>) {
    let mut reader = BufReader::new(stream);
    let mut line = Vec::new();
    while matches!(reader.read_until(b'\n', &mut line), Ok(n) if n > 0) {
        let text = String::from_utf8_lossy(&line);
        say(name, &text);
        all.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push_str(&text);
        line.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proc::TempDir;

    #[test]
    fn what_a_command_leaves_running_does_not_keep_us() {
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 30 & echo started"]);
        let (status, said) = tee(&mut command).unwrap();
        assert!(status.success());
        assert_eq!(said, "started\n");
    }

    #[test]
    fn a_name_stands_before_what_is_shown_and_not_in_what_is_read() {
        let mut command = Command::new("echo");
        let (_, said) = named("one", || tee(command.arg("a line"))).unwrap();
        assert_eq!(said, "a line\n");
        assert_eq!(NAME.get(), "");
    }

    #[test]
    fn a_command_that_takes_too_long_is_stopped_and_named() {
        let mut command = Command::new("sleep");
        let error = tee_within(command.arg("1000"), Duration::from_millis(200)).unwrap_err();
        assert!(error.to_string().contains("sleep 1000"), "{error}");
        assert!(error.to_string().contains("longer than"), "{error}");
    }

    #[test]
    fn a_command_that_stands_still_is_stopped_and_the_reason_is_reported() {
        let mut command = Command::new("sleep");
        let error = watched(command.arg("1000"), Duration::from_millis(200), None).unwrap_err();
        let error = error.to_string();
        assert!(error.contains("printed nothing") && error.contains("processor"), "{error}");
    }

    #[test]
    fn what_is_stopped_is_stopped_with_what_it_started() {
        let dir = TempDir::new("tee-test").unwrap();
        // The grandchild does not hear the signal that ends the child.
        let grandchild =
            "trap '' TERM; echo $$ > pid.new; mv pid.new pid; while :; do sleep 9; done";
        let mut child = Command::new("sh")
            .args(["-c", "sh -c \"$0\"; true", grandchild])
            .current_dir(dir.path())
            .spawn()
            .unwrap();
        let file = dir.path().join("pid");
        while !file.exists() {
            std::thread::sleep(Duration::from_millis(5));
        }
        let pid = std::fs::read_to_string(file).unwrap().trim().parse().unwrap();
        assert!(!stop_family(&mut child).unwrap().success());
        let pid = Pid::from_raw(pid).unwrap();
        while is_running(pid) {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
