//! What the log shows of an incident, and what it cost: a fold over records.

use super::timeline::{self, NodeSubjects};
use muster_api::{IncidentEntry, IncidentImpact};
use muster_engine::State as Site;
use muster_model::Record;
use muster_model::alert::{Alert, AlertChange, Escalated, Urgency};
use muster_model::event::Event;
use muster_model::finding::{Finding, Incident};
use muster_model::ids::JobId;
use muster_model::names::{NodeName, ProjectName};
use muster_model::remediation::Act;
use muster_model::units::{Span, Time};
use muster_server::acts::was_sent;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Entries of a record.
const ENTRIES: usize = 1000;
/// Nodes whose timelines are reported.
const NODES: usize = 64;
/// What happened so shortly before the first finding belongs to it.
const BEFORE: Span = Span::mins(10);

fn describe_change(news: AlertChange) -> &'static str {
    match news {
        AlertChange::Firing => "of it",
        AlertChange::Worse => "that it is worse",
        AlertChange::Still => "that it still is so",
        AlertChange::Over => "that it is over",
    }
}

/// An alert that may become part of one of the incident.
#[derive(Default)]
struct OtherAlert {
    page: bool,
    called: u32,
}

/// Everything that the log shows of an incident.
pub(super) struct IncidentTimeline {
    pub(super) incident: Arc<Incident>,
    findings: BTreeMap<u64, Arc<Finding>>,
    abouts: Vec<NodeSubjects>,
    gpus: BTreeMap<NodeName, u64>,
    pub(super) entries: Vec<IncidentEntry>,
    jobs: BTreeMap<JobId, Option<ProjectName>>,
    /// Attempts of those that were stopped for it.
    pub(super) interrupted: BTreeMap<JobId, BTreeSet<u32>>,
    down: BTreeMap<NodeName, Time>,
    lost_ms: u64,
    /// How often somebody was paged: what reached a receiver.
    called: u32,
    /// How often somebody was to be called, whether anybody could be reached or not.
    pub(super) wanted: u32,
    runs: BTreeSet<u64>,
    /// It and the incidents that became part of it.
    incidents: BTreeSet<u64>,
    /// The numbers of the findings that are listed with these.
    finding_ids: BTreeSet<u64>,
    alerts: BTreeSet<String>,
    /// What those of them that are open are grouped by: another alert may become part of one. Such a
    /// group may be a node, which has other alerts when these are over.
    groups: BTreeMap<String, String>,
    /// Alerts that are not of it so far.
    others: BTreeMap<String, OtherAlert>,
    /// Those of the alerts that are pages.
    pages: BTreeSet<String>,
    /// Acts that call somebody.
    acts: BTreeSet<u64>,
    pub(super) cut: bool,
}

impl IncidentTimeline {
    pub(super) fn new(s: &Site, incident: Arc<Incident>) -> IncidentTimeline {
        let of = incident.findings.iter().filter_map(|f| s.health.findings.get(f));
        let findings: BTreeMap<u64, Arc<Finding>> = of.map(|f| (f.id, f.clone())).collect();
        let mut nodes: BTreeSet<NodeName> =
            findings.values().filter_map(|f| f.seen.entity.node().cloned()).collect();
        while nodes.len() > NODES {
            nodes.pop_last();
        }
        let parts = s.health.parts_of(incident.id);
        let all = || parts.iter().chain([&incident]);
        let gpus = |n: &NodeName| {
            s.nodes.get(n).map_or(0, |n| n.inventory.gpus.len() + n.missing_gpus.len()) as u64
        };
        IncidentTimeline {
            gpus: nodes.iter().map(|n| (n.clone(), gpus(n))).collect(),
            abouts: nodes.iter().map(|n| NodeSubjects::new(s, n)).collect(),
            incidents: all().map(|i| i.id).collect(),
            finding_ids: all().flat_map(|i| &i.findings).copied().collect(),
            groups: BTreeMap::new(),
            others: BTreeMap::new(),
            incident,
            findings,
            entries: Vec::new(),
            jobs: BTreeMap::new(),
            interrupted: BTreeMap::new(),
            down: BTreeMap::new(),
            lost_ms: 0,
            called: 0,
            wanted: 0,
            runs: BTreeSet::new(),
            alerts: BTreeSet::new(),
            pages: BTreeSet::new(),
            acts: BTreeSet::new(),
            cut: false,
        }
    }

