//! From what nodes report to findings, and from remediations to what nodes do.

use super::support::{Agent, Line, Site, node, ordered, script, site, spec};
use crate::acts::{self, ActsConfig};
use muster_link::messages::{self as link, FromAgent, FromServer, ProgressReport, Telemetry};
use muster_model::command::{Command, Observed};
use muster_model::fault::{FaultAction, FaultClass, FaultSource, ObservedFault};
use muster_model::ids::AttemptKey;
use muster_model::job::{JobState, SlotEnd};
use muster_model::remediation::{Act, Action, RemediationStep};
use muster_model::units::{Span, Time};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

fn fault(code: &str, class: FaultClass, action: FaultAction, gpu: u32, at: Time) -> ObservedFault {
    ObservedFault {
        code: code.into(),
        at,
        count: 1,
        source: FaultSource::Kernel,
        class,
        action,
        gpu: Some(gpu),
        pid: None,
        attempt: None,
        rank: None,
        text: format!("{code} on GPU {gpu}"),
    }
}

/// A site with a second node: automation never takes all of them.
async fn two() -> Site {
    let s = site().await;
    drop(s.idle("n2").await);
    s
}

/// An agent that may be asked to restart its node and to test it.
async fn able(s: &Site, name: &str) -> (Agent, Line) {
    let mut agent = s.enrolled(name).await;
    agent.hello.inventory.can.extend(["reboot", "reset", "qualify"].map(String::from));
    let (line, _) = agent.greet().await;
    (agent, line)
}

/// Waits for the remediation that a fault calls for, and approves it.
async fn approved(s: &Site, name: &str, action: Action) -> u64 {
    let name = node(name);
    let waits = |st: &muster_engine::State| {
        let all = st.health.remediations_of(&name);
        let one = all.filter(|r| r.action == action && r.step == RemediationStep::Approval).last();
        one.map(|r| r.id)
    };
    s.until(|st| waits(st).is_some()).await;
    let id = s.brain.read(waits).unwrap();
    s.brain.system(Command::ApproveRemediation { id }).await.unwrap();
    id
}

async fn next_act(line: &mut Line) -> (u64, Act) {
    line.hear_of(|m| match m {
        FromServer::Act { id, act } => Some((id, act)),
        _ => None,
    })
    .await
}

async fn over(line: &mut Line) -> u64 {
    line.hear_of(|m| match m {
        FromServer::ActOver { id } => Some(id),
        FromServer::Act { id, .. } => panic!("act {id} is asked for again"),
        _ => None,
    })
    .await
}

/// Everything that was said before a heartbeat comes before its answer.
async fn quiet(s: &Site, line: &mut Line) {
    line.say(FromAgent::Heartbeat { at: s.brain.now() }).await;
    line.hear_of(|m| match m {
        FromServer::Ack { .. } => Some(()),
        FromServer::Act { id, .. } | FromServer::ActOver { id } => panic!("act {id} again"),
        _ => None,
    })
    .await;
}

#[tokio::test]
async fn an_act_is_reported_on_every_connection_until_its_end_is_in_the_log() {
    let s = two().await;
    let (agent, mut line) = able(&s, "n1").await;
    let off = fault("xid-79", FaultClass::Bus, FaultAction::Reboot, 2, s.brain.now());
    line.say(FromAgent::Faults { faults: vec![off] }).await;
    approved(&s, "n1", Action::Reboot).await;
    let (id, act) = next_act(&mut line).await;
    assert_eq!(act, Act::Reboot { node: node("n1"), boot: "boot-1".into() });
    quiet(&s, &mut line).await;

    // The line breaks before anything was done: it is sent again, under the same number.
    drop(line);
    let (mut line, _) = agent.greet().await;
    assert_eq!(next_act(&mut line).await, (id, act));
    line.say(FromAgent::Acted { id, ok: false, message: "x".repeat(5000) }).await;
    assert_eq!(over(&mut line).await, id);
    let end = s.brain.read(|st| st.health.acts[&id].ended.clone()).unwrap();
    assert!(!end.ok && end.message.len() <= 500);
    quiet(&s, &mut line).await;

    // The answer was lost on the way: it says so again, and learns again that it may forget it.
    drop(line);
    let (mut line, _) = agent.greet().await;
    line.say(FromAgent::Acted { id, ok: true, message: String::new() }).await;
    let again = line
        .hear_of(|m| match m {
            FromServer::ActOver { id } => Some(id),
            _ => None,
        })
        .await;
    assert_eq!(again, id);
    assert!(s.brain.read(|st| !st.health.acts[&id].ended.as_ref().unwrap().ok), "ended once");
}

