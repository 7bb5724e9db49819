//! What a job runs, and how a rank is asked for a checkpoint.

use super::{MAX_SCRIPT, MAX_TAG, MAX_WORD, MAX_WORDS, absolute, no_nul, one_line, shown};
use crate::contained::is_image_name;
use crate::spec::{RunSpec, SpecProblem, problem};
use std::collections::BTreeMap;

/// Checks what a job runs. `simulate` says that it runs nothing, and then nothing may be named to run.
///
/// # Errors
/// The first thing that is wrong, with the field and how to fix it.
pub fn check_run(run: &RunSpec, simulate: bool) -> Result<(), SpecProblem> {
    if let Some(image) = &run.image {
        // It becomes a word of the runtime's command line; which image it is, the runtime knows.
        if !is_image_name(image) || image.len() > 512 {
            return Err(problem(
                "run.image",
                format!("`{}` is not the name of an image", shown(image)),
                "name it as the node's runtime does, like docker.io/library/python:3.12",
            ));
        }
    }
    match (&run.script, run.command.is_empty()) {
        (Some(_), false) => {
            return Err(problem(
                "run",
                "both run.script and run.command are set",
                "keep `script` for a shell script, or `command` for a program with its arguments",
            ));
        }
        (None, true) if !simulate => {
            return Err(problem(
                "run",
                "nothing to run",
                "set run.script (a shell script) or run.command (a program and its arguments)",
            ));
        }
        (script, no_command) if simulate && (script.is_some() || !no_command) => {
            let field = if script.is_some() { "run.script" } else { "run.command" };
            return Err(problem(
                field,
                "a job with `simulate` starts no process, so this would never run",
                format!("remove `simulate` to run it, or remove `{field}`"),
            ));
        }
        _ => {}
    }
    if let Some(script) = &run.script {
        if script.len() > MAX_SCRIPT {
            return Err(problem(
                "run.script",
                format!("it has {} bytes, more than {MAX_SCRIPT}", script.len()),
                "keep data in files that the script reads",
            ));
        }
        if script.trim().is_empty() {
            return Err(problem("run.script", "it is empty", "write the commands to run"));
        }
        no_nul("run.script", script)?;
    }
    if run.command.len() > MAX_WORDS {
        let message = format!("{} arguments are more than {MAX_WORDS}", run.command.len());
        return Err(problem("run.command", message, "pass long lists in a file"));
    }
    for (i, word) in run.command.iter().enumerate() {
        let field = format!("run.command[{i}]");
        no_nul(&field, word)?;
        if word.len() > MAX_WORD {
            let message = format!("it has {} bytes, more than {MAX_WORD}", word.len());
            return Err(problem(&field, message, "pass long text in a file"));
        }
    }
    if let Some(program) = run.command.first() {
        if program.trim().is_empty() {
            return Err(problem("run.command[0]", "the program's name is empty", "name a program"));
        }
        // Unlike its arguments, which are data, it is named where it cannot be started.
        one_line("run.command[0]", program)?;
    }
    env(&run.env)?;
    match &run.workdir {
        Some(dir) => absolute("run.workdir", dir),
        None => Ok(()),
    }
}

/// Linux number of a signal that can ask for a checkpoint; `SIGUSR1` and `USR1` are the same.
#[must_use]
pub fn signal_number(name: &str) -> Option<i32> {
    let short = name.strip_prefix("SIG").unwrap_or(name);
    SIGNALS.iter().find(|(n, _)| *n == short).map(|(_, no)| *no)
}

/// Signals that a program can catch and that the system does not send for its own faults.
const SIGNALS: [(&str, i32); 11] = [
    ("HUP", 1),
    ("INT", 2),
    ("QUIT", 3),
    ("USR1", 10),
    ("USR2", 12),
    ("ALRM", 14),
    ("TERM", 15),
    ("CONT", 18),
    ("URG", 23),
    ("WINCH", 28),
    ("IO", 29),
];

fn env(env: &BTreeMap<String, String>) -> Result<(), SpecProblem> {
    if env.len() > MAX_WORDS {
        let message = format!("{} variables are more than {MAX_WORDS}", env.len());
        return Err(problem("run.env", message, "keep settings in a file"));
    }
    for (k, v) in env {
        let field = format!("run.env.{}", shown(k));
        let good = |c: u8| c.is_ascii_alphanumeric() || c == b'_';
        let starts_well = k.bytes().next().is_some_and(|c| good(c) && !c.is_ascii_digit());
        if !starts_well || k.len() > MAX_TAG || !k.bytes().all(good) {
            return Err(problem(
                &field,
                format!("`{}` is not a name for a variable", shown(k)),
                "letters, digits and `_`, not starting with a digit",
            ));
        }
        let ours = matches!(
            k.as_str(),
            "RANK" | "WORLD_SIZE" | "LOCAL_RANK" | "NODE_RANK" | "LOCAL_WORLD_SIZE"
        );
        if ours || k.starts_with("MASTER_") || k.starts_with("MUSTER_") {
            return Err(problem(
                &field,
                format!("`{k}` is set for every rank and cannot be changed"),
                "leave it out, or use another name",
            ));
        }
        no_nul(&field, v)?;
        if k.len() + v.len() + 2 > MAX_WORD {
            let message = format!("it has {} bytes, more than {MAX_WORD}", v.len());
            return Err(problem(&field, message, "pass long text in a file"));
        }
    }
    Ok(())
}
