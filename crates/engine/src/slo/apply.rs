//! Folds records about objectives and alerts in, and shows every record to the book that counts.

use crate::state::{ExternalCondition, State, ended_names};
use muster_model::alert::{AlertState, Escalated};
use muster_model::event::{Event, Record};
use muster_slo::Notification;

impl State {
    /// Counts what a record shows, before it is applied.
    pub(crate) fn count_before(&mut self, r: &Record) {
        let mut book = std::mem::take(&mut self.slo.book);
        book.before(r, self);
        self.slo.book = book;
    }

    /// Counts what the record brought about, once it is applied.
    pub(crate) fn count_after(&mut self, r: &Record) {
        let mut book = std::mem::take(&mut self.slo.book);
        book.after(r, self);
        self.slo.book = book;
    }

    pub(crate) fn apply_slo(&mut self, r: &Record) {
        let slo = &mut self.slo;
        match &r.event {
            Event::ObjectivesSet { objectives } => {
                slo.objectives = objectives.clone();
                slo.objectives_at = r.seq;
                // What is counted from now on is not held against what was before.
                slo.book.seed(r.at, []);
                slo.follow();
            }
            Event::RoutingSet { routing } => {
                slo.desk.rerouted(r.at, &slo.routing, routing);
                slo.routing = routing.clone();
                slo.routing_at = r.seq;
                slo.desk.tidy(&slo.alerts, &slo.routing);
            }
            Event::SilenceSet { silence } => {
                slo.silences.insert(silence.name.clone(), (**silence).clone());
            }
            Event::SilenceEnded { name, .. } => {
                slo.silences.remove(name);
                self.note_over(ended_names::silence(name));
            }
            Event::CountsReported { counts } => {
                counts.iter().for_each(|c| slo.book.counted(r.at, c));
            }
            Event::ConditionReported { condition, until } => {
                let reported =
                    ExternalCondition { condition: (**condition).clone(), until: *until };
                slo.outside.insert(condition.key.clone(), reported);
            }
            Event::ConditionOver { key } => {
                slo.outside.remove(key);
            }
            Event::CertificateSeen(c) => {
                slo.certificates.insert(c.entity.clone(), c.ends);
            }
            Event::AlertOpened { alert }
            | Event::AlertChanged { alert }
            | Event::AlertClosed { alert } => {
                slo.alerts.insert(alert.id.clone(), (**alert).clone());
            }
            Event::AlertAcknowledged { id, acknowledgement } => {
                if let Some(a) = slo.alerts.get_mut(id) {
                    a.state = AlertState::Acknowledged;
                    a.acknowledged = Some(acknowledgement.clone());
                    a.changed_at = r.at;
                }
            }
            Event::AlertEscalated { escalation: Escalated { id, level, .. } } => {
                if let Some(a) = slo.alerts.get_mut(id) {
                    a.state = AlertState::Firing;
                    a.acknowledged = None;
                    a.level = *level;
                    a.changed_at = r.at;
                }
            }
            Event::AlertsNotified { receiver, alerts } => {
                let letter = Notification { to: receiver.clone(), alerts: alerts.clone() };
                slo.desk.sent(r.at, &letter, &slo.alerts);
            }
            Event::ReceiverFailed { receiver, error } => {
                slo.desk.failed(r.at, receiver, error);
            }
            Event::AlertsForgotten { ids } => {
                for id in ids {
                    slo.alerts.remove(id);
                }
                slo.desk.tidy(&slo.alerts, &slo.routing);
            }
            _ => {}
        }
    }
}
