//! The drills.

mod gpu;
mod host;
mod jobs;
mod site;

use super::real;
use super::scene::{
    Drill, Expect, ExpectedJobOutcome, ExpectedRemediation, Play, Scene, ScheduledEvent, Setting,
    Work, immediate_fault,
};
use muster_api::Inject;
use muster_model::units::Span;
use std::time::Duration;

/// All drills, in the order in which they are listed.
pub(crate) fn all() -> Vec<Drill> {
    let mut out = gpu::drills();
    out.extend(host::drills());
    out.extend(site::drills());
    out.extend(jobs::drills());
    out.extend(real::drills());
    out
}

/// A gang of so many nodes.
fn gang(nodes: u32) -> Work {
    Work { nodes, fails: None, retries: 3 }
}

fn drill(
    name: &'static str,
    about: &'static str,
    set: Setting,
    inject: fn(&Scene) -> Vec<ScheduledEvent>,
    expect: Expect,
) -> Drill {
    Drill { name, about, set, play: Play::Faults { inject, expect } }
}

/// For drills in which every node is heard: none is missed because the machine is busy.
const NEVER_MISSED: Span = Span::secs(30);

/// A gang on four of the nodes.
fn at_work() -> Setting {
    Setting { jobs: vec![gang(4)], ..Setting::default() }
}

/// The same; detectors that compare with the past have one.
fn long_at_work() -> Setting {
    Setting { warm: Duration::from_secs(14), ..at_work() }
}

/// An unhealthy part takes its node out of service, and the job goes on elsewhere.
fn unhealthy(
    kind: &'static str,
    about: fn(&Scene) -> String,
    remediation: ExpectedRemediation,
) -> Expect {
    Expect {
        kind: Some(kind),
        about,
        verdict: "infrastructure",
        remediation,
        job: ExpectedJobOutcome::Again,
    }
}

/// Nothing follows but a finding.
fn noted(kind: &'static str, about: fn(&Scene) -> String, verdict: &'static str) -> Expect {
    Expect {
        kind: Some(kind),
        about,
        verdict,
        remediation: ExpectedRemediation::Watched,
        job: ExpectedJobOutcome::GoesOn,
    }
}

/// The node that is struck: the second of the job.
fn second(s: &Scene) -> &str {
    s.of_job(1)
}

/// It has this fault, at once.
fn struck(s: &Scene, fault: Inject) -> Vec<ScheduledEvent> {
    vec![immediate_fault(second(s), fault)]
}

fn node(s: &Scene) -> String {
    format!("node:{}", second(s))
}

fn gpu3(s: &Scene) -> String {
    format!("gpu:{}/3", second(s))
}

fn job(s: &Scene) -> String {
    format!("job:{}", s.jobs.first().map_or(0, |j| j.number))
}
