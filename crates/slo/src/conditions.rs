//! What is so now, in words that alerts follow from: page or ticket, and where to look.
//!
//! A page wakes somebody, so it is for what nobody looks after: a driver that crashed, an objective
//! that breaks, a control plane that stopped or cannot write, hardware that is out while no spare
//! is left. What Muster repairs by itself is a ticket, and what is only worth knowing is neither.

use crate::budget::Status;
use crate::burn;
use crate::fleet::Fleet;
use muster_model::FailureMode;
use muster_model::alert::{Condition, Topic, Urgency};
use muster_model::entity::Entity;
use muster_model::finding::{Finding, Incident, Severity};
use muster_model::names::NodeName;
use muster_model::node::Node;
use muster_model::slo::{Cause, Objective, Sli};
use muster_model::topology::Level;
use muster_model::units::{Span, Time};

/// Failure modes that page even where they are being remediated.
const PAGES: &[FailureMode] = &[
    FailureMode::DRIVER_HANG,
    FailureMode::GPU_FAULT,
    FailureMode::WRONG_RESULTS,
    FailureMode::NODE_KILLER,
    FailureMode::STORAGE_STALL,
    FailureMode::DETECTOR_STORM,
];
/// Failure modes that are a job's own doing: reported once a job, not once a GPU.
const OWN: &[FailureMode] = &[
    FailureMode::APP_CRASH,
    FailureMode::APP_SPRAY,
    FailureMode::APP_FAULT,
    FailureMode::CRASH_LOOP,
    FailureMode::NODE_KILLER,
    FailureMode::OOM,
    FailureMode::HANG,
];

/// What takes away all that stands below it. Other troubles of a place explain their own findings,
/// and nothing else that is wrong there.
const LOSSES: &[FailureMode] = &[
    FailureMode::LEAF_LOSS,
    FailureMode::RACK_LOSS,
    FailureMode::FEED_LOSS,
    FailureMode::NODE_LOST,
    FailureMode::LINK_DOWN,
];

/// How the site stands while something is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SiteConditions {
    /// Spare nodes are left.
    pub spares: bool,
    /// Remediations are taken.
    pub automation: bool,
}

fn condition(key: String, topic: Topic, kind: &str, entity: Entity, since: Time) -> Condition {
    Condition {
        runbook: format!("/runbooks/{kind}"),
        kind: kind.to_owned(),
        key,
        topic,
        entity,
        urgency: Urgency::Ticket,
        summary: String::new(),
        since,
        parent: None,
        explains: false,
        job: None,
        project: None,
        owner: String::new(),
        link: String::new(),
        by_hardware: false,
        nodes: None,
        nodes_allowed: 0,
        affected: Vec::new(),
        severity: None,
    }
}

/// A finding that is open. What is only worth knowing is none.
#[must_use]
pub fn finding(f: &Finding, standing: SiteConditions) -> Option<Condition> {
    if f.closed.is_some() || f.seen.severity == Severity::Info {
        return None;
    }
    Some(of_finding(f, standing))
}

/// A finding as a condition, however little it matters.
pub(crate) fn of_finding(f: &Finding, standing: SiteConditions) -> Condition {
    let s = &f.seen;
    let looked_after = f.remediation.is_some() && standing.automation && standing.spares;
    let page = s.severity == Severity::Critical
        && (FailureMode::is_one_of(&s.kind, PAGES) || !looked_after);
    let topic = if s.kind == FailureMode::CONFIG_DRIFT { Topic::Drift } else { Topic::Finding };
    let explains = match s.entity {
        Entity::Domain(..) | Entity::Feed(_) => true,
        Entity::Node(_) => s.kind == FailureMode::NODE_LOST,
        _ => false,
    };
    let job = s.attempt.filter(|_| FailureMode::is_one_of(&s.kind, OWN)).map(|a| a.job);
    Condition {
        urgency: if page { Urgency::Page } else { Urgency::Ticket },
        summary: format!("{}: {}", s.entity, s.kind),
        parent: f.incident.map(|i| format!("incident:{i}")),
        explains,
        job,
        severity: Some(s.severity),
        link: format!("/findings/{}", f.id),
        ..condition(format!("finding:{}", f.id), topic, &s.kind, s.entity.clone(), s.first_seen)
    }
}

