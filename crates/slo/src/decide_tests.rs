use super::*;
use muster_model::alert::{Acknowledgement, Matcher, Topic};
use muster_model::finding::Severity;
use muster_model::topology::Level;
use proptest::prelude::*;
use std::collections::BTreeSet;

const T0: Time = Time(1_800_000_000_000);

fn entity(s: &str) -> Entity {
    s.parse().unwrap()
}

fn condition(key: &str, topic: Topic, kind: &str, on: &str, urgency: Urgency) -> Condition {
    Condition {
        key: key.to_owned(),
        topic,
        kind: kind.to_owned(),
        entity: entity(on),
        urgency,
        summary: format!("{kind} on {on}"),
        since: T0,
        parent: None,
        explains: matches!(topic, Topic::Incident),
        job: None,
        project: None,
        owner: String::new(),
        runbook: format!("/runbooks/{kind}"),
        link: format!("/findings/{key}"),
        by_hardware: false,
        nodes: None,
        nodes_allowed: 0,
        affected: Vec::new(),
        severity: None,
    }
}

fn finding(n: u32, on: &str, urgency: Urgency) -> Condition {
    condition(&format!("finding:{n}"), Topic::Finding, "node-lost", on, urgency)
}

/// Nodes `nL-N` stand in leaf `l/L` of spine `l`.
fn above(e: &Entity) -> Vec<Entity> {
    match e {
        Entity::Gpu(n, _) | Entity::Port(n, _) => vec![Entity::Node(n.clone())],
        Entity::Node(n) => {
            let leaf = n.as_str().trim_start_matches('n').split('-').next().unwrap_or("");
            vec![Entity::Domain(Level::Leaf, format!("l/{leaf}"))]
        }
        Entity::Domain(Level::Leaf, _) => vec![Entity::Domain(Level::Spine, "l".to_owned())],
        _ => vec![],
    }
}

struct AlertFixture {
    open: BTreeMap<String, Alert>,
    over: BTreeMap<String, Alert>,
    all: Vec<Alert>,
    silences: Vec<Silence>,
    routing: Routing,
    hold: Span,
}

impl AlertFixture {
    fn new() -> AlertFixture {
        AlertFixture {
            open: BTreeMap::new(),
            over: BTreeMap::new(),
            all: vec![],
            silences: vec![],
            routing: Routing::default(),
            hold: HOLD,
        }
    }

    fn site(&self) -> Site<'_> {
        Site { silences: &self.silences, routing: &self.routing, above: &above, hold: self.hold }
    }

    /// What is open, and what is over.
    fn known(&self) -> BTreeMap<String, Alert> {
        self.over.clone().into_iter().chain(self.open.clone()).collect()
    }

    /// Decides, and folds what was decided.
    fn see(&mut self, at: Time, conditions: &[Condition]) -> Vec<Change> {
        let changes = decide(at, conditions, &self.known(), &self.site());
        for c in &changes {
            let a = c.alert().clone();
            match c {
                Change::Resolved(_) => {
                    self.open.remove(&a.group);
                    self.over.insert(a.group.clone(), a.clone());
                }
                _ => drop(self.open.insert(a.group.clone(), a.clone())),
            }
            self.all.push(a);
        }
        let again = decide(at, conditions, &self.known(), &self.site());
        assert_eq!(again, vec![], "asking again changes nothing");
        changes
    }

    fn pages(&self) -> usize {
        self.open.values().filter(|a| a.urgency == Urgency::Page).count()
    }
}

fn at(secs: u64) -> Time {
    T0 + Span::secs(secs)
}

#[test]
fn another_number_of_affected_jobs_alone_is_no_change() {
    let mut w = AlertFixture::new();
    let hit = |jobs: u64| {
        let affected = (0..jobs).map(|j| (JobId(j + 1), 8)).collect();
        [Condition { affected, ..finding(1, "node:n1-1", Urgency::Ticket) }]
    };
    let counts = |w: &AlertFixture| w.open.values().map(|a| (a.jobs, a.gpus)).collect::<Vec<_>>();
    w.see(at(0), &hit(2));
    assert_eq!(counts(&w), [(2, 16)]);
    assert_eq!(w.see(at(1), &hit(3)), vec![]);
    assert_eq!(w.see(at(2), &hit(1)), vec![]);
    // It is written with what else changes, and when nobody is affected any more.
    let worse = hit(3).map(|c| Condition { urgency: Urgency::Page, ..c });
    assert_eq!(w.see(at(3), &worse).len(), 1);
    assert_eq!(counts(&w), [(3, 24)]);
    let nobody = hit(0).map(|c| Condition { urgency: Urgency::Page, ..c });
    assert_eq!(w.see(at(4), &nobody).len(), 1);
    assert_eq!(counts(&w), [(0, 0)]);
}

