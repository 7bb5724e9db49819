//! `cargo xtask layers`: pure crates stay pure, arrows point down, files stay readable, what documents name
//! is there, what is built from others is what `deny.toml` allows, and it has the same features whichever
//! packages are chosen.

mod alike;
mod cycles;
mod examples;
mod files;
mod graph;
mod named;
mod rules;
pub(crate) mod source;

mod deny;

use anyhow::{Context, Result};
use std::fmt;
use std::process::ExitCode;

/// One thing that is wrong: what, where, and why it is forbidden.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// File and line, or package.
    pub place: String,
    /// What is there.
    pub what: String,
    /// Why it must not be.
    pub why: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}\n    {}", self.place, self.what, self.why)
    }
}

/// Checks the whole workspace and prints what it found.
pub fn run() -> Result<ExitCode> {
    let metadata = graph::metadata().context("cannot read the workspace's dependencies")?;
    let graph = graph::Graph::of(&metadata);
    let mut findings = graph::impure_dependencies(&graph);
    findings.extend(graph::arrows_that_do_not_point_down(&graph));
    findings.extend(deny::denied(&metadata, &crate::root())?);
    findings.extend(alike::differing(&metadata));
    let mut pure = 0;
    for package in graph.members() {
        if rules::PURE.contains(&package.name.as_str()) {
            pure += 1;
            findings.extend(files::purity_not_linted(&crate::root(), &package.dir)?);
        }
        findings.extend(files::lints_not_inherited(package)?);
        findings.extend(examples::runnable(&package.dir)?);
    }
    findings.extend(cycles::between_modules(&crate::root())?);
    findings.extend(named::missing(&crate::root())?);
    let (too_long, long) = files::long_files(&crate::root())?;
    findings.extend(too_long);
    for warning in &long {
        eprintln!("warning: {warning}");
    }
    findings.sort();
    findings.dedup();
    for finding in &findings {
        eprintln!("error: {finding}");
    }
    let packages = graph.members().count();
    if findings.is_empty() {
        println!("layers: {packages} packages, {pure} of them pure, nothing forbidden");
        Ok(ExitCode::SUCCESS)
    } else {
        println!("layers: {} forbidden", findings.len());
        Ok(ExitCode::FAILURE)
    }
}
