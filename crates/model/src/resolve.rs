//! From a spec to the gang it asks for: every default filled in, everything checked that can be
//! judged from the spec alone. What a site allows or has is judged elsewhere.

mod gang;
mod lists;
mod run;
mod secrets;
#[cfg(test)]
mod tests;

pub use run::{check_run, signal_number};
pub use secrets::{check_secret, check_secrets, secret_variable};

use crate::contained::check_path;
use crate::job::Condition;
use crate::names::turns_text;
use crate::node_paths::check_checkpoints;
use crate::spec::{Group, JobSpec, OnPartition, SpecProblem, problem};
use crate::units::Span;

/// Most GPUs a node can have.
pub const MAX_GPUS_PER_NODE: u32 = 64;
/// Most processes on one node.
pub const MAX_RANKS_PER_NODE: u32 = 4096;
/// Most logical processors on one node.
pub const MAX_CPUS_PER_NODE: u32 = 65_536;
/// Largest script.
pub const MAX_SCRIPT: usize = 1 << 20;
/// Longest single argument or variable: what Linux passes to a program.
pub const MAX_WORD: usize = 128 * 1024;
/// Most SKUs that a group may choose from.
pub const MAX_SKUS: usize = 16;
/// Most entries of any list in a spec (groups, volumes, secrets, tags, after).
pub const MAX_ENTRIES: usize = 64;
/// Most variables or arguments.
pub const MAX_WORDS: usize = 4096;
/// Most parts of an array: `0-9,20` has two.
pub const MAX_ARRAY_PARTS: usize = 1024;
/// Longest text of an array.
pub const MAX_ARRAY_TEXT: usize = 16 << 10;
/// Most waits of an array: its tasks times the jobs that each of them waits for.
pub const MAX_WAITS: usize = 100_000;
/// Most text in a spec, what it runs not counted: it is in the log and in every answer.
pub const MAX_TEXT: usize = 64 << 10;
/// Most text in the lists of all tasks of an array together.
pub const MAX_COPIES: usize = 64 << 20;
/// Longest path.
const MAX_PATH: usize = 4096;
/// Longest tag.
const MAX_TAG: usize = 256;
/// Most tries after a failure.
const MAX_RETRIES: u32 = 10_000;

/// A spec with every default filled in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved {
    /// The gang's groups; at least one.
    pub groups: Vec<Group>,
    /// Indices of the array, sorted; empty when the job is not an array.
    pub array: Vec<u32>,
    /// Jobs that must end first.
    pub after: Vec<AfterRef>,
}

/// A job that must end first, as written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AfterRef {
    /// Its id or name.
    pub job: String,
    /// How it must end.
    pub condition: Condition,
}

/// Checks a spec and fills in its defaults. `run` is not looked at: see [`check_run`].
///
/// # Errors
/// The first thing that is wrong, with the field and how to fix it.
pub fn resolve(spec: &JobSpec) -> Result<Resolved, SpecProblem> {
    let groups = gang::groups(spec)?;
    if spec.time_limit == Some(Span(0)) {
        return Err(problem(
            "time_limit",
            "it is zero, so the job could never run",
            "leave it out for no limit, or write it like 30m or 24h",
        ));
    }
    checkpoint(spec)?;
    for (field, n) in [
        ("retries.infrastructure", spec.retries.infrastructure),
        ("retries.application", spec.retries.application),
    ] {
        if n > MAX_RETRIES {
            return Err(problem(
                field,
                format!("{n} is more than {MAX_RETRIES}"),
                "use a smaller number",
            ));
        }
    }
    if spec.on_partition == Some(OnPartition::StopAfter(Span(0))) {
        return Err(problem(
            "on_partition.stop_after",
            "it is zero, so a single late heartbeat would stop the job",
            "write it like 60s or 5m, or use `on_partition: continue`",
        ));
    }
    simulate(spec)?;
    lists::volumes(&spec.volumes, spec.run.image.is_some())?;
    in_container(spec)?;
    count("secrets", spec.secrets.len())?;
    spec.secrets.iter().try_for_each(|s| check_secret(s.as_str()))?;
    lists::tags(&spec.tags)?;
    let array = spec.array.as_deref().map(lists::array).transpose()?.unwrap_or_default();
    count("after", spec.after.len())?;
    let after = spec.after.iter().enumerate();
    let after = after.map(|(i, a)| lists::after(i, a)).collect::<Result<Vec<_>, _>>()?;
    let waits = array.len() * after.len();
    if waits > MAX_WAITS {
        return Err(problem(
            "after",
            format!(
                "{} tasks that wait for {} jobs each are {waits} waits, more than {MAX_WAITS}",
                array.len(),
                after.len()
            ),
            "let one small job wait for them all, and the array for that job",
        ));
    }
    short_enough(spec, array.len().max(1))?;
    Ok(Resolved { groups, array, after })
}

