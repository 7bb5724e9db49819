//! Steps of a random life, and how each is taken.

use crate::common::{
    TestSite, checkpoints, connected, fault, gang, inventory, node, read_reservation, report,
};
use muster_model::command::{Answer, Command, Observed, Refusal};
use muster_model::ids::JobId;
use muster_model::job::{Exit, SlotEnd};
use muster_model::node::NodeRole;
use muster_model::policy::{BackfillMode, OverBudget, SitePolicy};
use muster_model::qualification::{Level as Test, Outcome};
use muster_model::spec::{Elastic, JobSpec, Priority, Tier};
use muster_model::topology::Level;
use muster_model::units::Span;
use proptest::prelude::*;
use serde_json::json;
use std::sync::Arc;

pub(crate) const NODES: usize = 6;

/// What a submitted job asks for, as numbers that are taken modulo what there is to choose from.
#[derive(Debug, Clone)]
pub(crate) struct Ask {
    nodes: u32,
    gpus: u32,
    shape: u8,
    limit: u8,
    class: u8,
    tier: u8,
    ckpt: u8,
    owner: u8,
    hold: bool,
    after: Option<u8>,
}

#[derive(Debug, Clone)]
pub(crate) enum Op {
    Submit(Ask),
    Cancel(u8),
    Hold(u8),
    Release(u8),
    Requeue(u8),
    Update {
        job: u8,
        class: Option<u8>,
        limit: Option<u8>,
    },
    Report {
        job: u8,
        slot: u8,
        how: u8,
    },
    Up(u8),
    Gone(u8),
    Saved(u8),
    Idle {
        job: u8,
        mins: Option<u8>,
    },
    Lose(u8),
    Back {
        node: u8,
        boot: bool,
        keep: bool,
    },
    Cordon(u8),
    Uncordon(u8),
    Drain(u8, bool),
    Undrain(u8),
    Mark {
        node: u8,
        role: u8,
        hazard: u16,
    },
    /// Asks for a test of a node, ends or cancels one, or reports a fault.
    Hardware {
        node: u8,
        what: u8,
        value: u8,
    },
    Policy(u8),
    Quotas(u8),
    Reserve {
        name: u8,
        over: u8,
        start: u8,
        length: u8,
        kind: u8,
    },
    Unreserve(u8),
    Pass(u32),
    Sleep(u8),
}

fn ask() -> impl Strategy<Value = Ask> {
    let numbers = (1u32..5, 0u32..9, any::<u8>(), any::<u8>(), any::<u8>(), any::<u8>());
    let rest = (any::<u8>(), any::<u8>(), any::<bool>(), proptest::option::of(any::<u8>()));
    (numbers, rest).prop_map(|((nodes, gpus, shape, limit, class, tier), rest)| Ask {
        nodes,
        gpus,
        shape,
        limit,
        class,
        tier,
        ckpt: rest.0,
        owner: rest.1,
        hold: rest.2 && gpus == 0,
        after: rest.3.filter(|a| a % 5 == 0),
    })
}

pub(crate) fn op() -> impl Strategy<Value = Op> {
    let n = 0u8..6;
    prop_oneof![
        12 => ask().prop_map(Op::Submit),
        1 => any::<u8>().prop_map(Op::Cancel),
        1 => any::<u8>().prop_map(Op::Hold),
        1 => any::<u8>().prop_map(Op::Release),
        1 => any::<u8>().prop_map(Op::Requeue),
        2 => (any::<u8>(), proptest::option::of(any::<u8>()), proptest::option::of(any::<u8>()))
            .prop_map(|(job, class, limit)| Op::Update { job, class, limit }),
        6 => (any::<u8>(), any::<u8>(), any::<u8>())
            .prop_map(|(job, slot, how)| Op::Report { job, slot, how }),
        8 => any::<u8>().prop_map(Op::Up),
        8 => any::<u8>().prop_map(Op::Gone),
        3 => any::<u8>().prop_map(Op::Saved),
        1 => (any::<u8>(), proptest::option::of(any::<u8>()))
            .prop_map(|(job, mins)| Op::Idle { job, mins }),
        2 => n.clone().prop_map(Op::Lose),
        3 => (n.clone(), any::<bool>(), any::<bool>())
            .prop_map(|(node, boot, keep)| Op::Back { node, boot, keep }),
        1 => n.clone().prop_map(Op::Cordon),
        1 => n.clone().prop_map(Op::Uncordon),
        1 => (n.clone(), any::<bool>()).prop_map(|(n, s)| Op::Drain(n, s)),
        1 => n.clone().prop_map(Op::Undrain),
        3 => (n.clone(), any::<u8>(), any::<u8>())
            .prop_map(|(node, what, value)| Op::Hardware { node, what, value }),
        1 => (n, any::<u8>(), 0u16..1100)
            .prop_map(|(node, role, hazard)| Op::Mark { node, role, hazard }),
        2 => any::<u8>().prop_map(Op::Policy),
        1 => any::<u8>().prop_map(Op::Quotas),
        2 => (any::<u8>(), any::<u8>(), any::<u8>(), any::<u8>(), any::<u8>())
            .prop_map(|(name, over, start, length, kind)| Op::Reserve { name, over, start, length, kind }),
        1 => any::<u8>().prop_map(Op::Unreserve),
        3 => (0u32..200_000).prop_map(Op::Pass),
        3 => any::<u8>().prop_map(Op::Sleep),
    ]
}

