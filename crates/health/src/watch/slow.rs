//! A job beside its own past, and the rank that others wait for where steps do not show it.

use super::gangs::View;
use super::gpu::Gpu;
use super::job::Attempt;
use crate::config::ms;
use crate::detect::gang::{Cause, Pace, SlowRank};
use crate::detect::robust::{PeerBaseline, median};
use crate::detect::{DetectorVerdict, pace};
use muster_model::FailureMode;
use muster_model::entity::Entity;
use muster_model::finding::Severity;
use muster_model::units::Time;
use std::collections::BTreeMap;

/// Windows that make a past of the whole job.
const LEARN: u32 = 6;

impl Attempt {
    pub(super) fn evaluate_pace(
        &mut self,
        paces: &[Pace],
        slow: &BTreeMap<u32, SlowRank>,
        at: Time,
        view: &mut View<'_>,
    ) {
        let c = view.config;
        let Some(t) = median(&mut paces.iter().map(|p| p.t).collect()) else { return };
        let shares = paces.iter().map(|p| p.read / p.t).collect();
        let share = median(&mut { shares }).unwrap_or(0.0);
        self.windows = self.windows.saturating_add(1);
        let base = self.base_t.get();
        let is_slow = base.is_some_and(|b| t > b * (1.0 + c.job_slow));
        let slower = base.is_some_and(|b| t > b * (1.0 + c.slow_share));
        self.slower = slower && self.windows > LEARN;
        self.slow_job.add(Some(is_slow && self.windows > LEARN), at);
        let lasts = self.slow_job.lasts(c.step_windows, 0);
        let alone = slow.is_empty() && self.findings.about(FailureMode::STRAGGLER).is_empty();
        let say = match base {
            Some(b) if alone && self.windows > LEARN => {
                let spread = self.base_spread.get().unwrap_or(0.0);
                pace::job_slow(c, t, b, spread, lasts).since(self.slow_job.since())
            }
            _ => DetectorVerdict::Unknown,
        };
        let when = (at, ms(c.over_after));
        self.about_job(FailureMode::JOB_SLOW, say, when, None, view.news);
        if !(is_slow && self.windows > LEARN) {
            let ratio = base.map_or(1.0, |b| t / b);
            // Quickly down, slowly up: the first steps of a job are its slowest.
            let tau = match ratio {
                _ if self.windows <= LEARN => 1.0,
                r if r < 0.95 => 2.0,
                r if r > 1.05 => 60.0,
                _ => 20.0,
            };
            self.base_t.add(t as f32, 1.0, tau);
            if let Some(b) = base.filter(|_| self.windows > 2) {
                self.base_spread.add((t - b).abs() as f32, 1.0, 10.0);
            }
        }
        let reading = self.ranks.iter().position(|r| u16::from(r.slow[3]) >= c.step_windows);
        self.starving.add(Some(share > c.read_share), at);
        let lasts = self.starving.lasts(c.step_windows, 0);
        let pauses = share <= 0.0 && self.slower && self.pauses();
        let say = match reading {
            _ if pauses => {
                let why = "steps are slower and its GPUs are less in use, all of them";
                DetectorVerdict::bad(Severity::Info, 600, why)
            }
            Some(rank) if share <= c.read_share => {
                let why = format!("rank {rank} waits for its data, and the others for it");
                DetectorVerdict::bad(Severity::Info, 700, why)
            }
            _ => pace::starved(c, share, lasts).since(self.starving.since()),
        };
        let rank = reading.and_then(|r| u32::try_from(r).ok());
        self.about_job(FailureMode::LOADER_STARVED, say, when, rank, view.news);
    }

    /// Steps say nothing of who waits for whom: the straggler is the one that works, or whose
    /// clocks are low, while the others wait and the job is slower than it was.
    pub(super) fn evaluate_stragglers(&mut self, at: Time, view: &mut View<'_>) {
        let c = view.config;
        let slow = self.slower;
        let figures: Vec<(u32, [f64; 3])> = self
            .members
            .iter()
            .map(|m| {
                let mean = |f: &dyn Fn(&Gpu) -> Option<f64>| {
                    let all: Vec<f64> = view.gpus(m).filter_map(f).collect();
                    let n = all.len() as f64;
                    if all.is_empty() { f64::NAN } else { all.iter().sum::<f64>() / n }
                };
                (
                    m.rank,
                    [mean(&|g| g.sm.get()), mean(&|g| g.clock.get()), mean(&|g| g.power.get())],
                )
            })
            .collect();
        let usual = [0, 1, 2]
            .map(|i| PeerBaseline::of(figures.iter().map(|f| f.1[i])).filter(|u| u.count >= 3));
        let [sm, clock, power] = usual;
        let works = |[of_sm, _, of_power]: [f64; 3]| match sm {
            Some(u) => u.above(of_sm, c.deviations, 0.15),
            None => power.is_some_and(|u| u.above(of_power, c.deviations, 0.15)),
        };
        let out = |f: &&(u32, [f64; 3])| {
            works(f.1) || clock.is_some_and(|u| u.below(f.1[1], c.deviations, 0.05))
        };
        let found: Vec<u32> = figures.iter().filter(out).map(|f| f.0).collect();
        let one = if slow && found.len() == 1 { found.first().copied() } else { None };
        self.waited_for.retain(|rank, _| Some(*rank) == one);
        let Some(rank) = one else { return };
        let streak = self.waited_for.entry(rank).or_default();
        streak.add(Some(true), at);
        if !streak.lasts(c.step_windows, 2 * ms(c.step_window)) {
            return;
        }
        let since = streak.since();
        let s = SlowRank { rank, ratio: 1.0, cause: Cause::Own };
        let Some((entity, _)) = self.whose(&s, &[s]) else { return };
        let why = format!("rank {rank} works while the others wait for it; steps are slower");
        let say = DetectorVerdict::bad(Severity::Degraded, 650, why).since(since);
        let hit = self.hit(Some(rank));
        let when = (at, ms(c.over_after));
        self.findings.settle(view.news, FailureMode::STRAGGLER, || entity, say, when, hit);
    }

    pub(super) fn waited(&self, entity: &Entity) -> bool {
        let of = |rank: &u32| self.member(*rank).and_then(|m| self.node_name(m));
        self.waited_for.keys().filter_map(of).any(|n| Some(n) == entity.node())
    }

    /// Its GPUs are less in use than they used to be.
    fn pauses(&self) -> bool {
        self.util.zip(self.usual_util.get()).is_some_and(|(now, usual)| now < usual * 0.7)
    }
}
