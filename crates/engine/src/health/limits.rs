//! How much automation has taken out of service, by domain, and how much more it may take.

use super::work::Group;
use crate::Engine;
use crate::state::{HealthState, State};
use muster_lifecycle::groups::{FLEET, GroupKind, counts, memberships};
use muster_lifecycle::limits::{GroupUse, holds, holds_part, stop_holds, storm};
use muster_model::FailureMode;
use muster_model::entity::Entity;
use muster_model::event::Event;
use muster_model::names::NodeName;
use muster_model::node::{Node, Stage};
use muster_model::remediation::{
    Act, Action, Mode, Remediation, RemediationOutcome, RemediationStep,
};
use muster_model::units::{Span, Time};
use std::collections::{BTreeMap, BTreeSet};

/// The same page is not sent again within this.
pub(super) const PAGE_AGAIN: Span = Span::hours(1);
/// What holds everything back while automation is stopped, before its reason.
pub(super) const STOPPED: &str = "automation is stopped";
/// What holds back what the policy leaves to an operator.
const BY_POLICY: &str = "pending approval by the policy";
/// How long somebody has to be notified.
const PAGE_WITHIN: Span = Span::hours(24);

impl Engine {
    /// Why automation may not begin a remediation now; none: it may.
    pub(super) fn held(&mut self, r: &Remediation, n: &Node) -> Option<String> {
        if r.approved.is_some() {
            return None;
        }
        if let Some(why) = self.unproven(r).or_else(|| self.stop_in_force()) {
            return Some(why);
        }
        let taking = self.state.policy.remediations.mode(Action::Drain);
        if r.begun_by(taking) == Mode::Approve {
            return Some(BY_POLICY.into());
        }
        match r.action {
            // Restarting a job takes nothing out of service.
            Action::Watch | Action::RestartJob => None,
            Action::IsolateGpu => self.isolation_held(r, n),
            _ => self.machine_held(n),
        }
    }

    /// Why automation may not take a GPU of a node now; none: it may. It counts as its part of the
    /// node.
    fn isolation_held(&mut self, r: &Remediation, n: &Node) -> Option<String> {
        let is_free = r.gpu.is_none_or(|g| n.excluded_gpus.iter().any(|e| e == g));
        if is_free || self.state.health.is_out(n) {
            return None;
        }
        let why = holds_part(&self.groups_of(n), part(n, 1))?;
        self.page(&format!("automation reached a {}", cut_at(&why, ':')), &why);
        Some(why)
    }

    /// Why automation does nothing by itself now, where it is stopped.
    pub(super) fn stop_in_force(&self) -> Option<String> {
        let stopped = self.state.health.automation.stopped.as_ref();
        stopped.map(|s| format!("{STOPPED}: {}", s.reason))
    }

    /// Why the machine may not take a node by itself now, whatever for; none: it may.
    pub(crate) fn machine_held(&mut self, n: &Node) -> Option<String> {
        if let Some(why) = self.stop_in_force() {
            return Some(why);
        }
        if self.state.policy.remediations.mode(Action::Drain) == Mode::Approve {
            return Some(BY_POLICY.into());
        }
        if self.state.health.is_out(n) {
            return None;
        }
        if let Some(why) = self.gated() {
            return Some(why);
        }
        let mut groups = self.groups_of(n);
        // Once it is taken it counts as a whole, and its isolated GPUs not beside it.
        let own = self.counted(n).unwrap_or_default();
        for g in &mut groups {
            g.parts = g.parts.saturating_sub(own.parts);
            g.parts_hour = g.parts_hour.saturating_sub(own.parts_hour);
        }
        // One that gets no new work already is not one more without it.
        let stopped = self.state.health.is_stopped(n) || self.state.health.is_behind_breaker(n);
        let held = holds(&groups).or_else(|| (!stopped).then(|| stop_holds(&groups)).flatten());
        if let Some(why) = held {
            self.page(&format!("automation reached a {}", cut_at(&why, ':')), &why);
            return Some(why);
        }
        self.last_of_reservation(n)
    }