/// Six nodes in two leaves; half of the GPUs of the last one are cut into slices. Three projects.
pub(crate) fn site() -> TestSite {
    let mut w = TestSite::new(NODES, 8);
    w.project("blue");
    w.project("red");
    for i in 0..NODES {
        join(&mut w, i, "boot", Vec::new());
    }
    w
}

fn join(
    w: &mut TestSite,
    i: usize,
    boot: &str,
    observed: Vec<(muster_model::ids::AttemptKey, Observed)>,
) {
    let mut inventory = inventory(8);
    inventory.can.insert("qualify".into());
    if i == NODES - 1 {
        for g in inventory.gpus.iter_mut().skip(4) {
            g.mig = Some(true);
        }
    }
    w.ok(connected(i, boot, inventory, observed));
}

fn hardware(w: &mut TestSite, i: usize, what: u8, value: u8) -> Result<Answer, Refusal> {
    let id = w.testing(i).unwrap_or(u64::from(value));
    let node = node(i);
    match what % 6 {
        0 | 1 => {
            let level = [Test::Quick, Test::Standard, Test::Full][usize::from(value) % 3];
            w.send(Command::Qualify { node, level })
        }
        2 | 3 => {
            let outcome = [Outcome::Passed, Outcome::Failed, Outcome::Passed, Outcome::Skipped]
                [usize::from(value) % 4];
            let report = report(outcome, 500 + i64::from(value));
            w.send(Command::QualificationDone { node, id, report })
        }
        4 => w.send(Command::CancelQualification { node }),
        _ => {
            let job = w.engine.state().attempts_on(&node).next().and_then(|j| j.attempt_key());
            let mut seen = fault(&format!("xid-{}", value % 4), u32::from(value) % 8);
            seen.attempt = job;
            w.send(Command::FaultsSeen { node, faults: vec![seen] })
        }
    }
}

fn limit(n: u8) -> Option<Span> {
    [None, Some(1), Some(10), Some(60), Some(240)][usize::from(n) % 5].map(Span::mins)
}

fn class(n: u8) -> Priority {
    [Priority::Normal, Priority::Low, Priority::Normal, Priority::High, Priority::Critical]
        [usize::from(n) % 5]
}

fn spec(w: &TestSite, a: &Ask) -> JobSpec {
    let mut s = gang(a.nodes, a.gpus);
    match a.shape % 8 {
        0 => {
            s = JobSpec::default();
            s.gang.gpu_milli = Some(u32::from(a.limit) * 3 + 100);
        }
        1 => {
            s = JobSpec::default();
            let profile = ["1g.10gb", "2g.20gb", "3g.40gb", "7g.80gb"][usize::from(a.class) % 4];
            s.gang.mig = Some(profile.into());
        }
        2 => {
            let max_nodes = a.nodes + u32::from(a.class % 3);
            s.elastic = Some(Elastic { min_nodes: 1.max(a.nodes - 1), max_nodes });
        }
        3 if a.nodes == 1 => s.array = Some("0-2".into()),
        4 => s.topology.required = Some(Level::Leaf),
        _ => {}
    }
    s.time_limit = limit(a.limit);
    s.priority = class(a.class);
    s.tier = [Tier::OnDemand, Tier::OnDemand, Tier::Spot, Tier::OnDemand, Tier::Reserved]
        [usize::from(a.tier) % 5];
    let wanted = usize::from(a.ckpt) % 4;
    if wanted > 1 || s.elastic.is_some() {
        s.checkpoint = checkpoints(wanted > 2);
    }
    let project = ["default", "blue", "red"][usize::from(a.owner / 2) % 3];
    s.project = Some(project.parse().unwrap());
    s.hold = a.hold;
    s.after = a
        .after
        .and_then(|n| pick(w, n))
        .filter(|j| w.job(*j).project.as_str() == project)
        .map(|j| format!("{j}:any"))
        .into_iter()
        .collect();
    s
}

