//! From what is so now to alerts: raise, change, resolve.

pub use crate::group::is_part;
use crate::group::{Group, ParentsOf, groups};
use muster_model::alert::{
    Alert, AlertState, Condition, MEMBERS_MAX, MatcherInput, Routing, Silence, Topic, Urgency,
};
use muster_model::distinct;
use muster_model::entity::Entity;
use muster_model::ids::JobId;
use muster_model::names::Label;
use muster_model::units::{Span, Time};
use std::collections::BTreeMap;

/// What comes and goes within this is one alert: a rate must be away for so long before it is over,
/// a state that is over is the same alert when it is back within it, and nobody is notified of its
/// end before.
pub const HOLD: Span = Span::mins(2);

/// What decisions follow, beside conditions.
#[derive(Clone, Copy)]
pub struct Site<'a> {
    /// Times in which some alerts are not sent.
    pub silences: &'a [Silence],
    /// Who is notified, and who when nobody answers.
    pub routing: &'a Routing,
    /// What a thing is part of.
    pub above: &'a ParentsOf<'a>,
    /// A rate that is away for less than this is not over; a state that is back within it is the
    /// same alert.
    pub hold: Span,
}

/// What has to be written about an alert.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A new alert.
    Raised(Box<Alert>),
    /// More is known of one, its urgency or its silence changed, or it was escalated.
    Changed(Box<Alert>),
    /// One is over; it is as given.
    Resolved(Box<Alert>),
}

impl Change {
    /// The alert as it is after the change.
    #[must_use]
    pub fn alert(&self) -> &Alert {
        match self {
            Change::Raised(a) | Change::Changed(a) | Change::Resolved(a) => a,
        }
    }
}