    /// Nodes that it is about.
    pub(super) fn nodes(&self) -> BTreeSet<NodeName> {
        self.gpus.keys().cloned().collect()
    }

    fn from(&self) -> Time {
        self.incident.began_at - BEFORE
    }

    /// What comes after its end belongs to it only where it names it.
    fn to(&self) -> Option<Time> {
        self.incident.closed.as_ref().map(|c| c.at)
    }

    fn add(&mut self, r: &Record, what: &str, node: Option<&NodeName>, text: String) {
        if self.entries.len() >= ENTRIES {
            self.cut = true;
            return;
        }
        let node = node.map(ToString::to_string);
        let (what, actor) = (what.to_owned(), r.actor.clone());
        self.entries.push(IncidentEntry { at: r.at.into(), what, node, actor, text });
    }

    /// The number of the first record that may be about it: findings were there before the incident was
    /// known as one.
    pub(super) fn first(&self) -> u64 {
        let first = self.finding_ids.first().into_iter().chain(self.incidents.first());
        first.copied().min().unwrap_or(self.incident.id)
    }

    pub(super) fn read(&mut self, r: &Record) {
        self.note_other_alerts(r);
        let id = self.incident.id;
        match &r.event {
            Event::IncidentOpened { incident } if incident.id == id => {
                self.add(r, "incident", None, format!("opened: {}", incident.summary));
            }
            Event::IncidentGrew { id: i, summary, .. } if *i == id => {
                self.add(r, "incident", None, format!("grew: {summary}"));
            }
            Event::IncidentClosed { id: i, why, .. } if *i == id => {
                self.add(r, "incident", None, format!("closed: {why}"));
            }
            Event::IncidentNoted { id: i, text } if *i == id => {
                self.add(r, "note", None, text.clone());
            }
            Event::IncidentOwned { id: i, owner } if *i == id => {
                let text = match owner {
                    Some(who) => format!("assigned to {who}"),
                    None => "assignment ended".to_owned(),
                };
                self.add(r, "incident", None, text);
            }
            Event::RunbookStarted { run } => {
                let node = run.vars.get("node").and_then(|n| n.parse::<NodeName>().ok());
                let here = node.as_ref().is_some_and(|n| self.gpus.contains_key(n));
                let named = run.vars.get("incident").is_some_and(|i| *i == id.to_string());
                if here && self.within(r.at) || named {
                    self.runs.insert(run.id);
                    let text = format!("run {} of {} began", run.id, run.book);
                    self.add(r, "runbook", node.as_ref(), text);
                }
            }
            Event::RunbookStepDone { run, done, .. } if self.runs.contains(run) => {
                let what = [done.did.as_str(), done.saw.as_str(), done.note.as_str()];
                let what: Vec<&str> = what.into_iter().filter(|t| !t.is_empty()).collect();
                let text = format!(
                    "run {run}, step {}: {} {}",
                    done.step,
                    done.chose.as_deref().unwrap_or(done.outcome.word()),
                    what.join("; ")
                );
                self.add(r, "runbook", None, text.trim().to_owned());
            }
            Event::RunbookEnded { run, outcome, why, .. } if self.runs.contains(run) => {
                self.add(r, "runbook", None, format!("run {run} is {}: {why}", outcome.word()));
            }
            Event::AlertOpened { alert } if self.refers_to(&alert.link) => {
                self.alerts.insert(alert.id.clone());
                self.groups.insert(alert.id.clone(), alert.group.clone());
                self.pages_by(alert);
                let text = format!("{}: {}", alert.urgency.word(), alert.summary);
                self.add(r, "alert", None, text);
            }
            Event::AlertChanged { alert } if self.alerts.contains(&alert.id) => {
                // It may have been over, and be open again.
                self.groups.insert(alert.id.clone(), alert.group.clone());
                self.pages_by(alert);
            }
            Event::AlertAcknowledged { id, acknowledgement } if self.alerts.contains(id) => {
                let a = acknowledgement;
                let note = if a.note.is_empty() { String::new() } else { format!(": {}", a.note) };
                self.add(r, "alert", None, format!("acknowledged by {}{note}", a.by));
            }
            Event::AlertEscalated { escalation: Escalated { id, level, reason } }
                if self.alerts.contains(id) =>
            {
                let why = if reason.is_empty() { String::new() } else { format!(": {reason}") };
                self.add(r, "alert", None, format!("escalated to step {level}{why}"));
            }
            Event::AlertsNotified { receiver, alerts } => {
                let mine = alerts.iter().filter(|(id, _)| self.alerts.contains(id));
                let reported: Vec<(AlertChange, bool)> =
                    mine.map(|(id, news)| (*news, self.pages.contains(id))).collect();
                for (news, page) in reported {
                    self.called += u32::from(page && news != AlertChange::Over);
                    self.add(
                        r,
                        "alert",
                        None,
                        format!("{receiver} was notified {}", describe_change(news)),
                    );
                }
            }
            Event::ActEnded { id, ok, message, .. } if self.acts.contains(id) => {
                self.called += u32::from(*ok && was_sent(message));
            }
            Event::AlertClosed { alert } if self.alerts.contains(&alert.id) => {
                self.groups.remove(&alert.id);
                self.add(r, "alert", None, "over".to_owned());
            }
            _ if self.within(r.at) => self.read_within(r),
            _ => {}
        }
    }

