//! What becomes of nodes whose log was restored, or lost its end.

use super::support::{Agent, Line, Site, hello, node, ordered, script, site, spec};
use muster_link::messages::{FromAgent, FromServer};
use muster_link::pki::{Identity, new_request};
use muster_link::tls::{Trust, client_config};
use muster_model::command::{Command, Observed};
use muster_model::ids::{AttemptKey, Epoch, JobId, Seq, SiteId};
use muster_model::job::{JobState, SlotEnd, Verdict};
use muster_model::policy::{OnJoin, SitePolicy};
use muster_model::units::Span;

/// A new life of the log begins, as after a restore.
async fn begin_life(s: &Site) {
    let (epoch, server) = (Epoch(s.brain.epoch().0 + 5_000_000), "test".to_owned());
    s.brain.system(Command::Lead { epoch, server, restored: true }).await.unwrap();
}

/// Nothing is ordered there: the next message answers the heartbeat.
async fn is_left_alone(s: &Site, line: &mut Line) {
    line.say(FromAgent::Heartbeat { at: s.brain.now() }).await;
    let next = line.hear().await;
    assert!(matches!(next, FromServer::Ack { .. }), "no orders: {next:?}");
}

#[tokio::test]
async fn ranks_of_a_lost_life_are_kept_although_their_node_has_not_noted_how_far_it_saw() {
    let s = site().await;
    let (mut agent, mut line) = s.idle("n1").await;
    let job = s.submit(spec(1), script("sleep 1000")).await;
    let known = s.runs(job, &mut line).await;
    let placed = s.job(job).attempt.as_ref().unwrap().placed_at;
    while s.brain.now() <= placed {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    begin_life(&s).await;
    // As it was before any of that.
    (agent.hello.seq, agent.hello.epoch) = (Seq(1), Epoch(1));
    agent.hello.observed = vec![(known, Observed::Running)];
    let (_line, welcome) = agent.greet().await;
    assert!(
        matches!(welcome, FromServer::Welcome { protected: false, .. }),
        "what the log placed there goes on: {welcome:?}"
    );
    let later = AttemptKey { attempt: known.attempt + 1, ..known };
    agent.hello.observed.push((later, Observed::Running));
    let (mut line, welcome) = agent.greet().await;
    assert!(matches!(welcome, FromServer::Welcome { protected: true, .. }), "{welcome:?}");
    is_left_alone(&s, &mut line).await;
    assert!(s.brain.read(|st| st.nodes[&node("n1")].protected));
}

#[tokio::test]
async fn a_job_that_the_restored_log_does_not_know_goes_on_until_an_operator_decides() {
    let s = site().await;
    let mut agent = s.enrolled("n1").await;
    begin_life(&s).await;
    (agent.hello.seq, agent.hello.epoch) = (Seq(1), Epoch(1));
    let foreign = AttemptKey { job: JobId(77), attempt: 1 };
    agent.hello.observed = vec![(foreign, Observed::Running)];
    let (mut line, welcome) = agent.greet().await;
    assert!(matches!(welcome, FromServer::Welcome { protected: true, .. }), "{welcome:?}");
    is_left_alone(&s, &mut line).await;
    s.brain.system(Command::Reconcile { node: node("n1") }).await.unwrap();
    let next = line.hear().await;
    assert!(matches!(next, FromServer::Welcome { protected: false, .. }), "{next:?}");
    assert!(matches!(line.hear().await, FromServer::Desired { runs, .. } if runs.is_empty()));
}

#[tokio::test]
async fn a_node_that_was_reconciled_learns_where_the_log_ends_now() {
    let s = site().await;
    let mut agent = s.enrolled("n1").await;
    agent.hello.seq = Seq(1_000_000);
    let (mut line, welcome) = agent.greet().await;
    assert!(matches!(welcome, FromServer::Welcome { protected: true, .. }), "{welcome:?}");
    s.brain.system(Command::Reconcile { node: node("n1") }).await.unwrap();
    let next = line.hear().await;
    let FromServer::Welcome { protected: false, seq, epoch, .. } = next else { panic!("{next:?}") };
    assert!(seq < Seq(1_000_000));
    drop(line);
    // As it says after a restart of either, with what it wrote down.
    (agent.hello.seq, agent.hello.epoch) = (seq, epoch);
    let (_line, welcome) = agent.greet().await;
    assert!(matches!(welcome, FromServer::Welcome { protected: false, .. }), "{welcome:?}");
}

#[tokio::test]
async fn ranks_of_a_lost_life_that_end_while_their_node_is_held_do_not_keep_it_from_work() {
    let s = site().await;
    let mut agent = s.enrolled("n1").await;
    begin_life(&s).await;
    (agent.hello.seq, agent.hello.epoch) = (Seq(1), Epoch(1));
    let key = AttemptKey { job: JobId(77), attempt: 1 };
    // Its ranks are gone, and their output is still to be sent: until then it counts as running.
    agent.hello.observed = vec![(key, Observed::Running)];
    let (mut line, welcome) = agent.greet().await;
    assert!(matches!(welcome, FromServer::Welcome { protected: true, .. }), "{welcome:?}");
    let end = SlotEnd::no_server(Span::secs(8));
    line.say(FromAgent::Report { key, observed: Observed::Ended(end), ago: None }).await;
    is_left_alone(&s, &mut line).await;
    assert!(
        s.brain.read(|st| st.nodes[&node("n1")].orphans.contains(&key)),
        "nothing is concluded"
    );
    s.brain.system(Command::Reconcile { node: node("n1") }).await.unwrap();
    // The agent says nothing more: it reported the end already.
    let forgotten = line.hear_of(|m| match m {
        FromServer::Forget { keys } => Some(keys),
        _ => None,
    });
    assert_eq!(forgotten.await, [key]);
    s.until(|st| st.nodes[&node("n1")].orphans.is_empty()).await;
    s.submit(spec(1), script("sleep 1000")).await;
    ordered(&mut line).await;
}

#[tokio::test]
async fn what_ended_on_a_held_node_in_the_lost_life_is_not_begun_again_under_its_number() {
    let s = site().await;
    let (mut agent, mut line) = s.idle("n1").await;
    let job = s.submit(spec(1), script("sleep 1000")).await;
    s.runs(job, &mut line).await;
    drop(line);
    begin_life(&s).await;
    (agent.hello.seq, agent.hello.epoch) = (Seq(1), Epoch(1));
    let foreign = AttemptKey { job: JobId(77), attempt: 1 };
    agent.hello.observed = vec![(foreign, Observed::Running)];
    let (mut line, welcome) = agent.greet().await;
    assert!(matches!(welcome, FromServer::Welcome { protected: true, .. }), "{welcome:?}");
    is_left_alone(&s, &mut line).await;
    assert_eq!(s.job(job).state, JobState::Running, "nothing is concluded");
    s.brain.system(Command::Reconcile { node: node("n1") }).await.unwrap();
    s.until(|st| st.jobs[&job].state == JobState::Queued).await;
    let ended = s.job(job).past.last().cloned().unwrap();
    assert_eq!(ended.verdict, Verdict::Platform, "{ended:?}");
    assert!(ended.reason.starts_with("the log was restored from a backup"), "{}", ended.reason);
    let next = line.hear_of(|m| match m {
        FromServer::Desired { runs, .. } => Some(runs),
        _ => None,
    });
    assert!(next.await.is_empty(), "it is not ordered there");
}

#[tokio::test]
async fn a_node_that_was_held_is_tested_when_the_ranks_of_the_lost_life_are_gone() {
    let s = site().await;
    let mut policy = SitePolicy::default();
    policy.qualification.on_join = OnJoin::Quick;
    s.brain.system(Command::SetPolicy { policy: policy.into() }).await.unwrap();
    let mut agent = s.enrolled("n1").await;
    begin_life(&s).await;
    (agent.hello.seq, agent.hello.epoch) = (Seq(1), Epoch(1));
    agent.hello.inventory.can = ["qualify".to_owned()].into();
    let key = AttemptKey { job: JobId(77), attempt: 1 };
    agent.hello.observed = vec![(key, Observed::Running)];
    let (mut line, welcome) = agent.greet().await;
    assert!(matches!(welcome, FromServer::Welcome { protected: true, .. }), "{welcome:?}");
    s.brain.system(Command::Reconcile { node: node("n1") }).await.unwrap();
    let next = line.hear().await;
    assert!(matches!(next, FromServer::Welcome { protected: false, .. }), "{next:?}");
    let next = line.hear().await;
    assert!(matches!(next, FromServer::Desired { .. }), "they are stopped first: {next:?}");
    let observed = Observed::Ended(SlotEnd::Stopped);
    line.say(FromAgent::Report { key, observed, ago: None }).await;
    while !matches!(line.hear().await, FromServer::Qualify { .. }) {}
}

/// An agent with a certificate of this site that the log knows nothing of.
fn stranger(s: &Site, name: &str) -> Agent {
    let (key_pem, csr) = new_request(&node(name)).unwrap();
    let (site_id, now) = (SiteId("site-1".into()), s.brain.now());
    let cert_pem =
        s.authority.sign_node(&csr, &node(name), None, &site_id, Span::mins(5), now).unwrap();
    let id = Identity { cert_pem, key_pem };
    let config = client_config(Some(&id), &Trust::Ca(s.authority.ca_pem().into())).unwrap();
    Agent { hello: hello(name), config, addr: s.addr.clone() }
}

#[tokio::test]
async fn a_node_whose_enrolment_is_lost_is_let_in_and_held() {
    let s = site().await;
    let agent = stranger(&s, "n1");
    let first = agent.greet().await.1;
    assert!(matches!(first, FromServer::Refused { .. }), "the log lost nothing: {first:?}");
    begin_life(&s).await;
    let (mut line, welcome) = agent.greet().await;
    assert!(matches!(welcome, FromServer::Welcome { protected: true, .. }), "{welcome:?}");
    is_left_alone(&s, &mut line).await;
    let n = s.brain.read(|st| st.nodes[&node("n1")].clone());
    assert!(n.protected && n.reachable && n.qualifying.is_none() && n.enrolment.is_some());
    // The name is this one's from now on.
    drop(line);
    match stranger(&s, "n1").greet().await.1 {
        FromServer::Refused { code, message, .. } => {
            assert_eq!(code, "identity");
            assert!(message.contains("earlier enrolment"), "{message}");
        }
        other => panic!("{other:?}"),
    }
}
