//! From a spec to the gang it asks for: every default filled in, everything checked that can be
//! judged from the spec alone. What a site allows or has is judged elsewhere.

use crate::job::Condition;
use crate::names::Label;
use crate::spec::{
    GangSpec, Group, GroupSpec, JobSpec, MAX_ARRAY, MAX_NODES, MAX_RANKS, OnPartition, RunSpec,
    SpecProblem, Tier, Volume, problem,
};
use crate::topology::Level;
use crate::units::{Bytes, Span};
use std::collections::{BTreeMap, BTreeSet};

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
/// Most entries of any list in a spec (groups, volumes, secrets, tags, after).
pub const MAX_ENTRIES: usize = 64;
/// Most variables or arguments.
pub const MAX_WORDS: usize = 4096;
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
/// The first thing that is wrong, with the field and how to mend it.
pub fn resolve(spec: &JobSpec) -> Result<Resolved, SpecProblem> {
    let groups = groups(&spec.gang)?;
    topology(spec, &groups)?;
    if spec.time_limit == Some(Span(0)) {
        return Err(problem(
            "time_limit",
            "it is zero, so the job could never run",
            "leave it out for no limit, or write it like 30m or 24h",
        ));
    }
    if spec.tier == Tier::Reserved {
        return Err(problem(
            "tier",
            "tier `reserved` is not supported yet",
            "use `on-demand` or `spot`",
        ));
    }
    if spec.elastic.is_some() {
        return Err(problem(
            "elastic",
            "an elastic gang is not supported yet",
            "leave `elastic` out and set gang.nodes to one fixed size",
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
    volumes(&spec.volumes)?;
    count("secrets", spec.secrets.len())?;
    tags(&spec.tags)?;
    let array = spec.array.as_deref().map(array).transpose()?.unwrap_or_default();
    count("after", spec.after.len())?;
    let after =
        spec.after.iter().enumerate().map(|(i, a)| after(i, a)).collect::<Result<_, _>>()?;
    Ok(Resolved { groups, array, after })
}

/// Checks what a job runs. `simulate` says that it runs nothing.
///
/// # Errors
/// The first thing that is wrong, with the field and how to mend it.
pub fn check_run(run: &RunSpec, simulate: bool) -> Result<(), SpecProblem> {
    if run.image.is_some() {
        return Err(problem(
            "run.image",
            "running a container image is not supported yet",
            "leave it out; the script sees the node's own programs, and `volumes` binds directories",
        ));
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
    if run.command.first().is_some_and(|c| c.trim().is_empty()) {
        return Err(problem("run.command[0]", "the program's name is empty", "name a program"));
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

fn groups(gang: &GangSpec) -> Result<Vec<Group>, SpecProblem> {
    if gang.mig.is_some() {
        return Err(problem(
            "gang.mig",
            "a slice of a GPU (MIG) is not supported yet",
            "leave `mig` out and ask for whole GPUs with `gpus` or `gpus_per_node`",
        ));
    }
    let groups = if gang.groups.is_empty() { flat(gang)? } else { written(gang)? };
    let nodes: u64 = groups.iter().map(|g| u64::from(g.nodes)).sum();
    if nodes > u64::from(MAX_NODES) {
        return Err(problem(
            "gang.groups",
            format!("{nodes} nodes in all are more than {MAX_NODES}"),
            "ask for fewer nodes",
        ));
    }
    let ranks: u64 = groups.iter().map(|g| u64::from(g.nodes) * u64::from(g.ranks)).sum();
    if ranks > MAX_RANKS {
        let field = if gang.groups.is_empty() { "gang.ranks_per_node" } else { "gang.groups" };
        return Err(problem(
            field,
            format!("{ranks} ranks in all are more than {MAX_RANKS}"),
            "ask for fewer nodes or fewer ranks on each",
        ));
    }
    Ok(groups)
}

fn flat(gang: &GangSpec) -> Result<Vec<Group>, SpecProblem> {
    if gang.gpus.is_some() && (gang.nodes.is_some() || gang.gpus_per_node.is_some()) {
        let other = if gang.nodes.is_some() { "nodes" } else { "gpus_per_node" };
        return Err(problem(
            "gang.gpus",
            format!("`gpus` is short for one node and cannot stand beside `{other}`"),
            "write `nodes` and `gpus_per_node` instead of `gpus`",
        ));
    }
    let gpus_field = if gang.gpus.is_some() { "gang.gpus" } else { "gang.gpus_per_node" };
    let as_group = GroupSpec {
        name: "main".into(),
        nodes: gang.nodes,
        gpus_per_node: gang.gpus.or(gang.gpus_per_node),
        ranks_per_node: gang.ranks_per_node,
        cpus_per_node: gang.cpus_per_node,
        memory_per_node: gang.memory_per_node,
        sku: gang.sku.clone(),
    };
    Ok(vec![group("gang", gpus_field, &as_group)?])
}

fn written(gang: &GangSpec) -> Result<Vec<Group>, SpecProblem> {
    let flat = [
        ("nodes", gang.nodes.is_some()),
        ("gpus_per_node", gang.gpus_per_node.is_some()),
        ("gpus", gang.gpus.is_some()),
        ("ranks_per_node", gang.ranks_per_node.is_some()),
        ("cpus_per_node", gang.cpus_per_node.is_some()),
        ("memory_per_node", gang.memory_per_node.is_some()),
        ("sku", gang.sku.is_some()),
    ];
    if let Some((name, _)) = flat.iter().find(|(_, set)| *set) {
        return Err(problem(
            &format!("gang.{name}"),
            format!("`{name}` cannot stand beside `groups`"),
            "move it into each of the groups",
        ));
    }
    count("gang.groups", gang.groups.len())?;
    let mut names = BTreeSet::new();
    let mut out = Vec::with_capacity(gang.groups.len());
    for (i, g) in gang.groups.iter().enumerate() {
        let path = format!("gang.groups[{i}]");
        let name = format!("{path}.name");
        if g.name.is_empty() {
            return Err(problem(&name, "the group has no name", "give each group a name"));
        }
        if let Err(e) = g.name.parse::<Label>() {
            return Err(problem(&name, e.to_string(), "a name like `learners` or `workers-2`"));
        }
        if !names.insert(g.name.as_str()) {
            let message = format!("two groups are called `{}`", g.name);
            return Err(problem(&name, message, "give each group a name of its own"));
        }
        out.push(group(&path, &format!("{path}.gpus_per_node"), g)?);
    }
    Ok(out)
}

fn group(path: &str, gpus_field: &str, g: &GroupSpec) -> Result<Group, SpecProblem> {
    let at = |f: &str| format!("{path}.{f}");
    let nodes = between(&at("nodes"), g.nodes.unwrap_or(1), 1, MAX_NODES)?;
    let gpus = between(gpus_field, g.gpus_per_node.unwrap_or(0), 0, MAX_GPUS_PER_NODE)?;
    let ranks = g.ranks_per_node.unwrap_or(gpus.max(1));
    let ranks = between(&at("ranks_per_node"), ranks, 1, MAX_RANKS_PER_NODE)?;
    let cpus = g.cpus_per_node.unwrap_or(ranks);
    let cpus = between(&at("cpus_per_node"), cpus, 1, MAX_CPUS_PER_NODE)?;
    let memory = g.memory_per_node.unwrap_or(Bytes(0));
    if memory.0 >= 1 << 60 {
        return Err(problem(
            &at("memory_per_node"),
            "it is more than any node has",
            "write it like 512GiB",
        ));
    }
    if let Some(sku) = &g.sku {
        let good = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-' || c == b'.';
        if sku.is_empty() || sku.len() > 64 || !sku.bytes().all(good) {
            return Err(problem(
                &at("sku"),
                format!("`{}` is not a SKU", shown(sku)),
                "lower-case letters, digits, `-` and `.` only, like h100-sxm or b200",
            ));
        }
        if gpus == 0 {
            return Err(problem(
                &at("sku"),
                format!("it asks for GPUs of kind `{sku}`, but for none of them"),
                "set `gpus_per_node`, or leave `sku` out",
            ));
        }
    }
    Ok(Group { name: g.name.clone(), nodes, gpus, ranks, cpus, memory, sku: g.sku.clone(), part: None })
}

fn topology(spec: &JobSpec, groups: &[Group]) -> Result<(), SpecProblem> {
    let nodes: u64 = groups.iter().map(|g| u64::from(g.nodes)).sum();
    let (required, preferred) = (spec.topology.required, spec.topology.preferred);
    if required == Some(Level::Node) && nodes > 1 {
        return Err(problem(
            "topology.required",
            format!("{nodes} nodes can never be inside one node"),
            "ask for `nvlink`, `rack` or `leaf`, or for one node",
        ));
    }
    if let (Some(r), Some(p)) = (required, preferred)
        && p < r
    {
        return Err(problem(
            "topology.preferred",
            format!("`{p}` is wider than the required `{r}`, so the wish says nothing"),
            format!("prefer a level inside the {r}, or require a wider one than {p}"),
        ));
    }
    Ok(())
}

fn checkpoint(spec: &JobSpec) -> Result<(), SpecProblem> {
    let Some(c) = &spec.checkpoint else { return Ok(()) };
    absolute("checkpoint.dir", &c.dir)?;
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

fn simulate(spec: &JobSpec) -> Result<(), SpecProblem> {
    let Some(s) = &spec.simulate else { return Ok(()) };
    for (field, span) in [("simulate.step", s.step), ("simulate.checkpoint", s.checkpoint)] {
        if span == Some(Span(0)) {
            return Err(problem(field, "it is zero", "leave it out, or write it like 0.4s"));
        }
    }
    Ok(())
}

fn volumes(volumes: &[Volume]) -> Result<(), SpecProblem> {
    count("volumes", volumes.len())?;
    let mut seen = BTreeSet::new();
    for (i, v) in volumes.iter().enumerate() {
        absolute(&format!("volumes[{i}].from"), &v.from)?;
        let field = format!("volumes[{i}].at");
        absolute(&field, &v.at)?;
        let parts: Vec<&str> = v.at.split('/').filter(|p| !p.is_empty() && *p != ".").collect();
        if parts.is_empty() || matches!(parts[0], "proc" | "sys" | "dev") {
            return Err(problem(
                &field,
                format!("a volume cannot be bound at `{}`", shown(&v.at)),
                "choose a directory of its own, like /data; not /, /proc, /sys or /dev",
            ));
        }
        if !seen.insert(parts) {
            return Err(problem(
                &field,
                format!("two volumes are bound at `{}`", shown(&v.at)),
                "give each volume a place of its own",
            ));
        }
    }
    Ok(())
}

fn tags(tags: &BTreeMap<String, String>) -> Result<(), SpecProblem> {
    count("tags", tags.len())?;
    for (k, v) in tags {
        let field = format!("tags.{}", shown(k));
        if k.is_empty() {
            return Err(problem("tags", "a tag has an empty name", "name it"));
        }
        for text in [k, v] {
            no_nul(&field, text)?;
            let chars = text.chars().count();
            if chars > MAX_TAG {
                let message = format!("{chars} characters are more than {MAX_TAG}");
                return Err(problem(&field, message, "shorten it"));
            }
        }
    }
    Ok(())
}

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

fn array(text: &str) -> Result<Vec<u32>, SpecProblem> {
    let bad = |message: String| {
        problem("array", message, "write indices like 0-9, 1,3,5-7 or 0-30:10 (every tenth)")
    };
    if let Some((before, _)) = text.split_once('%') {
        return Err(problem(
            "array",
            "a limit on tasks at a time (`%N`) is not supported yet",
            format!("write `{}`; a quota of the project can limit them", shown(before)),
        ));
    }
    let mut out = BTreeSet::new();
    for part in text.split(',') {
        let part = part.trim();
        let number = |s: &str| {
            // `parse` alone would take a plus sign.
            let digits = !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
            let n = if digits { s.parse::<u32>().ok() } else { None };
            n.ok_or_else(|| bad(format!("`{}` is not an index", shown(s))))
        };
        let (range, step) = match part.split_once(':') {
            Some((range, step)) => (range, number(step)?),
            None => (part, 1),
        };
        let (first, last) = match range.split_once('-') {
            Some((a, b)) => (number(a)?, number(b)?),
            None if part.contains(':') => {
                return Err(bad(format!("`{}` has a step but no range", shown(part))));
            }
            None => (number(range)?, number(range)?),
        };
        if step == 0 {
            return Err(bad(format!("`{}` has a step of zero", shown(part))));
        }
        if first > last {
            return Err(bad(format!("`{}` runs backwards", shown(part))));
        }
        // Counted before it is built: `0-4294967295` must cost nothing.
        if ((last - first) / step) as usize >= MAX_ARRAY {
            return Err(bad(format!("`{}` has more than {MAX_ARRAY} tasks", shown(part))));
        }
        out.extend((first..=last).step_by(step as usize));
        if out.len() > MAX_ARRAY {
            return Err(bad(format!("the array has more than {MAX_ARRAY} tasks")));
        }
    }
    Ok(out.into_iter().collect())
}

fn after(i: usize, text: &str) -> Result<AfterRef, SpecProblem> {
    let field = format!("after[{i}]");
    let (job, condition) = match text.split_once(':') {
        None | Some((_, "ok")) => (text.split(':').next().unwrap_or(text), Condition::Ok),
        Some((job, "fail")) => (job, Condition::Fail),
        Some((job, "any")) => (job, Condition::Any),
        Some((_, other)) => {
            return Err(problem(
                &field,
                format!("`{}` is not a way for a job to end", shown(other)),
                "write the job's id or name, alone or with :ok, :fail or :any",
            ));
        }
    };
    if let Err(e) = job.parse::<Label>() {
        return Err(problem(&field, e.to_string(), "write the id or the name of a job"));
    }
    Ok(AfterRef { job: job.into(), condition })
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
    no_nul(field, path)?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Elastic;
    use proptest::prelude::*;

    fn spec(edit: impl FnOnce(&mut JobSpec)) -> JobSpec {
        let mut s = JobSpec::default();
        edit(&mut s);
        s
    }

    fn refused(edit: impl FnOnce(&mut JobSpec)) -> SpecProblem {
        let e = resolve(&spec(edit)).unwrap_err();
        assert!(e.hint.is_some(), "every problem says how to mend it: {e}");
        e
    }

    #[test]
    fn an_empty_spec_is_one_rank_on_one_node() {
        let r = resolve(&JobSpec::default()).unwrap();
        let g = &r.groups[0];
        assert_eq!((g.name.as_str(), g.nodes, g.gpus, g.ranks, g.cpus), ("main", 1, 0, 1, 1));
        assert_eq!(g.memory, Bytes(0));
        assert!(r.array.is_empty() && r.after.is_empty());
    }

    #[test]
    fn ranks_follow_gpus_and_cpus_follow_ranks() {
        let r = resolve(&spec(|s| {
            s.gang.nodes = Some(2);
            s.gang.gpus_per_node = Some(8);
            s.gang.sku = Some("h100-sxm".into());
        }))
        .unwrap();
        assert_eq!((r.groups[0].nodes, r.groups[0].ranks, r.groups[0].cpus), (2, 8, 8));
        let r = resolve(&spec(|s| s.gang.gpus = Some(4))).unwrap();
        assert_eq!((r.groups[0].nodes, r.groups[0].gpus), (1, 4));
    }

    #[test]
    fn impossible_gangs_are_refused_with_the_field() {
        type Edit = fn(&mut JobSpec);
        let cases: [(&str, Edit); 14] = [
            ("gang.gpus", |s| {
                s.gang.gpus = Some(1);
                s.gang.nodes = Some(2);
            }),
            ("gang.nodes", |s| s.gang.nodes = Some(0)),
            ("gang.nodes", |s| s.gang.nodes = Some(MAX_NODES + 1)),
            ("gang.gpus_per_node", |s| s.gang.gpus_per_node = Some(65)),
            ("gang.gpus", |s| s.gang.gpus = Some(65)),
            ("gang.ranks_per_node", |s| s.gang.ranks_per_node = Some(0)),
            ("gang.ranks_per_node", |s| s.gang.ranks_per_node = Some(4097)),
            ("gang.ranks_per_node", |s| {
                s.gang.nodes = Some(MAX_NODES);
                s.gang.ranks_per_node = Some(64);
            }),
            ("gang.cpus_per_node", |s| s.gang.cpus_per_node = Some(0)),
            ("gang.memory_per_node", |s| s.gang.memory_per_node = Some(Bytes(u64::MAX))),
            ("gang.sku", |s| {
                s.gang.gpus = Some(1);
                s.gang.sku = Some("H100".into());
            }),
            ("gang.sku", |s| s.gang.sku = Some("h100".into())),
            ("topology.required", |s| {
                s.gang.nodes = Some(2);
                s.topology.required = Some(Level::Node);
            }),
            ("topology.preferred", |s| {
                s.topology.required = Some(Level::Leaf);
                s.topology.preferred = Some(Level::Spine);
            }),
        ];
        for (field, edit) in cases {
            assert_eq!(refused(edit).field, field);
        }
    }

    #[test]
    fn groups_need_names_of_their_own_and_exclude_the_flat_fields() {
        let named = |n: &str| GroupSpec { name: n.into(), nodes: Some(2), ..GroupSpec::default() };
        let ok = spec(|s| s.gang.groups = vec![named("learners"), named("actors")]);
        assert_eq!(resolve(&ok).unwrap().groups.len(), 2);
        assert_eq!(
            refused(|s| s.gang.groups = vec![named("a"), named("a")]).field,
            "gang.groups[1].name"
        );
        assert_eq!(refused(|s| s.gang.groups = vec![named("")]).field, "gang.groups[0].name");
        let e = refused(|s| {
            s.gang.groups = vec![named("a")];
            s.gang.sku = Some("h100".into());
        });
        assert_eq!(e.field, "gang.sku");
        let e = refused(|s| {
            let huge = |n: &str| GroupSpec { nodes: Some(MAX_NODES), ..named(n) };
            s.gang.groups = vec![huge("a"), huge("b")];
        });
        assert!(e.message.contains("400000 nodes in all"), "{e}");
    }

    #[test]
    fn what_is_not_there_yet_says_so_plainly() {
        let not_yet = [
            refused(|s| s.gang.mig = Some("3g.40gb".into())),
            refused(|s| s.elastic = Some(Elastic { min_nodes: 1, max_nodes: 2 })),
            refused(|s| s.tier = Tier::Reserved),
            refused(|s| s.array = Some("0-9%2".into())),
            check_run(&RunSpec { image: Some("x".into()), ..RunSpec::default() }, false)
                .unwrap_err(),
        ];
        for e in not_yet {
            assert!(e.message.ends_with("is not supported yet"), "{e}");
        }
    }

    #[test]
    fn arrays_are_sorted_and_unique() {
        let read = |t: &str| resolve(&spec(|s| s.array = Some(t.into()))).map(|r| r.array);
        assert_eq!(read("0-3").unwrap(), [0, 1, 2, 3]);
        assert_eq!(read("5-7,1,3,6").unwrap(), [1, 3, 5, 6, 7]);
        assert_eq!(read("0-30:10").unwrap(), [0, 10, 20, 30]);
        assert_eq!(read("0-9999").unwrap().len(), MAX_ARRAY);
        let bad =
            ["", "a", "3-1", "0-9:0", "1:2", "-1", "+1", "1-", "0-10000", "0-4294967295", "1,,2"];
        for bad in bad {
            let e = read(bad).unwrap_err();
            assert_eq!(e.field, "array", "{bad:?}");
        }
    }

    #[test]
    fn dependencies_name_a_job_and_an_end() {
        let r = resolve(&spec(|s| {
            s.after = ["prep", "12:any", "x:fail", "y:ok"].map(String::from).to_vec();
        }))
        .unwrap();
        let got: Vec<_> = r.after.iter().map(|a| (a.job.as_str(), a.condition)).collect();
        assert_eq!(
            got,
            [
                ("prep", Condition::Ok),
                ("12", Condition::Any),
                ("x", Condition::Fail),
                ("y", Condition::Ok)
            ]
        );
        for bad in ["", ":ok", "a:later", "a:ok:ok", "a b"] {
            assert_eq!(refused(|s| s.after = vec!["x".into(), bad.into()]).field, "after[1]");
        }
    }

    fn maybe(max: u32) -> impl Strategy<Value = Option<u32>> {
        prop_oneof![Just(None), (0..max).prop_map(Some), any::<u32>().prop_map(Some)]
    }

    proptest! {
        #[test]
        fn resolved_gangs_are_always_within_limits(
            nodes in maybe(300_000), per in maybe(80), gpus in maybe(80), ranks in maybe(5000),
            cpus in maybe(5000), memory in any::<Option<u64>>(), grouped in any::<bool>(),
        ) {
            let g = GroupSpec {
                name: "a".into(), nodes, gpus_per_node: per, ranks_per_node: ranks,
                cpus_per_node: cpus, memory_per_node: memory.map(Bytes), sku: None,
            };
            let mut s = JobSpec::default();
            if grouped {
                s.gang.groups = vec![g.clone(), GroupSpec { name: "b".into(), ..g }];
            } else {
                s.gang = GangSpec {
                    nodes, gpus_per_node: per, gpus: gpus.filter(|_| nodes.is_none()),
                    ranks_per_node: ranks, cpus_per_node: cpus, memory_per_node: memory.map(Bytes),
                    ..GangSpec::default()
                };
            }
            if let Ok(r) = resolve(&s) {
                prop_assert!(!r.groups.is_empty());
                let mut total = (0u64, 0u64);
                for g in &r.groups {
                    prop_assert!((1..=MAX_NODES).contains(&g.nodes));
                    prop_assert!(g.gpus <= MAX_GPUS_PER_NODE);
                    prop_assert!((1..=MAX_RANKS_PER_NODE).contains(&g.ranks));
                    prop_assert!((1..=MAX_CPUS_PER_NODE).contains(&g.cpus));
                    total.0 += u64::from(g.nodes);
                    total.1 += u64::from(g.nodes) * u64::from(g.ranks);
                }
                prop_assert!(total.0 <= u64::from(MAX_NODES) && total.1 <= MAX_RANKS);
            }
        }

        #[test]
        fn no_text_panics(a in "\\PC{0,40}", b in "[0-9,:%-]{0,20}", k in "\\PC{0,10}") {
            for array in [&a, &b] {
                let _ = resolve(&spec(|s| s.array = Some(array.clone()))).map(|r| {
                    assert!(r.array.is_sorted() && r.array.len() <= MAX_ARRAY);
                });
            }
            let _ = resolve(&spec(|s| s.after = vec![a.clone()]));
            let _ = resolve(&spec(|s| s.tags = [(k.clone(), a.clone())].into()));
            let volume = Volume { from: a.clone(), at: k.clone(), read_only: true };
            let _ = resolve(&spec(|s| s.volumes = vec![volume]));
            let env = [(k.clone(), a.clone())].into();
            let _ = check_run(&RunSpec { command: vec![a, k], env, ..RunSpec::default() }, false);
        }
    }
}
