//! Files of operators: the scheduling policy, the tree of quotas, reservations. YAML or JSON, in
//! the shape that people write or in the one that `-o yaml` prints.
//!
//! ```yaml
//! kind: Quotas
//! tree:
//!   - {name: lab, gpus: [{nominal: 64}]}
//!   - {name: nlp, parent: lab, shares: 2, projects: [nlp], gpus: [{sku: h100-sxm, nominal: 32}]}
//! ---
//! kind: Policy
//! backfill: {reserved_starts: 256}
//! defrag: {enabled: true}
//! ---
//! kind: Reservation
//! name: night-training
//! projects: [nlp]
//! over: {gpus: {count: 64, sku: h100-sxm}}
//! start: 2026-02-01T20:00:00Z
//! length: 10h
//! every: 24h
//! ```
//!
//! Each of the three is a file of its own.

use crate::de;
use crate::error::{FileError, shown};
use crate::tree::{self, Node, Value};
use muster_model::names::{Label, ProjectName};
use muster_model::policy::{
    Backfill, Defrag, ElasticPolicy, FabricPolicy, FairShare, Hazard, Idle, Limits, Power,
    Preemption, QualificationPolicy, Reliability, SitePolicy,
};
use muster_model::quota::{Quota, Quotas};
use muster_model::reservation::{Overrun, Reservation, ReservationTarget};
use muster_model::spec::SpecProblem;
use muster_model::{Span, Time};
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};

/// Largest file.
pub const MAX_FILE: usize = 8 << 20;

/// A reservation from a file. When it begins is known by a clock that is not here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReservationFile {
    /// All but the start, which is zero.
    pub reservation: Reservation,
    /// The start as written: a time, `now`, or `+2h`.
    pub start: String,
    /// Line and column of the start.
    pub start_at: (u32, u32),
}

/// Reads a policy. What the file leaves out gets its default.
///
/// # Errors
/// The first thing that is wrong, with its line.
pub fn policy(text: &str, origin: &str) -> Result<SitePolicy, FileError> {
    let root = tree_of(text, origin)?;
    let file: PolicyFile = read(&root, origin, "Policy")?;
    let (out, prefix) = match file.policy {
        Some(whole) => (whole, "policy."),
        None => {
            let out = SitePolicy {
                backfill: file.backfill,
                fair_share: file.fair_share,
                preemption: file.preemption,
                elastic: file.elastic,
                defrag: file.defrag,
                power: file.power,
                limits: file.limits,
                idle: file.idle,
                hazard: file.hazard,
                reliability: file.reliability,
                qualification: file.qualification,
                remediations: file.remediations,
                fabric: file.fabric,
            };
            (out, "")
        }
    };
    out.check().map_err(|p| located(&root, origin, prefix, p))?;
    Ok(out)
}

/// Reads a tree of quotas.
///
/// # Errors
/// The first thing that is wrong, with its line.
pub fn quotas(text: &str, origin: &str) -> Result<Quotas, FileError> {
    let root = tree_of(text, origin)?;
    let file: QuotasFile = read(&root, origin, "Quotas")?;
    let (out, prefix) = match (file.quotas, file.tree) {
        (Some(whole), _) => (whole, "quotas."),
        (None, Some(tree)) => (Quotas { tree }, ""),
        (None, None) => {
            return Err(tree::missing_field(origin, "tree")
                .hint("write `tree: []` to have no quotas at all"));
        }
    };
    out.check().map_err(|p| located(&root, origin, prefix, p))?;
    Ok(out)
}

