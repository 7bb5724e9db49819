//! What belongs together on an on-call page: alerts, incidents, breakers, findings and remediations
//! with one cause. Alerts are grouped already; everything else goes to the alert that names it.

use crate::conditions::{SiteConditions, of_finding};
use crate::group::base;
use muster_model::alert::Alert;
use muster_model::breaker::Breaker;
use muster_model::entity::Entity;
use muster_model::finding::{Finding, Incident};
use muster_model::names::NodeName;
use muster_model::remediation::Remediation;
use std::collections::BTreeMap;

/// Everything that is open about one cause.
#[derive(Debug, Default)]
pub struct CauseGroup<'a> {
    /// Alerts; mostly one.
    pub alerts: Vec<&'a Alert>,
    /// Incidents; mostly one, or none.
    pub incidents: Vec<&'a Incident>,
    /// Breakers that are not closed.
    pub breakers: Vec<&'a Breaker>,
    /// Findings, oldest first.
    pub findings: Vec<&'a Finding>,
    /// Remediations that have not ended.
    pub remediations: Vec<&'a Remediation>,
}

/// What is open. What somebody may not see is left out before.
#[derive(Debug, Default)]
pub struct Open<'a> {
    /// Alerts that are not resolved.
    pub alerts: Vec<&'a Alert>,
    /// Incidents that are not closed.
    pub incidents: Vec<&'a Incident>,
    /// Breakers that are not closed.
    pub breakers: Vec<&'a Breaker>,
    /// Findings that are not closed.
    pub findings: Vec<&'a Finding>,
    /// Remediations that have not ended.
    pub remediations: Vec<&'a Remediation>,
}

/// Where things are shown.
struct CauseGroups<'a> {
    causes: BTreeMap<String, CauseGroup<'a>>,
    /// The alert that names a thing, by its group.
    named: Vec<(&'a Entity, &'a str)>,
}

impl CauseGroups<'_> {
    /// The group of a thing: its own where there is one, else that of the alert that names it.
    fn find(&self, own: String, entity: &Entity) -> String {
        if self.causes.contains_key(&own) {
            return own;
        }
        let node = || first(&self.named, &Entity::Node(entity.node()?.clone()));
        first(&self.named, entity).or_else(node).map_or(own, |group| (*group).to_owned())
    }
}

/// The first of a key, in a list that is in the order of keys.
fn first<'a, K: Ord, V>(all: &'a [(&K, V)], key: &K) -> Option<&'a V> {
    let at = all.partition_point(|of| of.0 < key);
    all.get(at).filter(|of| of.0 == key).map(|of| &of.1)
}

/// Puts together what has one cause, by the name of the group.
#[must_use]
pub fn causes<'a>(open: &Open<'a>) -> BTreeMap<String, CauseGroup<'a>> {
    let mut places = CauseGroups { causes: BTreeMap::new(), named: Vec::new() };
    for &a in &open.alerts {
        places.causes.entry(a.group.clone()).or_default().alerts.push(a);
        // What a job did to itself on a node says nothing about the node.
        if a.topic.is_physical() && !a.group.starts_with("job:") {
            for e in std::iter::once(&a.cause).chain(&a.members) {
                places.named.push((e, a.group.as_str()));
            }
        }
    }
    places.named.sort_by_key(|(e, _)| *e);
    let mut of_incident: BTreeMap<u64, String> = BTreeMap::new();
    for &i in &open.incidents {
        let key = places.find(format!("incident:{}", i.id), &i.cause);
        places.causes.entry(key.clone()).or_default().incidents.push(i);
        of_incident.insert(i.id, key);
    }
    for &b in &open.breakers {
        // An incident may be over before the probe of its breaker has passed.
        let incident = b.because_of.and_then(|i| of_incident.get(&i)).cloned();
        let own = || places.find(format!("breaker:{}", b.entity), &b.entity);
        let key = incident.unwrap_or_else(own);
        places.causes.entry(key).or_default().breakers.push(b);
    }
    let mut of_finding_id: BTreeMap<u64, String> = BTreeMap::new();
    let mut of_node: Vec<(&NodeName, String)> = Vec::new();
    for &f in &open.findings {
        let incident = f.incident.and_then(|i| of_incident.get(&i)).cloned();
        let key = incident.unwrap_or_else(|| places.find(own_group(f), &f.seen.entity));
        places.causes.entry(key.clone()).or_default().findings.push(f);
        if let Some(node) = f.seen.entity.node().filter(|_| !key.starts_with("job:")) {
            of_node.push((node, key.clone()));
        }
        of_finding_id.insert(f.id, key);
    }
    of_node.sort_by_key(|(node, _)| *node);
    for &r in &open.remediations {
        // Of a finding that is over, what is left is the node that is brought back.
        let known = of_finding_id.get(&r.finding).or_else(|| first(&of_node, &r.node)).cloned();
        let node = || places.find(format!("node:{}", r.node), &Entity::Node(r.node.clone()));
        let key = known.unwrap_or_else(node);
        places.causes.entry(key).or_default().remediations.push(r);
    }
    places.causes
}

