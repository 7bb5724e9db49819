//! Hours and days, and what went into each. Fixed bounds: hours of a month, days of a year, and so
//! many projects in each; whoever comes beyond them is counted under one name.

use crate::parts::{Part, Parts};
use muster_model::job::AttributionCounts;
use muster_model::slo::Cause;
use muster_model::units::{Span, Time};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// An hour, in milliseconds.
pub const HOUR: i64 = 3_600_000;
/// A day, in milliseconds.
pub const DAY: i64 = 24 * HOUR;
/// Hours that are kept.
pub const HOURS_KEPT: i64 = 31 * 24;
/// Days that are kept.
pub const DAYS_KEPT: i64 = 400;
/// Projects that are distinguished in one hour or day.
pub const PROJECTS_KEPT: usize = 64;
/// Kinds of GPUs that are distinguished in one hour or day.
const SKUS_KEPT: usize = 32;
/// Under this name the others are counted.
pub const OTHERS: &str = "(others)";

/// What the jobs of a project did in an hour or a day. GPU time in thousandths of a GPU times
/// milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Work {
    /// GPUs that were allocated, by what the time went into; together all that was allocated.
    pub held: Parts,
    /// GPUs that were waited for.
    pub queued: u128,
    /// Of them, those of jobs that could not have started: held by the control plane, or waiting for
    /// other jobs.
    pub barred: u128,
    /// GPUs of jobs that a person kept from starting.
    #[serde(default)]
    pub on_hold: u128,
    /// GPUs that were waited for on the way back from a failure.
    pub back: u128,
    /// Work of days that were final that was lost in this time: those days stay as they were
    /// reported.
    #[serde(default)]
    pub lost_before: u128,
    /// Time with all ranks up, in milliseconds, of all jobs together.
    pub up: u64,
    /// Time from failures until the work went on, in milliseconds, of all returns together.
    pub recovering: u64,
    /// How many returns.
    pub returns: u64,
    /// Jobs that came.
    pub submitted: u64,
    /// Ends that went well. A job that is run again after its end may end several times, and each
    /// end counts once; so for the others here.
    pub succeeded: u64,
    /// Of them, those at the first attempt.
    pub first: u64,
    /// Ends by somebody's order.
    pub cancelled: u64,
    /// Ends that went badly.
    pub failed: AttributionCounts,
    /// Attempts that ended by a failure.
    pub interrupted: AttributionCounts,
}

impl Work {
    /// The same parts as in the life of one job.
    #[must_use]
    pub fn parts(&self) -> Parts {
        let mut all = self.held;
        all.add(Part::Queued, self.queued);
        all.add(Part::Restarting, self.back);
        all.add(Part::Held, self.on_hold);
        all
    }

    /// GPUs that were allocated or could have been used at once.
    #[must_use]
    pub fn wanted(&self) -> u128 {
        (self.held.total() + self.queued + self.back).saturating_sub(self.barred)
    }

    /// Productive time of all that was allocated, in millionths.
    #[must_use]
    pub fn goodput(&self) -> Option<u32> {
        crate::parts::millionths(self.held.get(Part::Productive), self.held.total())
    }

    /// Productive time of all, waiting included, in millionths.
    #[must_use]
    pub fn ettr(&self) -> Option<u32> {
        let all = self.parts();
        crate::parts::millionths(all.get(Part::Productive), all.total())
    }

    /// Allocated of what was in service, in millionths; none where nothing was. Nodes that drain may
    /// still have work, so that more can be allocated than is in service: that is all of it.
    #[must_use]
    pub fn allocation(&self, supply: &Supply) -> Option<u32> {
        crate::parts::millionths(self.held.total(), supply.in_service)
    }

    /// Of so many jobs that ended by themselves, in millionths: the one base of every rate of jobs. Who
    /// was cancelled did not end by itself.
    fn of_ended(&self, jobs: impl FnOnce(u64) -> u64) -> Option<u32> {
        let ended = self.succeeded + self.failed.total();
        crate::parts::millionths(jobs(ended).into(), ended.into())
    }

