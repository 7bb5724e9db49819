use super::support::{Agent, Line, hello, node, site};
use crate::agents::identity;
use muster_engine::{AllocationBlocker, NOT_CONNECTED};
use muster_link::messages::{FromAgent, FromServer, PROTOCOL};
use muster_link::pki::{Authority, Identity, new_request};
use muster_link::tls::{Trust, client_config};
use muster_link::token::JoinToken;
use muster_model::FailureMode;
use muster_model::clock::ClockStep;
use muster_model::command::Command;
use muster_model::entity::Entity;
use muster_model::event::Event;
use muster_model::ids::{Seq, SiteId};
use muster_model::node::Stage;
use muster_model::units::{Span, Time};
use std::time::Duration;

fn refusal(m: &FromServer) -> (&str, &str, bool) {
    match m {
        FromServer::Refused { code, message, retry } => (code, message, *retry),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn an_agent_joins_says_hello_and_its_node_is_ready() {
    let s = site().await;
    let (_agent, mut line) = s.idle("n1").await;
    let n = s.brain.read(|st| st.nodes[&node("n1")].clone());
    assert!(n.reachable && n.stage == Stage::Ready);
    assert_eq!(n.inventory.gpus.len(), 8);
    line.say(FromAgent::Heartbeat { at: s.brain.now() }).await;
    assert!(
        matches!(line.hear().await, FromServer::Ack { seq, uncertain: false } if seq >= Seq(1))
    );
    let info = s.agents.session(&node("n1")).unwrap();
    assert!(info.skew_ms.abs() < 10_000);
    assert_eq!(s.agents.sessions(), [info]);
}

#[tokio::test]
async fn a_token_that_is_wrong_expired_or_used_up_lets_nobody_in() {
    let s = site().await;
    let unknown = JoinToken::generate(s.authority.pin()).unwrap();
    let (m, _) = s.join(&unknown, "n1", "m").await;
    assert_eq!(refusal(&m).0, "token");
    let mut forged = s.token(None, None).await;
    forged.secret = unknown.secret.clone();
    let (m, _) = s.join(&forged, "n1", "m").await;
    assert!(refusal(&m).1.contains("unknown"), "{m:?}");

    let short = s.token(None, Some(Span(1))).await;
    tokio::time::sleep(Duration::from_millis(20)).await;
    let (m, _) = s.join(&short, "n1", "m").await;
    assert!(refusal(&m).1.contains("expired"), "{m:?}");

    let once = s.token(Some(1), None).await;
    assert!(matches!(s.join(&once, "n1", "m").await.0, FromServer::Joined { .. }));
    let (m, _) = s.join(&once, "n2", "m").await;
    assert!(refusal(&m).1.contains("used up"), "{m:?}");
    assert_eq!(s.brain.read(|st| st.nodes.len()), 1);
}

#[tokio::test]
async fn a_name_belongs_to_one_machine() {
    let s = site().await;
    let t = s.token(None, None).await;
    assert!(matches!(s.join(&t, "n1", "m1").await.0, FromServer::Joined { .. }));
    let (m, _) = s.join(&t, "n1", "m2").await;
    assert_eq!(refusal(&m).0, "identity");
    assert!(refusal(&m).1.contains("muster node retire n1"));
    let again = s.join(&t, "n1", "m1").await.0;
    assert!(matches!(again, FromServer::Joined { .. }), "the answer may have been lost: {again:?}");
}

#[tokio::test]
async fn a_join_token_cannot_take_the_name_of_a_live_node() {
    let s = site().await;
    let t = s.token(None, None).await;
    let (key, csr) = new_request(&node("n1")).unwrap();
    let m = s.join_with(&t, "n1", "machine-n1", csr).await;
    let FromServer::Joined { cert, ca, .. } = m else { panic!("{m:?}") };
    let id = Identity { cert_pem: cert, key_pem: key.clone() };
    let config = client_config(Some(&id), &Trust::Ca(ca)).unwrap();
    let agent = Agent { hello: hello("n1"), config, addr: s.addr.clone() };
    let (line, m) = agent.greet().await;
    assert!(matches!(m, FromServer::Welcome { .. }), "{m:?}");
    // Whoever reads the log knows the machine's identity, but has not its key.
    let (m, _) = s.join(&t, "n1", "machine-n1").await;
    assert_eq!(refusal(&m).0, "identity");
    assert!(refusal(&m).1.contains("another key") && refusal(&m).1.contains("node retire n1"));
    // Not while it is away either; with its key it may ask for a new certificate.
    drop(line);
    s.lose("n1").await;
    assert_eq!(refusal(&s.join(&t, "n1", "machine-n1").await.0).0, "identity");
    let csr = muster_link::pki::request_with(&node("n1"), &key).unwrap();
    let m = s.join_with(&t, "n1", "machine-n1", csr).await;
    assert!(matches!(m, FromServer::Joined { .. }), "{m:?}");
    assert!(matches!(agent.greet().await.1, FromServer::Welcome { .. }));
}

#[tokio::test]
async fn a_certificate_ends_when_its_node_is_retired() {
    let s = site().await;
    let (agent, mut line) = s.idle("n1").await;
    // Renewed certificates end as well, whatever their key.
    let (key_pem, csr) = new_request(&node("n1")).unwrap();
    line.say(FromAgent::Renew { csr }).await;
    let FromServer::Renewed { cert } = line.hear().await else { panic!() };
    let id = Identity { cert_pem: cert, key_pem };
    let config = client_config(Some(&id), &Trust::Ca(s.authority.ca_pem().into())).unwrap();
    let renewed = Agent { hello: hello("n1"), config, addr: s.addr.clone() };
    let (mut line, m) = renewed.greet().await;
    assert!(matches!(m, FromServer::Welcome { .. }), "{m:?}");
    let drain = Command::Drain { node: node("n1"), reason: "old".into(), stop: true };
    s.brain.system(drain).await.unwrap();
    s.brain.system(Command::Retire { node: node("n1") }).await.unwrap();
    line.is_closed().await;
    // The name is given to another machine, whose identity the old one can read and claim.
    let t = s.token(None, None).await;
    assert!(matches!(s.join(&t, "n1", "m2").await.0, FromServer::Joined { .. }));
    for mut old in [agent, renewed] {
        old.hello.machine = "m2".into();
        let m = old.greet().await.1;
        assert_eq!(refusal(&m).0, "identity");
        assert!(refusal(&m).1.contains("earlier enrolment"), "{m:?}");
    }
    assert_eq!(s.agents.count(), 0);
}

#[tokio::test]
async fn a_retired_node_leaves_no_seat_and_others_keep_theirs() {
    let s = site().await;
    let (_agent, mut line) = s.idle("n1").await;
    let (_other, open) = s.idle("n2").await;
    let drain = Command::Drain { node: node("n1"), reason: "old".into(), stop: true };
    s.brain.system(drain).await.unwrap();
    s.brain.system(Command::Retire { node: node("n1") }).await.unwrap();
    line.is_closed().await;
    s.until_no_seat("n1").await;
    drop(open);
    // Joined anew, it sits down like any other.
    let (_again, _line) = s.idle("n1").await;
    assert!(s.agents.session(&node("n1")).is_some());
    assert!(s.agents.last_heartbeat(&node("n2")).is_some(), "one that is only away is remembered");
}

#[tokio::test]
async fn a_node_of_an_older_log_keeps_its_certificate_and_its_key_is_noted() {
    let s = site().await;
    let t = s.token(None, None).await;
    let enroll = |machine: &str| Command::Enroll {
        node: node("n1"),
        machine: machine.into(),
        token: t.id.clone(),
        key: None,
    };
    s.brain.system(enroll("machine-n1")).await.unwrap();
    let (key_pem, csr) = new_request(&node("n1")).unwrap();
    let (site_id, now) = (SiteId("site-1".into()), s.brain.now());
    let cert_pem =
        s.authority.sign_node(&csr, &node("n1"), None, &site_id, Span::mins(5), now).unwrap();
    let id = Identity { cert_pem, key_pem };
    let config = client_config(Some(&id), &Trust::Ca(s.authority.ca_pem().into())).unwrap();
    let agent = Agent { hello: hello("n1"), config, addr: s.addr.clone() };
    let (_line, m) = agent.greet().await;
    assert!(matches!(m, FromServer::Welcome { .. }), "{m:?}");
    let noted = s.brain.read(|st| st.nodes[&node("n1")].enrolment.clone());
    assert_eq!(noted, Some(muster_link::pki::requested_key(&csr).unwrap()));
    assert_eq!(refusal(&s.join(&t, "n1", "machine-n1").await.0).0, "identity");
}

#[tokio::test]
async fn without_a_certificate_only_joining_is_possible() {
    let s = site().await;
    let config = client_config(None, &Trust::Pin(s.authority.pin())).unwrap();
    let agent = Agent { hello: hello("n1"), config, addr: s.addr.clone() };
    let (mut line, m) = agent.greet().await;
    assert_eq!(refusal(&m).0, "identity");
    line.is_closed().await;
}

#[tokio::test]
async fn an_agent_that_is_not_who_its_certificate_says_is_refused() {
    let s = site().await;
    let mut a = s.enrolled("n1").await;
    s.enrolled("n2").await;

    a.hello.node = node("n2");
    assert_eq!(refusal(&a.greet().await.1).0, "identity");
    a.hello.node = node("n1");

    a.hello.machine = "copied".into();
    let m = a.greet().await.1;
    assert!(refusal(&m).1.contains("another machine"), "{m:?}");
    a.hello = hello("n1");

    a.hello.protocol = PROTOCOL + 1;
    let m = a.greet().await.1;
    assert!(refusal(&m).1.contains("update the server"), "{m:?}");
    a.hello = hello("n1");

    a.hello.site = Some(SiteId("elsewhere".into()));
    assert_eq!(refusal(&a.greet().await.1).0, "site");
    a.hello = hello("n1");

    // A certificate of this authority for a node that nobody enrolled.
    let (key_pem, csr) = new_request(&node("ghost")).unwrap();
    let site_id = SiteId("site-1".into());
    let cert_pem = s
        .authority
        .sign_node(&csr, &node("ghost"), None, &site_id, Span::mins(5), s.brain.now())
        .unwrap();
    let id = Identity { cert_pem, key_pem };
    let config = client_config(Some(&id), &Trust::Ca(s.authority.ca_pem().into())).unwrap();
    let ghost = Agent { hello: hello("ghost"), config, addr: s.addr.clone() };
    assert!(refusal(&ghost.greet().await.1).1.contains("does not know"));

    s.brain
        .system(Command::Drain { node: node("n1"), reason: "old".into(), stop: true })
        .await
        .unwrap();
    s.brain.system(Command::Retire { node: node("n1") }).await.unwrap();
    assert_eq!(refusal(&a.greet().await.1).0, "retired");
}

#[tokio::test]
async fn a_certificate_of_another_authority_gets_no_answer() {
    let s = site().await;
    let dir = tempfile::tempdir().unwrap();
    let other = Authority::create_or_load(dir.path()).unwrap();
    let (key_pem, csr) = new_request(&node("n1")).unwrap();
    let site_id = SiteId("site-1".into());
    let cert_pem =
        other.sign_node(&csr, &node("n1"), None, &site_id, Span::mins(5), s.brain.now()).unwrap();
    let id = Identity { cert_pem, key_pem };
    let config = client_config(Some(&id), &Trust::Ca(s.authority.ca_pem().into())).unwrap();
    // With TLS 1.3 the client learns of it when it reads.
    if let Ok(mut line) = Line::open(&s.addr, config).await {
        assert!(line.next().await.is_none());
    }
    assert_eq!(s.agents.count(), 0);
}

#[tokio::test]
async fn of_two_agents_with_one_identity_the_second_is_refused_and_a_reconnect_is_not() {
    let s = site().await;
    let (mut agent, mut line) = s.idle("n1").await;
    agent.hello.instance = "second".into();
    let m = agent.greet().await.1;
    assert_eq!((refusal(&m).0, refusal(&m).2), ("duplicate", true));
    line.say(FromAgent::Heartbeat { at: s.brain.now() }).await;
    assert!(matches!(line.hear().await, FromServer::Ack { .. }), "the first one is untouched");

    agent.hello.instance = "first".into();
    let (_line2, m) = agent.greet().await;
    assert!(matches!(m, FromServer::Welcome { .. }));
    line.is_closed().await;
    assert_eq!(s.agents.count(), 1);
}

/// What the finding rests on that another machine has the identity of n1.
fn copied(st: &muster_engine::State) -> Option<String> {
    let entity = Entity::Node(node("n1"));
    let finding = st.health.open_of(&entity, FailureMode::COPIED_IDENTITY.code());
    finding.map(|f| f.seen.evidence.join("; "))
}

#[tokio::test]
async fn a_machine_that_is_not_the_enrolled_one_is_refused_and_is_a_finding_for_an_hour() {
    let s = site().await;
    let (mut agent, mut line) = s.idle("n1").await;
    agent.hello.machine = "copied".into();
    agent.hello.instance = "second".into();
    agent.hello.boot = "boot-2".into();
    let m = agent.greet().await.1;
    assert_eq!((refusal(&m).0, refusal(&m).2), ("identity", false));
    let said = s.brain.read(copied).expect("a finding");
    assert!(said.contains("127.0.0.1") && said.contains("another machine"), "{said}");
    line.say(FromAgent::Heartbeat { at: s.brain.now() }).await;
    assert!(matches!(line.hear().await, FromServer::Ack { .. }), "the enrolled one is untouched");
    let now = s.brain.now();
    identity::close_old(&s.agents.inner, now + Span::mins(50)).await;
    assert!(s.brain.read(copied).is_some());
    identity::close_old(&s.agents.inner, now + Span::mins(70)).await;
    assert!(s.brain.read(copied).is_none());
}

#[tokio::test]
async fn two_machines_that_look_alike_are_a_finding_and_a_restarted_agent_is_not() {
    let s = site().await;
    let (mut agent, mut line) = s.idle("n1").await;
    // Another agent process of the same boot: an update, say.
    agent.hello.instance = "second".into();
    assert_eq!(refusal(&agent.greet().await.1).0, "duplicate");
    line.say(FromAgent::Heartbeat { at: s.brain.now() }).await;
    assert!(matches!(line.hear().await, FromServer::Ack { .. }));
    // After a restart of the machine its old connection may be open for a while; nobody speaks there.
    agent.hello.boot = "boot-2".into();
    assert_eq!(refusal(&agent.greet().await.1).0, "duplicate");
    assert_eq!(s.brain.read(copied), None);
    line.say(FromAgent::Heartbeat { at: s.brain.now() }).await;
    s.until(|st| copied(st).is_some_and(|said| said.contains("boot boot-2"))).await;
}

#[tokio::test]
async fn two_machines_that_take_turns_are_a_finding() {
    let s = site().await;
    let (mut agent, line) = s.idle("n1").await;
    drop(line);
    for (boot, found) in [("boot-2", false), ("boot-1", true)] {
        while s.agents.count() > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        agent.hello.boot = boot.into();
        agent.hello.instance = format!("of {boot}, anew");
        let (line, m) = agent.greet().await;
        assert!(matches!(m, FromServer::Welcome { .. }), "{m:?}");
        assert_eq!(s.brain.read(copied).is_some(), found, "{boot}");
        drop(line);
    }
}

#[tokio::test]
async fn a_clock_that_is_off_is_seen_but_does_no_harm() {
    let s = site().await;
    let mut agent = s.enrolled("n1").await;
    agent.hello.at = s.brain.now() - Span::mins(10);
    let (_line, m) = agent.greet().await;
    assert!(matches!(m, FromServer::Welcome { .. }));
    let skew = s.agents.session(&node("n1")).unwrap().skew_ms;
    assert!((-700_000..-500_000).contains(&skew), "{skew}");
}

#[tokio::test]
async fn a_silent_node_is_lost_and_must_say_hello_again() {
    let s = site().await;
    let (agent, mut line) = s.idle("n1").await;
    s.lose("n1").await;
    line.is_closed().await;
    // Another process of it is welcome now.
    let mut agent = agent;
    agent.hello.instance = "second".into();
    let (_line, m) = agent.greet().await;
    assert!(matches!(m, FromServer::Welcome { .. }), "{m:?}");
    s.until(|st| st.nodes[&node("n1")].reachable).await;
}

#[tokio::test]
async fn a_closed_connection_alone_loses_nothing() {
    let s = site().await;
    let (agent, line) = s.idle("n1").await;
    drop(line);
    while s.agents.count() > 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(s.brain.read(|st| st.nodes[&node("n1")].reachable));
    let mut agent = agent;
    agent.hello.instance = "restarted".into();
    assert!(matches!(agent.greet().await.1, FromServer::Welcome { .. }));
}

#[tokio::test]
async fn new_work_avoids_a_node_whose_agent_went_away_until_it_is_back() {
    let s = site().await;
    let (agent, line) = s.idle("n1").await;
    let blocker = |st: &muster_engine::State| st.allocation_blocker(&st.nodes[&node("n1")]);
    assert_eq!(s.brain.read(blocker), None);
    drop(line);
    let why = AllocationBlocker::IfOthersFit(NOT_CONNECTED.into());
    s.until(|st| blocker(st).as_ref() == Some(&why)).await;
    assert!(s.brain.read(|st| st.nodes[&node("n1")].reachable), "it is not lost");
    // A copy that is made now is looked at for as long as somebody asks for it.
    s.brain.read_copy(|_| ());
    let (_line, m) = agent.greet().await;
    assert!(matches!(m, FromServer::Welcome { .. }), "{m:?}");
    s.until(|st| blocker(st).is_none()).await;
    assert_eq!(s.brain.read_copy(blocker), None);
}

#[tokio::test]
async fn a_certificate_is_renewed_over_the_link() {
    let s = site().await;
    let (_agent, mut line) = s.idle("n1").await;
    let (_, csr) = new_request(&node("n1")).unwrap();
    line.say(FromAgent::Renew { csr: "nonsense".into() }).await;
    line.say(FromAgent::Renew { csr }).await;
    let FromServer::Renewed { cert } = line.hear().await else { panic!() };
    assert!(muster_link::tls::not_after(&cert).unwrap() > s.brain.now());
}

#[tokio::test]
async fn many_agents_come_back_at_once() {
    let s = site().await;
    let mut agents = Vec::new();
    for i in 0..60 {
        agents.push(s.enrolled(&format!("n{i}")).await);
    }
    let all = agents.iter().map(|a| a.greet());
    let lines = futures::future::join_all(all).await;
    assert!(lines.iter().all(|(_, m)| matches!(m, FromServer::Welcome { .. })));
    assert_eq!(s.agents.count(), 60);
}

#[tokio::test]
async fn a_step_of_a_nodes_clock_is_in_the_log_at_most_once_a_minute() {
    let s = site().await;
    let (_agent, mut line) = s.idle("n1").await;
    let (before, after) = (Time(1_000_000), Time(4_600_000));
    let (node_reported, since_boot) = (Some(node("n9")), Span::hours(1));
    let step = ClockStep { node: node_reported, by_ms: 3_600_000, since_boot, before, after };
    for _ in 0..3 {
        line.say(FromAgent::ClockStepped { step: step.clone() }).await;
    }
    line.say(FromAgent::Heartbeat { at: s.brain.now() }).await;
    line.hear_of(|m| matches!(m, FromServer::Ack { .. }).then_some(())).await;
    let steps = loop {
        let records = s.brain.records(Seq(0), 10_000).await.unwrap();
        let found = records.iter().filter_map(|r| match &r.event {
            Event::ClockStepped(step) => Some(step.clone()),
            _ => None,
        });
        let found: Vec<_> = found.collect();
        if !found.is_empty() {
            break found;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    // Whatever it says, it speaks of itself.
    assert_eq!(steps, [ClockStep { node: Some(node("n1")), ..step }]);
}