/// A short name for an alert; the same on every machine.
fn id(group: &str, at: Time) -> String {
    // FNV-1a: it only has to distinguish alerts of one site.
    let bytes = group.bytes().chain(at.0.to_le_bytes());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |h, b| {
        (h ^ u64::from(b)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    format!("{hash:016x}")
}

/// What has to change, from all that is so now and the alerts that are open or were lately
/// ([`is_known`]), by group. Neither order nor repetition of conditions matters, and asking again
/// without news changes nothing.
#[must_use]
pub fn decide(
    now: Time,
    conditions: &[Condition],
    open: &BTreeMap<String, Alert>,
    site: &Site<'_>,
) -> Vec<Change> {
    let known = |g: &Group<'_>| open.get(&g.key).filter(|a| is_known(a, now, site.hold));
    let paged = |g: &Group<'_>| alert(now, g, known(g), site).paged;
    let found = groups(conditions, site.above, open, &paged);
    let mut out = Vec::new();
    for g in found.groups.values() {
        let before = known(g);
        let mut next = alert(now, g, before, site);
        next.level = level(&next, site.routing, now);
        match before {
            None => out.push(Change::Raised(Box::new(next))),
            Some(old) => {
                // Jobs come and go every minute: how many are affected is written with what else
                // changes, and when the first or the last of them does.
                let counted = (next.jobs == 0) != (old.jobs == 0);
                let (jobs, gpus) =
                    if counted { (next.jobs, next.gpus) } else { (old.jobs, old.gpus) };
                let same = Alert { changed_at: old.changed_at, jobs, gpus, ..next.clone() };
                if same != *old {
                    out.push(Change::Changed(Box::new(next)));
                }
            }
        }
    }
    for (key, old) in open.iter().filter(|(k, a)| a.is_open() && !found.groups.contains_key(*k)) {
        let merged_into = found.merged.get(key).filter(|k| found.groups.contains_key(*k)).cloned();
        let gone = old.gone_since.unwrap_or(now);
        let over = merged_into.is_some() || !old.topic.is_rate() || now.since(gone) >= site.hold;
        if over {
            out.push(Change::Resolved(Box::new(Alert {
                state: AlertState::Resolved,
                resolved_at: Some(now),
                changed_at: now,
                gone_since: Some(gone),
                merged_into,
                ..old.clone()
            })));
        } else if old.gone_since.is_none() {
            let gone_since = Some(now);
            let next = Alert { gone_since, changed_at: now, ..old.clone() };
            out.push(Change::Changed(Box::new(next)));
        }
    }
    out
}

/// Is an alert open, or away for so short that what comes back is the same one?
#[must_use]
pub fn is_known(a: &Alert, now: Time, hold: Span) -> bool {
    // As long as nobody was notified of its end.
    let lately = |t: Time| a.merged_into.is_none() && now.since(t) < hold;
    a.is_open() || a.gone_since.is_some_and(lately)
}

/// Names of what a group's cause affects that its summary has room for.
const AFFECTED: usize = 3;

/// What is wrong, and which jobs and objectives suffer from it.
fn summary(g: &Group<'_>) -> String {
    let of = |c: &&Condition| match (c.job, c.topic) {
        (_, Topic::Objective) if g.lead.topic != Topic::Objective => {
            Some(format!("SLO {}", c.kind))
        }
        (Some(job), _) if g.lead.job.is_none() && g.cause != Entity::Job(job) => {
            Some(format!("job {job}"))
        }
        _ => None,
    };
    let all: Vec<String> = distinct(g.all.iter().chain(&g.burns).filter_map(of));
    let mut names: Vec<String> = all.iter().take(AFFECTED).cloned().collect();
    if all.len() > AFFECTED {
        names.push(format!("{} more", all.len() - AFFECTED));
    }
    match names.is_empty() {
        true => g.lead.summary.clone(),
        false => format!("{}; affects {}", g.lead.summary, names.join(", ")),
    }
}

fn alert(now: Time, g: &Group<'_>, before: Option<&Alert>, site: &Site<'_>) -> Alert {
    let quiet: Vec<Option<&Label>> = g.all.iter().map(|c| silenced(now, c, g, site)).collect();
    let loud: Vec<&Condition> =
        g.all.iter().zip(&quiet).filter(|(_, q)| q.is_none()).map(|(c, _)| *c).collect();
    let heard = if loud.is_empty() { &g.all } else { &loud };
    let most = heard.iter().map(|c| c.urgency).max().unwrap_or(Urgency::Ticket);
    // Whoever was paged has not answered yet: the page stays one until they do, or until it is over.
    // Only a silence for what paged makes it less before.
    let hushed = g.all.iter().zip(&quiet).any(|(c, q)| q.is_some() && c.urgency > most);
    let unanswered = before.filter(|a| a.acknowledged.is_none() && !hushed);
    let urgency = unanswered.map_or(most, |a| a.urgency.max(most));
    let silence = quiet.iter().flatten().min().filter(|_| loud.is_empty());
    let members = g.all.iter().map(|c| &c.entity).filter(|e| **e != g.cause);
    let members: Vec<&Entity> = distinct(members);
    let same = g.all.first().filter(|a| g.all.iter().all(|c| c.project == a.project));
    // Somebody said that they look after a ticket; nobody did about a page. An objective that paged
    // as part of it before is no other page.
    let again = |c: &Condition| before.is_some_and(|a| has_paged(a, c));
    let paged = before.is_some_and(|a| a.urgency < urgency);
    let worse = paged && heard.iter().any(|c| c.urgency == urgency && !again(c));
    let joined = before.is_some_and(|a| heard.iter().any(|c| is_news(a, c)));
    let other = before.is_some_and(|a| is_other(a, g.lead));
    let said = before.and_then(|a| a.acknowledged.clone());
    let acknowledged = said.filter(|_| !worse && !joined && !other);
    let raised_at = before.map_or(now, |a| a.raised_at);
    let objectives = before
        .into_iter()
        .flat_map(|a| &a.objectives)
        .chain(
            heard.iter().filter(|c| g.lead.topic != Topic::Objective && pages(c)).map(|c| &c.kind),
        )
        .chain(g.burns.iter().map(|c| &c.kind));
    let objectives: Vec<&String> = distinct(objectives);
    // An incident has one beginning, wherever it is shown: what else is in its alert may be older.
    let began = (g.lead.topic == Topic::Incident).then_some(g.lead.since);
    let since_all = g.all.iter().map(|c| c.since).min().unwrap_or(now);
    // What was over before all that is so now began, and was something else, is no part of it.
    let goes_on =
        |a: &&Alert| a.kind == g.lead.kind || g.all.iter().any(|c| c.since <= a.changed_at);
    let began_before = before.filter(goes_on).map_or(since_all, |a| a.since.min(since_all));
    let mut affected: Vec<(JobId, u32)> = g.all.iter().flat_map(|c| &c.affected).copied().collect();
    affected.sort_unstable();
    // Of each job the most GPUs.
    let most = affected.chunk_by(|a, b| a.0 == b.0).filter_map(<[_]>::last);
    let (jobs, gpus) =
        most.fold((0u64, 0u64), |(jobs, gpus), (_, n)| (jobs + 1, gpus + u64::from(*n)));
    Alert {
        id: before.map_or_else(|| id(&g.key, now), |a| a.id.clone()),
        group: g.key.clone(),
        topic: g.lead.topic,
        kind: g.lead.kind.clone(),
        cause: g.cause.clone(),
        above: g.above.clone(),
        urgency,
        state: match acknowledged {
            Some(_) => AlertState::Acknowledged,
            None => AlertState::Firing,
        },
        summary: summary(g),
        owner: g.lead.owner.clone(),
        project: same.and_then(|c| c.project.clone()),
        runbook: g.lead.runbook.clone(),
        link: g.lead.link.clone(),
        count: g.all.len() as u64,
        jobs,
        gpus,
        members: members.into_iter().take(MEMBERS_MAX).cloned().collect(),
        // What was silenced all the time has notified nobody.
        paged: before.is_some_and(|a| a.paged) || (urgency == Urgency::Page && silence.is_none()),
        objectives: objectives.into_iter().cloned().collect(),
        // Of an alert that goes on, the beginning stays when its first condition is over.
        since: began.unwrap_or(began_before),
        raised_at,
        changed_at: now,
        loud_since: match silence {
            Some(_) => None,
            None => before.and_then(|a| a.loud_since).or(Some(now)),
        },
        silenced: silence.map(|s| (*s).clone()),
        gone_since: None,
        level: before.map_or(0, |a| a.level),
        acknowledged,
        resolved_at: None,
        merged_into: None,
    }
}

/// Is it an objective that pages?
fn pages(c: &Condition) -> bool {
    c.topic == Topic::Objective && c.urgency == Urgency::Page
}

/// Did an objective page as part of an alert before?
fn has_paged(a: &Alert, c: &Condition) -> bool {
    pages(c) && a.objectives.contains(&c.kind)
}

/// Does an objective that pages join what was about something else? Whoever acknowledged that did
/// not know of it. One that burns again by the same cause was known.
fn is_news(a: &Alert, c: &Condition) -> bool {
    let named = a.cause == c.entity || a.members.contains(&c.entity) || has_paged(a, c);
    let whole = a.members.len() < MEMBERS_MAX;
    pages(c) && whole && !named
}

/// Is it of another kind than what somebody acknowledged, and began afterwards? What they
/// acknowledged is over.
fn is_other(a: &Alert, lead: &Condition) -> bool {
    a.kind != lead.kind && a.acknowledged.as_ref().is_some_and(|k| k.at < lead.since)
}

/// The first silence by name that keeps a condition quiet.
fn silenced<'a>(now: Time, c: &Condition, g: &Group<'_>, site: &Site<'a>) -> Option<&'a Label> {
    let holding = site.silences.iter().filter(|s| s.holds(now));
    let mut above = None;
    let mut names: Vec<&Label> = holding
        .filter(|s| {
            let own = c.entity == g.cause;
            let above: &[Entity] = match own {
                true => &g.above,
                false => above.get_or_insert_with(|| {
                    let mut up = (site.above)(&c.entity);
                    // It is below the cause, so below what the cause is part of.
                    up.extend([g.cause.clone()].into_iter().chain(g.above.iter().cloned()));
                    up
                }),
            };
            s.matcher.fits(&MatcherInput {
                urgency: c.urgency,
                topic: c.topic,
                kind: &c.kind,
                entity: &c.entity,
                above,
                owner: &c.owner,
                project: c.project.as_ref(),
            })
        })
        .map(|s| &s.name)
        .collect();
    names.sort();
    names.first().copied()
}

/// The escalation steps of an alert: after how long without an answer each is taken.
pub(crate) fn escalation(a: &Alert, routing: &Routing) -> Vec<Span> {
    let routes = routing.routes_of(&MatcherInput::from(a));
    let mut out: Vec<Span> = routes.iter().flat_map(|r| &r.escalate).map(|e| e.after).collect();
    out.sort_unstable();
    out.dedup();
    out
}

/// The escalation step that follows the one an alert is at, from 1; none after the last.
#[must_use]
pub fn next_level(a: &Alert, routing: &Routing) -> Option<u32> {
    let last = u32::try_from(escalation(a, routing).len()).unwrap_or(u32::MAX);
    (a.level < last).then(|| a.level + 1)
}

/// When an alert is passed on, and how often that is by then.
fn steps(a: &Alert, routing: &Routing) -> Vec<Time> {
    let Some(loud) = a.loud_since.filter(|_| a.state == AlertState::Firing) else {
        return Vec::new();
    };
    escalation(a, routing).into_iter().map(|after| loud + after).collect()
}

fn level(a: &Alert, routing: &Routing, now: Time) -> u32 {
    let passed = steps(a, routing).iter().filter(|t| **t <= now).count();
    u32::try_from(passed).unwrap_or(u32::MAX).max(a.level)
}

/// When something would change although nothing new is reported: a silence begins or ends, what is
/// gone is over, an alert is passed on.
#[must_use]
pub fn next_wake(now: Time, open: &BTreeMap<String, Alert>, site: &Site<'_>) -> Option<Time> {
    if open.is_empty() {
        return None;
    }
    let edges = site.silences.iter().filter_map(|s| s.window(now)).flat_map(|(a, b)| [a, b]);
    let gone = open.values().filter_map(|a| a.gone_since).map(|t| t + site.hold);
    let passed = open.values().flat_map(|a| steps(a, site.routing));
    edges.chain(gone).chain(passed).filter(|t| *t > now).min()
}

#[cfg(test)]
#[path = "decide_tests.rs"]
mod tests;
