//! What the server counts about itself: how it answers, and how fresh what it shows is. Only what an
//! objective asks for, in whole numbers and by the minute. It is telemetry, so the log is written
//! rarely: every five minutes while all is well, and at the next look when something failed.

use crate::agents::Agents;
use crate::brain::{Attach, Brain, BrainError};
use muster_model::command::{Actor, Command, IdempotencyKey, Request};
use muster_model::node::Stage;
use muster_model::slo::{Cause, IndicatorCount, Scope, Sli};
use muster_model::units::{Span, Time};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How often it is looked at what was counted.
const EVERY: Duration = Duration::from_secs(20);
/// Looks in a minute. Objectives are judged by the minute: once in each it is looked at nodes' figures,
/// and the log is written as often while something fails.
const MINUTE: u32 = 3;
/// Looks in five minutes, the shortest time that a rule of burn rates looks at. So often the log is
/// reported while all is well; for so long after a failure it is reported every minute, because too
/// few good ones would make the failure look larger.
const WELL: u32 = 15;
/// Minutes that are kept apart while the log takes none.
const MINUTES_MOST: usize = 60;
const MINUTE_MS: i64 = 60_000;
/// The log knows so long which reports it has: longer than a store should be away.
const KEY_KEPT: Span = Span::hours(24);

/// A request that was answered.
#[derive(Debug, Clone, Copy)]
pub struct ServedRequest {
    /// It submits a job.
    pub submits: bool,
    /// The answer's status.
    pub status: u16,
    /// How long it took.
    pub took: Duration,
}

/// Good ones and all, by indicator.
type Tally = BTreeMap<Sli, (u64, u64)>;

fn add(to: &mut Tally, counts: Tally) {
    for (sli, (good, total)) in counts {
        let of = to.entry(sli).or_default();
        *of = (of.0.saturating_add(good), of.1.saturating_add(total));
    }
}

/// The minute that a moment is in, named by where it ends, as objectives are counted.
fn minute_of(at: Time) -> i64 {
    at.0.saturating_add(MINUTE_MS - 1).div_euclid(MINUTE_MS)
}

#[derive(Debug, Default)]
struct Counts {
    /// Indicators that objectives ask for.
    asked: Vec<Sli>,
    /// Since the last look.
    since: Tally,
    /// What is not in the log yet, by the minute.
    unreported: BTreeMap<i64, Tally>,
    /// Looks since the log was written; none when it is reported at the next.
    reported: Option<u32>,
    /// Looks since a failure was written.
    failed: Option<u32>,
    /// What the log may have, though nobody said so: it is sent again as it was.
    unsure: Option<CountsReport>,
    /// Reports so far.
    reports: u64,
}

/// What was sent to the log, under a key by which it knows a repeat.
#[derive(Debug, Clone)]
pub(super) struct CountsReport {
    key: IdempotencyKey,
    counts: Vec<IndicatorCount>,
}

impl CountsReport {
    pub(super) fn request(&self, at: Time) -> Request {
        let command = Command::ReportCounts { counts: self.counts.clone() };
        let key = Some(self.key.clone());
        Request { actor: Actor::system(), at, key, if_version: None, command }
    }
}

impl Counts {
    fn keep(&mut self, minute: i64, counts: Tally) {
        if counts.is_empty() {
            return;
        }
        add(self.unreported.entry(minute).or_default(), counts);
        while self.unreported.len() > MINUTES_MOST
            && let Some((_, oldest)) = self.unreported.pop_first()
            && let Some(mut next) = self.unreported.first_entry()
        {
            add(next.get_mut(), oldest);
        }
    }

    /// Another look: what was counted since the last one belongs to this moment's minute.
    fn looked(&mut self, now: Time) {
        let since = std::mem::take(&mut self.since);
        self.keep(minute_of(now), since);
        for looks in [&mut self.reported, &mut self.failed].into_iter().flatten() {
            *looks = looks.saturating_add(1);
        }
    }

    fn is_failing(&self) -> bool {
        self.unreported.values().flat_map(BTreeMap::values).any(|(good, total)| good < total)
    }

    /// Is the log to be written now?
    fn is_due(&self) -> bool {
        let lately = self.failed.is_some_and(|looks| looks <= WELL);
        let least = match (self.is_failing(), lately) {
            (true, false) => 0,
            (_, true) => MINUTE,
            (false, false) => WELL,
        };
        !self.unreported.is_empty() && self.reported.is_none_or(|looks| looks >= least)
    }

    /// All that is not in the log yet.
    fn take(&mut self) -> Vec<IndicatorCount> {
        self.reported = Some(0);
        if self.is_failing() {
            self.failed = Some(0);
        }
        let of_minute = |(minute, tally): (i64, Tally)| {
            let at = Time(minute.saturating_mul(MINUTE_MS));
            tally.into_iter().map(move |(sli, (good, total))| counted(sli, good, total, at))
        };
        std::mem::take(&mut self.unreported).into_iter().flat_map(of_minute).collect()
    }
}

/// Counts answers.
#[derive(Debug, Clone, Default)]
pub struct Counter(Arc<Mutex<Counts>>);

