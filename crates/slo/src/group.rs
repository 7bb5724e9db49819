//! Which conditions are one trouble: parts of an incident, things on one node or of one job, and
//! what is explained by what stands above it.

use muster_model::alert::{Alert, Condition, Topic, Urgency};
use muster_model::distinct;
use muster_model::entity::Entity;
use muster_model::names::NodeName;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// How far up and how far along parents is looked: deeper is a mistake in what was reported.
const STEPS: usize = 64;

/// What a thing is part of, nearest first. Only direct ones have to be reported.
pub type ParentsOf<'a> = dyn Fn(&Entity) -> Vec<Entity> + 'a;

/// Has somebody been paged about a group?
pub(crate) type Paged<'a> = dyn Fn(&Group<'_>) -> bool + 'a;

/// Is what is so about an objective part of this alert about hardware?
#[must_use]
pub fn is_part(c: &Condition, a: &Alert) -> bool {
    let named = || a.objectives.contains(&c.kind) || a.members.contains(&c.entity);
    c.topic == Topic::Objective && c.by_hardware && a.topic.is_physical() && a.is_open() && named()
}

/// Conditions with one cause.
#[derive(Debug)]
pub(crate) struct Group<'a> {
    /// What holds them together.
    pub(crate) key: String,
    /// The one that stands for them.
    pub(crate) lead: &'a Condition,
    /// The thing that is the cause.
    pub(crate) cause: Entity,
    /// What that is part of.
    pub(crate) above: Vec<Entity>,
    /// All of them, in the order of their keys.
    pub(crate) all: Vec<&'a Condition>,
    /// Objectives that burn because of its nodes, where pages explain it: named, and no page.
    pub(crate) burns: Vec<&'a Condition>,
}

/// All groups, and into which group went what would have been one by itself.
#[derive(Debug, Default)]
pub(crate) struct Groups<'a> {
    pub(crate) groups: BTreeMap<String, Group<'a>>,
    pub(crate) merged: BTreeMap<String, String>,
}

impl Groups<'_> {
    /// Objectives that burn because of hardware are part of the page about it. Where no nodes are
    /// known, as long as there is one such page only: of several nobody knows which it was.
    fn take_in_what_hardware_burns(&mut self, open: &BTreeMap<String, Alert>) {
        let burning = self.groups.values().filter(|g| g.lead.by_hardware && g.lead.nodes.is_none());
        let moves: Vec<(String, String)> = burning
            .filter_map(|g| {
                let into = self.page_about_hardware(g.lead, open)?;
                (g.lead.since >= into.lead.since).then(|| (g.key.clone(), into.key.clone()))
            })
            .collect();
        for (key, into) in moves {
            let Some(g) = self.groups.remove(&key) else { continue };
            if let Some(to) = self.groups.get_mut(&into) {
                to.all.extend(g.all);
                to.all.sort_by(|a, b| a.key.cmp(&b.key));
                self.merged.insert(key, into.clone());
            }
        }
    }
}

impl<'a> Groups<'a> {
    /// An objective that counts nodes is part of all pages about those that are out of service, and
    /// pages nobody anew. One that has paged by itself goes on by itself.
    fn take_in_what_paged_nodes_burn(&mut self, open: &BTreeMap<String, Alert>, paged: &Paged<'_>) {
        let alone = |g: &Group<'_>| open.get(&g.key).is_some_and(|a| a.is_open() && a.paged);
        let burning = self.groups.values().filter(|g| g.lead.by_hardware && !alone(g));
        let moves: Vec<(String, Vec<String>)> = burning
            .filter_map(|g| Some((g.key.clone(), self.pages_that_explain(g.lead, open, paged)?)))
            .collect();
        for (key, pages) in moves {
            let Some(g) = self.groups.remove(&key) else { continue };
            for page in &pages {
                if let Some(to) = self.groups.get_mut(page) {
                    to.burns.push(g.lead);
                }
            }
            self.merged.extend(pages.into_iter().next().map(|first| (key, first)));
        }
    }

