//! Ranks in containers, run by the node's podman. The rank's process is `podman run`, which stays
//! until its container ends; the container itself lives in the slot's control group.

mod command;
mod find;

pub(crate) use command::{ContainerOrder, VARIABLES, Wanted, order};
pub use find::{Containers, Pull};

use crate::isolation::Refusal;
use std::fs::File;
use std::io::{self, Write};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// Programs that belong to the runtime, not to the job, by their names.
const RUNTIME: [&str; 4] = ["podman", "conmon", "runc", "crun"];

/// Whether a process is the runtime's own.
pub(crate) fn is_runtime(pid: i32) -> bool {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    RUNTIME.contains(&name.trim())
}

/// Whether a process is the first of a container.
pub(crate) fn is_first(pid: i32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let numbers = status.lines().find_map(|l| l.strip_prefix("NSpid:"));
    numbers.is_some_and(|n| n.split_whitespace().skip(1).last() == Some("1"))
}

/// A file of variables in memory, which the runtime reads and nobody else. A value of several
/// lines cannot be passed in it; `left_out` is told its name.
pub(crate) fn variables<'a>(
    all: impl Iterator<Item = (&'a String, &'a String)>,
    mut left_out: impl FnMut(&str),
) -> io::Result<File> {
    let file = rustix::fs::memfd_create("variables", rustix::fs::MemfdFlags::empty())?;
    let mut file = File::from(file);
    for (name, value) in all {
        if value.contains('\n') {
            left_out(name);
        } else {
            writeln!(file, "{name}={value}")?;
        }
    }
    Ok(file)
}

fn run(runtime: &[String], args: &[&str]) -> Result<Output, String> {
    let (program, global) = runtime.split_first().ok_or("no container runtime")?;
    let mut command = Command::new(program);
    command.args(global).args(args).stdin(Stdio::null());
    command.output().map_err(|e| format!("{program}: {e}"))
}

/// What a program said last on its error stream.
fn last_words(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    let line = text.lines().rev().find(|l| !l.trim().is_empty()).unwrap_or("no word why");
    line.trim().trim_start_matches("Error: ").to_owned()
}

/// Makes sure that the image is there, as far as that is wanted.
pub(crate) fn check_image(order: &ContainerOrder) -> Result<(), Refusal> {
    let image = &order.image;
    let found = run(&order.runtime, &["image", "exists", "--", image]).map_err(Refusal::Node)?;
    match (found.status.code(), order.pull) {
        (Some(0), _) => Ok(()),
        (Some(1), Pull::Never) => Err(Refusal::Job(format!(
            "image `{image}` is not on this node and is not fetched: `podman pull {image}` there, \
             or let the agent fetch images"
        ))),
        (Some(1), Pull::Missing) => {
            let pulled = run(&order.runtime, &["pull", "-q", "--", image]);
            match pulled.map_err(Refusal::Node)? {
                out if out.status.success() => Ok(()),
                out => Err(Refusal::Job(format!(
                    "image `{image}` cannot be fetched: {}",
                    last_words(&out)
                ))),
            }
        }
        _ => Err(Refusal::Job(format!(
            "image `{image}` cannot be used: {}; write it as HOST/NAME:TAG",
            last_words(&found)
        ))),
    }
}

/// How often a removal is tried: one that meets the container between two states is refused.
const TRIES: u32 = 5;

/// Ends a container and removes it, whether or not it is there.
pub(crate) fn remove(runtime: &[String], name: &str) -> Result<(), String> {
    let mut why = String::new();
    for _ in 0..TRIES {
        let out = run(runtime, &["rm", "-f", "-i", "-t", "0", "--", name])?;
        if out.status.success() {
            return Ok(());
        }
        why = last_words(&out);
        std::thread::sleep(Duration::from_millis(200));
    }
    Err(format!("container {name} could not be removed: {why}"))
}
