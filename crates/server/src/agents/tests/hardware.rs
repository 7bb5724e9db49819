//! Faults and tests of nodes, between an agent and the log.

use super::support::{Agent, Line, node, ordered, script, site, spec};
use crate::agents::TestProgress;
use muster_link::messages::{FromAgent, FromServer};
use muster_model::command::{Command, Observed};
use muster_model::fault::{FaultAction, FaultClass, FaultSource, ObservedFault};
use muster_model::qualification::{Check, Level, Outcome, Qualification};
use muster_model::units::{Span, Time};

fn fault(code: &str, gpu: u32) -> ObservedFault {
    ObservedFault {
        code: code.into(),
        at: Time(5),
        count: 1,
        source: FaultSource::Kernel,
        class: FaultClass::Bus,
        action: FaultAction::Reboot,
        gpu: Some(gpu),
        pid: None,
        attempt: None,
        rank: None,
        text: "x".repeat(5000),
    }
}

fn report(outcome: Outcome) -> Box<Qualification> {
    Box::new(Qualification {
        level: Level::Quick,
        started_at: Time(1),
        took: Span::secs(30),
        outcome,
        checks: vec![Check {
            name: "gemm-bf16".into(),
            gpu: Some(3),
            outcome,
            value: None,
            unit: String::new(),
            expected: None,
            floor: None,
            note: "made up".into(),
        }],
    })
}

#[tokio::test]
async fn faults_reach_the_log_once_and_with_the_attempt_they_hit() {
    let s = site().await;
    let (_agent, mut line) = s.idle("n1").await;
    let job = s.submit(spec(1), script("sleep 9")).await;
    let key = ordered(&mut line).await.key;
    line.say(FromAgent::Report { key, observed: Observed::Running, ago: None }).await;
    let own = ObservedFault { attempt: Some(key), ..fault("xid-31", 0) };
    line.say(FromAgent::Faults { faults: vec![own, fault("xid-79", 2)] }).await;
    for n in 0..100 {
        let again = ObservedFault { at: Time(6 + n), ..fault("xid-79", 2) };
        line.say(FromAgent::Faults { faults: vec![again] }).await;
    }
    s.until(|st| st.faults.len() == 2).await;
    // Everything said before a heartbeat is taken in when it is answered.
    line.say(FromAgent::Heartbeat { at: s.brain.now() }).await;
    line.hear_of(|m| matches!(m, FromServer::Ack { .. }).then_some(())).await;
    let (kept, hit) = s.brain.read(|st| {
        let all: Vec<_> = st.faults_of(&node("n1")).cloned().collect();
        let hit = all.iter().find(|f| f.fault.attempt == Some(key)).cloned();
        (all, hit)
    });
    assert_eq!(kept.len(), 2, "repeats are folded");
    assert!(kept.iter().all(|f| f.fault.text.len() == 500));
    assert_eq!(hit.unwrap().project, Some(s.job(job).project.clone()));
    assert_eq!(s.agents.folded_faults(), 100);
}

#[tokio::test]
async fn a_fault_that_is_sent_again_after_a_new_connection_is_one_fault() {
    let mut s = site().await;
    let (mut agent, mut line) = s.idle("n1").await;
    line.say(FromAgent::Faults { faults: vec![fault("xid-79", 2)] }).await;
    s.until(|st| st.faults.len() == 1).await;
    drop(line);
    // The agent does not know whether it arrived.
    let (mut line, _) = agent.greet().await;
    line.say(FromAgent::Faults { faults: vec![fault("xid-79", 2)] }).await;
    line.say(FromAgent::Heartbeat { at: s.brain.now() }).await;
    line.hear_of(|m| matches!(m, FromServer::Ack { .. }).then_some(())).await;
    assert_eq!(s.agents.folded_faults(), 0, "it is no repeat that is written down later");
    drop(line);
    s.restart().await;
    agent.addr.clone_from(&s.addr);
    let (mut line, _) = agent.greet().await;
    line.say(FromAgent::Faults { faults: vec![fault("xid-79", 2), fault("xid-31", 0)] }).await;
    s.until(|st| st.faults.values().any(|f| f.fault.code == "xid-31")).await;
    assert_eq!(s.brain.read(|st| st.faults.len()), 2, "and after a restart of the server");
}