/// Reads a reservation, or several under `items`.
///
/// # Errors
/// The first thing that is wrong, with its line.
pub fn reservations(text: &str, origin: &str) -> Result<Vec<ReservationFile>, FileError> {
    let root = tree_of(text, origin)?;
    let many = matches!(&root.value, Value::Table(e) if e.iter().any(|(k, _)| k.text == "items"));
    let written: Vec<(String, WrittenReservation)> = if many {
        let list: WrittenList = de::read(&root, origin)?;
        let named = |(i, r)| (format!("items[{i}]."), r);
        list.items.into_iter().enumerate().map(named).collect()
    } else {
        vec![(String::new(), read(&root, origin, "Reservation")?)]
    };
    let mut out = Vec::with_capacity(written.len());
    for (prefix, w) in written {
        let reservation = Reservation {
            name: w.name,
            projects: w.projects,
            reason: w.reason,
            over: w.over,
            start: Time(0),
            length: w.length,
            every: w.every,
            overrun: w.overrun,
            lend: w.lend,
        };
        reservation.check().map_err(|p| located(&root, origin, &prefix, p))?;
        let place = root.find(&format!("{prefix}start")).unwrap_or_default();
        out.push(ReservationFile {
            reservation,
            start: w.start,
            start_at: (place.line, place.column),
        });
    }
    Ok(out)
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct PolicyFile {
    #[serde(rename = "kind")]
    _kind: Option<IgnoredAny>,
    #[serde(rename = "version")]
    _version: Option<IgnoredAny>,
    policy: Option<SitePolicy>,
    backfill: Backfill,
    fair_share: FairShare,
    preemption: Preemption,
    elastic: ElasticPolicy,
    defrag: Defrag,
    power: Power,
    limits: Limits,
    idle: Idle,
    hazard: Hazard,
    reliability: Reliability,
    qualification: QualificationPolicy,
    remediations: muster_model::remediation::Remediations,
    fabric: FabricPolicy,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct QuotasFile {
    #[serde(rename = "kind")]
    _kind: Option<IgnoredAny>,
    #[serde(rename = "version")]
    _version: Option<IgnoredAny>,
    #[serde(rename = "report")]
    _report: Option<IgnoredAny>,
    #[serde(rename = "warnings")]
    _warnings: Option<IgnoredAny>,
    quotas: Option<Quotas>,
    tree: Option<Vec<Quota>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenList {
    #[serde(default, rename = "kind")]
    _kind: Option<IgnoredAny>,
    #[serde(default, rename = "cursor")]
    _cursor: Option<IgnoredAny>,
    items: Vec<WrittenReservation>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenReservation {
    name: Label,
    #[serde(default)]
    projects: Vec<ProjectName>,
    #[serde(default)]
    reason: String,
    over: ReservationTarget,
    start: String,
    length: Span,
    #[serde(default)]
    every: Option<Span>,
    #[serde(default)]
    overrun: Overrun,
    #[serde(default)]
    lend: bool,
    // What the API shows beside that, so that what was printed can be applied again.
    #[serde(default, rename = "kind")]
    _kind: Option<IgnoredAny>,
    #[serde(default, rename = "id")]
    _id: Option<IgnoredAny>,
    #[serde(default, rename = "state")]
    _state: Option<IgnoredAny>,
    #[serde(default, rename = "version")]
    _version: Option<IgnoredAny>,
    #[serde(default, rename = "maintenance")]
    _maintenance: Option<IgnoredAny>,
    #[serde(default, rename = "window")]
    _window: Option<IgnoredAny>,
    #[serde(default, rename = "nodes")]
    _nodes: Option<IgnoredAny>,
    #[serde(default, rename = "stops")]
    _stops: Option<IgnoredAny>,
    #[serde(default, rename = "not_serving")]
    _not_serving: Option<IgnoredAny>,
}

pub(crate) fn tree_of(text: &str, origin: &str) -> Result<Node, FileError> {
    if text.len() > MAX_FILE {
        return Err(FileError::new(origin, format!("the file is larger than {MAX_FILE} bytes")));
    }
    let root =
        tree::yaml(text, origin).map_err(|e| match e.message.contains("one job a file") {
            true => FileError { message: "the file has several documents".into(), ..e },
            false => e,
        })?;
    match &root.value {
        Value::Table(entries) if !entries.is_empty() => Ok(root),
        Value::Null | Value::Table(_) => Err(FileError::new(origin, "the file is empty")),
        _ => Err(FileError::new(origin, format!("the file is {}, not a table", root.kind()))
            .at(root.place.line, root.place.column)
            .hint("write fields like `kind: …`")),
    }
}

/// Reads a file that must say its kind, so that one is not taken for another.
pub(crate) fn read<T: DeserializeOwned>(
    root: &Node,
    origin: &str,
    kind: &str,
) -> Result<T, FileError> {
    of_kind(root, origin, kind)?;
    de::read(root, origin)
}

fn of_kind(root: &Node, origin: &str, kind: &str) -> Result<(), FileError> {
    let Value::Table(entries) = &root.value else {
        return Err(FileError::new(origin, "the file is empty"));
    };
    let Some((_, node)) = entries.iter().find(|(k, _)| k.text == "kind") else {
        return Err(tree::missing_field(origin, "kind")
            .at(1, 1)
            .hint(format!("write `kind: {kind}` in the first line")));
    };
    let error = match &node.value {
        Value::Text(word) if word == kind => return Ok(()),
        Value::Text(word) | Value::Bare(word) => {
            let message = format!("the file is of kind `{}`, not `{kind}`", shown(word));
            FileError::new(origin, message).hint(match word.as_str() {
                "Policy" => "`muster policy apply` takes it",
                "Quotas" => "`muster quota apply` takes it",
                "Reservation" => "`muster reservation apply` takes it",
                "Objectives" | "SLO" => "`muster slo apply` takes it",
                "Job" => "`muster submit` takes it",
                _ => "",
            })
        }
        _ => FileError::new(origin, "`kind` is not a word").hint(format!("write `kind: {kind}`")),
    };
    Err(error.at(node.place.line, node.place.column))
}

/// A problem that the model found, with the place of its field in the file.
pub(crate) fn located(root: &Node, origin: &str, prefix: &str, mut p: SpecProblem) -> FileError {
    p.field = format!("{prefix}{}", p.field);
    let place = root.find(&p.field);
    let error = FileError::from_problem(origin, p);
    match place {
        Some(place) => error.at(place.line, place.column),
        None => error,
    }
}
