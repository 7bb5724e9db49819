//! Sends what is owed: one message at a time to each receiver, all receivers at once. The log
//! says what was sent; what happened since is remembered here, so that an Alertmanager's reminders
//! and every single failure need no record.

mod channels;
mod smtp;
#[cfg(test)]
mod tests;

pub use channels::Sender;

use crate::effect::{self, Effect, Log, Outcome};
use muster_model::alert::{Alert, AlertChange, Channel, Receiver};
use muster_model::command::Command;
use muster_model::names::Label;
use muster_model::units::Time;
use muster_slo::notifications::Backlog;
use muster_slo::{Notification, NotificationState};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// The project whose secrets receivers may name.
pub const SECRETS_OF: &str = "operators";

/// Between the growth of the log and a look at it: alerts that come together go out together.
const PAUSE: Duration = Duration::from_millis(250);
/// The longest time without a look.
const LONGEST: Duration = Duration::from_secs(60);
/// Failures in a row that are worth a record: the first, and when the pauses are at their longest.
const RECORDED: [u32; 2] = [1, 10];

/// What was sent to whom, as far as this server knows.
#[derive(Debug, Clone, Default)]
pub struct AlertDelivery(Arc<Mutex<NotificationState>>);

impl AlertDelivery {
    fn desk(&self) -> MutexGuard<'_, NotificationState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What waits for each receiver.
    pub fn backlog(&self, log: &impl Log, now: Time) -> Vec<Backlog> {
        log.read(|s| self.desk().backlog(now, &s.slo.alerts, &s.slo.routing))
    }
}

/// A letter with everything that is needed to send it.
struct ReadyNotification {
    letter: Notification,
    receiver: Receiver,
    alerts: BTreeMap<String, Alert>,
}

/// What is owed to receivers.
struct AlertEffect<L> {
    log: L,
    post: AlertDelivery,
    sender: Arc<Sender<L>>,
}

/// Sends what is owed until `stop`.
pub async fn run<L: Log>(
    log: L,
    post: AlertDelivery,
    sender: Arc<Sender<L>>,
    stop: CancellationToken,
) {
    *post.desk() = log.read(|s| s.slo.desk.clone());
    let letters = AlertEffect { log: log.clone(), post, sender };
    effect::run(Arc::new(letters), log, stop.cancelled_owned()).await;
}

impl<L: Log> Effect for AlertEffect<L> {
    type Key = Label;
    type Task = ReadyNotification;
    type End = (ReadyNotification, Result<(), String>);

    const PAUSE: Duration = PAUSE;

    /// Letters that are due, one for each receiver, and when to look again.
    fn intended(&self) -> (Vec<(Label, ReadyNotification)>, Option<Duration>) {
        let now = self.log.now();
        self.log.read(|s| {
            let (alerts, routing) = (&s.slo.alerts, &s.slo.routing);
            let mut desk = self.post.desk();
            desk.copy_receivers_from(&s.slo.desk);
            desk.tidy(alerts, routing);
            let mut taken = BTreeSet::new();
            let mut out = Vec::new();
            for letter in desk.due(now, alerts, routing) {
                let Some(receiver) = routing.receiver(&letter.to) else { continue };
                if !taken.insert(letter.to.clone()) {
                    continue;
                }
                let of =
                    |(id, _): &(String, AlertChange)| Some((id.clone(), alerts.get(id)?.clone()));
                let alerts = letter.alerts.iter().filter_map(of).collect();
                let to = letter.to.clone();
                out.push((to, ReadyNotification { letter, receiver: receiver.clone(), alerts }));
            }
            let next = desk.next_due(alerts, routing).filter(|t| *t > now);
            let wait = next.map_or(LONGEST, |t| t.since(now).to_std().min(LONGEST));
            (out, Some(wait.max(PAUSE)))
        })
    }

    async fn execute(&self, _: &Label, parcel: ReadyNotification) -> Outcome<Self::End> {
        let result = self.sender.send(&parcel.receiver, &parcel.letter, &parcel.alerts).await;
        Outcome::Over((parcel, result))
    }

    /// Remembers what came of a letter; says what the log has to know.
    fn report(&self, to: &Label, (parcel, result): Self::End) -> Option<Command> {
        let now = self.log.now();
        let to = to.clone();
        match result {
            Ok(()) => {
                self.post.desk().sent(now, &parcel.letter, &parcel.alerts);
                tracing::info!(receiver = %to, alerts = parcel.letter.alerts.len(), "a notification was sent");
                // An Alertmanager is reminded each minute; that is no news to anybody.
                let alive = matches!(parcel.receiver.by, Channel::Alertmanager { .. });
                let news = |(_, n): &(String, AlertChange)| !(alive && *n == AlertChange::Still);
                let alerts: Vec<_> = parcel.letter.alerts.into_iter().filter(news).collect();
                (!alerts.is_empty()).then_some(Command::AlertsNotified { receiver: to, alerts })
            }
            Err(error) => {
                self.post.desk().failed(now, &to, &error);
                tracing::warn!(receiver = %to, error, "a receiver could not be notified");
                let all = self.post.backlog(&self.log, now);
                let failures =
                    all.into_iter().find(|b| b.receiver == to).map_or(0, |b| b.line.failures);
                let failed = Command::ReceiverFailed { receiver: to, error };
                RECORDED.contains(&failures).then_some(failed)
            }
        }
    }
}
