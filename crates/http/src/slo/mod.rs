//! Objectives and alerts over HTTP.

pub(crate) mod alerts;
pub(crate) mod open;
pub(crate) mod readiness;
pub(crate) mod routing;
pub(crate) mod silences;
pub(crate) mod slos;

pub(super) use slos::percent;

use super::error::{Failure, Reply};
use super::{App, Registry};
use muster_model::alert::{AlertState, Urgency};
use muster_model::names::{Label, NameError};
use muster_slo::{Series, rules};
use std::collections::BTreeMap;

/// Figures about objectives and alerts. What names a project is left out: the page is open.
pub(super) fn write_metrics(app: &App, out: &mut Registry) {
    let now = app.brain().now();
    let (counts, alerts) = app.brain().read(|s| {
        let counts: Vec<_> = s
            .slo
            .in_force()
            .iter()
            .filter(|o| o.scope.project.is_none())
            .map(|o| {
                let series = Series { sli: o.sli, scope: o.scope.clone() };
                let ledger = &s.slo.book.ledger;
                (o.name.clone(), ledger.ever(&series), ledger.since(&series))
            })
            .collect();
        let mut alerts: BTreeMap<(Urgency, &str), u64> = BTreeMap::new();
        for urgency in [Urgency::Page, Urgency::Ticket] {
            for state in ["firing", "acknowledged", "silenced"] {
                alerts.insert((urgency, state), 0);
            }
        }
        for a in s.slo.open() {
            let state = match (&a.silenced, a.state) {
                (Some(_), _) => "silenced",
                (None, AlertState::Acknowledged) => "acknowledged",
                _ => "firing",
            };
            *alerts.entry((a.urgency, state)).or_default() += 1;
        }
        (counts, alerts)
    });
    let mut m = out.counter(rules::GOOD, "Good ones that were counted for an objective.");
    for (name, count, _) in &counts {
        m.put(&[("objective", name.as_str())], count.good);
    }
    let mut m = out.counter(rules::ALL, "All that were counted for an objective.");
    for (name, count, _) in &counts {
        m.put(&[("objective", name.as_str())], count.total);
    }
    let help = "Since when an objective is counted, in seconds since 1970.";
    let mut m = out.gauge(rules::SINCE, help);
    for (name, _, since) in &counts {
        if let Some(since) = since {
            m.put(&[("objective", name.as_str())], since.0.div_euclid(1000));
        }
    }
    let mut m = out.gauge("muster_alerts", "Open alerts by urgency and state.");
    for ((urgency, state), n) in &alerts {
        m.put(&[("urgency", urgency.word()), ("state", state)], n);
    }
    let backlog = app.post().backlog(app.brain(), now);
    let mut m = out.gauge("muster_receiver_waiting", "Alerts that wait to be sent to a receiver.");
    for b in &backlog {
        m.put(&[("receiver", b.receiver.as_str())], b.alerts);
    }
    let mut m = out.gauge("muster_receiver_failures", "Failures of a receiver in a row.");
    for b in &backlog {
        m.put(&[("receiver", b.receiver.as_str())], b.line.failures);
    }
}

/// The name that a path holds.
fn label(text: &str) -> Reply<Label> {
    text.parse().map_err(|e: NameError| Failure::bad(e.to_string()).field("name"))
}