    /// The pages about nodes that are out of service, or were while it burnt, if the nodes that nobody
    /// was paged about would not burn an objective too fast by themselves.
    fn pages_that_explain(
        &self,
        c: &Condition,
        open: &BTreeMap<String, Alert>,
        paged: &Paged<'_>,
    ) -> Option<Vec<String>> {
        let out: Vec<&NodeName> = distinct(c.nodes.as_ref()?.iter());
        let mut left = vec![true; out.len()];
        let mut pages = Vec::new();
        for g in self.groups.values().filter(|g| g.is_about_hardware()) {
            let broken = g.all.iter().filter(|one| one.job.is_none());
            let nodes = broken.filter_map(|one| one.entity.node());
            let nodes: Vec<usize> = nodes.filter_map(|n| out.binary_search(&n).ok()).collect();
            let before = || open.get(&g.key).is_some_and(|a| is_part(c, a));
            if (nodes.is_empty() && !before()) || !paged(g) {
                continue;
            }
            for n in nodes {
                left[n] = false;
            }
            pages.push(g.key.clone());
        }
        let left = left.iter().filter(|left| **left).count() as u64;
        let explained = !pages.is_empty() && left <= c.nodes_allowed;
        explained.then_some(pages)
    }

    /// The one page about hardware that an objective may burn because of. Where no condition pages
    /// now, a remediation may be under way: then it is the alert that is still a page, or the one
    /// that the objective paged with before.
    fn page_about_hardware(
        &self,
        objective: &Condition,
        open: &BTreeMap<String, Alert>,
    ) -> Option<&Group<'a>> {
        let alert = |g: &Group<'_>| open.get(&g.key).filter(|a| a.is_open());
        let pages = |g: &Group<'_>| urgency(&g.all) == Urgency::Page;
        let still = |g: &Group<'_>| alert(g).is_some_and(|a| a.urgency == Urgency::Page);
        let before = |g: &Group<'_>| alert(g).is_some_and(|a| is_part(objective, a));
        let ranks: [&dyn Fn(&Group<'_>) -> bool; 3] = [&pages, &still, &before];
        for fits in ranks {
            let mut all = self.groups.values().filter(|g| g.is_about_hardware() && fits(g));
            if let Some(one) = all.next() {
                return Some(one).filter(|_| all.next().is_none());
            }
        }
        None
    }
}

/// Everything that a thing is part of, nearest first.
fn ancestors(entity: &Entity, above: &ParentsOf<'_>) -> Vec<Entity> {
    let mut out: Vec<Entity> = Vec::new();
    let mut next = above(entity);
    while !next.is_empty() && out.len() < STEPS {
        let mut further = Vec::new();
        for e in next {
            if e != *entity && !out.contains(&e) && out.len() < STEPS {
                further.extend(above(&e));
                out.push(e);
            }
        }
        next = further;
    }
    out
}

/// What a condition belongs to, as long as nothing else explains it.
pub(crate) fn base(c: &Condition) -> String {
    if c.topic == Topic::Incident {
        return c.key.clone();
    }
    let one = || format!("{}:{}:{}", c.topic.word(), c.kind, c.entity);
    if !c.topic.is_physical() {
        return one();
    }
    match (c.job, c.entity.node(), &c.entity) {
        (Some(job), _, _) => format!("job:{job}"),
        (None, None, Entity::Job(job)) => format!("job:{job}"),
        (None, Some(node), _) => format!("node:{node}"),
        _ => one(),
    }
}

/// The condition that another one is in the end a part of.
fn root<'a>(c: &'a Condition, all: &[&'a Condition]) -> &'a Condition {
    let known = |key: &str| all.binary_search_by(|c| c.key.as_str().cmp(key)).ok().map(|i| all[i]);
    let mut here = c;
    let mut seen = vec![c];
    while let Some(up) = here.parent.as_deref().and_then(known) {
        let again = seen.iter().any(|c| c.key == up.key);
        seen.push(up);
        if again || seen.len() > STEPS {
            // Parts of each other: the first name stands for all of them.
            return seen.into_iter().min_by_key(|c| &c.key).unwrap_or(c);
        }
        here = up;
    }
    here
}

/// What is broken before what suffers from it, then the most urgent, the worst, and the one that came
/// first. How urgent a finding is moves with the spares that are left; how bad it is does not.
fn lead<'a>(all: &[&'a Condition]) -> Option<&'a Condition> {
    let suffers = |c: &Condition| !c.topic.is_physical() || c.job.is_some();
    all.iter().copied().min_by_key(|c| {
        let much = (Reverse(c.urgency), Reverse(c.severity));
        (c.topic != Topic::Incident, suffers(c), much, c.since, &c.key)
    })
}

fn urgency(all: &[&Condition]) -> Urgency {
    all.iter().map(|c| c.urgency).max().unwrap_or(Urgency::Ticket)
}