#[tokio::test]
async fn a_node_that_comes_back_with_another_boot_was_restarted() {
    let s = two().await;
    let (mut agent, mut line) = able(&s, "n1").await;
    let off = fault("xid-79", FaultClass::Bus, FaultAction::Reboot, 2, s.brain.now());
    line.say(FromAgent::Faults { faults: vec![off] }).await;
    approved(&s, "n1", Action::Reboot).await;
    let (id, _) = next_act(&mut line).await;
    drop(line);
    agent.hello.boot = "boot-2".into();
    let (mut line, _) = agent.greet().await;
    s.until(|st| st.health.acts[&id].ended.as_ref().is_some_and(|e| e.ok)).await;
    // The agent remembers on its side, and hears that it may forget.
    line.say(FromAgent::Acted { id, ok: true, message: "restarted".into() }).await;
    assert_eq!(over(&mut line).await, id);
}

#[tokio::test]
async fn an_agent_that_may_not_is_not_asked() {
    let s = two().await;
    let (_agent, mut line) = s.idle("n1").await;
    let off = fault("xid-79", FaultClass::Bus, FaultAction::Reboot, 2, s.brain.now());
    line.say(FromAgent::Faults { faults: vec![off] }).await;
    approved(&s, "n1", Action::Reboot).await;
    let failed = |a: &Arc<muster_model::remediation::AskedAct>| {
        a.ended.as_ref().is_some_and(|e| !e.ok && e.message.contains("--allow-reboot"))
    };
    s.until(|st| st.health.acts.values().any(&failed)).await;
    quiet(&s, &mut line).await;
}

#[tokio::test]
async fn a_ticket_is_opened_when_a_part_is_to_be_replaced() {
    let s = two().await;
    let dir = tempfile::tempdir().unwrap();
    let stop = CancellationToken::new();
    let run = || {
        let config = ActsConfig::default();
        acts::start(s.brain.clone(), dir.path().into(), config, stop.clone()).unwrap();
    };
    let (_agent, mut line) = able(&s, "n1").await;
    let rows = fault("xid-64", FaultClass::Memory, FaultAction::Replace, 3, s.brain.now());
    line.say(FromAgent::Faults { faults: vec![rows] }).await;
    let remediation = approved(&s, "n1", Action::Replace).await;
    let asked = |st: &muster_engine::State| {
        let mut tickets = st.health.acts.values();
        tickets.rfind(|a| matches!(a.act, Act::Ticket { .. })).cloned()
    };
    s.until(|st| asked(st).is_some()).await;
    let id = s.brain.read(asked).unwrap().id;
    // Two at once stand for one that took over before the other had stopped.
    run();
    run();
    s.until(|st| asked(st).is_some_and(|a| a.ended.as_ref().is_some_and(|e| e.ok))).await;
    let name = format!("tickets/{remediation}-{id}.json");
    let text = std::fs::read_to_string(dir.path().join(&name)).unwrap();
    assert!(text.contains("GPU-n1-3") && text.contains("xid-64"), "{text}");
    assert_eq!(s.brain.read(asked).unwrap().ended.clone().unwrap().message, name);
    stop.cancel();
}

const COLUMNS: [&str; 5] = ["util", "power", "sm_clock", "temp", "mem_used"];

/// A row of a busy, healthy node by its own clock.
fn row(at: Time) -> FromAgent {
    let gpu = [99.0, 600.0, 1755.0, 62.0, 60_000.0].map(Some).to_vec();
    FromAgent::Telemetry(Box::new(Telemetry {
        at,
        columns: COLUMNS.map(String::from).to_vec(),
        gpus: vec![gpu; 8],
        host: BTreeMap::new(),
    }))
}