    /// Jobs that succeeded of all that ended by themselves, in millionths.
    #[must_use]
    pub fn success(&self) -> Option<u32> {
        self.of_ended(|_| self.succeeded)
    }

    /// The same of those that succeeded at their first attempt.
    #[must_use]
    pub fn first_attempt_success(&self) -> Option<u32> {
        self.of_ended(|_| self.first)
    }

    /// The same of those that neither the hardware nor the platform made fail.
    #[must_use]
    pub fn not_failed_by_site(&self) -> Option<u32> {
        let site = self.failed.infrastructure + self.failed.platform;
        self.of_ended(|ended| ended.saturating_sub(site))
    }

    /// Mean time between interruptions of a job with all ranks up: by the hardware, the platform or
    /// what nobody knows, as the objective of that name counts them.
    #[must_use]
    pub fn mtbi(&self) -> Option<Span> {
        self.up.checked_div(self.interrupted.interruptions()).map(Span)
    }

    /// Mean time from a failure until the work went on.
    #[must_use]
    pub fn recover(&self) -> Option<Span> {
        self.recovering.checked_div(self.returns).map(Span)
    }

    /// Adds another's.
    pub fn add(&mut self, o: &Work) {
        self.held.add_all(&o.held);
        self.queued += o.queued;
        self.barred += o.barred;
        self.on_hold += o.on_hold;
        self.back += o.back;
        self.lost_before += o.lost_before;
        self.up += o.up;
        self.recovering += o.recovering;
        self.returns += o.returns;
        self.submitted += o.submitted;
        self.succeeded += o.succeeded;
        self.first += o.first;
        self.cancelled += o.cancelled;
        self.failed.add(&o.failed);
        self.interrupted.add(&o.interrupted);
    }
}

/// GPUs of one kind: in service, or out of it and why; GPU time as in [`Work`].
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Supply {
    /// They were in service.
    pub in_service: u128,
    /// They were not, by why.
    pub out: BTreeMap<Cause, u128>,
}

impl Supply {
    /// All there is.
    #[must_use]
    pub fn total(&self) -> u128 {
        self.out.values().fold(self.in_service, |sum, v| sum + v)
    }

    /// In service of all there is, in millionths; none of nothing.
    #[must_use]
    pub fn availability(&self) -> Option<u32> {
        crate::parts::millionths(self.in_service, self.total())
    }

    pub(crate) fn of(&mut self, out: Option<Cause>) -> &mut u128 {
        match out {
            None => &mut self.in_service,
            Some(cause) => self.out.entry(cause).or_default(),
        }
    }

    /// Adds another's.
    pub fn add(&mut self, o: &Supply) {
        self.in_service += o.in_service;
        for (cause, v) in &o.out {
            *self.out.entry(*cause).or_default() += v;
        }
    }
}

/// What GPUs reported about themselves, in looks at all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TelemetryTotals {
    /// How many looks.
    pub looks: u64,
    /// GPUs that reported how busy they are, of all looks together.
    pub util_gpus: u64,
    /// How busy, in thousandths, of all together.
    pub util: u64,
    /// GPUs that reported what they draw.
    pub power_gpus: u64,
    /// What they draw, in milliwatts.
    pub power: u128,
}

impl TelemetryTotals {
    /// How busy GPUs were, in thousandths.
    #[must_use]
    pub fn busy(&self) -> Option<u64> {
        self.util.checked_div(self.util_gpus)
    }

    /// What all drew together, in milliwatts.
    #[must_use]
    pub fn total_power_mw(&self) -> Option<u128> {
        let looks = Some(u128::from(self.looks)).filter(|_| self.power_gpus > 0)?;
        self.power.checked_div(looks)
    }

    /// Adds another's.
    pub fn add(&mut self, o: &TelemetryTotals) {
        self.looks += o.looks;
        self.util_gpus += o.util_gpus;
        self.util += o.util;
        self.power_gpus += o.power_gpus;
        self.power += o.power;
    }
}

