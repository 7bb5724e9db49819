//! What the second version's log holds beside the first one's: the kinds of event that came with
//! reserved starts, quotas, reservations, sizes and moves.

use crate::common::{TestSite, checkpoints, gang, limited, node};
use muster_engine::State;
use muster_model::command::{Command, Observed};
use muster_model::ids::{AttemptKey, JobId};
use muster_model::job::{SlotEnd, SlotState};
use muster_model::node::NodeRole;
use muster_model::spec::{Elastic, JobSpec, Priority, Spread, Tier};
use muster_model::units::Span;
use serde_json::json;

/// Everything that still runs or waits is over.
fn clear(w: &mut TestSite) {
    let open = |w: &TestSite| -> Vec<JobId> {
        w.engine.state().jobs.values().filter(|j| !j.state.is_final()).map(|j| j.id).collect()
    };
    for id in open(w) {
        w.ok(Command::Cancel { job: id });
    }
    for id in open(w) {
        let a = w.job(id).attempt.clone().unwrap();
        for (slot, state) in a.placement.slots.iter().zip(&a.slots) {
            if matches!(state, SlotState::Pending | SlotState::Running) {
                let observed = Observed::Ended(SlotEnd::Stopped);
                let (node, key) = (slot.node.clone(), w.key(id));
                w.ok(Command::SlotReport { node, key, observed, ago: None });
            }
        }
    }
}

fn low(spec: JobSpec) -> JobSpec {
    JobSpec { priority: Priority::Low, checkpoint: checkpoints(true), ..spec }
}

/// Goes on from the first version's life.
pub(crate) fn live(w: &mut TestSite) {
    clear(w);
    let key = AttemptKey { job: JobId(999), attempt: 1 };
    let observed = Observed::Ended(SlotEnd::Stopped);
    w.ok(Command::SlotReport { node: node(4), key, observed, ago: None });
    w.policy(|p| {
        p.idle.warn_after = Some(Span::mins(5));
        p.idle.end_after = Some(Span::mins(10));
        p.limits.queued_jobs_per_user = Some(100);
        p.power.feeds.insert("A".into(), 1_000_000);
    });
    w.quotas(&json!([
        {"name": "site", "gpus": [{"sku": "h100-sxm", "nominal": 8}]},
        {"name": "labs", "parent": "site", "shares": 2, "projects": ["research"],
         "gpus": [{"sku": "h100-sxm", "nominal": 16, "borrow": 32, "lend": 8}]},
    ]));
    w.ok(Command::MarkNode { node: node(3), role: Some(NodeRole::Spare), hazard: Some(20) });
    reserved_starts(w);
    preemption(w);
    sizes(w);
    idle(w);
    moves(w);
    reservations(w);
    // Something is left of everything.
    let mut part = JobSpec { tier: Tier::Spot, ..JobSpec::default() };
    part.gang.gpu_milli = Some(250);
    w.run(part);
    w.run(JobSpec { topology: spread(), ..limited(2, 8, 60) });
    w.submit(limited(3, 8, 30));
}

fn spread() -> muster_model::spec::TopologySpec {
    muster_model::spec::TopologySpec { spread: Some(Spread::Rack), ..Default::default() }
}

fn reserved_starts(w: &mut TestSite) {
    w.run(limited(3, 8, 60));
    let waits = w.submit(limited(4, 8, 60));
    w.ok(Command::UpdateJob {
        job: waits,
        priority: Some(Priority::High),
        time_limit: Some(Span::mins(30)),
    });
    clear(w);
}

fn preemption(w: &mut TestSite) {
    let a = w.run(low(gang(2, 8)));
    let b = w.run(low(gang(2, 8)));
    w.pass(Span::mins(10));
    let high = w.submit(JobSpec { priority: Priority::High, ..gang(4, 8) });
    w.ok(Command::Cancel { job: high });
    let high = w.submit(JobSpec { priority: Priority::Critical, ..gang(4, 8) });
    w.checkpoint(a, 10);
    w.stopped(a);
    w.sleep(Span::mins(1));
    w.stopped(b);
    w.start(high);
    clear(w);
}

fn sizes(w: &mut TestSite) {
    let elastic = Some(Elastic { min_nodes: 1, max_nodes: 4 });
    let id = w.run(JobSpec { elastic, ..low(gang(2, 8)) });
    w.sleep(Span::secs(630));
    w.checkpoint(id, 20);
    w.stopped(id);
    w.start(id);
    // A spare takes the place of a node that is lost.
    let gone = w.nodes_of(id)[0].clone();
    w.lose(&gone);
    clear(w);
    let i = crate::common::number(&gone);
    w.connect(i, 8, "b3", Vec::new());
}

fn idle(w: &mut TestSite) {
    let id = w.run(gang(1, 8));
    let (n, key, since) = (w.nodes_of(id)[0].clone(), w.key(id), Some(w.now));
    w.pass(Span::mins(6));
    w.ok(Command::IdleReport { node: n.clone(), key, since });
    w.pass(Span::mins(6));
    w.ok(Command::IdleReport { node: n, key, since });
    w.stopped(id);
}

fn moves(w: &mut TestSite) {
    w.policy(|p| p.defrag.enabled = true);
    let halves: Vec<JobId> = (0..8).map(|_| w.run(low(gang(1, 4)))).collect();
    for pair in halves.chunks(2) {
        w.finish(pair[0]);
    }
    w.pass(Span::mins(10));
    w.submit(JobSpec { priority: Priority::Low, ..gang(1, 8) });
    w.sleep(Span::mins(2));
    clear(w);
}

fn reservations(w: &mut TestSite) {
    let window = |w: &TestSite, name: &str| {
        json!({
            "name": name, "projects": ["research"], "over": {"gpus": {"count": 8}},
            "start": (w.now + Span::mins(30)).0, "length": "1h", "every": "1d", "lend": true,
        })
    };
    let r = window(w, "old");
    w.reserve(r);
    w.ok(Command::DeleteReservation { name: "old".parse().unwrap() });
    let r = window(w, "nightly");
    w.reserve(r);
    let endless: Vec<JobId> =
        (0..4).map(|_| w.run(JobSpec { checkpoint: checkpoints(true), ..gang(1, 8) })).collect();
    w.sleep(Span::mins(31));
    for id in endless {
        if w.job(id).attempt.as_ref().is_some_and(|a| a.stop.is_some()) {
            w.stopped(id);
        }
    }
    clear(w);
}

/// What users would notice, beside what the first version's facts say.
pub(crate) fn summary(s: &State) -> serde_json::Value {
    let jobs: Vec<_> = s
        .jobs
        .values()
        .map(|j| {
            let slots = j.attempt.as_ref().map(|a| a.placement.slots.clone());
            let past: Vec<_> = j.past.iter().map(|p| (p.no, p.verdict, &p.reason)).collect();
            json!({
                "id": j.id, "reserved_start": j.reserved_start, "size": j.size, "preemptions": j.preemptions,
                "idle_warned": j.idle_warned, "slots": slots, "past": past,
                "notice": j.attempt.as_ref().and_then(|a| a.notice.clone()),
            })
        })
        .collect();
    let nodes: Vec<_> = s.nodes.values().map(|n| json!([n.name, n.role, n.hazard])).collect();
    let usage: Vec<_> = s.usage.iter().map(|((p, u), v)| json!([p, u, v.rate, v.at])).collect();
    json!({
        "jobs": jobs, "nodes": nodes, "policy": s.policy, "quotas": s.quotas,
        "reservations": s.reservations, "usage": usage, "queue": s.queue().collect::<Vec<_>>(),
    })
}
