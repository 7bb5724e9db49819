//! Runbooks that come with Muster: docs/runbooks, inside the program.

use crate::parse::parse;
use crate::runbook::ParsedRunbook;

macro_rules! builtin {
    ($($name:literal)*) => {
        const BOOKS: &[(&str, &str)] =
            &[$(($name, include_str!(concat!("../../../docs/runbooks/", $name, ".md"))),)*];
    };
}

builtin! {
    "agent-hang"
    "approvals-wait"
    "automation-stopped"
    "bad-version"
    "breaker-open"
    "certificate-ends"
    "control-plane"
    "copied-identity"
    "driver-hang"
    "ecc-rate"
    "ecc-uncorrectable"
    "gpu-fault"
    "gpu-off-bus"
    "gpu-reset"
    "hang"
    "host"
    "job-crash"
    "job-slow"
    "leaf-loss"
    "lemon"
    "link-slow"
    "network-port"
    "no-spares"
    "node-killer"
    "node-lost"
    "nodes-out"
    "nodes-protected"
    "nvlink"
    "pcie"
    "power-brake"
    "rack-loss"
    "slo-burn"
    "slow-gpu"
    "storage"
    "stuck-queue"
    "thermal"
}

/// Names of all of them.
pub fn names() -> impl Iterator<Item = &'static str> {
    BOOKS.iter().map(|(n, _)| *n)
}

/// The text of one.
#[must_use]
pub fn text(name: &str) -> Option<&'static str> {
    BOOKS.iter().find(|(n, _)| *n == name).map(|(_, t)| *t)
}

/// All of them, read. A test sees to it that every one can be.
#[must_use]
pub fn books() -> Vec<ParsedRunbook> {
    BOOKS.iter().filter_map(|(n, t)| parse(n, t).ok()).collect()
}

/// The one that serves a failure mode.
#[must_use]
pub fn for_mode(mode: &str) -> Option<ParsedRunbook> {
    books().into_iter().find(|b| b.modes.iter().any(|m| m == mode))
}