/// One hour or one day.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Bucket {
    /// GPU time and jobs, by project.
    pub work: BTreeMap<String, Work>,
    /// By kind of GPU.
    pub supply: BTreeMap<String, Supply>,
    /// What GPUs reported.
    pub seen: TelemetryTotals,
}

/// The entry of a name, or of all others once there are too many.
fn entry<'a, T: Default>(map: &'a mut BTreeMap<String, T>, name: &str, most: usize) -> &'a mut T {
    let known = map.contains_key(name) || map.len() < most;
    map.entry(if known { name } else { OTHERS }.to_owned()).or_default()
}

impl Bucket {
    pub(crate) fn work(&mut self, project: &str) -> &mut Work {
        entry(&mut self.work, project, PROJECTS_KEPT)
    }

    pub(crate) fn supply(&mut self, sku: &str) -> &mut Supply {
        entry(&mut self.supply, sku, SKUS_KEPT)
    }

    /// Adds another's.
    pub fn add(&mut self, o: &Bucket) {
        o.work.iter().for_each(|(name, w)| self.work(name).add(w));
        o.supply.iter().for_each(|(sku, s)| self.supply(sku).add(s));
        self.seen.add(&o.seen);
    }
}

/// How long a bucket is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// An hour, from full hour to full hour.
    Hour,
    /// A day, from midnight to midnight UTC.
    Day,
}

impl Step {
    /// Its length in milliseconds.
    #[must_use]
    pub fn ms(self) -> i64 {
        match self {
            Step::Hour => HOUR,
            Step::Day => DAY,
        }
    }

    /// How many are kept.
    #[must_use]
    pub fn kept(self) -> i64 {
        match self {
            Step::Hour => HOURS_KEPT,
            Step::Day => DAYS_KEPT,
        }
    }
}

/// Hours and days by their number since 1970.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Calendar {
    hours: BTreeMap<i64, Bucket>,
    days: BTreeMap<i64, Bucket>,
}

impl Calendar {
    pub(crate) fn of(&self, step: Step) -> &BTreeMap<i64, Bucket> {
        match step {
            Step::Hour => &self.hours,
            Step::Day => &self.days,
        }
    }

    fn of_mut(&mut self, step: Step) -> &mut BTreeMap<i64, Bucket> {
        match step {
            Step::Hour => &mut self.hours,
            Step::Day => &mut self.days,
        }
    }

    /// Every hour and every day that a stretch of time touches, with its milliseconds in it.
    pub(crate) fn spread(&mut self, from: Time, to: Time, mut f: impl FnMut(&mut Bucket, u64)) {
        if to <= from {
            return;
        }
        for step in [Step::Hour, Step::Day] {
            let (ms, kept) = (step.ms(), step.kept());
            let all = self.of_mut(step);
            let last = (to.0 - 1).div_euclid(ms);
            let newest = all.last_key_value().map_or(last, |(n, _)| last.max(*n));
            let first = from.0.div_euclid(ms).max(newest - kept + 1);
            for n in first..=last {
                let begin = Time(n.saturating_mul(ms)).max(from);
                let end = Time(n.saturating_add(1).saturating_mul(ms)).min(to);
                f(all.entry(n).or_default(), end.since(begin).0);
            }
            while all.first_key_value().is_some_and(|(n, _)| *n <= newest - kept) {
                all.pop_first();
            }
        }
    }