impl<'a> Group<'a> {
    fn new(key: String, all: Vec<&'a Condition>, above: &ParentsOf<'_>) -> Option<Group<'a>> {
        let lead = lead(&all)?;
        // Several things of one node: the node.
        let mut broken = all.iter().filter(|c| c.job.is_none());
        let same = broken.all(|c| c.entity == lead.entity);
        let cause = match lead.entity.node() {
            Some(n) if !same && lead.topic != Topic::Incident && lead.job.is_none() => {
                Entity::Node(n.clone())
            }
            _ => lead.entity.clone(),
        };
        let above = ancestors(&cause, above);
        Some(Group { key, lead, cause, above, all, burns: Vec::new() })
    }

    /// Is it about something broken, and not what a job did to itself?
    fn is_about_hardware(&self) -> bool {
        self.lead.topic.is_physical() && self.lead.job.is_none()
    }

    /// Does something in it explain what is wrong with the other?
    fn explains(&self, other: &Group<'_>) -> bool {
        let higher = |e: &Entity| *e != other.cause && other.above.contains(e);
        // An incident of a thing explains what was found about the thing itself.
        let itself = |c: &Condition| {
            c.entity == other.cause
                && c.topic == Topic::Incident
                && other.lead.topic != Topic::Incident
        };
        other.lead.topic.is_physical()
            && other.lead.job.is_none()
            && urgency(&self.all) >= urgency(&other.all)
            && self.all.iter().any(|c| c.explains && (higher(&c.entity) || itself(c)))
    }
}

/// Puts together what has one cause. The order in which conditions are reported does not matter.
/// `open` has the alerts that are known, by group; `paged` knows whether somebody was paged about one.
pub(crate) fn groups<'a>(
    conditions: &'a [Condition],
    above: &ParentsOf<'_>,
    open: &BTreeMap<String, Alert>,
    paged: &Paged<'_>,
) -> Groups<'a> {
    // The same one reported twice: the worse one counts.
    let mut all: Vec<&Condition> = conditions.iter().collect();
    all.sort_unstable_by(|a, b| {
        a.key.cmp(&b.key).then_with(|| (b.urgency, b).cmp(&(a.urgency, a)))
    });
    all.dedup_by(|next, kept| next.key == kept.key);
    let mut parts: Vec<(String, &Condition)> = Vec::with_capacity(all.len());
    let mut out = Groups::default();
    for c in &all {
        let top = base(root(c, &all));
        let own = base(c);
        if own != top {
            out.merged.insert(own, top.clone());
        }
        parts.push((top, *c));
    }
    parts.sort_by(|a, b| a.0.cmp(&b.0));
    let parts = parts.chunk_by(|a, b| a.0 == b.0);
    let parts = parts.map(|of| (of[0].0.clone(), of.iter().map(|(_, c)| *c).collect::<Vec<_>>()));
    let mut order: Vec<Group<'_>> =
        parts.filter_map(|(key, all)| Group::new(key, all, above)).collect();
    // The widest first: only what came before can explain, so nothing is hidden by what it hides.
    order.sort_by_key(|g| (g.above.len(), g.lead.topic != Topic::Incident, g.key.clone()));
    let mut done: Vec<(Group<'_>, Option<String>)> = Vec::with_capacity(order.len());
    // Few explain anything, however many there are.
    let mut explaining: Vec<usize> = Vec::new();
    for g in order {
        let by = explaining.iter().filter_map(|i| done.get(*i)).find(|(d, _)| d.explains(&g));
        let into = by.map(|(d, into)| into.clone().unwrap_or_else(|| d.key.clone()));
        if g.all.iter().any(|c| c.explains) {
            explaining.push(done.len());
        }
        done.push((g, into));
    }
    for (g, into) in done {
        match into.and_then(|k| out.groups.get_mut(&k).map(|to| (k, to))) {
            Some((k, to)) => {
                to.all.extend(g.all);
                to.all.sort_by(|a, b| a.key.cmp(&b.key));
                out.merged.insert(g.key, k);
            }
            None => {
                out.groups.insert(g.key.clone(), g);
            }
        }
    }
    out.take_in_what_paged_nodes_burn(open, paged);
    out.take_in_what_hardware_burns(open);
    // Where something has a group of its own, it did not go into another.
    let groups = &out.groups;
    let merged = std::mem::take(&mut out.merged);
    let end = |k: &String| merged.get(k).filter(|_| !groups.contains_key(k)).unwrap_or(k).clone();
    out.merged = merged
        .iter()
        .filter(|(own, _)| !groups.contains_key(*own))
        .map(|(own, top)| (own.clone(), end(top)))
        .collect();
    out
}