/// Some known job, chosen by a number.
fn pick(w: &TestSite, n: u8) -> Option<JobId> {
    let jobs = &w.engine.state().jobs;
    jobs.keys().nth(usize::from(n) % jobs.len().max(1)).copied()
}

/// Some job that holds nodes.
fn active(w: &TestSite, n: u8) -> Option<JobId> {
    let all: Vec<JobId> =
        w.engine.state().jobs.values().filter(|j| j.attempt.is_some()).map(|j| j.id).collect();
    all.get(usize::from(n) % all.len().max(1)).copied()
}

/// What the agents of a job's reachable nodes say of it.
fn all_report(w: &mut TestSite, id: JobId, observed: &Observed) {
    let key = w.key(id);
    for n in w.nodes_of(id) {
        if w.engine.state().nodes[&n].reachable {
            let observed = observed.clone();
            w.ok(Command::SlotReport { node: n, key, observed, ago: None });
        }
    }
}

fn policy(n: u8) -> SitePolicy {
    let mut p = SitePolicy::default();
    match n % 12 {
        0 => p.backfill.mode = BackfillMode::Easy,
        1 => p.backfill.mode = BackfillMode::Aggressive,
        2 => p.preemption.enabled = false,
        3 => p.preemption.min_run = Span(0),
        4 => p.elastic.settle = Span::secs(30),
        5 => {
            p.power.stagger_gpus = 8;
            p.power.feeds.insert("A".into(), 20_000);
        }
        6 => {
            p.power.feeds.insert("A".into(), 20_000);
            p.power.over_budget = OverBudget::Cap;
        }
        7 => {
            p.limits.running_jobs_per_user = Some(3);
            p.limits.gpus_per_user = Some(20);
            p.limits.queued_jobs_per_user = Some(6);
        }
        8 => {
            p.limits.max_time = Some(Span::hours(2));
            p.idle.warn_after = Some(Span::mins(5));
            p.idle.end_after = Some(Span::mins(20));
        }
        9 => {
            p.fair_share.half_life = Span::mins(30);
            p.backfill.reserved_starts = 2;
            p.backfill.patience = Span(0);
        }
        _ => {}
    }
    p
}

fn quotas(n: u8) -> serde_json::Value {
    match n % 4 {
        0 => json!([]),
        1 => json!([
            {"name": "site"},
            {"name": "b", "parent": "site", "projects": ["blue"], "gpus": [{"nominal": 16}]},
            {"name": "r", "parent": "site", "projects": ["red"], "gpus": [{"nominal": 16}]},
        ]),
        2 => json!([
            {"name": "b", "projects": ["blue"], "order": "strict", "gpus": [{"nominal": 16, "borrow": 0}]},
            {"name": "r", "projects": ["red"], "gpus": [{"nominal": 8, "tier": "spot"}]},
        ]),
        _ => json!([
            {"name": "site", "gpus": [{"sku": "h100-sxm", "nominal": 8}]},
            {"name": "b", "parent": "site", "shares": 3, "projects": ["blue"],
             "gpus": [{"sku": "h100-sxm", "nominal": 16, "borrow": 8, "lend": 8}]},
            {"name": "r", "parent": "site", "projects": ["red", "default"],
             "gpus": [{"sku": "h100-sxm", "nominal": 16}]},
        ]),
    }
}

fn reserve(w: &mut TestSite, name: u8, (over, start, length, kind): (u8, u8, u8, u8)) {
    let over = match over % 4 {
        0 => json!({"gpus": {"count": 12}}),
        1 => json!({"domain": {"level": "rack", "path": "k1"}}),
        n => json!({"nodes": [node(n.into()), node(usize::from(over) % NODES)]}),
    };
    let mut r = json!({
        "name": format!("r{}", name % 3),
        "over": over,
        "start": (w.now + Span::mins(u64::from(start) * 2)).0,
        "length": format!("{}m", u64::from(length) + 1),
        "overrun": if kind & 1 == 0 { "stop" } else { "finish" },
        "lend": kind & 2 != 0,
    });
    if kind & 4 != 0 {
        r["projects"] = json!(["blue"]);
    }
    if kind & 8 != 0 {
        r["every"] = json!("8h");
    }
    let reservation = Arc::new(read_reservation(&r));
    let _ = w.send(Command::SetReservation { reservation });
}

