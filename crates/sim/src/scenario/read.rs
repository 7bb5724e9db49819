//! Reading scenario files.

use super::tree::{self, Item, item};
use super::{FleetSpec, Scenario, Workload, check, known};
use muster_model::spec::SpecProblem;
use muster_model::units::Span;
use muster_specs::FileError;
use muster_specs::tree::Node;
use serde::Deserialize;

/// Largest file.
const MAX_FILE: usize = 1 << 20;

/// Reads a scenario; `origin` is the file's name for errors. Whether it makes sense is for
/// [`check()`] to say; [`read`] does both.
///
/// # Errors
/// The first thing in the file that is wrong: syntax, a key, a type or a unit.
pub fn parse(text: &str, origin: &str) -> Result<Scenario, FileError> {
    scenario(&tree_of(text, origin)?, origin)
}

/// Reads a scenario and checks it.
///
/// # Errors
/// What is wrong, in the order of the file: the first mistake in its writing, or everything that
/// makes no sense.
pub fn read(text: &str, origin: &str) -> Result<Scenario, Vec<FileError>> {
    let root = tree_of(text, origin).map_err(|e| vec![e])?;
    let scenario = scenario(&root, origin).map_err(|e| vec![e])?;
    let problems = check(&scenario);
    if problems.is_empty() { Ok(scenario) } else { Err(placed(&root, origin, problems)) }
}

/// Every file that the scenario names, so that the caller can resolve them.
pub fn files(scenario: &mut Scenario) -> impl Iterator<Item = &mut String> {
    let fleet = match &mut scenario.fleet {
        FleetSpec::Topology { file, .. } | FleetSpec::Openb { file } => Some(file),
        FleetSpec::Hgx { .. } | FleetSpec::Nvl72 { .. } => None,
    };
    let traces = scenario.workload.iter_mut().filter_map(|w| match w {
        Workload::Trace(t) => Some(&mut t.file),
        Workload::Train(_) | Workload::Stream(_) | Workload::Serve(_) => None,
    });
    fleet.into_iter().chain(scenario.failures.titan.as_mut()).chain(traces)
}

fn tree_of(text: &str, origin: &str) -> Result<Node, FileError> {
    if text.len() > MAX_FILE {
        let message = format!("the file has {} bytes, more than {MAX_FILE}", text.len());
        return Err(FileError::new(origin, message).at(1, 1).hint("is this a scenario?"));
    }
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.trim().is_empty() {
        return Err(FileError::new(origin, "the file is empty")
            .at(1, 1)
            .hint("begin with `name = \"…\"`, `length = \"7d\"` and a table `[fleet]`"));
    }
    tree::parse(text, origin)
}

fn scenario(root: &Node, origin: &str) -> Result<Scenario, FileError> {
    let slips = known::find_misplacements(root);
    if let Some(first) = slips.into_iter().min_by_key(|s| (s.absent, s.at)) {
        return Err(FileError::new(origin, first.message)
            .at(first.at.line, first.at.column)
            .about(first.field)
            .hint(first.hint));
    }
    // The walk refuses all that serde would; were they to disagree, this still says what and why.
    Scenario::deserialize(plain(root)).map_err(|e| {
        FileError::new(origin, e.message().lines().next().unwrap_or_default()).at(1, 1)
    })
}

/// The values as the types want them: starts of reservations in milliseconds, dotted names of
/// figures as one key each.
fn plain(root: &Node) -> toml::Value {
    let mut value = item(root).value();
    let reservations = value.get_mut("reservations").and_then(toml::Value::as_array_mut);
    for r in reservations.into_iter().flatten() {
        let Some(start) = r.get_mut("start") else { continue };
        let span = start.as_str().and_then(|s| s.parse::<Span>().ok());
        if let Some(ms) = span.and_then(|s| i64::try_from(s.0).ok()) {
            *start = toml::Value::Integer(ms);
        }
    }
    if let (Some(expect), Some((_, node))) = (value.get_mut("expect"), root.get("expect")) {
        let mut flat = toml::Table::new();
        flatten(node, "", &mut flat);
        *expect = toml::Value::Table(flat);
    }
    value
}

fn flatten(node: &Node, prefix: &str, into: &mut toml::Table) {
    let Item::Table(entries) = item(node) else { return };
    for (key, node) in entries {
        let name = format!("{prefix}{}", key.text);
        match item(node) {
            Item::Table(_) => flatten(node, &format!("{name}."), into),
            other => {
                into.insert(name, other.value());
            }
        }
    }
}

fn placed(root: &Node, origin: &str, problems: Vec<SpecProblem>) -> Vec<FileError> {
    let mut errors: Vec<FileError> = problems
        .into_iter()
        .map(|p| {
            // What stands nowhere is missing from the file as a whole.
            let at = root.find(&p.field).unwrap_or(root.place);
            FileError::from_problem(origin, p).at(at.line, at.column)
        })
        .collect();
    errors.sort_by_key(|e| (e.line, e.column));
    errors
}
