//! What is so now, from all that the state holds.

use crate::Engine;
use crate::health::of_hardware;
use muster_model::FailureMode;
use muster_model::alert::{Condition, Urgency};
use muster_model::finding::{Finding, Severity};
use muster_model::ids::AttemptKey;
use muster_model::node::Stage;
use muster_model::remediation::RemediationOutcome;
use muster_model::units::Time;
use muster_slo::conditions::{self, SiteConditions};

impl Engine {
    /// Everything that alerts follow from.
    pub(super) fn conditions(&self) -> Vec<Condition> {
        let (s, now) = (&self.state, self.state.now);
        let stopped = s.health.automation.stopped.as_ref();
        let spares = s.spares();
        let standing = SiteConditions {
            // A site that keeps no spares does not miss them.
            spares: spares.is_empty() || spares.values().any(|of| of.ready > 0),
            automation: stopped.is_none(),
        };
        let mut out: Vec<Condition> = Vec::new();
        let mut bad: Vec<(u64, Severity)> = Vec::new();
        for f in s.health.open() {
            bad.extend(f.incident.map(|i| (i, f.seen.severity)));
            // That automation has stopped says it already, with why.
            if f.seen.kind == FailureMode::DETECTOR_STORM && stopped.is_some_and(|s| !s.by_operator)
            {
                continue;
            }
            // What was chosen for it and denied helps nobody.
            let chosen = f.remediation.and_then(|id| s.health.remediations.get(&id));
            let denied = chosen.is_some_and(|r| r.outcome == Some(RemediationOutcome::Denied));
            let alone = denied.then(|| Finding { remediation: None, ..(**f).clone() });
            let judged: &Finding = alone.as_ref().unwrap_or(f);
            let Some(c) = conditions::finding(judged, standing) else { continue };
            // A job that takes its nodes down is the cause, not they.
            let suffers = c.job.is_some() && c.kind != FailureMode::NODE_KILLER;
            let broken = || f.seen.attempt.filter(|_| suffers).and_then(|k| self.broken_under(k));
            let parent = c.parent.clone().or_else(broken);
            let affected = s.affected_by([&**f], []).into_iter().collect();
            out.push(Condition { parent, affected, ..c });
        }
        bad.sort_unstable();
        for i in s.health.open_incidents() {
            // The last of an incident is the worst of it.
            let worst = bad[..bad.partition_point(|of| of.0 <= i.id)].last();
            let worst = worst.filter(|of| of.0 == i.id).map(|of| of.1);
            let reported = conditions::incident(i, worst);
            if let Some(c) = reported {
                let affected = s.affected_by([], [&**i]).into_iter().collect();
                out.push(Condition { affected, ..c });
            }
        }
        if let Some(stop) = stopped {
            let reported = conditions::automation_stopped(&stop.reason, stop.at);
            // Whoever stopped it knows.
            let urgency = if stop.by_operator { Urgency::Ticket } else { reported.urgency };
            out.push(Condition { urgency, ..reported });
        }
        if s.nodes.values().any(|n| n.protected && n.stage != Stage::Retired) {
            out.push(conditions::nodes_protected(s.lives.last().map_or(now, |l| l.at)));
        }
        let waiting = || s.health.live_remediations().filter(move |r| s.asks_operator(r));
        let since = waiting().map(|r| r.since).min().unwrap_or(now);
        out.extend(conditions::approvals_wait(waiting().count() as u64, since));
        let gone = spares.iter().filter(|(_, of)| of.ready == 0);
        out.extend(gone.map(|(pool, _)| conditions::no_spares(pool, now)));
        let lasts = |until: Option<Time>| until.is_none_or(|t| now < t);
        let outside = s.slo.outside.values().filter(|o| lasts(o.until));
        out.extend(outside.map(|o| o.condition.clone()));
        let certificates = s.slo.certificates.iter();
        out.extend(certificates.filter_map(|(e, ends)| conditions::certificate(e, *ends, now)));
        let of = |c: &Condition| s.slo.in_force().iter().find(|o| o.name.as_str() == c.kind);
        // Nodes come and go between two evaluations.
        let burning = self.watch.burning.iter();
        out.extend(
            burning.filter_map(|c| Some(conditions::with_nodes(c, of(c)?, s.slo.book.fleet()))),
        );
        out
    }

    /// The first critical finding that is open about hardware under an attempt: it explains what
    /// its job does.
    fn broken_under(&self, key: AttemptKey) -> Option<String> {
        let job = self.state.jobs.get(&key.job)?;
        let now = job.attempt.iter().filter(|a| a.no == key.attempt);
        let now = now.flat_map(|a| a.placement.slots.iter().map(|s| &s.node));
        let past = job.past.iter().filter(|p| p.no == key.attempt).flat_map(|p| p.nodes.iter());
        let found = now.chain(past).flat_map(|n| self.state.health.open_on(n));
        let broken =
            found.filter(|f| f.seen.severity == Severity::Critical && of_hardware(&f.seen));
        broken.map(|f| f.id).min().map(|id| format!("finding:{id}"))
    }
}