    /// Why a whole group may not be kept from work: too much of the fleet would be out. Nodes
    /// that are lost already cost nothing more.
    pub(super) fn group_held(&mut self, entity: &Entity) -> Option<String> {
        if matches!(entity, Entity::Template(..) | Entity::Image(_)) {
            return None;
        }
        if let Some(why) = self.stop_in_force() {
            return Some(why);
        }
        self.work.groups = None;
        let book = &self.state.health;
        let inside = |n: &&std::sync::Arc<Node>| counts(n) && super::apply::in_group(n, entity);
        // Groups by name, each with how many of its nodes inside serve, and how many are inside.
        let mut hit: Vec<(String, GroupKind, u32, u32)> = Vec::new();
        for n in self.state.nodes.values().filter(inside) {
            let takes_work = !book.is_out(n) && !book.is_behind_breaker(n);
            let serves = n.reachable && n.stage == Stage::Ready && takes_work;
            for (name, kind) in memberships(n) {
                let i = hit.binary_search_by(|of| of.0.cmp(&name)).unwrap_or_else(|i| {
                    hit.insert(i, (name, kind, 0, 0));
                    i
                });
                hit[i].2 += u32::from(serves);
                hit[i].3 += 1;
            }
        }
        let limits = self.state.policy.remediations.limits.clone();
        let groups = self.groups();
        hit.into_iter().find_map(|(name, kind, new, whole)| {
            let g = groups.get(&name).copied().unwrap_or_default();
            // The group that fails as a whole is not protected from its own breaker.
            let all = whole >= g.nodes;
            let own = all && !matches!(kind, GroupKind::Fleet | GroupKind::Pool);
            let most = kind.share(&limits).of(g.nodes).0;
            let (stopped, rest) = (g.out.saturating_add(g.stopped), kind.at_rest(&limits, g.nodes));
            // What other breakers keep from work is missing as much as what is out.
            let shut = g.out.saturating_add(g.behind_breaker);
            // It is kept and read later, when other nodes may be out.
            let (count, what, most) = if shut.saturating_add(new) > most {
                let what = match (g.behind_breaker, g.out_approved) {
                    (0, 0) => "were out by automation",
                    (0, _) => "were out",
                    (_, 0) => "were out by automation or blocked by another breaker",
                    _ => "were out or blocked by another breaker",
                };
                (shut, what, most)
            } else if stopped.saturating_add(new) > rest {
                (stopped, "took no new work", rest)
            } else {
                return None;
            };
            (new > 0 && !own).then(|| {
                format!(
                    "limit of {name}: {count} of {} nodes {what}, and {new} more would be more than {most}",
                    g.nodes
                )
            })
        })
    }

    /// Somebody is notified, once an hour for the same reason.
    pub(crate) fn page(&mut self, title: &str, detail: &str) {
        let now = self.state.now;
        let last = self.state.health.index.pages.get(title);
        if last.is_none_or(|t| now.since(*t) >= PAGE_AGAIN) {
            let act = Act::Page { title: title.to_owned(), detail: detail.to_owned() };
            self.ask_act(act, PAGE_WITHIN);
        }
    }

    /// Too many nodes with findings at once stop automation itself.
    pub(super) fn watch_for_storm(&mut self) {
        let (now, limits) = (self.state.now, self.state.policy.remediations.limits.clone());
        if limits.storm_percent == 0 || self.state.health.automation.stopped.is_some() {
            return;
        }
        let fleet = self.fleet_size();
        let asked = self.state.health.automation.asked.iter().rev();
        let lately = asked.take_while(|(t, _)| now.since(*t) < limits.storm_window);
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        // Which nodes they are is only counted where so many could be one.
        if !storm(&limits, count(lately.clone().count()), fleet) {
            return;
        }
        let nodes: BTreeSet<NodeName> = lately.map(|(_, n)| n.clone()).collect();
        let asking = count(nodes.len());
        if !storm(&limits, asking, fleet) {
            return;
        }
        let reason = format!(
            "{asking} of {fleet} nodes had findings within {}: more than hardware explains",
            limits.storm_window
        );
        self.emit(None, Event::AutomationStopped { reason: reason.clone(), by_operator: false });
        self.page("automation stopped itself", &reason);
        self.resume_in_storm(&nodes);
        let seen = muster_model::finding::ObservedFinding::new(
            FailureMode::DETECTOR_STORM.code(),
            Entity::Site,
            muster_model::finding::Severity::Critical,
            now,
        );
        self.found(seen.because(reason), true);
    }