/// The lists have their own limits; this is the one for all of them together. Without it a job
/// could carry most of a megabyte into every answer that shows it.
fn short_enough(spec: &JobSpec, tasks: usize) -> Result<(), SpecProblem> {
    let volumes = spec.volumes.iter().map(|v| v.from.len() + v.at.len());
    let tags = spec.tags.iter().map(|(k, v)| k.len() + v.len());
    let after = spec.after.iter().map(String::len);
    let groups =
        spec.gang.groups.iter().map(|g| g.name.len() + g.sku.as_ref().map_or(0, String::len));
    let checkpoint = spec.checkpoint.iter().map(|c| {
        let asked = c.request.signal.as_ref().map_or(0, String::len);
        c.dir.len() + asked + c.interval.as_ref().map_or(0, String::len)
    });
    let gang = [&spec.gang.sku, &spec.gang.mig].into_iter().flatten().map(String::len);
    let text: usize =
        volumes.chain(tags).chain(after).chain(groups).chain(checkpoint).chain(gang).sum();
    if text > MAX_TEXT {
        return Err(problem(
            "spec",
            format!("its lists have {text} bytes of text in all, more than {MAX_TEXT}"),
            "keep fewer or shorter volumes, tags and dependencies; what `run` holds is not counted",
        ));
    }
    // Tasks share them in memory, in the log and in snapshots; each answer about one, and each order
    // to a node, has them by itself.
    if text * tasks > MAX_COPIES {
        return Err(problem(
            "spec",
            format!(
                "{tasks} tasks with {text} bytes of text in their lists are more than {MAX_COPIES} bytes in all"
            ),
            "keep fewer or shorter volumes and tags, or split the array",
        ));
    }
    Ok(())
}

fn checkpoint(spec: &JobSpec) -> Result<(), SpecProblem> {
    let Some(c) = &spec.checkpoint else { return Ok(()) };
    absolute("checkpoint.dir", &c.dir)?;
    let places = spec.volumes.iter().map(|v| &*v.at);
    check_checkpoints(&c.dir, places).map_err(|why| {
        problem(
            "checkpoint.dir",
            format!("checkpoints cannot be written to `{}`: {why}", shown(&c.dir)),
            "name a directory that lasts and that every node sees, like /shared/ckpt; not /, and nothing in /proc, /sys, /dev or /run",
        )
    })?;
    if let Some(s) = &c.request.signal
        && signal_number(s).is_none()
    {
        return Err(problem(
            "checkpoint.request.signal",
            format!("`{}` is not a signal that a rank can be asked with", shown(s)),
            "use SIGUSR1, SIGUSR2, SIGHUP, SIGINT or SIGTERM",
        ));
    }
    let Some(interval) = &c.interval else { return Ok(()) };
    if interval != "auto" && interval.parse::<Span>().ok().filter(|s| s.0 > 0).is_none() {
        return Err(problem(
            "checkpoint.interval",
            format!("`{}` is neither `auto` nor a length of time", shown(interval)),
            "write `auto`, or how often like 10m",
        ));
    }
    Ok(())
}