#[test]
fn a_lost_leaf_is_one_page_with_its_64_nodes() {
    let mut w = AlertFixture::new();
    let mut nodes: Vec<Condition> =
        (0..64).map(|n| finding(n, &format!("node:n7-{n}"), Urgency::Page)).collect();
    let mut leaf = condition("incident:9", Topic::Incident, "leaf-lost", "leaf:l/7", Urgency::Page);
    leaf.summary = "leaf l/7 is lost".to_owned();
    // Through the incident that they are part of.
    for n in &mut nodes {
        n.parent = Some("incident:9".to_owned());
    }
    let mut all = nodes.clone();
    all.push(leaf.clone());
    w.see(at(0), &all);
    assert_eq!((w.open.len(), w.pages()), (1, 1));
    let a = w.open.values().next().unwrap();
    assert_eq!((a.count, a.members.len(), a.cause.clone()), (65, 64, entity("leaf:l/7")));
    assert_eq!(
        (a.runbook.as_str(), a.link.as_str()),
        ("/runbooks/leaf-lost", "/findings/incident:9")
    );
    assert_eq!(a.summary, "leaf l/7 is lost");
    // Through where they stand alone.
    let mut w = AlertFixture::new();
    nodes.iter_mut().for_each(|n| n.parent = None);
    let mut all = nodes;
    all.push(leaf);
    w.see(at(0), &all);
    assert_eq!((w.open.len(), w.pages()), (1, 1));
}

#[test]
fn what_was_alone_becomes_part_of_the_incident() {
    let mut w = AlertFixture::new();
    let mut nodes: Vec<Condition> =
        (0..3).map(|n| finding(n, &format!("node:n7-{n}"), Urgency::Page)).collect();
    w.see(at(0), &nodes);
    assert_eq!(w.open.len(), 3);
    nodes.push(condition("incident:9", Topic::Incident, "leaf-lost", "leaf:l/7", Urgency::Page));
    let changes = w.see(at(20), &nodes);
    assert_eq!(w.open.len(), 1);
    let merged = changes.iter().filter(|c| c.alert().merged_into.as_deref() == Some("incident:9"));
    assert_eq!(merged.count(), 3);
}

#[test]
fn things_of_one_node_or_one_job_are_one_alert() {
    let mut w = AlertFixture::new();
    let mut crash: Vec<Condition> =
        (10..40).map(|n| finding(n, &format!("gpu:n{n}-1/0"), Urgency::Ticket)).collect();
    crash.iter_mut().for_each(|c| c.job = Some(muster_model::JobId(5)));
    let mut all = vec![
        finding(1, "gpu:n1-1/0", Urgency::Ticket),
        finding(2, "gpu:n1-1/3", Urgency::Page),
        condition("drift:1", Topic::Drift, "driver", "node:n1-1", Urgency::Ticket),
        condition("cert:1", Topic::Certificate, "agent", "node:n1-1", Urgency::Ticket),
    ];
    all.extend(crash);
    w.see(at(0), &all);
    assert_eq!(
        w.open.keys().collect::<Vec<_>>(),
        ["certificate:agent:node:n1-1", "job:5", "node:n1-1"]
    );
    let a = &w.open["node:n1-1"];
    assert_eq!((a.count, a.urgency, a.cause.clone()), (3, Urgency::Page, entity("node:n1-1")));
    assert_eq!(w.open["job:5"].count, 30);
}

