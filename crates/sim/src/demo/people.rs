//! What people do: approve, repair, acknowledge, write down, follow a runbook.

use super::script::DemoEvent;
use crate::simulation::Simulation;
use muster_model::alert::{Alert, Matcher, Silence, Topic, Urgency};
use muster_model::command::Command;
use muster_model::entity::Entity;
use muster_model::finding::Incident;
use muster_model::ids::JobId;
use muster_model::remediation::RemediationStep;
use muster_model::runbook::{Run, StepAnswer};
use muster_model::units::{Span, Time};
use std::collections::BTreeMap;

/// Who is on call.
pub const ON_CALL: &str = "mara";
/// Who looks after versions.
pub(super) const FLEET: &str = "jonas";
/// Who has the screwdriver.
pub(super) const HANDS: &str = "dc-hands";

/// Drift is expected while a version is rolled out.
pub(super) fn rollout_silence(at: Time) -> Command {
    let silence = Silence {
        name: fixed("driver-rollout"),
        matcher: Matcher { topic: Some(Topic::Drift), ..Matcher::default() },
        start: at - Span::mins(10),
        length: Span::hours(4 * 24),
        every: None,
        by: String::new(),
        why: format!("driver {} goes to leaf03 first, rack by rack", super::NEW_DRIVER),
    };
    Command::SetSilence { silence: Box::new(silence) }
}

fn fixed(name: &str) -> muster_model::names::Label {
    // A name of our own: it is one.
    name.parse().unwrap_or_else(|_| unreachable!("{name} is a label"))
}

impl Simulation<'_> {
    /// A remediation waits for somebody.
    pub(super) fn remediation_stepped(&mut self, id: u64, step: RemediationStep) {
        let late = self.script.as_ref().is_some_and(|s| self.now >= s.finale);
        match step {
            // What asks at the end is for whoever opens the page.
            RemediationStep::Approval if !late => {
                let after = self.draw(Span::mins(9), Span::mins(35));
                let says = DemoEvent::Says(ON_CALL, Command::ApproveRemediation { id });
                self.plan(self.now + after, says);
            }
            RemediationStep::Repairing => {
                let remediation = self.engine.state().health.remediations.get(&id);
                let node = remediation.and_then(|r| self.fleet.by_name.get(&r.node)).copied();
                let after = self.draw(Span::mins(150), Span::hours(9));
                if let Some(node) = node {
                    self.plan(self.now + after, DemoEvent::Repaired(node));
                }
            }
            _ => {}
        }
    }

    /// Somebody is notified.
    pub(super) fn alerted(&mut self, a: &Alert) {
        let late = self.script.as_ref().is_some_and(|s| self.now >= s.finale);
        if a.urgency != Urgency::Page || (late && a.topic != Topic::Incident) {
            return;
        }
        let after = self.draw(Span::mins(3), Span::mins(8));
        let note = "looking".to_owned();
        let says = Command::AcknowledgeAlert { id: a.id.clone(), note };
        self.plan(self.now + after, DemoEvent::Says(ON_CALL, says));
    }

    /// Somebody takes an incident on, and says what they see.
    pub(super) fn incident_opened(&mut self, i: &Incident) {
        let (id, now) = (i.id, self.now);
        let own = Command::OwnIncident { id, owner: Some(ON_CALL.into()) };
        self.plan(now + Span::mins(3), DemoEvent::Says(ON_CALL, own));
        let last = self.end.since(now) < Span::hours(2);
        let notes: &[(u64, &'static str, &str)] = if last {
            &[
                (
                    5,
                    ON_CALL,
                    "All four have the driver that went to two racks of leaf03. None of the 56 other nodes has it, and none of them hangs.",
                ),
                (
                    9,
                    FLEET,
                    "Rollout stopped after two racks. GSP firmware of this version is known for timeouts under peer-to-peer load; going back to 580.95.05 rack by rack.",
                ),
                (
                    21,
                    ON_CALL,
                    "I forced the breaker of the version open: no new gang gets there. What runs may end; nothing else is taken out by hand.",
                ),
            ]
        } else {
            &[
                (6, ON_CALL, "One rack, all at once: this is the feed and not the machines."),
                (
                    26,
                    HANDS,
                    "A breaker of PDU A had tripped; it is back, and the load is spread anew.",
                ),
            ]
        };
        for (after, who, text) in notes {
            let note = Command::NoteIncident { id, text: (*text).to_owned() };
            self.plan(now + Span::mins(*after), DemoEvent::Says(who, note));
        }
        if last {
            let breaker = format!("version:driver/{}", super::NEW_DRIVER);
            let vars = BTreeMap::from([("breaker".to_owned(), breaker)]);
            let book = Command::StartRunbook { name: "bad-version".into(), vars, auto: false };
            self.plan(now + Span::mins(7), DemoEvent::Says(ON_CALL, book));
        }
    }

    /// A job was held for what broke under it: somebody looks, and lets it go.
    pub(super) fn job_held(&mut self, job: JobId) {
        let open = self.engine.state().health.open();
        let about = open.filter(|f| f.seen.entity == Entity::Job(job)).map(|f| f.id);
        for id in about.collect::<Vec<_>>() {
            let reason = "different parts on different racks: chance, not the job".to_owned();
            let close = Command::CloseFinding { id, reason };
            self.plan(self.now + Span::mins(8), DemoEvent::Says(ON_CALL, close));
        }
        self.plan(self.now + Span::mins(9), DemoEvent::Says(ON_CALL, Command::Release { job }));
    }

    /// Somebody follows a runbook, as far as they have come.
    pub(super) fn follows(&mut self, run: &Run) {
        if run.auto {
            return;
        }
        let stop = StepAnswer::Choose("yes, stop it".into());
        let words = [(1, stop, 2), (2, StepAnswer::Go, 3), (3, StepAnswer::Go, 4)];
        for (step, answer, after) in words {
            let note = String::new();
            let says = Command::AnswerRunbook { run: run.id, step, answer, note, seen: None };
            self.plan(self.now + Span::mins(after), DemoEvent::Says(ON_CALL, says));
        }
    }
}