/// What is bound into a container is a part of an argument of whatever runs it. Asked when a job is
/// submitted, not when the log is read.
fn in_container(spec: &JobSpec) -> Result<(), SpecProblem> {
    if spec.run.image.is_none() {
        return Ok(());
    }
    let check = |field: &str, path: &str| {
        check_path(path).map_err(|why| {
            problem(
                field,
                format!("`{}` cannot be bound into a container: {why}", shown(path)),
                "rename the directory, or leave `run.image` out",
            )
        })
    };
    for (i, v) in spec.volumes.iter().enumerate() {
        check(&format!("volumes[{i}].from"), &v.from)?;
        check(&format!("volumes[{i}].at"), &v.at)?;
    }
    spec.checkpoint.as_ref().map_or(Ok(()), |c| check("checkpoint.dir", &c.dir))
}

fn simulate(spec: &JobSpec) -> Result<(), SpecProblem> {
    let Some(s) = &spec.simulate else { return Ok(()) };
    for (field, span) in [("simulate.step", s.step), ("simulate.checkpoint", s.checkpoint)] {
        if span == Some(Span(0)) {
            return Err(problem(field, "it is zero", "leave it out, or write it like 0.4s"));
        }
    }
    Ok(())
}

fn between(field: &str, n: u32, least: u32, most: u32) -> Result<u32, SpecProblem> {
    if n < least {
        Err(problem(field, format!("{n} is too few"), format!("use at least {least}")))
    } else if n > most {
        Err(problem(field, format!("{n} is more than {most}"), format!("use at most {most}")))
    } else {
        Ok(n)
    }
}

fn count(field: &str, n: usize) -> Result<(), SpecProblem> {
    if n > MAX_ENTRIES {
        let message = format!("{n} entries are more than {MAX_ENTRIES}");
        return Err(problem(field, message, "keep fewer"));
    }
    Ok(())
}

fn absolute(field: &str, path: &str) -> Result<(), SpecProblem> {
    one_line(field, path)?;
    if !path.starts_with('/') {
        return Err(problem(
            field,
            format!("`{}` is not an absolute path", shown(path)),
            "start it with `/`",
        ));
    }
    if path.split('/').any(|p| p == "..") {
        return Err(problem(
            field,
            format!("`{}` goes up with `..`", shown(path)),
            "write the path without `..`",
        ));
    }
    if path.len() > MAX_PATH {
        return Err(problem(field, format!("the path is over {MAX_PATH} bytes"), "shorten it"));
    }
    Ok(())
}

/// One line of text that ends in messages and tables: without control characters, and without those
/// that change the direction of text.
///
/// # Errors
/// Which character is in the way, with the field.
pub fn one_line(field: &str, text: &str) -> Result<(), SpecProblem> {
    plain(field, text, |_| false)
}

/// The same for text of several lines: new lines and tabs may be in it.
///
/// # Errors
/// Which character is in the way, with the field.
pub fn some_lines(field: &str, text: &str) -> Result<(), SpecProblem> {
    plain(field, text, |c| matches!(c, '\n' | '\t'))
}

/// What is shown to others must not be obeyed by their terminal. Asked where text comes in, never
/// of what is in the log already.
fn plain(field: &str, text: &str, passes: fn(char) -> bool) -> Result<(), SpecProblem> {
    match text.chars().find(|c| turns_text(*c) || (c.is_control() && !passes(*c))) {
        None => Ok(()),
        Some(c) if c.is_control() => Err(problem(
            field,
            format!("it holds a control character (U+{:04X})", u32::from(c)),
            "remove it: a terminal would obey it instead of showing it",
        )),
        Some(_) => Err(problem(
            field,
            "it holds a character that changes the direction of text",
            "remove it: it is not seen, but what is",
        )),
    }
}

fn no_nul(field: &str, text: &str) -> Result<(), SpecProblem> {
    if text.contains('\0') {
        return Err(problem(field, "it contains a NUL byte", "remove the NUL byte"));
    }
    Ok(())
}

/// Foreign text that is safe to show: short, and without control characters.
fn shown(s: &str) -> String {
    s.chars().take(60).flat_map(char::escape_debug).collect()
}
