//! Drills in which many nodes are hit at once.

use super::{NEVER_MISSED, at_work, drill, gang, long_at_work};
use crate::scene::{
    Drill, Expect, ExpectedJobOutcome, ExpectedRemediation, Scene, ScheduledEvent, Setting,
    immediate_fault,
};
use muster_api::{Inject, Node};
use muster_model::entity::Entity;
use muster_model::topology::Level;
use muster_model::units::Span;

const LONG: Span = Span::hours(10);

/// The last node: the job is elsewhere.
fn last(s: &Scene) -> Option<&Node> {
    s.nodes.last()
}

fn domain(s: &Scene, level: Level) -> String {
    let of = |n: &Node| Some(Entity::domain(level, &n.name.parse().ok()?, &n.location));
    last(s).and_then(of).map_or_else(String::new, |e| e.to_string())
}

fn crash(nodes: Vec<&str>) -> Vec<ScheduledEvent> {
    nodes.into_iter().map(|n| immediate_fault(n, Inject::Crash { down: LONG })).collect()
}

/// A version that only some nodes have.
const NEW: &str = "590.10.01";

/// Four idle nodes that share a leaf, a rack or a feed with one other of them at most.
fn apart(s: &Scene) -> Vec<&str> {
    let busy = s.all_of_job();
    let mut some: Vec<&Node> = Vec::new();
    for n in s.nodes.iter().filter(|n| !busy.contains(&n.name.as_str())) {
        let at = &n.location;
        let few = |same: &dyn Fn(&Node) -> bool| some.iter().filter(|o| same(o)).count() < 2;
        let fits = few(&|o| o.location.leaf == at.leaf)
            && few(&|o| o.location.rack == at.rack)
            && few(&|o| o.location.feed == at.feed);
        if fits && some.len() < 4 {
            some.push(n);
        }
    }
    some.into_iter().map(|n| n.name.as_str()).collect()
}

fn lost(kind: &'static str, about: fn(&Scene) -> String, verdict: &'static str) -> Expect {
    Expect {
        kind: Some(kind),
        about,
        verdict,
        remediation: ExpectedRemediation::Watched,
        job: ExpectedJobOutcome::Any,
    }
}

fn all(s: &Scene, fault: &Inject) -> Vec<ScheduledEvent> {
    s.nodes.iter().map(|n| immediate_fault(&n.name, fault.clone())).collect()
}

fn storage(kind: &'static str) -> Expect {
    Expect {
        kind: Some(kind),
        about: |_| "storage:/data".into(),
        verdict: "storage",
        remediation: ExpectedRemediation::Untouched,
        job: ExpectedJobOutcome::GoesOn,
    }
}

pub(super) fn drills() -> Vec<Drill> {
    vec![
        drill(
            "leaf-loss",
            "all nodes below one leaf are gone at once",
            at_work(),
            |s| {
                let leaf = last(s).map(|n| n.location.leaf.clone());
                crash(s.nodes_where(|n| Some(&n.location.leaf) == leaf.as_ref()))
            },
            lost("leaf-loss", |s| domain(s, Level::Leaf), "leaf"),
        ),
        drill(
            "rack-loss",
            "all nodes of one rack are gone at once",
            Setting { nodes: 32, jobs: vec![gang(4)], ..Setting::default() },
            |s| {
                let rack = last(s).map(|n| n.location.rack.clone());
                crash(s.nodes_where(|n| Some(&n.location.rack) == rack.as_ref()))
            },
            lost("rack-loss", |s| domain(s, Level::Rack), "rack"),
        ),
        drill(
            "feed-loss",
            "all nodes of one power feed are gone at once",
            Setting { nodes: 32, jobs: vec![gang(4)], ..Setting::default() },
            |s| {
                let feed = last(s).map(|n| n.location.feed.clone());
                crash(s.nodes_where(|n| Some(&n.location.feed) == feed.as_ref()))
            },
            lost(
                "feed-loss",
                |s| format!("feed:{}", last(s).map_or("", |n| n.location.feed.as_str())),
                "feed",
            ),
        ),
        drill(
            "bad-version",
            "nodes with a new driver are gone one after another, wherever they are",
            Setting { nodes: 32, jobs: vec![gang(4)], ..Setting::default() },
            |s| {
                let new = || Inject::Version { component: "driver".into(), version: NEW.into() };
                let some = apart(s);
                let mut blows: Vec<ScheduledEvent> =
                    some.iter().map(|n| immediate_fault(n, new())).collect();
                blows.extend(crash(some));
                blows
            },
            lost("bad-version", |_| format!("version:driver/{NEW}"), "version"),
        ),
        drill(
            "storage-stall",
            "a file system answers nobody",
            at_work(),
            |s| all(s, &Inject::StorageStall { mount: "/data".into(), length: LONG }),
            storage("storage-stall"),
        ),
        drill(
            "storage-slow",
            "a file system is many times slower than it was",
            long_at_work(),
            |s| all(s, &Inject::StorageSlow { mount: "/data".into(), factor: 40 }),
            storage("storage-slow"),
        ),
        drill(
            "poisoned-detector",
            "half the fleet is reported unhealthy at once: automation must stop itself",
            Setting { lost_after: NEVER_MISSED, ..at_work() },
            |s| {
                let half = s.nodes.iter().step_by(2);
                half.map(|n| immediate_fault(&n.name, Inject::Xid { gpu: 0, code: 119 })).collect()
            },
            Expect {
                kind: Some("detector-storm"),
                about: |_| "site".into(),
                verdict: "site",
                remediation: ExpectedRemediation::Stopped,
                job: ExpectedJobOutcome::Any,
            },
        ),
    ]
}