/// A step of a second and a half: whoever computes for less waits for the others.
fn step(key: AttemptKey, rank: u32, step: u64, compute: f64) -> FromAgent {
    let stages = [("compute", compute), ("comm", 1.5 - compute)];
    let stages = stages.map(|(k, v)| (k.to_owned(), v)).into_iter().collect();
    let report = ProgressReport::Step { step, t: Some(1.5), stages, loss: None };
    FromAgent::Progress { key, rank, report }
}

#[tokio::test]
async fn a_rank_that_holds_up_its_gang_becomes_a_finding_that_names_its_gpu() {
    let s = site().await;
    let mut lines = Vec::new();
    for n in 1..=4 {
        let mut agent = s.enrolled(&format!("n{n}")).await;
        agent.hello.inventory.simulated = true;
        lines.push(agent.greet().await.0);
    }
    let job = s.submit(spec(4), script("train")).await;
    let mut ranks = Vec::new();
    let mut key = None;
    for line in &mut lines {
        let order = ordered(line).await;
        ranks.push(order.detail.unwrap().slot.first_rank);
        key = Some(order.key);
        line.say(FromAgent::Report { key: order.key, observed: Observed::Running, ago: None })
            .await;
    }
    let key = key.unwrap();
    s.until(|st| st.jobs[&job].state == JobState::Running).await;
    // Their clocks run faster than ours; the third rank of the second node is slow.
    let slow = ranks[1] + 2;
    let start = s.brain.now();
    let found =
        |st: &muster_engine::State| st.health.open().find(|f| f.seen.kind == "straggler").cloned();
    let mut n = 0;
    while s.brain.read(found).is_none() {
        assert!(n < 10_000, "nothing was found in {n} steps: {:?}", s.agents.health());
        n += 1;
        for (line, first) in lines.iter_mut().zip(&ranks) {
            if n % 4 == 0 {
                line.say(row(start + Span(1500 * n))).await;
            }
            for rank in *first..first + 4 {
                let compute = if rank == slow { 1.45 } else { 1.0 };
                line.say(step(key, rank, n, compute)).await;
            }
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let f = s.brain.read(found).unwrap();
    assert_eq!((f.seen.attempt, f.seen.rank), (Some(key), Some(slow)), "{f:?}");
    assert_eq!(f.seen.entity.node(), Some(&node("n2")), "{f:?}");
    assert!(f.seen.last_seen <= s.brain.now(), "by this server's clock");
    assert_eq!(s.brain.read(|st| st.health.open_count()), 1, "nothing else is wrong");
    assert_eq!(s.agents.health().dropped, 0);
}

#[tokio::test]
async fn the_first_step_after_a_failure_ends_its_recovery() {
    let s = site().await;
    let (_one, mut one) = able(&s, "n1").await;
    let job = s.submit(spec(1), script("train")).await;
    let key = s.runs(job, &mut one).await;
    one.say(step(key, 0, 1, 1.0)).await;
    let (_two, mut two) = able(&s, "n2").await;
    let off = fault("xid-79", FaultClass::Bus, FaultAction::Reboot, 2, s.brain.now());
    let hit = ObservedFault { attempt: Some(key), rank: Some(0), ..off };
    one.say(FromAgent::Faults { faults: vec![hit] }).await;
    loop {
        if matches!(ordered(&mut one).await.action, link::Action::Stop { .. }) {
            break;
        }
    }
    one.say(FromAgent::Report { key, observed: Observed::Ended(SlotEnd::Stopped), ago: None })
        .await;
    let key = ordered(&mut two).await.key;
    assert_eq!(key.attempt, 2);
    // One rank is ahead of the report that all of them are up.
    two.say(step(key, 0, 1, 1.0)).await;
    two.say(FromAgent::Report { key, observed: Observed::Running, ago: None }).await;
    s.until(|st| st.jobs[&job].recovery.is_some_and(|r| r.started_at.is_some())).await;
    // It steps on, as ranks do.
    let mut n = 1;
    while s.job(job).recovery.is_some_and(|r| r.working_at.is_none()) {
        n += 1;
        assert!(n < 6000, "{:?}", s.job(job).recovery);
        two.say(step(key, 0, n, 1.0)).await;
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let counted = async {
        while s.agents.health().parts.iter().any(|p| p.count == 0) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), counted).await.unwrap();
    assert!(s.agents.health().parts.iter().all(|p| p.count == 1), "each part once");
    assert!(s.agents.health().opened.values().sum::<u64>() >= 1);
}
