//! The server's own trouble: that the log cannot be written cannot be reported by way of the log.
//! It is decided and remembered here, by the same rules, and sent to the same people.

use crate::brain::{Brain, clock};
use crate::supervise;
use muster_executors::alerts::Sender;
use muster_model::alert::{Alert, Condition};
use muster_model::entity::Entity;
use muster_model::units::{Span, Time};
use muster_slo::decide::{self, HOLD, Site};
use muster_slo::{Change, NotificationState, conditions};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// A write that fails for less than this is not worth waking anybody.
pub(super) const PATIENCE: Span = Span::secs(15);
/// Between two looks.
pub(super) const PAUSE: Duration = Duration::from_secs(1);

/// A part of the server that panicked is reported for so long after the last time.
const PANICKED: Span = Span::hours(1);

/// Looks until `stop`, and notifies people when nothing can be written for so long, or when a part
/// of the server panicked.
pub(super) async fn run(
    brain: Brain,
    sender: Arc<Sender<Brain>>,
    (patience, pause): (Span, Duration),
    stop: CancellationToken,
) {
    let mut desk = NotificationState::default();
    // By group, as decisions want them; those that are over stay until everybody knows.
    let mut alerts: BTreeMap<String, Alert> = BTreeMap::new();
    let mut panicked: BTreeMap<(&'static str, u64), Time> = BTreeMap::new();
    while stop.run_until_cancelled(tokio::time::sleep(pause)).await.is_some() {
        let now = brain.now();
        let stuck = brain.stuck().filter(|(since, _)| now.since(*since) >= patience);
        let mut found: Vec<_> =
            stuck.iter().map(|(since, why)| conditions::cannot_write(why, *since)).collect();
        let failed = supervise::failed();
        // Of each part the last panic counts; one that falls over again and again takes no more memory.
        panicked.retain(|of, _| failed.iter().any(|f| (f.part, f.times) == *of));
        found.extend(failed.into_iter().filter_map(|f| {
            // By the server's clock, which may be another one; the same at every look.
            let ago = || Span(u64::try_from(f.last.elapsed().as_millis()).unwrap_or(u64::MAX));
            let last = *panicked.entry((f.part, f.times)).or_insert_with(|| now - ago());
            let said: String = f.said.chars().take(200).collect();
            (now.since(last) < PANICKED)
                .then(|| conditions::part_panicked(f.part, f.times, &said, last))
        }));
        found.extend(
            clock::stepped().map(|(at, ahead)| conditions::clock_set(&clock::words(ahead), at)),
        );
        if found.is_empty() && alerts.is_empty() {
            continue;
        }
        let routing = brain.read(|s| s.slo.routing.clone());
        for change in changes(&brain, now, &found, &alerts) {
            match &change {
                Change::Raised(a) => tracing::error!(summary = a.summary, "people are called"),
                Change::Changed(_) => {}
                Change::Resolved(a) => tracing::info!(summary = a.summary, "it is over"),
            }
            let a = change.alert().clone();
            alerts.insert(a.group.clone(), a);
        }
        let by_id: BTreeMap<String, Alert> =
            alerts.values().map(|a| (a.id.clone(), a.clone())).collect();
        desk.tidy(&by_id, &routing);
        for letter in desk.due(now, &by_id, &routing) {
            let Some(receiver) = routing.receiver(&letter.to) else { continue };
            match sender.send(receiver, &letter, &by_id).await {
                Ok(()) => desk.sent(now, &letter, &by_id),
                Err(e) => {
                    tracing::warn!(receiver = %letter.to, error = e, "a receiver could not be notified");
                    desk.failed(now, &letter.to, &e);
                }
            }
        }
        if desk.next_due(&by_id, &routing).is_none() {
            alerts.retain(|_, a| a.is_open());
        }
    }
}

fn changes(
    brain: &Brain,
    now: Time,
    found: &[Condition],
    alerts: &BTreeMap<String, Alert>,
) -> Vec<Change> {
    brain.read(|s| {
        let silences: Vec<_> = s.slo.silences.values().cloned().collect();
        let (routing, above) = (&s.slo.routing, &|_: &Entity| Vec::new());
        decide::decide(
            now,
            found,
            alerts,
            &Site { silences: &silences, routing, above, hold: HOLD },
        )
    })
}