    /// What a node counts as in its groups, where they are counted already: asked before automation
    /// takes something of it.
    pub(super) fn counted(&self, n: &Node) -> Option<Group> {
        self.work.groups.as_ref()?;
        let now = self.state.now;
        let mut lately = self.state.taken_lately(now);
        let taken = lately.any(|m| *m == n.name);
        Some(self.state.count_node(n, taken, now))
    }

    /// Automation just took something of a node that counted as this: what was counted follows,
    /// without counting the fleet anew.
    pub(super) fn count_again(&mut self, node: &NodeName, was: Option<Group>) {
        let Some(n) = self.state.nodes.get(node) else { return };
        let (Some(was), Some(is)) = (was, self.counted(n)) else { return };
        for (name, _) in memberships(n) {
            let g = self.work.groups.get_or_insert_default().entry(name).or_default();
            *g = g.plus(is).minus(was);
        }
    }

    fn fleet_size(&mut self) -> u32 {
        self.groups().get(FLEET).map_or(0, |g| g.nodes)
    }

    fn groups(&mut self) -> &BTreeMap<String, Group> {
        if self.work.groups.is_none() {
            self.work.groups = Some(self.state.count_groups(self.state.now));
        }
        self.work.groups.get_or_insert_default()
    }

    pub(super) fn groups_of(&mut self, n: &Node) -> Vec<GroupUse> {
        let limits = self.state.policy.remediations.limits.clone();
        let now = self.state.now;
        // One that was taken within the hour already does not count twice.
        let own = self.state.taken_lately(now).any(|taken| *taken == n.name);
        let own_approved = own && taken_by_operator(&self.state.health, &n.name, true);
        let groups = self.groups();
        let used = |(name, kind): (String, GroupKind)| {
            let g = groups.get(&name).copied().unwrap_or_default();
            let hour = g.hour.saturating_sub(u32::from(own));
            let hour_approved = g.hour_approved.saturating_sub(u32::from(own_approved));
            let share = kind.share(&limits);
            let stoppable = kind.at_rest(&limits, g.nodes);
            let Group { nodes, out, out_approved, parts, parts_hour, stopped, .. } = g;
            GroupUse {
                name,
                share,
                nodes,
                out,
                hour,
                out_approved,
                hour_approved,
                parts,
                parts_hour,
                stopped,
                stoppable,
            }
        };
        memberships(n).into_iter().map(used).collect()
    }

    /// The last healthy node of a reservation stays.
    fn last_of_reservation(&self, n: &Node) -> Option<String> {
        let healthy = |name: &NodeName| {
            self.state.nodes.get(name).is_some_and(|m| {
                m.name != n.name && m.reachable && m.stage == Stage::Ready && m.breaker.is_none()
            })
        };
        self.state.reservations.values().find_map(|b| {
            let nodes = self.state.reserved_nodes(b);
            let last = nodes.contains(&n.name) && !nodes.iter().any(healthy);
            last.then(|| {
                format!("it is the last healthy node of reservation {}", b.reservation.name)
            })
        })
    }
}

impl State {
    /// How much of the fleet automation holds, as its limits count it.
    #[must_use]
    pub fn held_by_automation(&self, now: Time) -> GroupUse {
        let g = self.count_groups(now).remove(FLEET).unwrap_or_default();
        let limits = &self.policy.remediations.limits;
        GroupUse {
            name: FLEET.to_owned(),
            share: limits.fleet,
            nodes: g.nodes,
            out: g.out,
            hour: g.hour,
            out_approved: g.out_approved,
            hour_approved: g.hour_approved,
            parts: g.parts,
            parts_hour: g.parts_hour,
            stopped: g.stopped,
            stoppable: GroupKind::Fleet.at_rest(limits, g.nodes),
        }
    }