/// An agent that can test its node.
async fn able(s: &super::support::Site) -> (Agent, Line) {
    let mut agent = s.enrolled("n1").await;
    agent.hello.inventory.can.insert("qualify".into());
    let (line, _) = agent.greet().await;
    (agent, line)
}

async fn asked(line: &mut Line) -> u64 {
    line.hear_of(|m| match m {
        FromServer::Qualify { id, level: Level::Quick } => Some(id),
        _ => None,
    })
    .await
}

async fn over(line: &mut Line) -> u64 {
    line.hear_of(|m| match m {
        FromServer::QualifyOver { id } => Some(id),
        FromServer::Qualify { id, .. } => panic!("test {id} is asked for again"),
        _ => None,
    })
    .await
}

#[tokio::test]
async fn a_test_is_asked_for_until_its_end_is_in_the_log() {
    let s = site().await;
    let (mut agent, mut line) = able(&s).await;
    s.brain.system(Command::Qualify { node: node("n1"), level: Level::Quick }).await.unwrap();
    let id = asked(&mut line).await;
    line.say(FromAgent::Qualifying { id, done: 1, of: 6, doing: "ecc".into(), eta_s: Some(28) })
        .await;
    let before = s.brain.durable();
    let reported = async {
        loop {
            if let Some(p) = s.agents.test_progress(&node("n1")) {
                return p;
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    let TestProgress { done, of, .. } =
        tokio::time::timeout(std::time::Duration::from_secs(60), reported).await.unwrap();
    assert_eq!((done, of, s.brain.durable()), (1, 6, before), "progress is not in the log");

    // The agent starts anew in the middle: it knows of no test, and is asked again.
    agent.hello.instance = "first".into();
    drop(line);
    let (mut line, _) = agent.greet().await;
    assert_eq!(asked(&mut line).await, id);
    // Only the line was lost: it goes on with the test that it reported.
    drop(line);
    agent.hello.qualifying = Some(id);
    let (mut line, _) = agent.greet().await;
    line.say(FromAgent::Qualified { id, report: report(Outcome::Failed) }).await;
    assert_eq!(over(&mut line).await, id);
    let n = s.brain.read(|st| st.nodes[&node("n1")].clone());
    assert_eq!(n.qualifying, None);
    assert_eq!(n.qualified.as_ref().unwrap().report.outcome, Outcome::Failed);
    assert!(n.cordon.as_ref().unwrap().reason.contains("gemm-bf16 of GPU 3"), "{:?}", n.cordon);
    // The answer was lost on the way: it says so again, and nothing is written twice.
    drop(line);
    let end = s.brain.durable();
    let (mut line, _) = agent.greet().await;
    line.say(FromAgent::Qualified { id, report: report(Outcome::Failed) }).await;
    assert_eq!(over(&mut line).await, id);
    line.say(FromAgent::Heartbeat { at: s.brain.now() }).await;
    line.hear_of(|m| matches!(m, FromServer::Ack { .. }).then_some(())).await;
    let ends = s.brain.read(|st| st.nodes[&node("n1")].past_figures.len());
    assert_eq!(ends, 1, "after {end}");
}

#[tokio::test]
async fn a_test_that_is_cancelled_is_asked_to_end() {
    let s = site().await;
    let (_agent, mut line) = able(&s).await;
    s.brain.system(Command::Qualify { node: node("n1"), level: Level::Quick }).await.unwrap();
    let id = asked(&mut line).await;
    s.brain.system(Command::CancelQualification { node: node("n1") }).await.unwrap();
    assert_eq!(over(&mut line).await, id);
    // What it measured meanwhile counts for nothing.
    line.say(FromAgent::Qualified { id, report: report(Outcome::Failed) }).await;
    line.say(FromAgent::Heartbeat { at: s.brain.now() }).await;
    line.hear_of(|m| matches!(m, FromServer::Ack { .. }).then_some(())).await;
    assert!(s.brain.read(|st| st.nodes[&node("n1")].qualified.is_none()));
}