/// An incident that is open, and how bad the worst of its findings is that is open still. What was
/// bad and is over calls nobody.
#[must_use]
pub fn incident(i: &Incident, worst: Option<Severity>) -> Option<Condition> {
    if i.closed.is_some() {
        return None;
    }
    let page = worst?.min(i.severity) == Severity::Critical;
    let key = format!("incident:{}", i.id);
    let place = matches!(i.cause, Entity::Domain(..) | Entity::Feed(_));
    Some(Condition {
        urgency: if page { Urgency::Page } else { Urgency::Ticket },
        summary: i.summary.clone(),
        explains: !place || FailureMode::is_one_of(&i.kind, LOSSES),
        link: format!("/incidents/{}", i.id),
        ..condition(key, Topic::Incident, &i.kind, i.cause.clone(), i.began_at)
    })
}

/// An objective whose burn rate is too high, or whose error budget is exhausted. The words stay the same while the
/// figures move, so that an alert is not sent anew each minute.
#[must_use]
pub fn objective(o: &Objective, s: &Status, since: Time) -> Option<Condition> {
    let summary = match burn::worst(&s.firing) {
        Some(f) => {
            let (factor, over) = (f.rule.factor, f.over);
            format!("{}: burn rate above {factor} over {over}", o.name)
        }
        None if s.is_exhausted() => format!("{}: error budget of {} exhausted", o.name, o.window),
        None => return None,
    };
    let entity = match (&o.scope.project, &o.scope.pool) {
        (Some(p), _) => Entity::Project(p.clone()),
        (None, Some(p)) => Entity::Pool(p.clone()),
        (None, None) => Entity::Site,
    };
    let key = format!("objective:{}", o.name);
    let hardware = |c: &Cause| {
        matches!(
            c,
            Cause::Hardware | Cause::Unreachable | Cause::Quarantine | Cause::Repair | Cause::Test
        )
    };
    // Whether jobs wait says nothing of why nodes are out.
    let runbook = if o.sli == Sli::NodeAvailability { "nodes-out" } else { "slo-burn" };
    Some(Condition {
        by_hardware: s.lately.first().is_some_and(|(c, _)| hardware(c)),
        urgency: burn::urgency(&s.firing).unwrap_or(Urgency::Ticket),
        summary,
        project: o.scope.project.clone(),
        owner: o.owner.clone(),
        runbook: format!("/runbooks/{runbook}"),
        link: format!("/slos/{}", o.name),
        ..condition(key, Topic::Objective, o.name.as_str(), entity, since)
    })
}

/// An objective that burns, with the nodes that are out of service at this moment, where it counts
/// nodes.
#[must_use]
pub fn with_nodes(c: &Condition, o: &Objective, fleet: &Fleet) -> Condition {
    if o.sli != Sli::NodeAvailability {
        return c.clone();
    }
    let (nodes, all) = fleet.out_of_service(&o.scope);
    let nodes_allowed = burn::nodes_allowed(o, c.urgency, all);
    Condition { nodes: Some(nodes), nodes_allowed, ..c.clone() }
}

/// A certificate ends in less than this.
const ENDS_SOON: Span = Span::hours(21 * 24);
/// And it is urgent.
const ENDS_NOW: Span = Span::hours(48);

/// A certificate that ends soon.
#[must_use]
pub fn certificate(entity: &Entity, ends: Time, now: Time) -> Option<Condition> {
    let left = ends.since(now);
    if left >= ENDS_SOON {
        return None;
    }
    let key = format!("certificate:{entity}");
    Some(Condition {
        urgency: if left < ENDS_NOW { Urgency::Page } else { Urgency::Ticket },
        summary: format!("{entity}: its certificate ends soon"),
        link: "/events".to_owned(),
        ..condition(key, Topic::Certificate, "certificate-ends", entity.clone(), ends - ENDS_SOON)
    })
}

/// When a certificate that ends at a moment becomes news by time alone.
#[must_use]
pub fn certificate_moments(ends: Time) -> [Time; 2] {
    // A millisecond later than the last moment at which it was not.
    [ends - ENDS_SOON + Span(1), ends - ENDS_NOW + Span(1)]
}

/// The control plane stopped itself from doing more.
#[must_use]
pub fn automation_stopped(reason: &str, since: Time) -> Condition {
    Condition {
        urgency: Urgency::Page,
        summary: format!("automation has stopped: {reason}"),
        link: "/oncall".to_owned(),
        ..condition(
            "automation:stopped".to_owned(),
            Topic::Automation,
            "automation-stopped",
            Entity::Site,
            since,
        )
    }
}

