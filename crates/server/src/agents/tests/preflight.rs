//! Large gangs wait for the test of their nodes.

use super::support::{Line, Site, ordered, script, site, spec};
use crate::fabric::Fabric;
use muster_health::fabric::path_history::FabricHistory;
use muster_link::messages::{FromAgent, FromServer};
use muster_model::command::Command;
use muster_model::ids::{AttemptKey, JobId};
use muster_model::policy::{FabricPolicy, SitePolicy};
use muster_model::preflight::PreflightReport;
use muster_model::spec::{JobSpec, Preflight};
use muster_model::units::{Span, Time};

/// Gangs of two nodes are tested, for longer than any test here takes.
async fn gangs_are_tested(s: &Site) {
    let within = Span::mins(10);
    let fabric = FabricPolicy { preflight_nodes: 2, within, ..FabricPolicy::default() };
    let policy = SitePolicy { fabric, ..SitePolicy::default() };
    s.brain.system(Command::SetPolicy { policy: policy.into() }).await.unwrap();
}

/// The attempt of a job, once it waits for its test.
async fn waits(s: &Site, job: JobId) -> AttemptKey {
    s.until(|st| st.preflights().any(|k| k.job == job)).await;
    s.job(job).attempt_key().unwrap()
}

/// Whether a job was ordered before the server answers.
async fn got_order(line: &mut Line, job: JobId) -> bool {
    line.say(FromAgent::Heartbeat { at: Time(1) }).await;
    let mut named = false;
    line.hear_of(|m| match m {
        FromServer::Desired { runs, .. } => {
            named |= runs.iter().any(|r| r.key.job == job);
            None
        }
        FromServer::Ack { .. } => Some(()),
        _ => None,
    })
    .await;
    named
}

/// Waits until an attempt is ordered.
async fn is_ordered(line: &mut Line, key: AttemptKey) {
    line.hear_of(|m| match m {
        FromServer::Desired { runs, .. } => runs.iter().any(|r| r.key == key).then_some(()),
        _ => None,
    })
    .await;
}

#[tokio::test]
async fn a_large_gang_waits_for_the_test_of_its_nodes_unless_it_says_no() {
    let s = site().await;
    let (_a, mut one) = s.idle("n1").await;
    let (_b, mut two) = s.idle("n2").await;
    gangs_are_tested(&s).await;

    let no = JobSpec { preflight: Preflight::Skip, ..spec(2) };
    let no = s.submit(no, script("x")).await;
    for line in [&mut one, &mut two] {
        assert_eq!(ordered(line).await.key.job, no);
    }
    let large = s.submit(spec(2), script("x")).await;
    let key = waits(&s, large).await;
    for line in [&mut one, &mut two] {
        assert!(!got_order(line, large).await, "it is kept back");
    }
    let report = PreflightReport::Passed;
    s.brain.system(Command::PreflightDone { key, report }).await.unwrap();
    for line in [&mut one, &mut two] {
        is_ordered(line, key).await;
    }
}

#[tokio::test]
async fn a_restart_in_the_middle_keeps_holding_the_start_and_then_it_starts() {
    let mut s = site().await;
    let (mut a, one) = s.idle("n1").await;
    let (mut b, two) = s.idle("n2").await;
    gangs_are_tested(&s).await;
    let large = s.submit(spec(2), script("x")).await;
    let key = waits(&s, large).await;
    drop((one, two));
    s.restart().await;
    assert_eq!(waits(&s, large).await, key);
    // Both were found good lately: their test is over as soon as it can begin.
    let past = tempfile::tempdir().unwrap();
    let file = past.path().join("fabric.json");
    let mut book = FabricHistory::default();
    for name in ["n1", "n2"] {
        book.good(name, s.brain.now());
    }
    std::fs::write(&file, serde_json::to_vec(&book).unwrap()).unwrap();
    Fabric::open(s.brain.clone(), s.agents.clone(), Some(file)).guard();
    for agent in [&mut a, &mut b] {
        agent.addr.clone_from(&s.addr);
    }
    let (mut one, _) = a.greet().await;
    assert!(!got_order(&mut one, large).await, "the other node is not there yet");
    assert_eq!(waits(&s, large).await, key);
    let (mut two, _) = b.greet().await;
    for line in [&mut one, &mut two] {
        is_ordered(line, key).await;
    }
}