/// The group that a finding would be in by itself.
fn own_group(f: &Finding) -> String {
    base(&of_finding(f, SiteConditions { spares: true, automation: true }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_model::finding::{ObservedFinding, Severity};
    use muster_model::ids::{AttemptKey, JobId};
    use muster_model::units::Time;
    use serde_json::json;

    fn finding(id: u64, kind: &str, on: &str, severity: Severity) -> Finding {
        Finding {
            id,
            seen: ObservedFinding::new(kind, on.parse().unwrap(), severity, Time(0)),
            opened_at: Time(0),
            inferred: false,
            incident: None,
            remediation: None,
            closed: None,
        }
    }

    fn alert(group: &str, topic: &str, cause: &str, members: &[&str]) -> Alert {
        let text = json!({"id": group, "group": group, "topic": topic, "kind": "k",
            "cause": cause, "members": members, "urgency": "page", "state": "firing",
            "summary": "s", "count": 1, "since": 0, "raised_at": 0, "changed_at": 0});
        serde_json::from_value(text).unwrap()
    }

    fn incident(id: u64, cause: &str) -> Incident {
        Incident {
            id,
            cause: cause.parse().unwrap(),
            kind: "leaf-loss".to_owned(),
            severity: Severity::Critical,
            summary: "a leaf is lost".to_owned(),
            began_at: Time(0),
            opened_at: Time(0),
            findings: vec![],
            count: 2,
            owner: None,
            notes: Vec::new(),
            closed: None,
            part_of: None,
        }
    }

    /// Numbers of the findings of each group.
    fn shown<'k>(all: &'k BTreeMap<String, CauseGroup<'_>>) -> Vec<(&'k str, Vec<u64>)> {
        let ids = |c: &CauseGroup<'_>| c.findings.iter().map(|f| f.id).collect();
        all.iter().map(|(key, c)| (key.as_str(), ids(c))).collect()
    }

    #[test]
    fn what_is_found_on_one_node_is_one_cause_with_its_alert() {
        let alerts = [alert("node:n1", "finding", "gpu:n1/3", &[])];
        let findings = [
            finding(1, "gpu-off-bus", "gpu:n1/3", Severity::Critical),
            finding(2, "thermal", "gpu:n1/0", Severity::Info),
            finding(3, "config-drift", "node:n2", Severity::Warning),
        ];
        let open = Open {
            alerts: alerts.iter().collect(),
            findings: findings.iter().collect(),
            ..Open::default()
        };
        let all = causes(&open);
        assert_eq!(shown(&all), [("node:n1", vec![1, 2]), ("node:n2", vec![3])]);
        assert_eq!(all["node:n1"].alerts.len(), 1);
    }

    #[test]
    fn parts_of_an_incident_are_with_it_and_so_is_what_a_wider_alert_explains() {
        let mut part = finding(1, "node-lost", "node:n1", Severity::Critical);
        part.incident = Some(9);
        let explained = finding(2, "port-down", "port:n2/1", Severity::Warning);
        let findings = [part, explained];
        let incidents = [incident(9, "leaf:eu/c/s/l")];
        let leaf = alert("incident:9", "incident", "leaf:eu/c/s/l", &["node:n1", "node:n2"]);
        let open = Open {
            alerts: vec![&leaf],
            incidents: incidents.iter().collect(),
            findings: findings.iter().collect(),
            ..Open::default()
        };
        assert_eq!(shown(&causes(&open)), [("incident:9", vec![1, 2])]);
        // The incident is part of a feed's alert: one cause all the same.
        let feed = alert("finding:feed-loss:feed:A", "finding", "feed:A", &["leaf:eu/c/s/l"]);
        let all = causes(&Open { alerts: vec![&feed], ..open });
        let of_feed = &all["finding:feed-loss:feed:A"];
        assert_eq!((of_feed.incidents.len(), of_feed.findings[0].id), (1, 1));
    }

    #[test]
    fn a_breaker_is_with_its_incident_and_stays_when_that_is_over() {
        let breaker: Breaker = serde_json::from_value(json!({"entity": "version:driver/580",
            "state": "open", "since": 0, "reason": "r", "back_off": "20m", "trips": 1,
            "because_of": 9}))
        .unwrap();
        let incidents = [incident(9, "version:driver/580")];
        let open = Open {
            incidents: incidents.iter().collect(),
            breakers: vec![&breaker],
            ..Open::default()
        };
        let all = causes(&open);
        assert_eq!((all.len(), all["incident:9"].breakers.len()), (1, 1));
        let all = causes(&Open { incidents: vec![], ..open });
        assert_eq!(all["breaker:version:driver/580"].breakers.len(), 1);
    }

    #[test]
    fn a_job_that_crashes_on_a_node_is_no_cause_of_what_the_node_has() {
        let mut own = finding(1, "crash-loop", "gpu:n1/0", Severity::Warning);
        own.seen.attempt = Some(AttemptKey { job: JobId(7), attempt: 1 });
        let findings = [own, finding(2, "thermal", "gpu:n1/0", Severity::Info)];
        let job = alert("job:7", "finding", "gpu:n1/0", &[]);
        let open =
            Open { alerts: vec![&job], findings: findings.iter().collect(), ..Open::default() };
        let all = causes(&open);
        assert_eq!(shown(&all), [("job:7", vec![1]), ("node:n1", vec![2])]);
    }

    #[test]
    fn an_objective_is_a_cause_of_its_own() {
        let slo = alert("objective:api:site", "objective", "site", &[]);
        let findings = [finding(1, "detector-storm", "site", Severity::Critical)];
        let open =
            Open { alerts: vec![&slo], findings: findings.iter().collect(), ..Open::default() };
        let keys: Vec<String> = causes(&open).into_keys().collect();
        assert_eq!(keys, ["finding:detector-storm:site", "objective:api:site"]);
    }

    #[test]
    fn a_remediation_is_with_its_finding_or_with_its_node() {
        let remediation = |id: u64, finding: u64, node: &str| -> Remediation {
            let text = json!({"id": id, "finding": finding, "kind": "gpu-off-bus", "node": node,
                "action": "reboot", "step_index": 0, "mode": "approve", "leave": "checkpoint",
                "step": "approval", "why": "w", "at": 0, "since": 0});
            serde_json::from_value(text).unwrap()
        };
        let findings = [finding(1, "gpu-off-bus", "gpu:n1/3", Severity::Critical)];
        let remediations =
            [remediation(10, 1, "n1"), remediation(11, 99, "n1"), remediation(12, 98, "n5")];
        let open = Open {
            findings: findings.iter().collect(),
            remediations: remediations.iter().collect(),
            ..Open::default()
        };
        let all = causes(&open);
        let ids = |key: &str| all[key].remediations.iter().map(|r| r.id).collect::<Vec<_>>();
        assert_eq!((ids("node:n1"), ids("node:n5")), (vec![10, 11], vec![12]));
    }
}