impl Counter {
    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A request to the API was answered. The caller's mistakes count for nobody.
    pub fn served(&self, s: ServedRequest) {
        if (400..500).contains(&s.status) {
            return;
        }
        let answered = s.status < 500;
        let mut counts = self.counts();
        let Counts { asked, since, .. } = &mut *counts;
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
    pub(super) fn follow(&self, brain: &Brain) {
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
        self.counts().asked = asked;
    }

    /// A look at what was counted, at this moment; what is to be written to the log now.
    pub(super) fn due(&self, now: Time) -> Vec<IndicatorCount> {
        let mut counts = self.counts();
        counts.looked(now);
        if counts.is_due() { counts.take() } else { Vec::new() }
    }

    /// Looks at what was counted, at this moment, and writes to the log if it is time to. Then
    /// takes up what objectives ask for.
    pub async fn record_due_counts(&self, brain: &Brain, now: Time) {
        if self.record_unsure(brain).await {
            let due = self.due(now);
            self.record_counts(brain, due).await;
        } else {
            self.counts().looked(now);
        }
        self.follow(brain);
    }

    /// Writes to the log all that is not in it yet: before a clean stop.
    pub async fn flush_counts(&self, brain: &Brain) {
        if !self.record_unsure(brain).await {
            return;
        }
        let rest = {
            let mut counts = self.counts();
            counts.looked(brain.now());
            counts.take()
        };
        self.record_counts(brain, rest).await;
    }

    /// Writes to the log. What it does not take is written at the next look.
    async fn record_counts(&self, brain: &Brain, counts: Vec<IndicatorCount>) {
        if !counts.is_empty() {
            let report = self.report(brain, counts);
            self.send(brain, report).await;
        }
    }

    /// Sends again what the log may have or not. True when it is certain that it has it, or there is
    /// no such thing.
    async fn record_unsure(&self, brain: &Brain) -> bool {
        let unsure = self.counts().unsure.clone();
        match unsure {
            Some(report) => self.send(brain, report).await,
            None => true,
        }
    }

    /// What is counted becomes a report. Until its answer comes, nobody knows whether the log has it.
    pub(super) fn report(&self, brain: &Brain, counts: Vec<IndicatorCount>) -> CountsReport {
        let at = brain.now();
        let mut all = self.counts();
        all.reports += 1;
        let key = IdempotencyKey {
            // An epoch is one lead of one server.
            key: format!("server/counts-{}-{}", brain.epoch(), all.reports),
            fingerprint: at.0.to_string(),
            keep_until: at + KEY_KEPT,
        };
        let report = CountsReport { key, counts };
        all.unsure = Some(report.clone());
        report
    }

    async fn send(&self, brain: &Brain, report: CountsReport) -> bool {
        let answer = brain.call(report.request(brain.now()), Attach::default()).await;
        self.answered(&report, answer.map(drop))
    }

    /// What came of a report; says whether that is certain. A failed write may be in the log all the
    /// same.
    pub(super) fn answered(&self, report: &CountsReport, answer: Result<(), BrainError>) -> bool {
        let refused = match answer {
            Ok(()) => false,
            Err(BrainError::Refused(r)) => {
                tracing::debug!(refusal = %r, "counts are reported to the log anew");
                true
            }
            Err(e) => {
                tracing::debug!(error = %e, "counts are reported to the log again later");
                self.counts().reported = None;
                return false;
            }
        };
        self.counts().unsure.take_if(|u| u.key == report.key);
        if refused {
            self.put_back(&report.counts);
        }
        true
    }

    pub(super) fn put_back(&self, counts: &[IndicatorCount]) {
        let mut all = self.counts();
        for c in counts {
            let minute = c.at.map_or(0, minute_of);
            all.keep(minute, Tally::from([(c.sli, (c.good, c.total))]));
        }
        all.reported = None;
    }
}

fn counted(sli: Sli, good: u64, total: u64, at: Time) -> IndicatorCount {
    let cause = match sli {
        Sli::ApiLatency { .. } | Sli::Admission { .. } | Sli::TelemetryFreshness { .. } => {
            Cause::Slow
        }
        _ => Cause::Platform,
    };
    IndicatorCount { sli, scope: Scope::default(), good, total, cause: Some(cause), at: Some(at) }
}

/// How many nodes' newest figures are fresh, for each limit that an objective has.
fn freshness(brain: &Brain, agents: &Agents, now: Time) -> Tally {
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
    if limits.is_empty() {
        return Tally::new();
    }
    // Of a node that never reported anything nothing is shown.
    let ages: Vec<Span> = nodes.iter().filter_map(|n| agents.metrics_age(n, now)).collect();
    if ages.is_empty() {
        return Tally::new();
    }
    let of = |under: Span| {
        let good = ages.iter().filter(|a| **a <= under).count() as u64;
        (Sli::TelemetryFreshness { under }, (good, ages.len() as u64))
    };
    limits.into_iter().map(of).collect()
}

/// Writes to the log what was counted until `stop`.
pub(super) async fn run(brain: Brain, agents: Agents, counter: Counter, stop: CancellationToken) {
    let mut looks = 0_u32;
    loop {
        if stop.run_until_cancelled(tokio::time::sleep(EVERY)).await.is_none() {
            return;
        }
        let now = brain.now();
        looks = looks.wrapping_add(1);
        if looks.is_multiple_of(MINUTE) {
            let fresh = freshness(&brain, &agents, now);
            counter.counts().keep(minute_of(now), fresh);
        }
        counter.record_due_counts(&brain, now).await;
    }
}