#[test]
fn a_ticket_above_does_not_hide_a_page_below() {
    let mut w = AlertFixture::new();
    let mut rack = condition("finding:1", Topic::Finding, "warm", "leaf:l/7", Urgency::Ticket);
    rack.explains = true;
    let node = finding(2, "gpu:n7-1/0", Urgency::Page);
    w.see(at(0), &[rack.clone(), node.clone()]);
    assert_eq!(w.open.len(), 2);
    rack.urgency = Urgency::Page;
    w.see(at(1), &[rack, node]);
    assert_eq!(w.open.len(), 1);
}

#[test]
fn a_rate_that_comes_and_goes_is_one_alert() {
    let mut w = AlertFixture::new();
    let c = condition("objective:a", Topic::Objective, "a", "site", Urgency::Page);
    for t in 0..20 {
        let now: &[Condition] = if t % 2 == 0 { std::slice::from_ref(&c) } else { &[] };
        w.see(at(t * 60), now);
        assert_eq!(w.open.len(), 1);
    }
    assert_eq!(next_wake(at(1150), &w.open, &w.site()), Some(at(19 * 60 + 120)));
    let changes = w.see(at(19 * 60 + 120), &[]);
    assert!(matches!(&changes[..], [Change::Resolved(a)] if a.resolved_at == Some(at(1260))));
    assert!(w.open.is_empty());
    let raised: BTreeSet<&String> = w.all.iter().map(|a| &a.id).collect();
    assert_eq!(raised.len(), 1);
    // Its end was reported: what comes then is another one.
    let changes = w.see(at(19 * 60 + 130), std::slice::from_ref(&c));
    assert!(matches!(&changes[..], [Change::Raised(_)]), "{changes:?}");
}

#[test]
fn a_state_is_over_at_once_and_what_is_back_soon_is_the_same_alert() {
    let mut w = AlertFixture::new();
    let c = finding(1, "node:n1-1", Urgency::Page);
    w.see(at(0), std::slice::from_ref(&c));
    let changes = w.see(at(60), &[]);
    assert!(matches!(&changes[..], [Change::Resolved(a)] if a.resolved_at == Some(at(60))));
    let changes = w.see(at(100), std::slice::from_ref(&c));
    assert!(matches!(&changes[..], [Change::Changed(a)] if a.is_open()), "{changes:?}");
    w.see(at(110), &[]);
    assert!(w.open.is_empty());
    let changes = w.see(at(230), std::slice::from_ref(&c));
    assert!(matches!(&changes[..], [Change::Raised(_)]), "{changes:?}");
    let ids: BTreeSet<&String> = w.all.iter().map(|a| &a.id).collect();
    assert_eq!(ids.len(), 2);
}

#[test]
fn a_broken_node_its_job_and_the_slo_it_burns_are_one_page() {
    let mut w = AlertFixture::new();
    let node = finding(1, "gpu:n1-1/3", Urgency::Page);
    let mut job = condition("finding:2", Topic::Finding, "hang", "job:7", Urgency::Page);
    (job.job, job.parent) = (Some(muster_model::JobId(7)), Some("finding:1".to_owned()));
    let mut slo = condition("objective:a", Topic::Objective, "jobs", "site", Urgency::Page);
    slo.by_hardware = true;
    w.see(at(0), &[node.clone(), job.clone(), slo.clone()]);
    assert_eq!((w.open.len(), w.pages()), (1, 1), "{:#?}", w.open);
    let a = &w.open["node:n1-1"];
    assert_eq!((a.count, a.cause.clone()), (3, entity("gpu:n1-1/3")));
    assert_eq!(a.summary, "node-lost on gpu:n1-1/3; affects SLO jobs, job 7");
    // Of two pages nobody knows which one burns it: it counts no nodes.
    let other = finding(3, "node:n2-1", Urgency::Page);
    w.see(at(10), &[node.clone(), job.clone(), slo.clone(), other]);
    assert_eq!(w.pages(), 3);
    // What burns for another reason is reported by itself.
    slo.by_hardware = false;
    let mut w = AlertFixture::new();
    w.see(at(0), &[node, job, slo]);
    assert_eq!(w.pages(), 2);
}