    /// An alert that becomes part of one of the incident has notified people of it, too.
    fn note_other_alerts(&mut self, r: &Record) {
        match &r.event {
            Event::AlertOpened { alert } | Event::AlertChanged { alert } => {
                let other = self.others.entry(alert.id.clone()).or_default();
                other.page |= alert.urgency == Urgency::Page;
            }
            Event::AlertsNotified { alerts, .. } => {
                for (id, news) in alerts {
                    if let Some(other) = self.others.get_mut(id) {
                        other.called += u32::from(other.page && *news != AlertChange::Over);
                    }
                }
            }
            Event::AlertClosed { alert } => {
                // One that is over may come back and be the same: people were notified of it then.
                let Some(into) = &alert.merged_into else { return };
                let Some(other) = self.others.remove(&alert.id) else { return };
                if self.is_own_group(into) && !self.alerts.contains(&alert.id) {
                    self.called += other.called;
                    self.wanted += u32::from(other.page);
                    let text = format!("became part of it: {}", alert.summary);
                    self.add(r, "alert", None, text);
                }
            }
            _ => {}
        }
    }

    /// Is what becomes part of this group a part of the incident now?
    fn is_own_group(&self, group: &str) -> bool {
        let incident = group.strip_prefix("incident:").and_then(|id| id.parse::<u64>().ok());
        incident.is_some_and(|id| self.incidents.contains(&id))
            || self.groups.values().any(|open| open == group)
    }

    /// Is this the address of the incident, of one that became part of it, or of a finding of these?
    fn refers_to(&self, link: &str) -> bool {
        let number = |prefix| link.strip_prefix(prefix).and_then(|n| n.parse::<u64>().ok());
        number("/incidents/").is_some_and(|i| self.incidents.contains(&i))
            || number("/findings/").is_some_and(|f| self.finding_ids.contains(&f))
    }

    fn within(&self, at: Time) -> bool {
        at >= self.from() && self.to().is_none_or(|end| at <= end)
    }

    fn read_within(&mut self, r: &Record) {
        match &r.event {
            Event::ActAsked { act } => {
                if let Act::Page { title, detail } = &act.act {
                    self.wanted += 1;
                    self.acts.insert(act.id);
                    self.add(r, "page", None, format!("{title}: {detail}"));
                    return;
                }
            }
            Event::BreakerSet { breaker, .. } if breaker.entity == self.incident.cause => {
                let text = format!(
                    "breaker {} is {}: {}",
                    breaker.entity,
                    breaker.state.word(),
                    breaker.reason
                );
                self.add(r, "breaker", None, text);
                return;
            }
            Event::FindingOpened { finding, .. }
                if self.findings.contains_key(&finding.id)
                    && finding.seen.entity.node().is_none() =>
            {
                let e = &finding.seen.entity;
                self.add(r, "finding", None, format!("{} on {e}", finding.seen.kind));
                return;
            }
            Event::AutomationStopped { reason, .. } => {
                self.add(r, "automation", None, format!("stopped: {reason}"));
                return;
            }
            Event::StopOrdered { key, reason, .. }
                if reason.node().is_some_and(|n| self.gpus.contains_key(n)) =>
            {
                self.jobs.insert(key.job, r.project.clone());
                self.interrupted.entry(key.job).or_default().insert(key.attempt);
            }
            Event::NodeLost { node, .. } => self.goes_down(node, r.at),
            Event::NodeStaged { node, stage, .. } => {
                if *stage == muster_model::node::Stage::Ready {
                    self.comes_up(node, r.at);
                } else {
                    self.goes_down(node, r.at);
                }
            }
            Event::NodeBack { node, .. } | Event::NodeReady { node, .. } => {
                self.comes_up(node, r.at);
            }
            _ => {}
        }
        let reported = self
            .abouts
            .iter()
            .find_map(|a| timeline::timeline_entry(r, a).map(|e| (a.node().clone(), e)));
        if let Some((node, e)) = reported {
            self.add(r, e.what.word(), Some(&node), e.text);
        }
    }

