//! What a policy would have done with the findings of a stretch of the log. Nothing is decided
//! here that counts: the same ladder and limits are asked as in earnest, and time is taken from
//! the records.
//!
//! What cannot be known from the log is assumed: an operator approves what waits, a node that is
//! drained is back after half an hour, one that is reset or restarted after an hour, one that
//! people repair after three days, and automation that stopped itself is resumed after an hour.

use muster_api::DryRemedy;
use muster_lifecycle::ladder::{self, Asked, Before};
use muster_lifecycle::limits::{GroupUse, holds, storm};
use muster_model::Record;
use muster_model::entity::Entity;
use muster_model::event::Event;
use muster_model::finding::SeenFinding;
use muster_model::names::NodeName;
use muster_model::node::{Node, Stage};
use muster_model::remedy::{Action, Mode, Remedies, Share};
use muster_model::topology::Level;
use muster_model::units::{Span, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Remedies that are told one by one.
const TOLD: usize = 1000;
/// A fault that nobody closed is a new finding again after this.
const STALE: Span = Span::hours(24);
/// Automation that stopped itself is resumed after this.
const RESUMED: Span = Span::hours(1);

/// Where a node stands, as far as limits care.
struct Place {
    pool: String,
    sku: String,
    groups: Vec<(String, Share)>,
}

/// A remedy that would have been chosen.
struct Chosen {
    kind: String,
    gpu: Option<u32>,
    action: Action,
    at: Time,
    done: bool,
}

/// A node that would be out of service.
struct Out {
    since: Time,
    until: Time,
    action: Action,
}

/// Lives a stretch of the log under a policy.
pub(super) struct Rehearsal {
    policy: Remedies,
    places: BTreeMap<NodeName, Place>,
    sizes: BTreeMap<String, u32>,
    /// What is found and not over: when it was last told.
    open: BTreeMap<(Entity, String), Time>,
    ids: BTreeMap<u64, (Entity, String)>,
    before: BTreeMap<NodeName, Vec<Chosen>>,
    out: BTreeMap<NodeName, Out>,
    asked: Vec<(Time, NodeName)>,
    stopped_until: Option<Time>,
    pub(super) findings: u64,
    pub(super) by_action: BTreeMap<String, u64>,
    pub(super) held: BTreeMap<String, u64>,
    pub(super) out_at_once: u32,
    pub(super) storms: u32,
    pub(super) items: Vec<DryRemedy>,
}

impl Rehearsal {
    /// Under this policy, over the nodes as they are placed now.
    pub(super) fn new<'a>(
        policy: Remedies,
        nodes: impl Iterator<Item = &'a Arc<Node>>,
    ) -> Rehearsal {
        let (mut places, mut sizes) = (BTreeMap::new(), BTreeMap::new());
        for n in nodes.filter(|n| !matches!(n.stage, Stage::Retired | Stage::Enrolled)) {
            let groups = groups(n, &policy);
            for (name, _) in &groups {
                *sizes.entry(name.clone()).or_insert(0u32) += 1;
            }
            let place = Place { pool: n.pool().into(), sku: n.sku().into(), groups };
            places.insert(n.name.clone(), place);
        }
        Rehearsal {
            policy,
            places,
            sizes,
            open: BTreeMap::new(),
            ids: BTreeMap::new(),
            before: BTreeMap::new(),
            out: BTreeMap::new(),
            asked: Vec::new(),
            stopped_until: None,
            findings: 0,
            by_action: BTreeMap::new(),
            held: BTreeMap::new(),
            out_at_once: 0,
            storms: 0,
            items: Vec::new(),
        }
    }

    /// The next record.
    pub(super) fn read(&mut self, r: &Record) {
        match &r.event {
            Event::FindingOpened { finding, .. } => {
                let key = (finding.seen.entity.clone(), finding.seen.kind.clone());
                self.ids.insert(finding.id, key);
                self.found(&finding.seen, finding.id, r.at);
            }
            Event::FindingClosed { id, .. } => {
                if let Some(key) = self.ids.remove(id) {
                    self.open.remove(&key);
                }
            }
            // A log of an older server holds faults that nobody made a finding of.
            Event::FaultSeen { node, fault } => {
                if let Some(seen) = muster_health::detect::fault::judge(node, fault, 0) {
                    self.found(&seen, r.seq.0, r.at);
                }
            }
            _ => {}
        }
    }

    fn found(&mut self, seen: &SeenFinding, id: u64, at: Time) {
        let key = (seen.entity.clone(), seen.kind.clone());
        let fresh = self.open.insert(key, at).is_none_or(|last| at.since(last) >= STALE);
        if !fresh {
            return;
        }
        self.findings += 1;
        if self.policy.enabled
            && let Some(node) = seen.entity.node()
        {
            self.consider(seen, &node.clone(), id, at);
        }
    }

    fn consider(&mut self, seen: &SeenFinding, node: &NodeName, id: u64, at: Time) {
        self.out.retain(|_, o| o.until > at);
        let none = Place { pool: "default".into(), sku: String::new(), groups: Vec::new() };
        let place = self.places.get(node).unwrap_or(&none);
        let asked = Asked {
            kind: &seen.kind,
            severity: seen.severity,
            confidence: seen.confidence,
            pool: &place.pool,
            sku: &place.sku,
            gpu: seen.entity.gpu(),
        };
        let past = self.before.get(node);
        let before: Vec<Before<'_>> = past
            .into_iter()
            .flatten()
            .map(|c| Before { kind: &c.kind, gpu: c.gpu, action: c.action, at: c.at, done: c.done })
            .collect();
        let choice = ladder::choose(&self.policy, &asked, &before, at);
        // Something at least as heavy is under way there already.
        let takes = choice.action.takes_node();
        if takes && self.out.get(node).is_some_and(|o| o.action >= choice.action) {
            return;
        }
        let held = self.holds(node, place, choice.action, choice.mode, at);
        let done =
            held.is_none() && (choice.mode != Mode::DetectOnly || choice.action == Action::Watch);
        if done && takes {
            let until = at + away(choice.action);
            let new = Out { since: at, until, action: choice.action };
            let o = self.out.entry(node.clone()).or_insert(new);
            (o.until, o.action) = (o.until.max(until), choice.action);
            let now_out = u32::try_from(self.out.len()).unwrap_or(u32::MAX);
            self.out_at_once = self.out_at_once.max(now_out);
        }
        *self.by_action.entry(choice.action.word().into()).or_default() += 1;
        if let Some(why) = &held {
            // The figures behind it differ from time to time; what holds does not.
            let short = why.split(": ").next().unwrap_or(why);
            *self.held.entry(short.to_owned()).or_default() += 1;
        }
        if self.items.len() < TOLD {
            self.items.push(DryRemedy {
                at: at.into(),
                finding: id.to_string(),
                kind: seen.kind.clone(),
                node: node.to_string(),
                gpu: seen.entity.gpu(),
                action: choice.action,
                mode: choice.mode,
                held,
            });
        }
        self.before.entry(node.clone()).or_default().push(Chosen {
            kind: seen.kind.clone(),
            gpu: seen.entity.gpu(),
            action: choice.action,
            at,
            done,
        });
        if takes {
            self.asks(node, at);
        }
    }

    /// What would hold it back.
    fn holds(
        &self,
        node: &NodeName,
        place: &Place,
        action: Action,
        mode: Mode,
        at: Time,
    ) -> Option<String> {
        if !action.takes_node() || mode == Mode::DetectOnly || self.out.contains_key(node) {
            return None;
        }
        if self.stopped_until.is_some_and(|t| t > at) {
            return Some("automation has stopped itself".into());
        }
        if self.policy.mode(Action::Drain) == Mode::Approve {
            return Some("the policy wants an operator's word".into());
        }
        let uses: Vec<GroupUse> = place
            .groups
            .iter()
            .map(|(name, share)| {
                let inside = |n: &NodeName| {
                    self.places.get(n).is_some_and(|p| p.groups.iter().any(|(g, _)| g == name))
                };
                let here: Vec<&Out> =
                    self.out.iter().filter(|(n, _)| inside(n)).map(|(_, o)| o).collect();
                let hour = here.iter().filter(|o| at.since(o.since) < Span::hours(1)).count();
                GroupUse {
                    name: name.clone(),
                    share: *share,
                    nodes: self.sizes.get(name).copied().unwrap_or(0),
                    out: u32::try_from(here.len()).unwrap_or(u32::MAX),
                    hour: u32::try_from(hour).unwrap_or(u32::MAX),
                    stopped: 0,
                    stoppable: u32::MAX,
                }
            })
            .collect();
        holds(&uses)
    }

    /// One more node asks: perhaps too many do.
    fn asks(&mut self, node: &NodeName, at: Time) {
        let window = self.policy.limits.storm_window;
        self.asked.retain(|(t, _)| at.since(*t) < window);
        self.asked.push((at, node.clone()));
        if self.stopped_until.is_some_and(|t| t > at) {
            return;
        }
        let nodes: BTreeSet<&NodeName> = self.asked.iter().map(|(_, n)| n).collect();
        let asking = u32::try_from(nodes.len()).unwrap_or(u32::MAX);
        let fleet = self.sizes.get("fleet").copied().unwrap_or(0);
        if storm(&self.policy.limits, asking, fleet) {
            self.storms += 1;
            self.stopped_until = Some(at + RESUMED);
            self.asked.clear();
        }
    }
}