#[test]
fn a_silence_keeps_quiet_and_ends() {
    let mut w = AlertFixture::new();
    let silence = |m: Matcher| Silence {
        name: "training".parse().unwrap(),
        matcher: m,
        start: at(0),
        length: Span::secs(100),
        every: None,
        by: "ann".to_owned(),
        why: "a planned run".to_owned(),
    };
    w.silences = vec![silence(Matcher { under: Some("leaf:l/7".into()), ..Matcher::default() })];
    let (inside, outside) =
        (finding(1, "gpu:n7-1/0", Urgency::Page), finding(2, "node:n8-1", Urgency::Page));
    w.see(at(0), &[inside.clone(), outside.clone()]);
    let quiet = &w.open["node:n7-1"];
    assert_eq!(
        (quiet.loud_since, quiet.silenced.as_ref().map(Label::as_str)),
        (None, Some("training"))
    );
    assert_eq!(w.open["node:n8-1"].loud_since, Some(at(0)));
    assert_eq!(next_wake(at(1), &w.open, &w.site()), Some(at(100)));
    w.see(at(100), &[inside, outside]);
    assert_eq!(
        (w.open["node:n7-1"].loud_since, &w.open["node:n7-1"].silenced),
        (Some(at(100)), &None)
    );
}

#[test]
fn an_objective_that_joins_an_acknowledged_page_is_heard() {
    let mut w = AlertFixture::new();
    let node = finding(1, "node:n1-1", Urgency::Page);
    let mut slo = condition("objective:a", Topic::Objective, "nodes", "site", Urgency::Page);
    slo.by_hardware = true;
    let answer = |a: &mut Alert, t| {
        a.acknowledged = Some(Acknowledgement { by: "ann".into(), at: t, note: String::new() });
        a.state = AlertState::Acknowledged;
    };
    w.see(at(0), std::slice::from_ref(&node));
    answer(w.open.get_mut("node:n1-1").unwrap(), at(5));
    w.see(at(10), std::slice::from_ref(&node));
    assert_eq!(w.open["node:n1-1"].state, AlertState::Acknowledged);
    let both = [node, slo];
    w.see(at(2400), &both);
    assert_eq!((w.open.len(), w.open["node:n1-1"].state), (1, AlertState::Firing));
    // Once acknowledged with it, it stays so.
    answer(w.open.get_mut("node:n1-1").unwrap(), at(2410));
    w.see(at(2420), &both);
    assert_eq!(w.open["node:n1-1"].state, AlertState::Acknowledged);
}

#[test]
fn an_objective_that_burns_again_by_what_paged_already_pages_nobody_anew() {
    let mut w = AlertFixture::new();
    let page = finding(1, "node:n1-1", Urgency::Page);
    let ticket = finding(1, "node:n1-1", Urgency::Ticket);
    let mut slo = condition("objective:a", Topic::Objective, "jobs", "site", Urgency::Page);
    (slo.by_hardware, slo.since) = (true, at(60));
    w.see(at(30), std::slice::from_ref(&page));
    // A remediation is under way. The page is still the one about the hardware.
    w.see(at(60), &[ticket.clone(), slo.clone()]);
    assert_eq!((w.open.len(), w.pages()), (1, 1), "{:#?}", w.open);
    assert_eq!(w.open["node:n1-1"].objectives, ["jobs"]);
    assert!(is_part(&slo, &w.open["node:n1-1"]));
    let own = Condition { by_hardware: false, ..slo.clone() };
    assert!(!is_part(&own, &w.open["node:n1-1"]) && !is_part(&page, &w.open["node:n1-1"]));
    let a = w.open.get_mut("node:n1-1").unwrap();
    a.acknowledged = Some(Acknowledgement { by: "ann".into(), at: at(70), note: String::new() });
    a.state = AlertState::Acknowledged;
    w.see(at(600), std::slice::from_ref(&ticket));
    assert_eq!((w.open.len(), w.pages()), (1, 0));
    // It burns again, as the repair lasts: whoever acknowledged the page knew of it.
    slo.since = at(900);
    w.see(at(900), &[ticket, slo]);
    assert_eq!((w.open.len(), w.open["node:n1-1"].state), (1, AlertState::Acknowledged));
}

fn acknowledge(w: &mut AlertFixture, group: &str, t: Time) {
    let a = w.open.get_mut(group).unwrap();
    a.acknowledged = Some(Acknowledgement { by: "ann".into(), at: t, note: String::new() });
    a.state = AlertState::Acknowledged;
}

