//! A leaf is lost: from 64 findings to one page, reported once, also by a server that was killed in
//! between and to a receiver that was away.

use muster_model::alert::{Alert, Condition, Routing, Urgency};
use muster_model::entity::Entity;
use muster_model::finding::{Finding, Incident, ObservedFinding, Severity};
use muster_model::topology::Level;
use muster_model::{Span, Time};
use muster_slo::conditions::{self, SiteConditions};
use muster_slo::decide::{HOLD, Site};
use muster_slo::notifications::AlertChange;
use muster_slo::{Change, Notification, NotificationState, decide};
use std::collections::BTreeMap;

const T0: Time = Time(1_800_000_000_000);

fn above(e: &Entity) -> Vec<Entity> {
    match e {
        Entity::Gpu(n, _) => vec![Entity::Node(n.clone())],
        Entity::Node(_) => vec![Entity::Domain(Level::Leaf, "eu/l2".to_owned())],
        _ => vec![],
    }
}

fn lost(n: u64, incident: Option<u64>) -> Condition {
    let entity = format!("node:n{n}").parse().unwrap();
    let f = Finding {
        id: n,
        seen: ObservedFinding::new("node-lost", entity, Severity::Critical, T0),
        opened_at: T0,
        inferred: true,
        incident,
        remediation: None,
        closed: None,
    };
    conditions::finding(&f, SiteConditions { spares: true, automation: true }).unwrap()
}

fn leaf() -> Condition {
    let i = Incident {
        id: 900,
        cause: "leaf:eu/l2".parse().unwrap(),
        kind: "leaf-loss".to_owned(),
        severity: Severity::Critical,
        summary: "64 nodes of leaf eu/l2 are lost".to_owned(),
        began_at: T0,
        opened_at: T0,
        findings: vec![],
        count: 64,
        owner: None,
        notes: Vec::new(),
        closed: None,
        part_of: None,
    };
    conditions::incident(&i, Some(Severity::Critical)).unwrap()
}

/// What a server keeps: what alerts there are, and what was reported.
#[derive(Default, Clone)]
struct Server {
    alerts: BTreeMap<String, Alert>,
    desk: NotificationState,
}

impl Server {
    fn tick(&mut self, now: Time, conditions: &[Condition], routing: &Routing) {
        let open: BTreeMap<String, Alert> = self
            .alerts
            .values()
            .filter(|a| a.is_open())
            .map(|a| (a.group.clone(), a.clone()))
            .collect();
        let site = Site { silences: &[], routing, above: &above, hold: HOLD };
        for c in decide(now, conditions, &open, &site) {
            let (Change::Raised(a) | Change::Changed(a) | Change::Resolved(a)) = c;
            self.alerts.insert(a.id.clone(), *a);
        }
    }

    /// Sends all that is due, or fails at it.
    fn send(&mut self, now: Time, routing: &Routing, away: bool) -> Vec<Notification> {
        let mut out = Vec::new();
        loop {
            let due = self.desk.due(now, &self.alerts, routing);
            let Some(letter) = due.first() else { break };
            if away {
                self.desk.failed(now, &letter.to, "connection refused");
            } else {
                self.desk.sent(now, letter, &self.alerts);
                out.push(letter.clone());
            }
        }
        let desk = &self.desk;
        self.alerts.retain(|_, a| !desk.is_settled(a, routing));
        self.desk.tidy(&self.alerts, routing);
        out
    }
}

/// The whole timeline second by second: the nodes go one after another, the incident is understood
/// after 20 s, all is well after an hour.
fn timeline(away: impl Fn(u64) -> bool, killed: impl Fn(u64) -> bool) -> Vec<(AlertChange, Alert)> {
    let text = r#"{"receivers":[{"name":"oncall","by":{"webhook":{"url":"http://x"}}}],
        "routes":[{"match":{"urgency":"page"},"to":["oncall"]}]}"#;
    let routing: Routing = serde_json::from_str(text).unwrap();
    let (mut server, mut heard) = (Server::default(), Vec::new());
    for second in 0..20_000u64 {
        let now = T0 + Span::secs(second);
        let mut so: Vec<Condition> = Vec::new();
        if second < 3600 {
            let understood = (second >= 20).then_some(900);
            so.extend((0..64.min(4 + second * 4)).map(|n| lost(n, understood)));
            so.extend(understood.map(|_| leaf()));
        }
        // Something is looked at when it may have changed, not every second.
        if second < 100 || second % 60 == 0 {
            server.tick(now, &so, &routing);
        }
        let before = server.alerts.clone();
        for letter in server.send(now, &routing, away(second)) {
            heard.extend(letter.alerts.iter().map(|(id, news)| (*news, before[id].clone())));
        }
        if killed(second) {
            let text = serde_json::to_string(&(&server.alerts, &server.desk)).unwrap();
            let (alerts, desk) = serde_json::from_str(&text).unwrap();
            server = Server { alerts, desk };
        }
    }
    assert!(server.alerts.is_empty(), "nothing is left to report");
    heard
}

fn check(heard: &[(AlertChange, Alert)]) {
    let news: Vec<AlertChange> = heard.iter().map(|(n, _)| *n).collect();
    assert_eq!(news, [AlertChange::Firing, AlertChange::Over], "one page, and its end");
    let a = &heard[0].1;
    assert_eq!((a.urgency, a.members.len(), a.count), (Urgency::Page, 64, 65));
    assert_eq!(a.summary, "64 nodes of leaf eu/l2 are lost");
    assert_eq!((a.runbook.as_str(), a.link.as_str()), ("/runbooks/leaf-loss", "/incidents/900"));
}

#[test]
fn a_lost_leaf_is_one_page() {
    check(&timeline(|_| false, |_| false));
}

#[test]
fn a_server_that_is_killed_reports_nothing_twice() {
    check(&timeline(|_| false, |s| s % 7 == 0));
}

#[test]
fn a_receiver_that_is_away_hears_of_it_when_it_is_over() {
    check(&timeline(|s| s < 15_000, |s| s % 1000 == 0));
}

#[test]
fn a_leaf_that_is_understood_too_late_is_explained_afterwards() {
    let text = r#"{"receivers":[{"name":"oncall","by":{"webhook":{"url":"http://x"}}}],
        "routes":[{"to":["oncall"],"wait":"0s"}]}"#;
    let routing: Routing = serde_json::from_str(text).unwrap();
    let mut server = Server::default();
    let nodes: Vec<Condition> = (0..64).map(|n| lost(n, None)).collect();
    server.tick(T0, &nodes, &routing);
    assert_eq!(server.send(T0, &routing, false).len(), 64, "without a wait each is reported");
    let mut all: Vec<Condition> = (0..64).map(|n| lost(n, Some(900))).collect();
    all.push(leaf());
    let later = T0 + Span::secs(20);
    server.tick(later, &all, &routing);
    let letters = server.send(later, &routing, false);
    let of = |n: AlertChange| letters.iter().filter(|l| l.alerts[0].1 == n).count();
    assert_eq!((of(AlertChange::Firing), of(AlertChange::Over)), (1, 64));
    assert_eq!(server.alerts.values().filter(|a| a.is_open()).count(), 1);
}