    fn goes_down(&mut self, node: &NodeName, at: Time) {
        if self.gpus.contains_key(node) {
            self.down.entry(node.clone()).or_insert(at);
        }
    }

    fn comes_up(&mut self, node: &NodeName, at: Time) {
        if let Some(since) = self.down.remove(node) {
            let gpus = self.gpus.get(node).copied().unwrap_or(0);
            self.lost_ms = self.lost_ms.saturating_add(at.since(since).0.saturating_mul(gpus));
        }
    }

    /// What it cost; `lost`: the work that the interrupted attempts lost, in GPU-microseconds.
    pub(super) fn impact(&mut self, now: Time, lost: u128) -> IncidentImpact {
        let end = self.to().unwrap_or(now);
        let still: Vec<NodeName> = self.down.keys().cloned().collect();
        for n in still {
            self.comes_up(&n, end);
        }
        let i = &self.incident;
        let projects: BTreeSet<String> =
            self.jobs.values().flatten().map(ToString::to_string).collect();
        IncidentImpact {
            seconds: end.since(i.began_at).0 / 1000,
            seconds_to_detect: i.opened_at.since(i.began_at).0 / 1000,
            nodes: self.gpus.keys().map(ToString::to_string).collect(),
            gpu_milli_hours: self.lost_ms / 3600,
            lost_gpu_milli_hours: u64::try_from(lost / 3_600_000).unwrap_or(u64::MAX),
            jobs: self.jobs.keys().map(|j| j.0).collect(),
            projects: projects.into_iter().collect(),
            pages: self.called,
        }
    }

