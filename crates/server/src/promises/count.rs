//! What the server counts about itself: how it answers, and how fresh what it shows is. Told to
//! the log now and then, in whole numbers, and only what an objective asks for.

use crate::agents::Agents;
use crate::brain::Brain;
use muster_model::command::Command;
use muster_model::node::Stage;
use muster_model::slo::{Cause, Counted, Scope, Sli};
use muster_model::units::{Span, Time};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How often the log is told. Objectives are judged by the minute.
const EVERY: Duration = Duration::from_secs(20);
/// How often nodes' figures are looked at.
const LOOK: Span = Span::mins(1);

/// A request that was answered.
#[derive(Debug, Clone, Copy)]
pub struct Served {
    /// It submits a job.
    pub submits: bool,
    /// The answer's status.
    pub status: u16,
    /// How long it took.
    pub took: Duration,
}

#[derive(Debug, Default)]
struct Counts {
    /// Indicators that objectives ask for.
    asked: Vec<Sli>,
    /// Good ones and all, since the log was last told.
    since: BTreeMap<Sli, (u64, u64)>,
}

/// Counts answers.
#[derive(Debug, Clone, Default)]
pub struct Counter(Arc<Mutex<Counts>>);

impl Counter {
    /// A request to the API was answered. The caller's mistakes count for nobody.
    pub fn served(&self, s: Served) {
        if (400..500).contains(&s.status) {
            return;
        }
        let answered = s.status < 500;
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Counts { asked, since } = &mut *counts;
        for sli in asked.iter() {
            let good = match sli {
                Sli::ApiAvailability => answered,
                Sli::ApiLatency { under } => answered && s.took <= under.to_std(),
                Sli::Admission { under } if s.submits => answered && s.took <= under.to_std(),
                _ => continue,
            };
            let of = since.entry(*sli).or_default();
            of.0 += u64::from(good);
            of.1 += 1;
        }
    }

    /// Takes up what objectives ask for.
    fn follow(&self, brain: &Brain) {
        let asked = brain.read(|s| {
            let whole = s.slo.in_force().iter().filter(|o| o.scope.is_site()).map(|o| o.sli);
            let mine = |sli: &Sli| {
                matches!(sli, Sli::ApiAvailability | Sli::ApiLatency { .. } | Sli::Admission { .. })
            };
            let mut all: Vec<Sli> = whole.filter(mine).collect();
            all.sort();
            all.dedup();
            all
        });
        self.ask(asked);
    }

    pub(super) fn ask(&self, asked: Vec<Sli>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).asked = asked;
    }

    pub(super) fn take(&self) -> Vec<Counted> {
        let since =
            std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner).since);
        since.into_iter().map(|(sli, (good, total))| counted(sli, good, total)).collect()
    }

    /// What the log did not take counts the next time.
    fn put_back(&self, counts: &[Counted]) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for c in counts.iter().filter(|c| !matches!(c.sli, Sli::TelemetryFreshness { .. })) {
            let of = all.since.entry(c.sli).or_default();
            of.0 += c.good;
            of.1 += c.total;
        }
    }
}

fn counted(sli: Sli, good: u64, total: u64) -> Counted {
    let cause = match sli {
        Sli::ApiLatency { .. } | Sli::Admission { .. } | Sli::TelemetryFreshness { .. } => {
            Cause::Slow
        }
        _ => Cause::Platform,
    };
    Counted { sli, scope: Scope::default(), good, total, cause: Some(cause) }
}

/// How many nodes' newest figures are fresh, for each limit that an objective has.
fn freshness(brain: &Brain, agents: &Agents, now: Time) -> Vec<Counted> {
    let (limits, nodes) = brain.read(|s| {
        let mut limits: Vec<Span> = s
            .slo
            .in_force()
            .iter()
            .filter(|o| o.scope.is_site())
            .filter_map(|o| match o.sli {
                Sli::TelemetryFreshness { under } => Some(under),
                _ => None,
            })
            .collect();
        limits.sort();
        limits.dedup();
        // A node that is not heard is out of service; that is counted elsewhere. One that has
        // just come has a minute to speak.
        let heard = s.nodes.values().filter(|n| n.reachable && n.stage == Stage::Ready);
        let names: Vec<_> = heard.map(|n| n.name.clone()).collect();
        (limits, names)
    });
    if limits.is_empty() || nodes.is_empty() {
        return Vec::new();
    }
    let ages: Vec<Option<Span>> = nodes.iter().map(|n| agents.figures_age(n, now)).collect();
    let of = |under: &Span| {
        let good = ages.iter().flatten().filter(|a| *a <= under).count() as u64;
        // Of a node that never told anything nothing is shown.
        let total = ages.iter().flatten().count() as u64;
        counted(Sli::TelemetryFreshness { under: *under }, good, total)
    };
    limits.iter().map(of).collect()
}

/// Tells the log what was counted until `stop`.
pub(super) async fn run(brain: Brain, agents: Agents, counter: Counter, stop: CancellationToken) {
    let mut looked_at = brain.now();
    loop {
        counter.follow(&brain);
        if stop.run_until_cancelled(tokio::time::sleep(EVERY)).await.is_none() {
            return;
        }
        let now = brain.now();
        let mut counts = counter.take();
        if now.since(looked_at) >= LOOK {
            looked_at = now;
            counts.extend(freshness(&brain, &agents, now));
        }
        if counts.is_empty() {
            continue;
        }
        if let Err(e) = brain.system(Command::TellCounts { counts: counts.clone() }).await {
            tracing::debug!(error = %e, "counts are told to the log later");
            counter.put_back(&counts);
        }
    }
}