    /// The hour and the day of a moment.
    pub(crate) fn at(&mut self, at: Time, mut f: impl FnMut(&mut Bucket)) {
        self.spread(at, Time(at.0.saturating_add(1)), |b, _| f(b));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_model::job::Verdict;

    #[test]
    fn what_a_job_did_itself_is_no_interruption() {
        let all = [
            Verdict::Success,
            Verdict::Application,
            Verdict::Infrastructure,
            Verdict::Operator,
            Verdict::Scheduler,
            Verdict::Platform,
            Verdict::Unknown,
        ];
        for v in all {
            let mut b = AttributionCounts::default();
            if let Some(n) = b.of(v) {
                *n += 1;
            }
            assert_eq!(b.interruptions(), u64::from(v.is_interruption()), "{v:?}");
        }
        let interrupted = AttributionCounts {
            application: 283,
            infrastructure: 43,
            ..AttributionCounts::default()
        };
        let work = Work { up: 43 * 60_000, interrupted, ..Work::default() };
        assert_eq!(work.mtbi(), Some(Span::mins(1)));
        let interrupted = AttributionCounts { infrastructure: 0, ..interrupted };
        assert_eq!(Work { interrupted, ..work }.mtbi(), None);
    }

    #[test]
    fn rates_of_jobs_have_one_base_those_that_ended_by_themselves() {
        let failed =
            AttributionCounts { application: 2, infrastructure: 1, platform: 0, unknown: 1 };
        let work = Work { succeeded: 6, first: 3, cancelled: 9, failed, ..Work::default() };
        assert_eq!(work.success(), Some(600_000));
        assert_eq!(work.first_attempt_success(), Some(300_000));
        assert_eq!(work.not_failed_by_site(), Some(900_000));
        let none = Work { cancelled: 9, ..Work::default() };
        assert_eq!((none.success(), none.not_failed_by_site()), (None, None));
    }

    #[test]
    fn a_stretch_goes_into_every_hour_and_day_it_touches_and_adds_up() {
        let mut c = Calendar::default();
        let (from, to) = (Time(DAY - HOUR / 2), Time(DAY + 2 * HOUR + 5));
        c.spread(from, to, |b, ms| b.work("p").up += ms);
        let hours: Vec<(i64, u64)> = c.hours.iter().map(|(n, b)| (*n, b.work["p"].up)).collect();
        assert_eq!(hours, [(23, 1_800_000), (24, 3_600_000), (25, 3_600_000), (26, 5)]);
        let days: Vec<(i64, u64)> = c.days.iter().map(|(n, b)| (*n, b.work["p"].up)).collect();
        assert_eq!(days, [(0, 1_800_000), (1, 7_200_005)]);
        c.spread(to, from, |_, _| panic!("backwards"));
    }

    #[test]
    fn only_so_much_is_kept_however_long_the_stretch() {
        let mut c = Calendar::default();
        c.spread(Time(i64::MIN), Time(9_000 * DAY), |b, ms| b.work("p").up += ms);
        assert_eq!(c.hours.len() as i64, HOURS_KEPT);
        assert_eq!(c.days.len() as i64, DAYS_KEPT);
        // What is older than all that is kept goes nowhere.
        let before = c.clone();
        c.spread(Time(0), Time(HOUR), |_, _| panic!("too old"));
        assert_eq!(c, before);
        c.spread(Time(i64::MAX - 5), Time(i64::MAX), |b, ms| b.work("p").up += ms);
        assert_eq!((c.hours.len(), c.days.len()), (1, 1));
    }

    #[test]
    fn projects_beyond_the_bound_share_one_name() {
        let mut b = Bucket::default();
        for n in 0..200 {
            b.work(&format!("p{n:03}")).submitted += 1;
        }
        assert_eq!(b.work.len(), PROJECTS_KEPT + 1);
        assert_eq!(b.work[OTHERS].submitted, 200 - PROJECTS_KEPT as u64);
        let sum: u64 = b.work.values().map(|w| w.submitted).sum();
        assert_eq!(sum, 200);
    }

    #[test]
    fn means_of_what_was_seen() {
        let mut s = TelemetryTotals::default();
        assert_eq!((s.busy(), s.total_power_mw()), (None, None));
        s.add(&TelemetryTotals {
            looks: 1,
            util_gpus: 4,
            util: 2000,
            power_gpus: 4,
            power: 1_200_000,
        });
        s.add(&TelemetryTotals {
            looks: 1,
            util_gpus: 4,
            util: 4000,
            power_gpus: 4,
            power: 2_800_000,
        });
        assert_eq!((s.busy(), s.total_power_mw()), (Some(750), Some(2_000_000)));
    }
}