    /// An alert is a page, or became one.
    fn pages_by(&mut self, alert: &Alert) {
        if alert.urgency == Urgency::Page && self.pages.insert(alert.id.clone()) {
            self.wanted += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::health::fixture::record;
    use muster_model::alert::{Acknowledgement, AlertState, Topic};
    use muster_model::entity::Entity;
    use muster_model::finding::{Closed, Severity};
    use muster_model::ids::AttemptKey;
    use muster_model::job::StopReason;
    use muster_model::node::Stage;
    use muster_model::remediation::AskedAct;

    const MIN: i64 = 60_000;

    fn alert(link: &str, urgency: Urgency) -> Box<Alert> {
        Box::new(Alert {
            id: "a1".into(),
            group: "g".into(),
            topic: Topic::Incident,
            kind: "leaf-loss".into(),
            cause: Entity::Site,
            above: Vec::new(),
            urgency,
            state: AlertState::Firing,
            summary: "leaf l1 is lost".into(),
            owner: String::new(),
            project: None,
            runbook: String::new(),
            link: link.into(),
            members: Vec::new(),
            paged: false,
            objectives: Vec::new(),
            count: 1,
            jobs: 0,
            gpus: 0,
            since: Time(0),
            raised_at: Time(0),
            changed_at: Time(0),
            loud_since: None,
            silenced: None,
            gone_since: None,
            level: 0,
            acknowledged: None,
            resolved_at: None,
            merged_into: None,
        })
    }

    fn incident() -> Arc<Incident> {
        Arc::new(Incident {
            id: 7,
            cause: Entity::Site,
            kind: "leaf-loss".into(),
            severity: Severity::Critical,
            summary: "lost".into(),
            began_at: Time(60 * MIN),
            opened_at: Time(61 * MIN),
            findings: vec![5],
            count: 1,
            owner: None,
            notes: Vec::new(),
            closed: Some(Closed { at: Time(180 * MIN), why: "it is back".into() }),
            part_of: None,
        })
    }

    #[test]
    fn nobody_was_called_who_was_not_reached() {
        let opened = Event::AlertOpened { alert: alert("/incidents/7", Urgency::Page) };
        let asked = |act| Event::ActAsked { act };
        let act = |id| {
            Box::new(AskedAct {
                id,
                act: Act::Page { title: "storm".into(), detail: String::new() },
                at: Time(62 * MIN),
                until: Time(72 * MIN),
                ended: None,
            })
        };
        let ended = |id, message: &str| Event::ActEnded {
            id,
            ok: true,
            message: message.into(),
            expired: false,
        };
        let mut s = IncidentTimeline::new(&Site::default(), incident());
        for event in [opened, asked(act(3)), ended(3, "stored in pages.jsonl"), asked(act(4))] {
            s.read(&record(62 * MIN, None, event));
        }
        assert_eq!((s.impact(Time(200 * MIN), 0).pages, s.wanted), (0, 3));
        s.read(&record(63 * MIN, None, ended(4, "stored in pages.jsonl, sent to hooks.example")));
        assert_eq!((s.impact(Time(200 * MIN), 0).pages, s.wanted), (1, 3));
    }

    #[test]
    fn pages_of_what_became_part_of_an_incident_are_its_own() {
        let closed = Closed { at: Time(62 * MIN), why: "part of incident 7".into() };
        let part = Incident { id: 6, findings: vec![4], ..(*incident()).clone() };
        let mut site = Site::default();
        let part = Incident { closed: Some(closed), part_of: Some(7), ..part };
        site.health.incidents.insert(6, Arc::new(part));
        let mut s = IncidentTimeline::new(&site, incident());
        assert_eq!(s.first(), 4, "its part was found before it");
        let page = |id: &str, link: &str, into: Option<&str>| {
            let mut alert = alert(link, Urgency::Page);
            (alert.id, alert.merged_into) = (id.into(), into.map(Into::into));
            alert
        };
        let all = [
            // Of the incident that became part of it, and of a node below what is the cause.
            ("a6", "/incidents/6", Some("incident:7")),
            ("a3", "/findings/3", Some("incident:7")),
            // Of others.
            ("a2", "/findings/2", None),
            ("a8", "/findings/1", Some("incident:8")),
        ];
        for (id, link, _) in all {
            s.read(&record(61 * MIN, None, Event::AlertOpened { alert: page(id, link, None) }));
        }
        let alerts = all.iter().map(|(id, ..)| ((*id).into(), AlertChange::Firing)).collect();
        let receiver = "oncall".parse().unwrap();
        s.read(&record(61 * MIN, None, Event::AlertsNotified { receiver, alerts }));
        for (id, link, into) in all {
            s.read(&record(62 * MIN, None, Event::AlertClosed { alert: page(id, link, into) }));
        }
        assert_eq!((s.impact(Time(200 * MIN), 0).pages, s.wanted), (2, 2));
        let joined = s.entries.iter().filter(|e| e.text == "became part of it: leaf l1 is lost");
        assert_eq!(joined.count(), 1);
    }

    #[test]
    fn what_becomes_part_of_an_alert_of_a_node_counts_while_that_is_the_incidents() {
        let mut s = IncidentTimeline::new(&Site::default(), incident());
        let page = |id: &str, link: &str, group: &str, into: Option<&str>| {
            let mut alert = alert(link, Urgency::Page);
            (alert.id, alert.group) = (id.into(), group.into());
            alert.merged_into = into.map(Into::into);
            alert
        };
        let of_node = || page("a5", "/findings/5", "node:n1", None);
        let of_job = |id: &str, into: Option<&str>| page(id, "/findings/9", "job:4", into);
        let notified = |id: &str| Event::AlertsNotified {
            receiver: "oncall".parse().unwrap(),
            alerts: vec![(id.into(), AlertChange::Firing)],
        };
        let joins = |s: &mut IncidentTimeline, at, id: &str| {
            s.read(&record(at, None, Event::AlertOpened { alert: of_job(id, None) }));
            s.read(&record(at, None, notified(id)));
            // It goes away for a moment before.
            s.read(&record(at, None, Event::AlertClosed { alert: of_job(id, None) }));
            s.read(&record(at, None, Event::AlertChanged { alert: of_job(id, None) }));
            let joined = of_job(id, Some("node:n1"));
            s.read(&record(at, None, Event::AlertClosed { alert: joined }));
        };
        s.read(&record(61 * MIN, None, Event::AlertOpened { alert: of_node() }));
        joins(&mut s, 62 * MIN, "b1");
        assert_eq!((s.impact(Time(200 * MIN), 0).pages, s.wanted), (1, 2));
        s.read(&record(63 * MIN, None, Event::AlertClosed { alert: of_node() }));
        // A month later the node has other alerts.
        joins(&mut s, 43_200 * MIN, "b2");
        assert_eq!((s.impact(Time(200 * MIN), 0).pages, s.wanted), (1, 2));
        // The same alert of the incident is open again.
        s.read(&record(43_201 * MIN, None, Event::AlertChanged { alert: of_node() }));
        joins(&mut s, 43_202 * MIN, "b3");
        assert_eq!((s.impact(Time(200 * MIN), 0).pages, s.wanted), (2, 3));
    }

    #[test]
    fn what_an_incident_cost_and_who_was_called_is_counted_once() {
        let node: NodeName = "n1".parse().unwrap();
        let mut s = IncidentTimeline::new(&Site::default(), incident());
        s.gpus.insert(node.clone(), 8);
        let lost = || Event::NodeLost { node: node.clone(), last_seen: Time(59 * MIN) };
        let key = AttemptKey { job: JobId(3), attempt: 1 };
        let stop = |reason| Event::StopOrdered { key, reason, grace: Span(0), fence_until: None };
        let ack = Acknowledgement { by: "ana".into(), at: Time(63 * MIN), note: "on it".into() };
        for r in [
            // Long before, about others, of others.
            record(MIN, None, lost()),
            record(
                62 * MIN,
                None,
                Event::AlertOpened { alert: alert("/incidents/8", Urgency::Page) },
            ),
            record(
                62 * MIN,
                Some("nlp"),
                stop(StopReason::NodeLost { node: "n9".parse().unwrap() }),
            ),
            // Its own.
            record(60 * MIN, None, lost()),
            record(61 * MIN, None, lost()),
            record(61 * MIN, Some("nlp"), stop(StopReason::NodeLost { node: node.clone() })),
            record(
                62 * MIN,
                None,
                Event::AlertOpened { alert: alert("/incidents/7", Urgency::Page) },
            ),
            record(
                62 * MIN,
                None,
                Event::AlertsNotified {
                    receiver: "oncall".parse().unwrap(),
                    alerts: vec![
                        ("a1".into(), AlertChange::Firing),
                        ("other".into(), AlertChange::Firing),
                    ],
                },
            ),
            record(
                63 * MIN,
                None,
                Event::AlertAcknowledged { id: "a1".into(), acknowledgement: ack },
            ),
            record(
                120 * MIN,
                None,
                Event::NodeStaged {
                    node: node.clone(),
                    stage: Stage::Ready,
                    reason: "tested".into(),
                    until: None,
                    by_operator: false,
                },
            ),
            // It goes down again until the end.
            record(150 * MIN, None, lost()),
        ] {
            s.read(&r);
        }
        assert_eq!(s.interrupted, BTreeMap::from([(JobId(3), BTreeSet::from([1]))]));
        let impact = s.impact(Time(1000 * MIN), 7_200_000_000);
        assert_eq!(impact.lost_gpu_milli_hours, 2000, "two GPU-hours of work");
        assert_eq!(impact.gpu_milli_hours, 8 * (1000 + 500), "an hour and half of one");
        assert_eq!((impact.jobs, impact.projects), (vec![3], vec!["nlp".to_owned()]));
        assert_eq!((impact.pages, impact.seconds, impact.seconds_to_detect), (1, 7200, 60));
        let reported: Vec<&str> =
            s.entries.iter().filter(|e| e.what == "alert").map(|e| e.text.as_str()).collect();
        assert_eq!(
            reported,
            ["page: leaf l1 is lost", "oncall was notified of it", "acknowledged by ana: on it"]
        );
    }
}