/// An objective that burns while these nodes are out of service.
fn nodes_out(names: &[&str], nodes_allowed: u64) -> Condition {
    Condition {
        by_hardware: true,
        nodes: Some(names.iter().map(|n| n.parse().unwrap()).collect()),
        nodes_allowed,
        since: at(600),
        ..condition("objective:a", Topic::Objective, "nodes", "site", Urgency::Page)
    }
}

#[test]
fn an_objective_that_burns_by_nodes_that_paged_is_part_of_all_their_pages() {
    let mut w = AlertFixture::new();
    let (one, two) =
        (finding(1, "gpu:n1-1/3", Urgency::Page), finding(2, "node:n2-1", Urgency::Page));
    w.see(at(0), &[one, two.clone()]);
    acknowledge(&mut w, "node:n1-1", at(5));
    // It is being repaired: what is left of the page is a ticket.
    let one = finding(1, "gpu:n1-1/3", Urgency::Ticket);
    w.see(at(20), &[one.clone(), two.clone()]);
    let slo = nodes_out(&["n1-1", "n2-1"], 1);
    let changes = w.see(at(600), &[one.clone(), two.clone(), slo.clone()]);
    assert!(changes.iter().all(|c| matches!(c, Change::Changed(_))), "{changes:?}");
    assert_eq!((w.open.len(), w.pages()), (2, 1), "{:#?}", w.open);
    assert_eq!(w.open["node:n1-1"].state, AlertState::Acknowledged);
    for a in w.open.values() {
        assert_eq!((a.objectives.as_slice(), a.count), (&["nodes".to_owned()][..], 1));
        assert!(a.summary.ends_with("; affects SLO nodes"), "{}", a.summary);
        assert!(is_part(&slo, a));
    }
    // One more node is out, which does not burn it by itself.
    let more = finding(3, "node:n3-1", Urgency::Ticket);
    let slo = nodes_out(&["n1-1", "n2-1", "n3-1"], 1);
    w.see(at(660), &[one.clone(), two, more, slo]);
    assert_eq!((w.open.len(), w.pages()), (3, 1), "{:#?}", w.open);
    // All are back before what was broken is repaired, and the rate has not fallen yet.
    w.see(at(720), &[one.clone(), nodes_out(&[], 1)]);
    assert_eq!(w.open.keys().collect::<Vec<_>>(), ["node:n1-1"]);
    // Two that nobody was paged about do burn it.
    let tickets =
        [finding(4, "node:n4-1", Urgency::Ticket), finding(5, "node:n5-1", Urgency::Ticket)];
    let [four, five] = tickets.clone();
    w.see(at(780), &[one, four, five, nodes_out(&["n1-1", "n4-1", "n5-1"], 1)]);
    assert_eq!(w.open["objective:nodes:site"].urgency, Urgency::Page);
    // It has paged, so it goes on by itself.
    let [four, five] = tickets.map(|c| Condition { urgency: Urgency::Page, ..c });
    w.see(at(840), &[four, five, nodes_out(&["n4-1", "n5-1"], 1)]);
    assert!(w.open["objective:nodes:site"].is_open() && w.open.len() == 3, "{:#?}", w.open);
}

#[test]
fn nodes_with_tickets_and_silenced_pages_explain_no_objective() {
    let mut w = AlertFixture::new();
    w.silences = vec![Silence {
        name: "known".parse().unwrap(),
        matcher: Matcher { entity: Some("node:n1-1".into()), ..Matcher::default() },
        start: at(0),
        length: Span::secs(7200),
        every: None,
        by: "ann".to_owned(),
        why: "a planned repair".to_owned(),
    }];
    let all = [
        finding(1, "node:n1-1", Urgency::Page),
        finding(2, "node:n2-1", Urgency::Ticket),
        nodes_out(&["n1-1", "n2-1"], 1),
    ];
    w.see(at(600), &all[..2]);
    acknowledge(&mut w, "node:n2-1", at(610));
    w.see(at(660), &all);
    assert_eq!(w.open.len(), 3, "{:#?}", w.open);
    assert_eq!(w.open["objective:nodes:site"].urgency, Urgency::Page);
}

