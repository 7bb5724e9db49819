//! Ranks in containers, run by the node's podman or containerd. The rank's process is the
//! runtime's client, which stays until its container ends; the container itself lives in the
//! slot's control group.

mod command;
mod ctr;
mod find;
mod podman;
mod wanted;

pub(crate) use command::{ContainerOrder, check_checkpoints, check_volumes, order};
pub use find::{Containers, Limits, Pull};
pub(crate) use find::{Kind, Runtime};
pub(crate) use wanted::ContainerRequest;
use wanted::VARIABLES;

use crate::isolation::Refusal;
use crate::process;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::Output;
use std::time::Duration;

/// Programs that belong to the runtime, not to the job, by their names.
const RUNTIME: [&str; 6] = ["podman", "conmon", "runc", "crun", "ctr", "containerd-shim"];

/// Whether a process is the runtime's own.
pub(crate) fn is_runtime(pid: i32) -> bool {
    let name = std::fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
    RUNTIME.contains(&String::from_utf8_lossy(&name).trim())
}

/// Whether a process is the first of a container.
pub(crate) fn is_first(pid: i32) -> bool {
    let status = process::status(pid);
    let numbers = status.lines().find_map(|l| l.strip_prefix("NSpid:"));
    numbers.is_some_and(|n| n.split_whitespace().skip(1).last() == Some("1"))
}

/// Whether a process is the first of a container and runs the job's program. What a runtime makes a
/// container with, such as a hook, is none, and neither is its own process that is about to become the
/// first, nor one that is gone by now.
pub(crate) fn has_begun(pid: i32) -> bool {
    let name = std::fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
    is_first(pid) && !is_runtime(pid) && !name.starts_with(b"runc:[")
}

/// A file of variables in memory, which the runtime reads and nobody else. A value of several
/// lines cannot be passed in it; `left_out` is called with its name. A name that a line cannot have
/// would be read as something else: as one that takes its value from the runtime's own environment.
pub(crate) fn variables<'a>(
    all: impl Iterator<Item = (&'a String, &'a String)>,
    mut left_out: impl FnMut(&str),
) -> io::Result<File> {
    let file = rustix::fs::memfd_create("variables", rustix::fs::MemfdFlags::empty())?;
    let mut file = File::from(file);
    for (name, value) in all {
        let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
        if name.is_empty() || !name.bytes().all(plain) {
            let said = format!("{name:?} is no name of a variable");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, said));
        }
        if value.contains('\n') {
            left_out(name);
        } else {
            writeln!(file, "{name}={value}")?;
        }
    }
    Ok(file)
}

/// The arguments with the file of variables in its place, which is before all that is the job's.
pub(crate) fn with_variables(args: &[String], path: &str) -> Vec<String> {
    let mut args = args.to_vec();
    if let Some(place) = args.iter_mut().find(|a| a.as_str() == VARIABLES) {
        path.clone_into(place);
    }
    args
}

/// What came of a command of the runtime.
struct RuntimeOutput {
    output: Output,
}

impl RuntimeOutput {
    fn ok(&self) -> bool {
        self.output.status.success()
    }

    /// What it said last on its error stream.
    fn last_words(&self) -> String {
        let text = String::from_utf8_lossy(&self.output.stderr);
        let line = text.lines().rev().find(|l| !l.trim().is_empty()).unwrap_or("no reason given");
        let line = line.trim().trim_start_matches("Error: ").trim_start_matches("ctr: ");
        line.to_owned()
    }
}

