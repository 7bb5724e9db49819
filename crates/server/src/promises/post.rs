//! Sends what is owed: one message at a time to each receiver, all receivers at once. The log
//! says what was told; what happened since is remembered here, so that an Alertmanager's reminders
//! and every single failure need no record.

use super::channels::Sender;
use crate::brain::Brain;
use crate::follower::Growth;
use muster_model::alert::{Alert, Channel, News, Receiver};
use muster_model::command::Command;
use muster_model::names::Label;
use muster_model::units::Time;
use muster_slo::desk::Backlog;
use muster_slo::{Desk, Letter};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Between the growth of the log and a look at it: alerts that come together go out together.
const PAUSE: Duration = Duration::from_millis(250);
/// The longest time without a look.
const LONGEST: Duration = Duration::from_secs(60);
/// Failures in a row that are worth a record: the first, and when the pauses are at their longest.
const RECORDED: [u32; 2] = [1, 10];

/// What was told to whom, as far as this server knows.
#[derive(Debug, Clone, Default)]
pub struct Post(Arc<Mutex<Desk>>);

impl Post {
    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What waits for each receiver.
    pub fn backlog(&self, brain: &Brain, now: Time) -> Vec<Backlog> {
        brain.read(|s| self.desk().backlog(now, &s.slo.alerts, &s.slo.routing))
    }
}

/// A letter with everything that is needed to send it.
struct Parcel {
    letter: Letter,
    receiver: Receiver,
    alerts: BTreeMap<String, Alert>,
}

/// Letters that are due, one for each receiver that is not busy, and when to look again.
fn due(brain: &Brain, post: &Post, busy: &BTreeSet<Label>) -> (Vec<Parcel>, Duration) {
    let now = brain.now();
    brain.read(|s| {
        let (alerts, routing) = (&s.slo.alerts, &s.slo.routing);
        let mut desk = post.desk();
        desk.know_receivers(&s.slo.desk);
        desk.tidy(alerts, routing);
        let mut taken = busy.clone();
        let mut out = Vec::new();
        for letter in desk.due(now, alerts, routing) {
            let Some(receiver) = routing.receiver(&letter.to) else { continue };
            if !taken.insert(letter.to.clone()) {
                continue;
            }
            let of = |(id, _): &(String, News)| Some((id.clone(), alerts.get(id)?.clone()));
            let alerts = letter.alerts.iter().filter_map(of).collect();
            out.push(Parcel { letter, receiver: receiver.clone(), alerts });
        }
        let next = desk.next_due(alerts, routing).filter(|t| *t > now);
        let wait = next.map_or(LONGEST, |t| t.since(now).to_std().min(LONGEST));
        (out, wait)
    })
}

/// Tells what is owed until `stop`.
pub(super) async fn run(brain: Brain, post: Post, sender: Arc<Sender>, stop: CancellationToken) {
    let mut growth = Growth::new(&brain);
    *post.desk() = brain.read(|s| s.slo.desk.clone());
    let mut busy: BTreeSet<Label> = BTreeSet::new();
    let mut tasks: JoinSet<Label> = JoinSet::new();
    loop {
        let (parcels, wait) = due(&brain, &post, &busy);
        for parcel in parcels {
            let to = parcel.letter.to.clone();
            busy.insert(to.clone());
            let (sender, brain, post) = (Arc::clone(&sender), brain.clone(), post.clone());
            tasks.spawn(async move {
                let result = sender.send(&parcel.receiver, &parcel.letter, &parcel.alerts).await;
                // Busy until the log knows.
                if let Some(command) = settle(&brain, &post, &parcel, &result) {
                    brain.tell(command, || brain.is_leading()).await;
                }
                to
            });
        }
        tokio::select! {
            () = growth.wait() => {}
            Some(done) = tasks.join_next() => match done {
                Ok(to) => {
                    busy.remove(&to);
                    continue;
                }
                Err(e) => {
                    tracing::error!(error = %e, "telling somebody fell over");
                    // Whoever it was is tried again.
                    busy.clear();
                }
            },
            () = tokio::time::sleep(wait.max(PAUSE)) => {}
            () = stop.cancelled() => return,
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Remembers what came of a letter; says what the log has to know.
fn settle(
    brain: &Brain,
    post: &Post,
    parcel: &Parcel,
    result: &Result<(), String>,
) -> Option<Command> {
    let now = brain.now();
    let to = parcel.letter.to.clone();
    match result {
        Ok(()) => {
            let mut desk = post.desk();
            desk.sent(now, &parcel.letter, &parcel.alerts);
            tracing::info!(receiver = %to, alerts = parcel.letter.alerts.len(), "somebody was told");
            // An Alertmanager is reminded each minute; that is no news to anybody.
            let alive = matches!(parcel.receiver.by, Channel::Alertmanager { .. });
            let news = |(_, n): &&(String, News)| !(alive && *n == News::Still);
            let alerts: Vec<_> = parcel.letter.alerts.iter().filter(news).cloned().collect();
            (!alerts.is_empty()).then_some(Command::AlertsTold { receiver: to, alerts })
        }
        Err(error) => {
            post.desk().failed(now, &to, error);
            tracing::warn!(receiver = %to, error, "a receiver could not be told");
            let failures = brain.read(|s| {
                let all = post.desk().backlog(now, &s.slo.alerts, &s.slo.routing);
                all.into_iter().find(|b| b.receiver == to).map_or(0, |b| b.line.failures)
            });
            let error = error.clone();
            RECORDED.contains(&failures).then_some(Command::ReceiverFailed { receiver: to, error })
        }
    }
}