#[test]
fn an_answer_stops_passing_on_until_it_becomes_worse() {
    let mut w = AlertFixture::new();
    let text = r#"{"receivers":[{"name":"a","by":{"webhook":{"url":"http://a"}}},{"name":"b","by":{"webhook":{"url":"http://b"}}}],
        "routes":[{"to":["a"],"escalate":[{"after":"15m","to":["b"]},{"after":"1h","to":["b"]}]}]}"#;
    w.routing = serde_json::from_str(text).unwrap();
    assert_eq!(w.routing.check(), Ok(()));
    let ticket = finding(1, "node:n1-1", Urgency::Ticket);
    w.see(at(0), std::slice::from_ref(&ticket));
    assert_eq!(next_wake(at(0), &w.open, &w.site()), Some(at(900)));
    w.see(at(900), std::slice::from_ref(&ticket));
    assert_eq!(w.open["node:n1-1"].level, 1);
    let a = w.open.get_mut("node:n1-1").unwrap();
    a.acknowledged = Some(Acknowledgement { by: "ann".into(), at: at(901), note: String::new() });
    a.state = AlertState::Acknowledged;
    w.see(at(7200), std::slice::from_ref(&ticket));
    assert_eq!(
        (w.open["node:n1-1"].level, w.open["node:n1-1"].state),
        (1, AlertState::Acknowledged)
    );
    let page = finding(1, "node:n1-1", Urgency::Page);
    w.see(at(7300), &[page]);
    assert_eq!((w.open["node:n1-1"].level, w.open["node:n1-1"].state), (2, AlertState::Firing));
}

#[test]
fn the_alert_of_an_incident_began_when_the_incident_did() {
    let mut w = AlertFixture::new();
    let mut leaf = condition("incident:9", Topic::Incident, "leaf-lost", "leaf:l/7", Urgency::Page);
    leaf.since = at(100);
    let old = Condition {
        since: T0 - Span::hours(48),
        parent: Some("incident:9".to_owned()),
        ..finding(1, "node:n7-1", Urgency::Ticket)
    };
    w.see(at(200), &[leaf, old]);
    let all: Vec<Time> = w.open.values().map(|a| a.since).collect();
    assert_eq!(all, [at(100)]);
}

#[test]
fn an_alert_of_another_kind_did_not_begin_with_what_was_over_before() {
    let mut w = AlertFixture::new();
    let lost = finding(1, "node:n7-1", Urgency::Page);
    let gpu = Condition {
        since: at(78),
        ..condition("finding:2", Topic::Finding, "gpu-off-bus", "gpu:n7-1/3", Urgency::Page)
    };
    let since = |w: &AlertFixture| w.open.values().map(|a| (a.kind.clone(), a.since)).next();
    w.see(at(30), std::slice::from_ref(&lost));
    // Between two looks the node came back, and then lost a GPU.
    w.see(at(90), std::slice::from_ref(&gpu));
    assert_eq!(since(&w), Some(("gpu-off-bus".into(), at(78))));

    // Where one was there when the other began, it is one trouble from its beginning on.
    let mut w = AlertFixture::new();
    w.see(at(30), std::slice::from_ref(&lost));
    w.see(at(85), &[lost, gpu.clone()]);
    w.see(at(90), &[gpu]);
    assert_eq!(since(&w), Some(("gpu-off-bus".into(), T0)));
}

#[test]
fn a_page_that_nobody_acknowledged_stays_a_page() {
    let mut w = AlertFixture::new();
    let (page, ticket) =
        (finding(1, "node:n1-1", Urgency::Page), finding(1, "node:n1-1", Urgency::Ticket));
    let is = |w: &AlertFixture| w.open["node:n1-1"].urgency;
    w.see(at(0), std::slice::from_ref(&page));
    // A remediation is under way, a spare is free again: nobody has answered the page for that.
    assert_eq!(w.see(at(300), std::slice::from_ref(&ticket)), vec![]);
    assert_eq!(is(&w), Urgency::Page);
    let a = w.open.get_mut("node:n1-1").unwrap();
    a.acknowledged = Some(Acknowledgement { by: "ann".into(), at: at(400), note: String::new() });
    a.state = AlertState::Acknowledged;
    w.see(at(500), std::slice::from_ref(&ticket));
    assert_eq!(is(&w), Urgency::Ticket);
    assert_eq!(w.open["node:n1-1"].state, AlertState::Acknowledged);
}

