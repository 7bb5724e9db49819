//! Programs and drivers that others wrote: started or asked by this one, for a bounded time.

use std::ffi::OsStr;
use std::io::{self, Read};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// What every variable for this program itself begins with.
const OWN: &[u8] = b"MUSTER_";

/// A program of others, without the variables that are for this one: some are secrets, such as a
/// join token, an API token or the address of a store. What it is to have all the same is set
/// afterwards.
#[must_use]
pub fn foreign(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        if name.as_encoded_bytes().starts_with(OWN) {
            command.env_remove(name);
        }
    }
    command
}

/// Between two looks whether a program has ended.
const LOOK: Duration = Duration::from_millis(5);
/// How long the rest of an output is waited for at least when its program has ended: others that it
/// started may have it open for ever.
const REST: Duration = Duration::from_secs(1);
/// Most of an output that is stored; what follows is dropped.
const MOST: usize = 1 << 20;

/// What `f` answers, if it does so in time. Otherwise its thread is left to itself: a call into a
/// driver that hangs cannot be ended.
pub fn within<T: Send + 'static>(
    name: &str,
    most: Duration,
    f: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (send, receive) = channel();
    let body = move || {
        let _ = send.send(f());
    };
    thread::Builder::new().name(name.to_owned()).spawn(body).ok()?;
    receive.recv_timeout(most).ok()
}

/// Runs a program to its end with nothing to read, and stores what it says. One that takes longer
/// than `most` is killed.
///
/// # Errors
/// It cannot be started, or ([`io::ErrorKind::TimedOut`]) it did not end in time.
pub fn output_within(command: &mut Command, most: Duration) -> io::Result<Output> {
    let until = Instant::now() + most;
    let piped = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn()?;
    let outputs = (Stored::of(child.stdout.take()), Stored::of(child.stderr.take()));
    let status = wait_within(child, until.saturating_duration_since(Instant::now()))?;
    let until = until.max(Instant::now() + REST);
    Ok(Output { status, stdout: outputs.0.take(until), stderr: outputs.1.take(until) })
}

/// Waits for a child. One that takes longer than `most` is killed, and waited for by somebody else:
/// it may hang in the kernel.
///
/// # Errors
/// It did not end in time ([`io::ErrorKind::TimedOut`]), or cannot be waited for.
pub fn wait_within(mut child: Child, most: Duration) -> io::Result<ExitStatus> {
    let until = Instant::now() + most;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        thread::sleep(left.min(LOOK));
    }
    let _ = child.kill();
    let _ = thread::Builder::new().name("reap".into()).spawn(move || child.wait());
    let said = format!("it did not end within {} s", most.as_secs_f32());
    Err(io::Error::new(io::ErrorKind::TimedOut, said))
}

/// What a program has said so far.
struct Stored {
    text: Arc<Mutex<Vec<u8>>>,
    /// Disconnected once there will be no more.
    over: Receiver<()>,
}

impl Stored {
    fn of(pipe: Option<impl Read + Send + 'static>) -> Stored {
        let text = Arc::<Mutex<Vec<u8>>>::default();
        let (open, over) = channel::<()>();
        if let Some(mut pipe) = pipe {
            let text = text.clone();
            let body = move || {
                let _open = open;
                let mut block = [0; 4096];
                loop {
                    let n = match pipe.read(&mut block) {
                        Ok(0) => break,
                        Ok(n) => n,
                        Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                        Err(_) => break,
                    };
                    let mut text = text.lock().unwrap_or_else(PoisonError::into_inner);
                    let free = MOST.saturating_sub(text.len());
                    text.extend_from_slice(&block[..n.min(free)]);
                }
            };
            // Without a thread nothing is known of what it says, but how it ends.
            let _ = thread::Builder::new().name("program-output".into()).spawn(body);
        }
        Stored { text, over }
    }

    fn take(&self, until: Instant) -> Vec<u8> {
        let _ = self.over.recv_timeout(until.saturating_duration_since(Instant::now()));
        std::mem::take(&mut *self.text.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        command
    }

    const LONG: Duration = Duration::from_secs(600);

    #[test]
    fn a_program_that_never_ends_is_ended_and_the_output_of_others_is_read() {
        let soon = Duration::from_millis(1);
        let hung = output_within(&mut shell("exec sleep 100000"), soon).expect_err("it hangs");
        assert_eq!(hung.kind(), io::ErrorKind::TimedOut);
        let out =
            output_within(&mut shell("echo out; echo err >&2; exit 3"), LONG).expect("it ends");
        assert_eq!((out.stdout, out.stderr), (b"out\n".to_vec(), b"err\n".to_vec()));
        assert_eq!(out.status.code(), Some(3));
        let much = output_within(&mut shell("head -c 3000000 /dev/zero"), LONG).expect("it ends");
        assert_eq!(much.stdout.len(), MOST, "what follows is dropped");
    }

    #[test]
    fn a_call_that_never_answers_is_given_up() {
        let (_open, never) = channel::<u32>();
        assert!(within("hangs", Duration::from_millis(1), move || never.recv()).is_none());
        assert_eq!(within("answers", LONG, || 7), Some(7));
    }

    const SECRET: &str = "not-for-others";

    /// Not a test of its own: what the test below runs in a process that has tokens.
    #[test]
    #[ignore = "runs inside a_program_of_others_gets_no_secret"]
    fn child_with_secrets() {
        let out = foreign("env").env("MUSTER_NODE", "n1").output().expect("it runs");
        print!("{}", String::from_utf8_lossy(&out.stdout));
    }

    #[test]
    fn a_program_of_others_gets_no_secret() {
        let own = std::env::current_exe().expect("this test");
        let out = Command::new(own)
            .args(["--exact", "program::tests::child_with_secrets", "--ignored", "--nocapture"])
            .env("MUSTER_JOIN", SECRET)
            .env("MUSTER_TOKEN", SECRET)
            .env("OTHER", "stays")
            .output()
            .expect("it runs");
        let said = String::from_utf8_lossy(&out.stdout);
        assert!(said.contains("OTHER=stays") && said.contains("MUSTER_NODE=n1"), "{said}");
        assert!(!said.contains(SECRET), "{said}");
    }
}
