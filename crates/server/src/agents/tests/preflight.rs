//! Large gangs wait for the test of their nodes.

use super::kit::{Line, node, ordered, script, site, spec};
use muster_link::messages::{FromAgent, FromServer};
use muster_model::command::Command;
use muster_model::ids::JobId;
use muster_model::policy::{FabricPolicy, SitePolicy};
use muster_model::spec::{JobSpec, Preflight};
use muster_model::units::Time;

/// Whether a job was ordered before the server answers.
async fn told_of(line: &mut Line, job: JobId) -> bool {
    line.say(FromAgent::Heartbeat { at: Time(1) }).await;
    let mut told = false;
    line.hear_of(|m| match m {
        FromServer::Desired { runs, .. } => {
            told |= runs.iter().any(|r| r.key.job == job);
            None
        }
        FromServer::Ack { .. } => Some(()),
        _ => None,
    })
    .await;
    told
}

#[tokio::test]
async fn a_large_gang_waits_for_the_test_of_its_nodes_unless_it_says_no() {
    let s = site().await;
    let (_a, mut one) = s.idle("n1").await;
    let (_b, mut two) = s.idle("n2").await;
    let mut asked = s.agents.preflights().expect("nobody tests yet");
    assert!(s.agents.preflights().is_none(), "there is one who tests");
    let fabric = FabricPolicy { preflight_nodes: 2, ..FabricPolicy::default() };
    let policy = SitePolicy { fabric, ..SitePolicy::default() };
    s.brain.system(Command::SetPolicy { policy: policy.into() }).await.unwrap();

    let no = JobSpec { preflight: Preflight::Skip, ..spec(2) };
    let no = s.submit(no, script("x")).await;
    for line in [&mut one, &mut two] {
        assert_eq!(ordered(line).await.key.job, no);
    }
    let large = s.submit(spec(2), script("x")).await;
    let key = asked.recv().await.expect("it is asked for");
    assert_eq!(key.job, large);
    for line in [&mut one, &mut two] {
        assert!(!told_of(line, large).await, "it is kept back");
    }
    s.agents.let_go(key, &[node("n1"), node("n2")]);
    for line in [&mut one, &mut two] {
        line.hear_of(|m| match m {
            FromServer::Desired { runs, .. } => runs.iter().any(|r| r.key == key).then_some(()),
            _ => None,
        })
        .await;
    }
    assert!(asked.try_recv().is_err(), "and asked for once");
}

#[tokio::test]
async fn nobody_waits_where_nobody_tests() {
    let s = site().await;
    let (_a, mut one) = s.idle("n1").await;
    let (_b, mut two) = s.idle("n2").await;
    let fabric = FabricPolicy { preflight_nodes: 2, ..FabricPolicy::default() };
    let policy = SitePolicy { fabric, ..SitePolicy::default() };
    s.brain.system(Command::SetPolicy { policy: policy.into() }).await.unwrap();
    // The tester has come and gone.
    drop(s.agents.preflights());
    let job = s.submit(spec(2), script("x")).await;
    for line in [&mut one, &mut two] {
        assert_eq!(ordered(line).await.key.job, job);
    }
}