#[test]
fn an_alert_stays_about_the_worst_of_what_is_open_and_an_answer_about_what_was_answered() {
    let mut w = AlertFixture::new();
    let of = |n: u32, kind: &str, on: &str, urgency, severity, since| Condition {
        since,
        severity: Some(severity),
        ..condition(&format!("finding:{n}"), Topic::Finding, kind, on, urgency)
    };
    let hot = of(1, "thermal", "gpu:n1-1/7", Urgency::Ticket, Severity::Degraded, at(0));
    let failed =
        |urgency| of(2, "failed-qualification", "node:n1-1", urgency, Severity::Critical, at(60));
    w.see(at(0), std::slice::from_ref(&hot));
    w.see(at(60), &[hot.clone(), failed(Urgency::Page)]);
    acknowledge(&mut w, "node:n1-1", at(90));
    let is = |w: &AlertFixture| {
        let a = &w.open["node:n1-1"];
        (a.kind.clone(), a.runbook.clone(), a.state)
    };
    let whole = |kind: &str, state| (kind.to_owned(), format!("/runbooks/{kind}"), state);
    // A remediation was chosen for it: it is a ticket now, and still critical.
    w.see(at(120), &[hot.clone(), failed(Urgency::Ticket)]);
    assert_eq!(is(&w), whole("failed-qualification", AlertState::Acknowledged));
    // It is over. What was there when somebody answered is acknowledged, too.
    w.see(at(180), &[hot]);
    assert_eq!(is(&w), whole("thermal", AlertState::Acknowledged));
    // What began since then is not.
    let errors = of(3, "pcie-replay", "gpu:n1-1/2", Urgency::Ticket, Severity::Warning, at(200));
    w.see(at(240), &[errors]);
    assert_eq!(is(&w), whole("pcie-replay", AlertState::Firing));
}

#[test]
fn a_silence_for_what_paged_leaves_the_ticket() {
    let mut w = AlertFixture::new();
    let both = [finding(1, "gpu:n1-1/0", Urgency::Page), finding(2, "node:n1-1", Urgency::Ticket)];
    w.see(at(0), &both);
    assert_eq!(w.pages(), 1);
    w.silences = vec![Silence {
        name: "known".parse().unwrap(),
        matcher: Matcher { urgency: Some(Urgency::Page), ..Matcher::default() },
        start: at(10),
        length: Span::secs(100),
        every: None,
        by: "ann".to_owned(),
        why: "it is known".to_owned(),
    }];
    w.see(at(20), &both);
    assert_eq!((w.open.len(), w.pages()), (1, 0));
}

#[test]
fn members_are_bounded_and_still_counted() {
    let mut w = AlertFixture::new();
    let mut all: Vec<Condition> =
        (0..500).map(|n| finding(n, &format!("node:n7-{n}"), Urgency::Page)).collect();
    all.push(condition("incident:9", Topic::Incident, "leaf-lost", "leaf:l/7", Urgency::Page));
    w.see(at(0), &all);
    let a = &w.open["incident:9"];
    assert_eq!((a.members.len(), a.count), (MEMBERS_MAX, 501));
}

#[test]
fn parts_of_each_other_hang_nothing_up() {
    let mut w = AlertFixture::new();
    let mut a = finding(1, "node:n1-1", Urgency::Page);
    let mut b = finding(2, "node:n2-1", Urgency::Page);
    a.parent = Some(b.key.clone());
    b.parent = Some(a.key.clone());
    w.see(at(0), &[a, b]);
    assert_eq!(w.open.values().map(|a| a.count).sum::<u64>(), 2);
    // Two things that are above each other: one of them is reported.
    let mut up = finding(1, "leaf:x", Urgency::Page);
    let mut down = finding(2, "leaf:y", Urgency::Page);
    (up.explains, down.explains) = (true, true);
    let round = |e: &Entity| match e.to_string().as_str() {
        "leaf:x" => vec![entity("leaf:y")],
        _ => vec![entity("leaf:x")],
    };
    let site = Site { silences: &[], routing: &Routing::default(), above: &round, hold: HOLD };
    let changes = decide(T0, &[up, down], &BTreeMap::new(), &site);
    assert_eq!(changes.len(), 1);
    assert_eq!(changes[0].alert().count, 2);
}