/// Runs a command of the runtime. One that takes longer is killed.
fn run_within(runtime: &Runtime, args: &[&str], most: Duration) -> Result<RuntimeOutput, String> {
    let (program, global) = runtime.words.split_first().ok_or("no container runtime")?;
    let mut command = muster_supervise::foreign(program);
    command.args(global).args(args);
    #[expect(unsafe_code, reason = "a supervisor's signals are not the runtime's")]
    // SAFETY: between fork and exec only async-signal-safe calls are made, and nothing is
    // allocated.
    unsafe {
        command.pre_exec(process::reset_signals);
    }
    let done = muster_supervise::output_within(&mut command, most);
    let output = done.map_err(|e| match e.kind() {
        io::ErrorKind::TimedOut => {
            let what = args.join(" ");
            format!("the container runtime hangs: `{program} … {what}`: {e}")
        }
        _ => format!("{program}: {e}"),
    })?;
    Ok(RuntimeOutput { output })
}

/// Makes sure that the image is there, as far as that is wanted.
pub(crate) fn check_image(order: &ContainerOrder) -> Result<(), Refusal> {
    let (image, runtime) = (&order.image, &order.runtime);
    let (there, pull) = match runtime.kind {
        Kind::Podman => (podman::has_image(runtime, image)?, "podman pull"),
        Kind::Containerd => (ctr::has_image(runtime, image)?, "ctr images pull"),
    };
    if there {
        return Ok(());
    }
    if order.pull == Pull::Never {
        return Err(Refusal::Job(format!(
            "image `{image}` is not on this node and is not fetched: `{pull} {image}` there, or \
             let the agent fetch images"
        )));
    }
    let args: &[&str] = match runtime.kind {
        Kind::Podman => &["pull", "-q", "--", image],
        Kind::Containerd => &["images", "pull", image],
    };
    match run_within(runtime, args, runtime.limits.fetch).map_err(Refusal::Node)? {
        said if said.ok() => Ok(()),
        said => {
            Err(Refusal::Job(format!("image `{image}` cannot be fetched: {}", said.last_words())))
        }
    }
}

/// How often removals that are refused are tried again, for all containers of a slot together: one that
/// meets a container between two states is refused, and a machine with much to do needs seconds to go
/// from one to the other.
pub(crate) const AGAIN: u32 = 50;
/// The same before what is left of the slot is killed: a container that does not end must not wait for
/// long for that.
pub(crate) const AGAIN_BEFORE_KILL: u32 = 5;

/// Ends containers and removes them, whether or not they are there.
///
/// # Errors
/// Which of them could not be removed, and why.
pub(crate) fn remove_all(runtime: &Runtime, names: &[String]) -> Result<(), String> {
    try_remove_all(runtime, names, AGAIN)
}

/// The same, where removals that are refused are tried again so often.
///
/// # Errors
/// Which of them could not be removed, and why.
pub(crate) fn try_remove_all(
    runtime: &Runtime,
    names: &[String],
    mut again: u32,
) -> Result<(), String> {
    let mut left = Ok(());
    for name in names {
        let error = |why: String| format!("container {name} could not be removed: {why}");
        match remove(runtime, name, &mut again) {
            Ok(None) => {}
            Ok(Some(why)) => left = Err(error(why)),
            // What does not answer for one does not answer for the others either.
            Err(why) => return Err(error(why)),
        }
    }
    left
}