/// Nodes are left alone because the log was restored from a backup.
#[must_use]
pub fn nodes_protected(since: Time) -> Condition {
    // How many they are is in `muster health`, not in its words: it moves.
    Condition {
        urgency: Urgency::Page,
        summary: "nodes are protected after a restored backup; nothing starts there until \
                  reconciled: muster node reconcile NODE"
            .to_owned(),
        link: "/oncall".to_owned(),
        ..condition(
            "control-plane:protected".to_owned(),
            Topic::ControlPlane,
            "nodes-protected",
            Entity::Site,
            since,
        )
    }
}

/// Remediations are pending approval.
#[must_use]
pub fn approvals_wait(count: u64, since: Time) -> Option<Condition> {
    // The number is in the alert's page, not in its words: it moves.
    (count > 0).then(|| Condition {
        summary: "remediations pending approval".to_owned(),
        link: "/oncall".to_owned(),
        ..condition(
            "automation:approvals".to_owned(),
            Topic::Automation,
            "approvals-wait",
            Entity::Site,
            since,
        )
    })
}

/// The control plane cannot write.
#[must_use]
pub fn cannot_write(reason: &str, since: Time) -> Condition {
    Condition {
        urgency: Urgency::Page,
        summary: format!("the control plane cannot write: {reason}"),
        runbook: "/runbooks/control-plane".to_owned(),
        link: "/oncall".to_owned(),
        ..condition(
            "control-plane:write".to_owned(),
            Topic::ControlPlane,
            "cannot-write",
            Entity::Site,
            since,
        )
    }
}

/// A part of the server panicked and was started again.
#[must_use]
pub fn part_panicked(part: &str, times: u64, said: &str, since: Time) -> Condition {
    let often = if times == 1 { "once".to_owned() } else { format!("{times} times") };
    Condition {
        urgency: Urgency::Ticket,
        summary: format!("{part} of the control plane panicked {often}, last with: {said}"),
        runbook: "/runbooks/control-plane".to_owned(),
        link: "/oncall".to_owned(),
        ..condition(
            format!("control-plane:panic:{part}"),
            Topic::ControlPlane,
            "part-panicked",
            Entity::Site,
            since,
        )
    }
}

/// Somebody set the clock of the server's machine.
#[must_use]
pub fn clock_set(how: &str, since: Time) -> Condition {
    Condition {
        urgency: Urgency::Page,
        summary: format!(
            "the clock of the server's machine was set: it is {how}; correct it, or start the \
             server once with --accept-clock"
        ),
        runbook: "/runbooks/control-plane".to_owned(),
        link: "/oncall".to_owned(),
        ..condition(
            "control-plane:clock".to_owned(),
            Topic::ControlPlane,
            "clock-set",
            Entity::Site,
            since,
        )
    }
}

/// No spare is left in a pool that should have some.
#[must_use]
pub fn no_spares(pool: &str, since: Time) -> Condition {
    Condition {
        summary: format!("pool {pool} has no spare left"),
        link: "/".to_owned(),
        ..condition(
            format!("capacity:spares:{pool}"),
            Topic::Capacity,
            "no-spares",
            Entity::Pool(pool.to_owned()),
            since,
        )
    }
}