fn any_condition() -> impl Strategy<Value = Condition> {
    let topics =
        prop::sample::select(vec![Topic::Finding, Topic::Incident, Topic::Drift, Topic::Objective]);
    let things = prop::sample::select(vec![
        "site",
        "spine:l",
        "leaf:l/7",
        "leaf:l/8",
        "node:n7-1",
        "node:n7-2",
        "node:n8-1",
        "gpu:n7-1/0",
        "gpu:n7-1/1",
        "gpu:n8-1/0",
        "job:4",
        "sku:h100",
    ]);
    let urgencies = prop::sample::select(vec![Urgency::Ticket, Urgency::Page]);
    let parent = prop::option::of(0u32..12);
    (0u32..12, topics, things, urgencies, any::<bool>(), parent, 0i64..5, prop::option::of(0u64..3))
        .prop_map(|(n, topic, on, urgency, explains, parent, since, job)| Condition {
            explains,
            parent: parent.map(|p| format!("c:{p}")),
            since: Time(T0.0 + since),
            job: job.map(muster_model::JobId),
            ..condition(&format!("c:{n}"), topic, "k", on, urgency)
        })
}

proptest! {
    #[test]
    fn order_does_not_matter(all in prop::collection::vec(any_condition(), 0..14), turn in 0usize..14) {
        let w = AlertFixture::new();
        let one = decide(T0, &all, &w.open, &w.site());
        let mut other = all.clone();
        other.reverse();
        other.rotate_left(turn.min(all.len()));
        other.extend(all.first().cloned());
        prop_assert_eq!(decide(T0, &other, &w.open, &w.site()), one);
    }

    #[test]
    fn every_condition_is_in_one_alert_and_none_is_less_urgent_than_it(
        all in prop::collection::vec(any_condition(), 0..14),
    ) {
        let w = AlertFixture::new();
        let alerts = decide(T0, &all, &w.open, &w.site());
        let keys: BTreeSet<&String> = all.iter().map(|c| &c.key).collect();
        let count: u64 = alerts.iter().map(|a| a.alert().count).sum();
        prop_assert_eq!(count, keys.len() as u64);
        let worst = all.iter().map(|c| c.urgency).max();
        prop_assert_eq!(alerts.iter().map(|a| a.alert().urgency).max(), worst);
        for a in alerts.iter().map(Change::alert) {
            // What is reported is something that is really so, not what it is hidden by.
            prop_assert!(all.iter().any(|c| a.summary.starts_with(&c.summary)));
        }
    }

    #[test]
    fn the_cause_is_never_hidden(
        below in prop::collection::vec((0u32..40, prop::sample::select(vec!["node:n7-1", "gpu:n7-2/1", "node:n7-3"])), 0..20),
    ) {
        let cause = condition("incident:1", Topic::Incident, "leaf-lost", "leaf:l/7", Urgency::Page);
        let mut all: Vec<Condition> =
            below.iter().map(|(n, on)| finding(*n, on, Urgency::Page)).collect();
        all.push(cause.clone());
        let w = AlertFixture::new();
        let alerts = decide(T0, &all, &w.open, &w.site());
        prop_assert_eq!(alerts.len(), 1);
        prop_assert_eq!(&alerts[0].alert().cause, &cause.entity);
        prop_assert_eq!(&alerts[0].alert().summary, &cause.summary);
    }

    #[test]
    fn any_story_folds_and_ends(
        story in prop::collection::vec((1u64..200, prop::collection::vec(any_condition(), 0..8)), 1..12),
    ) {
        let mut w = AlertFixture::new();
        let mut now = 0;
        for (step, conditions) in &story {
            now += step;
            w.see(at(now), conditions);
            for (group, a) in &w.open {
                prop_assert_eq!(group, &a.group);
                prop_assert!(a.is_open());
            }
        }
        w.see(at(now + 1000), &[]);
        w.see(at(now + 2000), &[]);
        prop_assert!(w.open.is_empty());
    }
}