/// Ends a container and removes it; why not, where it was refused. `again` counts down how often it may
/// still be tried again.
///
/// # Errors
/// The runtime does not answer.
fn remove(runtime: &Runtime, name: &str, again: &mut u32) -> Result<Option<String>, String> {
    loop {
        let refused = match runtime.kind {
            Kind::Podman => podman::remove(runtime, name)?,
            Kind::Containerd => ctr::remove(runtime, name)?,
        };
        if refused.is_none() || *again == 0 {
            return Ok(refused);
        }
        *again -= 1;
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::Env;
    use std::io::{Read, Seek};

    #[test]
    fn a_variable_takes_one_line_and_no_other_name() {
        let file = |name: &str| {
            let env = Env::from([(name.to_owned(), "b".to_owned())]);
            variables(env.iter(), |_| ()).map(|mut file| {
                let mut text = String::new();
                file.rewind().and_then(|()| file.read_to_string(&mut text)).unwrap();
                text
            })
        };
        assert_eq!(file("A_1").unwrap(), "A_1=b\n");
        for bad in ["", "A\nHOME", "A*", "#A", " A", "A=x"] {
            assert!(file(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn an_argument_of_the_job_is_not_taken_for_the_file_of_variables() {
        let words = ["--env-file", VARIABLES, "x:1", "echo", VARIABLES].map(str::to_owned);
        let want = ["--env-file", "/f", "x:1", "echo", VARIABLES].map(str::to_owned);
        assert_eq!(with_variables(&words, "/f"), want);
    }

    #[test]
    fn a_runtime_that_hangs_is_given_up_with_a_clear_error() {
        let words = ["/bin/sh", "-c", "exec sleep 100000"].map(str::to_owned).into();
        let hangs = Runtime::new(Kind::Podman, words);
        let why = run_within(&hangs, &["rm", "-f"], Duration::from_millis(1)).err().unwrap();
        assert!(why.contains("runtime hangs") && why.contains("rm"), "{why}");
    }

    #[test]
    fn a_runtime_that_hangs_for_one_container_is_not_asked_to_remove_the_next() {
        let tmp = tempfile::tempdir().unwrap();
        let asked = tmp.path().join("asked");
        let script = format!("echo \"$*\" >> {}; exec sleep 100000", asked.display());
        let words = ["/bin/sh".into(), "-c".into(), script, "podman".into()].into();
        let mut hangs = Runtime::new(Kind::Podman, words);
        hangs.limits.remove = Duration::from_millis(1);
        let names = ["first".to_owned(), "second".to_owned()];
        let why = remove_all(&hangs, &names).unwrap_err();
        assert!(why.contains("container first") && why.contains("did not end within"), "{why}");
        let asked = std::fs::read_to_string(asked).unwrap_or_default();
        assert!(!asked.contains("second"), "{asked}");
    }

    #[test]
    fn a_removal_that_is_refused_for_a_while_is_tried_again() {
        let tmp = tempfile::tempdir().unwrap();
        // Refused so often as a busy machine may need for the end of a container.
        let script = format!(
            "cd {}; echo x >> tried; [ $(wc -l < tried) -gt 8 ] || {{ echo between >&2; exit 1; }}",
            tmp.path().display()
        );
        let words = ["/bin/sh".into(), "-c".into(), script, "podman".into()].into();
        let busy = Runtime::new(Kind::Podman, words);
        assert_eq!(remove_all(&busy, &["one".to_owned(), "two".to_owned()]), Ok(()));
        let tried = std::fs::read_to_string(tmp.path().join("tried")).unwrap();
        assert_eq!(tried.lines().count(), 10, "nine times the first, once the second");
    }

    /// Not a test of its own: what the test below runs in a process that has tokens.
    #[test]
    #[ignore = "runs inside a_container_runtime_gets_no_secret_of_the_agent"]
    fn child_with_secrets() {
        let words = ["/bin/sh", "-c", "env"].map(str::to_owned).into();
        let runtime = Runtime::new(Kind::Podman, words);
        let said = run_within(&runtime, &[], runtime.limits.look_up).expect("it runs");
        print!("{}", String::from_utf8_lossy(&said.output.stdout));
    }

    #[test]
    fn a_container_runtime_gets_no_secret_of_the_agent() {
        let secret = "not-for-others";
        let out = std::process::Command::new(std::env::current_exe().expect("this test"))
            .args(["--exact", "container::tests::child_with_secrets", "--ignored", "--nocapture"])
            .env("MUSTER_JOIN", secret)
            .env("MUSTER_TOKEN", secret)
            .env("OTHER", "stays")
            .output()
            .expect("it runs");
        let said = String::from_utf8_lossy(&out.stdout);
        assert!(said.contains("OTHER=stays") && !said.contains(secret), "{said}");
    }
}