/// How long a node is away for it.
fn away(action: Action) -> Span {
    match action {
        Action::Watch | Action::RestartJob | Action::IsolateGpu => Span(0),
        Action::Drain => Span::mins(30),
        Action::ResetGpu | Action::Reboot | Action::PowerCycle => Span::hours(1),
        Action::Replace => Span::hours(72),
    }
}

/// Groups that a node belongs to, with their limits. A place that nobody stated is no group.
fn groups(n: &Node, policy: &Remedies) -> Vec<(String, Share)> {
    let l = &policy.limits;
    let mut out = vec![("fleet".to_owned(), l.fleet), (format!("pool:{}", n.pool()), l.pool)];
    if n.location.leaf != "unplaced" {
        let leaf = Entity::domain(Level::Leaf, &n.name, &n.location).to_string();
        out.push((leaf, l.leaf));
    }
    if n.location.feed != "unknown" {
        out.push((format!("feed:{}", n.location.feed), l.feed));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_model::finding::{Finding, Severity};
    use muster_model::ids::Seq;

    fn node(name: &str) -> Arc<Node> {
        let name: NodeName = name.parse().unwrap();
        let text = serde_json::json!({
            "name": name, "stage": "ready", "reachable": true, "cordon": null,
            "inventory": {"cpu_model": "x", "cpus": 8, "memory": "8GiB", "kernel": "6"},
            "location": muster_model::topology::Location::unplaced(&name),
            "address": "", "host": "", "machine": "", "boot": "",
            "enrolled_at": 0, "changed_at": 0, "version": 1,
        });
        Arc::new(serde_json::from_value(text).unwrap())
    }

    fn opened(seq: u64, at: Time, kind: &str, entity: &str) -> Record {
        let seen = SeenFinding::new(kind, entity.parse().unwrap(), Severity::Critical, at);
        let finding = Finding {
            id: seq,
            seen,
            opened_at: at,
            inferred: true,
            incident: None,
            remedy: None,
            closed: None,
        };
        record(seq, at, Event::FindingOpened { finding: Box::new(finding), decided: false })
    }

    fn record(seq: u64, at: Time, event: Event) -> Record {
        Record {
            seq: Seq(seq),
            at,
            v: 4,
            org: "default".into(),
            project: None,
            actor: "system".into(),
            key: None,
            event,
        }
    }

    fn fleet(n: u32) -> Vec<Arc<Node>> {
        (0..n).map(|i| node(&format!("n{i}"))).collect()
    }

    #[test]
    fn a_rung_follows_the_one_that_did_not_help() {
        let nodes = fleet(20);
        let mut life = Rehearsal::new(Remedies::default(), nodes.iter());
        let hour = |h: u64| Time(0) + Span::hours(h);
        for (i, h) in [(1u64, 1), (3, 5), (5, 9)] {
            life.read(&opened(i, hour(h), "gpu-off-bus", "gpu:n1/3"));
            let why = String::new();
            life.read(&record(
                i + 1,
                hour(h + 1),
                Event::FindingClosed { id: i, why, decided: false },
            ));
        }
        let done: Vec<Action> = life.items.iter().map(|i| i.action).collect();
        assert_eq!(done, [Action::Reboot, Action::PowerCycle, Action::Replace]);
        assert_eq!((life.findings, life.out_at_once, life.storms), (3, 1, 0));
        // Told again while it is open: the same finding.
        life.read(&opened(9, hour(10), "gpu-off-bus", "gpu:n2/3"));
        life.read(&opened(10, hour(10), "gpu-off-bus", "gpu:n2/3"));
        assert_eq!(life.findings, 4);
        // Another finding of a node that is out already asks for nothing more.
        life.read(&opened(11, hour(10), "gpu-missing", "gpu:n2/3"));
        assert_eq!((life.findings, life.items.len()), (5, 4));
    }

    #[test]
    fn limits_and_storms_hold_back_what_they_would_in_earnest() {
        let nodes = fleet(20);
        let mut life = Rehearsal::new(Remedies::default(), nodes.iter());
        for i in 0..8u64 {
            let at = Time(0) + Span::secs(i);
            life.read(&opened(i + 1, at, "gpu-off-bus", &format!("gpu:n{i}/0")));
        }
        assert_eq!(life.out_at_once, 2, "a tenth of the fleet an hour");
        assert_eq!(life.storms, 1);
        assert!(life.held.keys().any(|k| k.starts_with("limit of fleet")), "{:?}", life.held);
        assert!(life.held.contains_key("automation has stopped itself"), "{:?}", life.held);
        let held = life.items.iter().filter(|i| i.held.is_some()).count();
        assert_eq!((life.items.len(), held), (8, 6));
    }

    #[test]
    fn a_policy_that_only_looks_takes_nothing() {
        let policy = Remedies {
            modes: Action::ALL.iter().map(|a| (*a, Mode::DetectOnly)).collect(),
            ..Remedies::default()
        };
        let nodes = fleet(4);
        let mut life = Rehearsal::new(policy, nodes.iter());
        life.read(&opened(1, Time(5), "gpu-off-bus", "gpu:n1/3"));
        assert_eq!((life.out_at_once, life.items.len()), (0, 1));
        let off = Remedies { enabled: false, ..Remedies::default() };
        let mut life = Rehearsal::new(off, nodes.iter());
        life.read(&opened(1, Time(5), "gpu-off-bus", "gpu:n1/3"));
        assert_eq!((life.findings, life.items.len()), (1, 0));
    }
}