/// What a thing is directly part of, from where nodes stand.
pub fn above<'a>(entity: &Entity, node: impl Fn(&NodeName) -> Option<&'a Node>) -> Vec<Entity> {
    match entity {
        Entity::Gpu(n, _) | Entity::Port(n, _) => vec![Entity::Node(n.clone())],
        Entity::Node(name) => {
            let Some(n) = node(name) else { return vec![Entity::Site] };
            let mut out = vec![Entity::domain(Level::Nvlink, name, &n.location)];
            // A node that no file mentions has no feed that it shares.
            if let Some(feed) = n.location.known_feed() {
                out.push(Entity::Feed(feed.to_owned()));
            }
            out.push(Entity::Pool(n.pool().to_owned()));
            out
        }
        Entity::Domain(level, path) => {
            let up = Level::ALL.iter().rev().find(|l| **l < *level);
            match up.zip(path.rsplit_once('/')) {
                Some((up, (rest, _))) => vec![Entity::Domain(*up, rest.to_owned())],
                None => vec![Entity::Site],
            }
        }
        Entity::Site => vec![],
        _ => vec![Entity::Site],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::{Counts, status};
    use crate::decide::{HOLD, Site, decide};
    use crate::ledger::{Count, Ledger, Series};
    use muster_model::alert::Routing;
    use muster_model::finding::{Closed, ObservedFinding};
    use muster_model::ids::{AttemptKey, JobId};
    use std::collections::BTreeMap;

    const T0: Time = Time(1_800_000_000_000);
    const CALM: SiteConditions = SiteConditions { spares: true, automation: true };

    fn found(id: u64, kind: &str, on: &str, severity: Severity) -> Finding {
        Finding {
            id,
            seen: ObservedFinding::new(kind, on.parse().unwrap(), severity, T0),
            opened_at: T0,
            inferred: false,
            incident: None,
            remediation: Some(1),
            closed: None,
        }
    }

    /// The addresses that the console opens, from its router.
    fn console_pages() -> Vec<String> {
        let router = include_str!("../../../web/src/router.tsx");
        let after = router.split("path: '").skip(1);
        after.filter_map(|rest| rest.split_once('\'')).map(|(path, _)| path.to_owned()).collect()
    }

    fn opens(page: &str, link: &str) -> bool {
        let (page, link) = (page.split('/'), link.split('/'));
        page.clone().count() == link.clone().count()
            && page.zip(link).all(|(p, l)| p == l || (p.starts_with('$') && !l.is_empty()))
    }

    #[test]
    fn every_link_of_an_alert_opens_a_page_of_the_console() {
        let text = r#"{"name":"api","sli":"api_availability","target":"99.9%","window":"30d"}"#;
        let o: Objective = serde_json::from_str(text).unwrap();
        let series = Series { sli: o.sli, scope: o.scope.clone() };
        let mut l = Ledger::default();
        l.note(T0, &series, Count::bad_ones(100), Some(Cause::Slow));
        let all = [
            finding(&found(1, "gpu-off-bus", "gpu:n1/3", Severity::Critical), CALM),
            incident(&incident_of("leaf:eu/c/s/l2"), Some(Severity::Critical)),
            objective(&o, &status(&o, Counts(&[&l]), T0), T0),
            certificate(&Entity::Site, T0, T0),
            Some(automation_stopped("x", T0)),
            approvals_wait(1, T0),
            Some(cannot_write("x", T0)),
            Some(part_panicked("x", 1, "x", T0)),
            Some(clock_set("x", T0)),
            Some(no_spares("default", T0)),
        ];
        let pages = console_pages();
        assert!(pages.len() > 10, "{pages:?}");
        for c in all.map(Option::unwrap) {
            for link in [&c.link, &c.runbook] {
                assert!(pages.iter().any(|p| opens(p, link)), "{}: {link}", c.key);
            }
        }
        assert!(!pages.iter().any(|p| opens(p, "/no-such-page/1")));
    }

    fn incident_of(cause: &str) -> Incident {
        Incident {
            id: 99,
            cause: cause.parse().unwrap(),
            kind: "leaf-loss".to_owned(),
            severity: Severity::Critical,
            summary: "leaf eu/c/s/l2 is lost".to_owned(),
            began_at: T0,
            opened_at: T0,
            findings: vec![],
            count: 64,
            owner: None,
            notes: Vec::new(),
            closed: None,
            part_of: None,
        }
    }

    fn urgency(f: &Finding, s: SiteConditions) -> Option<Urgency> {
        finding(f, s).map(|c| c.urgency)
    }

    #[test]
    fn page_or_ticket() {
        let off = found(1, "gpu-off-bus", "gpu:n1/3", Severity::Critical);
        assert_eq!(urgency(&off, CALM), Some(Urgency::Ticket));
        assert_eq!(urgency(&off, SiteConditions { spares: false, ..CALM }), Some(Urgency::Page));
        assert_eq!(
            urgency(&off, SiteConditions { automation: false, ..CALM }),
            Some(Urgency::Page)
        );
        let alone = Finding { remediation: None, ..off.clone() };
        assert_eq!(urgency(&alone, CALM), Some(Urgency::Page));
        let crash = found(2, "driver-hang", "gpu:n1/3", Severity::Critical);
        assert_eq!(urgency(&crash, CALM), Some(Urgency::Page));
        let warm = found(3, "thermal", "gpu:n1/3", Severity::Degraded);
        assert_eq!(
            urgency(&warm, SiteConditions { spares: false, automation: false }),
            Some(Urgency::Ticket)
        );
        assert_eq!(urgency(&found(4, "oom", "job:4", Severity::Info), CALM), None);
        let over = Closed { at: T0, why: String::new() };
        assert_eq!(urgency(&Finding { closed: Some(over), ..off }, CALM), None);
        let drift = found(5, "config-drift", "node:n1", Severity::Warning);
        assert_eq!(finding(&drift, CALM).unwrap().topic, Topic::Drift);
        let mut own = found(6, "crash-loop", "gpu:n1/0", Severity::Warning);
        own.seen.attempt = Some(AttemptKey { job: JobId(7), attempt: 1 });
        assert_eq!(finding(&own, CALM).unwrap().job, Some(JobId(7)));
        let all =
            [finding(&own, CALM).unwrap(), automation_stopped("x", T0), cannot_write("x", T0)];
        assert!(all.iter().all(|c| !c.runbook.is_empty() && !c.link.is_empty()));
    }

    #[test]
    fn the_runbook_of_an_objective_is_about_what_it_counts() {
        let of = |sli: &str| {
            let text = format!(r#"{{"name":"o","sli":"{sli}","target":"99.9%","window":"30d"}}"#);
            let o: Objective = serde_json::from_str(&text).unwrap();
            let series = Series { sli: o.sli, scope: o.scope.clone() };
            let mut l = Ledger::default();
            l.note(T0, &series, Count::bad_ones(10_000_000), Some(Cause::Quarantine));
            objective(&o, &status(&o, Counts(&[&l]), T0), T0).unwrap().runbook
        };
        assert_eq!(of("node_availability"), "/runbooks/nodes-out");
        assert_eq!(of("api_availability"), "/runbooks/slo-burn");
        let book = include_str!("../../../docs/runbooks/nodes-out.md");
        assert!(book.contains("name: nodes-out") && !book.contains("stuck-queue"));
    }

    #[test]
    fn what_burns_now_is_not_put_down_to_what_burnt_before() {
        let text = r#"{"name":"o","sli":"api_availability","target":"99.9%","window":"30d"}"#;
        let o: Objective = serde_json::from_str(text).unwrap();
        let series = Series { sli: o.sli, scope: o.scope.clone() };
        let mut l = Ledger::default();
        let before = T0 - Span::hours(200);
        l.note(before, &series, Count::bad_ones(10_000), Some(Cause::Hardware));
        l.note(T0, &series, Count::bad_ones(100), Some(Cause::Slow));
        let s = status(&o, Counts(&[&l]), T0);
        assert_eq!(s.causes.first(), Some(&(Cause::Hardware, 10_000)));
        assert_eq!(s.lately, vec![(Cause::Slow, 100)]);
        assert!(!objective(&o, &s, T0).unwrap().by_hardware);
        l.note(T0, &series, Count::bad_ones(200), Some(Cause::Hardware));
        let s = status(&o, Counts(&[&l]), T0);
        assert!(objective(&o, &s, T0).unwrap().by_hardware);
    }

    #[test]
    fn certificates_are_a_ticket_first() {
        let node: Entity = "node:n1".parse().unwrap();
        let ends =
            |days: u64| certificate(&node, T0 + Span::hours(24 * days), T0).map(|c| c.urgency);
        assert_eq!(
            (ends(22), ends(20), ends(1)),
            (None, Some(Urgency::Ticket), Some(Urgency::Page))
        );
        assert_eq!(
            certificate(&node, T0, T0 + Span::hours(5)).map(|c| c.urgency),
            Some(Urgency::Page)
        );
    }

    #[test]
    fn a_burning_objective_keeps_its_words() {
        let text = r#"{"name":"api","owner":"cp","sli":"api_availability","target":"99.9%","window":"30d"}"#;
        let o: Objective = serde_json::from_str(text).unwrap();
        let series = Series { sli: o.sli, scope: o.scope.clone() };
        let mut l = Ledger::default();
        let at = |m: u64| T0 + Span::mins(m);
        let now = |l: &Ledger, m: u64| objective(&o, &status(&o, Counts(&[l]), at(m)), at(m));
        l.note(at(0), &series, Count::good(1_000_000), None);
        assert_eq!(now(&l, 0), None);
        let mut words = std::collections::BTreeSet::new();
        for m in 100..110 {
            l.note(at(m), &series, Count { good: 900 - m, total: 1000 }, None);
            words.insert(now(&l, m).unwrap().summary);
        }
        assert_eq!(words.len(), 1, "{words:?}");
        let c = now(&l, 110).unwrap();
        assert_eq!(
            (c.urgency, c.owner.as_str(), c.link.as_str()),
            (Urgency::Page, "cp", "/slos/api")
        );
        // Days later nothing burns, and the budget is exhausted all the same.
        let later = objective(&o, &status(&o, Counts(&[&l]), at(40_000)), at(40_000)).unwrap();
        assert_eq!(later.urgency, Urgency::Ticket);
        assert_eq!(later.summary, "api: error budget of 30d exhausted");
    }

    fn node(name: &str, leaf: &str) -> Node {
        let text = format!(
            r#"{{"name":"{name}","stage":"ready","reachable":true,"inventory":{{"cpu_model":"","cpus":8,"memory":"1GiB","kernel":""}},
            "location":{{"region":"eu","cluster":"c","spine":"s","leaf":"{leaf}","rack":"r","nvlink":"{name}","feed":"A"}},
            "address":"","host":"","machine":"","boot":"","enrolled_at":0,"changed_at":0,"version":1}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn where_things_stand_is_followed_to_the_top() {
        let n = node("n1", "l2");
        let mut here: Entity = "gpu:n1/0".parse().unwrap();
        let mut way = Vec::new();
        while let Some(up) = above(&here, |_| Some(&n)).first() {
            way.push(up.to_string());
            here = up.clone();
        }
        let want = [
            "node:n1",
            "nvlink:eu/c/s/l2/r/n1",
            "rack:eu/c/s/l2/r",
            "leaf:eu/c/s/l2",
            "spine:eu/c/s",
            "cluster:eu/c",
            "region:eu",
            "site",
        ];
        assert_eq!(way, want);
    }

    #[test]
    fn a_leaf_with_64_nodes_is_one_page_before_and_after_it_is_understood() {
        let nodes: BTreeMap<String, Node> =
            (0..64).map(|n| (format!("n{n}"), node(&format!("n{n}"), "l2"))).collect();
        let mut all: Vec<Condition> = (0..64)
            .map(|n| {
                let f = found(n, "node-lost", &format!("node:n{n}"), Severity::Critical);
                finding(&f, SiteConditions { spares: false, ..CALM }).unwrap()
            })
            .collect();
        let up = |e: &Entity| above(e, |n| nodes.get(n.as_str()));
        let site = Site { silences: &[], routing: &Routing::default(), above: &up, hold: HOLD };
        let loss = incident_of("leaf:eu/c/s/l2");
        assert_eq!(incident(&loss, None), None, "all that was found is over");
        let rest = incident(&loss, Some(Severity::Degraded)).unwrap();
        assert_eq!(rest.urgency, Urgency::Ticket, "what was critical is over");
        all.push(incident(&loss, Some(Severity::Critical)).unwrap());
        let changes = decide(T0, &all, &BTreeMap::new(), &site);
        assert_eq!(changes.len(), 1);
        let a = changes[0].alert();
        assert_eq!((a.urgency, a.count, a.members.len()), (Urgency::Page, 65, 64));
        assert_eq!((a.runbook.as_str(), a.link.as_str()), ("/runbooks/leaf-loss", "/incidents/99"));
        // GPUs that fall off the bus on a leaf do not explain that nodes of it are lost.
        all.pop();
        let gpus = Incident { kind: "gpu-off-bus".to_owned(), ..loss };
        all.push(incident(&gpus, Some(Severity::Critical)).unwrap());
        assert!(decide(T0, &all, &BTreeMap::new(), &site).len() > 1);
        // A finding about the feed explains them as well.
        all.pop();
        let feed = found(70, "feed-loss", "feed:A", Severity::Critical);
        all.push(finding(&Finding { remediation: None, ..feed }, CALM).unwrap());
        let changes = decide(T0, &all, &BTreeMap::new(), &site);
        assert_eq!((changes.len(), changes[0].alert().kind.as_str()), (1, "feed-loss"));
    }
}
