//! Objectives and the routing of alerts from files.
//!
//! ```yaml
//! kind: Objectives
//! defaults: 1                  # the set that comes with Muster; 0 for none of it
//! without: [inference-p99]     # but not these
//! objectives:
//!   - name: research-queue-wait
//!     owner: scheduling
//!     sli: {queue_wait: {under: 5m, class: high}}
//!     scope: {project: research}
//!     target: 95%
//!     window: 28d
//!     burn:
//!       - {factor: 14.4, long: 1h, short: 5m, urgency: page}
//!     gates: [rollouts]
//! ```
//!
//! OpenSLO files are read as well ([`crate::openslo`]).

use crate::document::{located, read, tree_of};
use crate::error::FileError;
use crate::openslo;
use crate::tree::Value;
use muster_model::alert::{Receiver, Route, Routing};
use muster_model::names::Label;
use muster_model::slo::{DEFAULTS, Objective, Objectives};
use serde::Deserialize;
use serde::de::IgnoredAny;

/// Reads objectives, in our own form or as OpenSLO.
///
/// # Errors
/// The first thing that is wrong, with its line.
pub fn objectives(text: &str, origin: &str) -> Result<Objectives, FileError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if openslo::is_openslo(text) {
        let objectives = openslo::read(text, origin)?;
        return Ok(Objectives { objectives, ..Objectives::default() });
    }
    // The list as people write it, or the whole as the API shows it.
    let root = tree_of(text, origin)?;
    let whole = match &root.value {
        Value::Table(e) => {
            e.iter().any(|(k, n)| k.text == "objectives" && matches!(n.value, Value::Table(_)))
        }
        _ => false,
    };
    let (out, prefix) = if whole {
        (read::<WholeFile>(&root, origin, "Objectives")?.objectives, "objectives.")
    } else {
        let f: ListFile = read(&root, origin, "Objectives")?;
        let defaults = f.defaults.unwrap_or(DEFAULTS);
        (Objectives { defaults, without: f.without, objectives: f.objectives }, "")
    };
    out.check().map_err(|p| located(&root, origin, prefix, p))?;
    Ok(out)
}

/// Reads who is notified of what.
///
/// # Errors
/// The first thing that is wrong, with its line.
pub fn routing(text: &str, origin: &str) -> Result<Routing, FileError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let root = tree_of(text, origin)?;
    let file: RoutingFile = read(&root, origin, "Routing")?;
    let (out, prefix) = match file.routing {
        Some(whole) => (whole, "routing."),
        None => (Routing { receivers: file.receivers, routes: file.routes }, ""),
    };
    out.check().map_err(|p| located(&root, origin, prefix, p))?;
    Ok(out)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ListFile {
    #[serde(rename = "kind")]
    _kind: IgnoredAny,
    #[serde(default)]
    defaults: Option<u32>,
    #[serde(default)]
    without: Vec<Label>,
    #[serde(default)]
    objectives: Vec<Objective>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WholeFile {
    #[serde(rename = "kind")]
    _kind: IgnoredAny,
    #[serde(default, rename = "version")]
    _version: Option<IgnoredAny>,
    // What the API shows beside that, so that what was printed can be applied again.
    #[serde(default, rename = "report")]
    _report: Option<IgnoredAny>,
    objectives: Objectives,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RoutingFile {
    #[serde(rename = "kind")]
    _kind: IgnoredAny,
    #[serde(default, rename = "version")]
    _version: Option<IgnoredAny>,
    #[serde(default, rename = "report")]
    _report: Option<IgnoredAny>,
    #[serde(default)]
    routing: Option<Routing>,
    #[serde(default)]
    receivers: Vec<Receiver>,
    #[serde(default)]
    routes: Vec<Route>,
}