/// Takes one step. Refusals are part of life.
pub(crate) fn play(w: &mut TestSite, op: &Op) {
    let _: Result<Answer, Refusal> = match op.clone() {
        Op::Submit(a) => {
            let s = spec(w, &a);
            let user = if a.owner % 2 == 0 { "ann" } else { "bob" };
            let _ = w.try_as(user, s);
            return;
        }
        Op::Cancel(n) => on(w, n, |job| Command::Cancel { job }),
        Op::Hold(n) => on(w, n, |job| Command::Hold { job }),
        Op::Release(n) => on(w, n, |job| Command::Release { job }),
        Op::Requeue(n) => on(w, n, |job| Command::Requeue { job }),
        Op::Update { job, class: c, limit: l } => on(w, job, |job| Command::UpdateJob {
            job,
            priority: c.map(class),
            time_limit: l.and_then(limit),
        }),
        Op::Up(n) => {
            let Some(id) = active(w, n) else { return };
            return all_report(w, id, &Observed::Running);
        }
        Op::Gone(n) => {
            let Some(id) = active(w, n) else { return };
            let stopping = w.job(id).attempt.as_ref().is_some_and(|a| a.stop.is_some());
            let end = if stopping { SlotEnd::Stopped } else { SlotEnd::Ok };
            return all_report(w, id, &Observed::Ended(end));
        }
        Op::Saved(n) => {
            let Some(id) = active(w, n) else { return };
            let step = w.engine.seq().0;
            return w.checkpoint(id, step);
        }
        Op::Idle { job, mins } => {
            let Some(id) = active(w, job) else { return };
            let (node, key) = (w.nodes_of(id)[0].clone(), w.key(id));
            let since = mins.map(|m| w.now - Span::mins(m.into()));
            w.send(Command::IdleReport { node, key, since })
        }
        Op::Report { job, slot, how } => {
            let Some(id) = active(w, job) else { return };
            let nodes = w.nodes_of(id);
            let n = nodes[usize::from(slot) % nodes.len()].clone();
            if !w.engine.state().nodes[&n].reachable {
                return;
            }
            let observed = match how % 8 {
                0..=3 => Observed::Running,
                4 | 5 => Observed::Ended(SlotEnd::Ok),
                6 => Observed::Ended(SlotEnd::Failed {
                    exit: Exit { rank: 0, code: Some(1), signal: None, note: String::new() },
                }),
                _ => Observed::Ended(SlotEnd::fault("x")),
            };
            let key = w.key(id);
            // Some nodes say when it was, some of them nonsense.
            let ago = (how >= 64).then(|| Span::secs(u64::from(slot)));
            w.send(Command::SlotReport { node: n, key, observed, ago })
        }
        Op::Lose(n) => w.send(Command::NodeLost { node: node(n.into()), last_seen: w.now }),
        Op::Back { node: n, boot, keep } => {
            let name = node(n.into());
            let all = w.engine.state().jobs.values().filter_map(|j| j.attempt_key());
            let here = all.filter(|k| keep && w.nodes_of(k.job).contains(&name));
            let observed = here.map(|k| (k, Observed::Running)).collect();
            return join(w, n.into(), if boot { "b1" } else { "boot" }, observed);
        }
        Op::Cordon(n) => w.send(Command::Cordon { node: node(n.into()), reason: "r".into() }),
        Op::Uncordon(n) => w.send(Command::Uncordon { node: node(n.into()) }),
        Op::Drain(n, stop) => {
            w.send(Command::Drain { node: node(n.into()), reason: "r".into(), stop })
        }
        Op::Undrain(n) => w.send(Command::Undrain { node: node(n.into()) }),
        Op::Mark { node: n, role, hazard } => {
            let role = [NodeRole::Normal, NodeRole::Spare, NodeRole::Lemon, NodeRole::Suspect]
                [usize::from(role) % 4];
            let (node, role, hazard) = (node(n.into()), Some(role), Some(hazard.into()));
            w.send(Command::MarkNode { node, role, hazard })
        }
        Op::Hardware { node: n, what, value } => hardware(w, n.into(), what, value),
        Op::Policy(n) => w.send(Command::SetPolicy { policy: Arc::new(policy(n)) }),
        Op::Quotas(n) => return w.quotas(&quotas(n)),
        Op::Reserve { name, over, start, length, kind } => {
            return reserve(w, name, (over, start, length, kind));
        }
        Op::Unreserve(n) => {
            w.send(Command::DeleteReservation { name: format!("r{}", n % 3).parse().unwrap() })
        }
        Op::Pass(ms) => return w.pass(Span(ms.into())),
        Op::Sleep(mins) => return w.sleep(Span::mins(mins.into())),
    };
}

fn on(w: &mut TestSite, n: u8, f: impl FnOnce(JobId) -> Command) -> Result<Answer, Refusal> {
    pick(w, n).map_or(Ok(Answer::Done), |job| w.send(f(job)))
}