    fn count_groups(&self, now: Time) -> BTreeMap<String, Group> {
        let mut out: BTreeMap<String, Group> = BTreeMap::new();
        let taken: BTreeSet<NodeName> = self.taken_lately(now).cloned().collect();
        for n in self.nodes.values().filter(|n| counts(n)) {
            let own = self.count_node(n, taken.contains(&n.name), now);
            for (name, _) in memberships(n) {
                let g = out.entry(name).or_default();
                *g = g.plus(own);
            }
        }
        out
    }

    /// Was a node that was taken within the last hour taken because an operator approved it?
    #[must_use]
    pub fn taken_by_operator(&self, node: &NodeName) -> bool {
        taken_by_operator(&self.health, node, true)
    }

    /// Nodes that were taken within the last hour.
    fn taken_lately(&self, now: Time) -> impl Iterator<Item = &NodeName> {
        let taken = self.health.automation.taken.iter();
        taken.filter(move |(t, _)| now.since(*t) < Span::hours(1)).map(|(_, n)| n)
    }

    /// What a node counts as in each of its groups. `taken`: automation took it within the last hour.
    fn count_node(&self, n: &Node, taken: bool, now: Time) -> Group {
        let gone = self.health.is_out(n);
        let shut = self.health.is_behind_breaker(n);
        let approved = |ended| taken_by_operator(&self.health, &n.name, ended);
        let begun = |(t, s): &(Time, RemediationStep)| {
            *s == RemediationStep::Moving && now.since(*t) < Span::hours(1)
        };
        let all = self.health.remediations_ever(&n.name);
        let lately = all
            .filter(|r| r.action == Action::IsolateGpu && r.taken.iter().any(begun))
            .filter_map(|r| r.gpu);
        let gpus = lately.collect::<BTreeSet<u32>>().len();
        let gpus = part(n, u32::try_from(gpus).unwrap_or(u32::MAX));
        Group {
            nodes: 1,
            out: u32::from(gone),
            hour: u32::from(taken),
            out_approved: u32::from(gone && approved(false)),
            hour_approved: u32::from(taken && approved(true)),
            parts: if gone { 0 } else { isolated(n) },
            // The whole node counts already.
            parts_hour: if taken { 0 } else { gpus },
            stopped: u32::from(shut || !gone && self.health.is_stopped(n)),
            behind_breaker: u32::from(shut),
        }
    }
}

/// Did an operator decide that a node is taken out of service, and not automation by itself? Asked of its
/// last remediation that took it, which may have ended where `ended` is set. What follows one that did not
/// help keeps the node out: who began decides.
fn taken_by_operator(book: &HealthState, node: &NodeName, ended: bool) -> bool {
    if book.automation.runs.contains(node) {
        return false;
    }
    let took = |r: &&std::sync::Arc<Remediation>| r.action.takes_node() && r.has_begun();
    let all: Vec<_> = book.remediations_ever(node).filter(took).collect();
    let Some((last, before)) = all.split_last() else { return false };
    if !(ended || matches!(last.outcome, None | Some(RemediationOutcome::Escalated))) {
        return false;
    }
    let mut first = last;
    for r in before.iter().rev() {
        let goes_on = matches!(
            r.outcome,
            Some(RemediationOutcome::Escalated | RemediationOutcome::Superseded)
        );
        // On probation it was in service.
        let served = r.taken.last().is_some_and(|(_, step)| *step == RemediationStep::Probation);
        if !goes_on || served || first.at > r.since {
            break;
        }
        first = r;
    }
    first.begun_by_operator
}

/// So many GPUs of a node, in thousandths of the node.
fn part(n: &Node, gpus: u32) -> u32 {
    let all = n.gpu_set().or(n.missing_set()).len();
    gpus.saturating_mul(1000).checked_div(all).unwrap_or(0).min(1000)
}

/// What automation has taken of a node by isolating GPUs, in thousandths.
fn isolated(n: &Node) -> u32 {
    let all = n.gpu_set().or(n.missing_set());
    part(n, n.excluded_gpus.minus(n.excluded_by_operator).and(all).len())
}

fn cut_at(text: &str, c: char) -> &str {
    text.split(c).next().unwrap_or(text)
}
