//! Jobs that stand still, and whole nodes whose clocks are low.

use super::gangs::View;
use super::gpu::Gpu;
use super::job::{Attempt, Member};
use super::layout::Col;
use crate::config::ms;
use crate::detect::hang::{self, StallSignals, StalledRank};
use crate::detect::robust::{PeerBaseline, median};
use crate::detect::{DetectorVerdict, FindingReason, heat};
use muster_model::FailureMode;
use muster_model::entity::Entity;
use muster_model::units::Time;
use std::collections::BTreeMap;

/// A node whose rows are older than this, in milliseconds, beside those of others, is silent.
const SILENT: u64 = 45_000;

impl Attempt {
    /// Whole nodes whose clocks are below those of the other nodes of the job.
    pub(super) fn evaluate_clocks(&mut self, at: Time, view: &mut View<'_>) {
        let c = view.config;
        let mut clocks: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
        for m in &self.members {
            let Some(node) = m.node else { continue };
            let good = |g: &&Gpu| g.busy && !g.explained();
            let of = view.gpus(m).filter(good).filter_map(|g| g.clock.get());
            clocks.entry(node).or_default().extend(of);
        }
        let of_node: Vec<(usize, f64)> =
            clocks.iter_mut().filter_map(|(n, all)| Some((*n, median(all)?))).collect();
        let usual = PeerBaseline::of(of_node.iter().map(|n| n.1)).filter(|u| u.count >= 4);
        let Some(usual) = usual else { return };
        for (node, clock) in of_node {
            let low = usual.below(clock, c.deviations, c.clocks_share);
            let streak = self.low_nodes.get(&node).copied();
            if !low && streak.is_none() {
                continue;
            }
            let Some(m) = self.members.iter().find(|m| m.node == Some(node)) else { continue };
            let Some(name) = self.node_name(m).cloned() else { continue };
            // By its rows: one that is looked at again and again does not last.
            let row = view.node(m).and_then(|n| n.at).unwrap_or(at);
            let streak = self.low_nodes.entry(node).or_default();
            streak.add(Some(low), row);
            let (lasts, since) = (streak.lasts(3, ms(c.load_for)), streak.since());
            let there = self.members.iter().filter(|m| m.node == Some(node));
            let gpus: Vec<u32> = there.flat_map(|m| m.gpus.iter()).collect();
            let entity = match gpus[..] {
                [gpu] => Entity::Gpu(name, gpu),
                _ => Entity::Node(name),
            };
            let say = match low {
                true => heat::clocks_low(clock, usual.median, true, lasts).since(since),
                false => DetectorVerdict::Good,
            };
            let (when, hit) = ((at, ms(c.over_after)), self.hit(None));
            self.findings.settle(
                view.news,
                FailureMode::CLOCKS_LOW,
                || entity.clone(),
                say,
                when,
                hit,
            );
            if !low && !self.findings.stands(FailureMode::CLOCKS_LOW, &entity) {
                self.low_nodes.remove(&node);
            }
        }
    }

    pub(super) fn evaluate_hang(&mut self, clock: Time, dt: f32, view: &mut View<'_>) {
        let c = view.config;
        let mut still = StallSignals {
            since_step: clock.0.saturating_sub(self.step_clock.0),
            since_output: self.word_clock.map(|w| clock.0.saturating_sub(w.0)),
            usual_gap: self.usual_gap(),
            saving: self.under_way,
            ..StallSignals::default()
        };
        let usual = self.usual_power.get();
        let (mut watts, mut used_by, mut drawing) = (0.0, 0.0, 0u32);
        for m in &self.members {
            for g in view.gpus(m) {
                let (util, power) = (g.get(Col::Util), g.get(Col::Power));
                if util.is_nan() || util < 0.0 || !(0.0..1e5).contains(&power) {
                    continue;
                }
                let power = f64::from(power);
                (watts, drawing) = (watts + power, drawing + 1);
                used_by += g.util.get().unwrap_or(0.0);
                let below = |share: f64| usual.is_some_and(|u| power < u * share);
                let used = f64::from(util) >= c.busy_util;
                still.gpus += 1;
                still.spinning += u32::from(used && below(c.hang_power));
                still.less += u32::from(used && below(0.7));
                still.idle += u32::from(util < 5.0);
            }
            still.explained |= view.node(m).is_some_and(|n| {
                let silent = n.at.is_some_and(|at| clock.since(at).0 > SILENT);
                silent || n.findings.stops_work()
            });
            still.storage_stalls |= view
                .node(m)
                .is_some_and(|n| n.mounts.iter().any(|f| f.stalled && view.storage.stalls(f.fs)));
        }
        let steps = || self.ranks.iter().filter_map(|r| r.step);
        let apart = steps().max().unwrap_or(0) - steps().min().unwrap_or(0);
        still.apart = apart.saturating_sub(self.usual_apart);
        if drawing > 0 {
            let mean = watts / f64::from(drawing);
            let reported = still.usual_gap.is_some();
            let held = still.saving || still.storage_stalls;
            let moving = reported && !held && still.since_step < ms(c.hang_floor) / 4;
            let util = used_by / f64::from(drawing);
            self.util = Some(util);
            if moving && !self.slower {
                self.usual_util.add(util as f32, dt.max(1.0), 300.0);
            }
            if moving {
                // The largest of the last while.
                self.usual_apart = apart.max(self.usual_apart - self.usual_apart / 64);
            }
            // Without steps only what was drawn before can show it, so it fades slowly.
            let tau = match usual {
                _ if moving => Some(120.0),
                Some(u) if reported || mean < u => (!reported).then_some(7200.0),
                _ => Some(60.0),
            };
            if let Some(tau) = tau {
                self.usual_power.add(mean as f32, dt.max(1.0), tau);
            }
        }
        let say = hang::hang(c, &still);
        if still.saving || still.storage_stalls {
            // Its time begins when this is over.
            self.step_clock = clock;
        }
        if still.usual_gap.is_none() && say == DetectorVerdict::Good {
            self.step_clock = clock;
        }
        let when = (clock, ms(c.over_after));
        let DetectorVerdict::Bad(because) = say else {
            self.about_job(FailureMode::HANG, say, when, None, view.news);
            return;
        };
        let (who, rank) = self.stopped(view);
        let because = FindingReason { why: format!("{}{who}", because.why), ..because };
        let say = DetectorVerdict::Bad(because).since(self.step_clock);
        self.about_job(FailureMode::HANG, say, when, rank, view.news);
    }

    /// Who stopped first, in words.
    fn stopped(&self, view: &View<'_>) -> (String, Option<u32>) {
        let of = |m: &Member| {
            let mean = |col: Col| {
                let all: Vec<f32> = view.gpus(m).map(|g| g.get(col)).collect();
                f64::from(all.iter().sum::<f32>() / all.len() as f32)
            };
            let step = self.ranks.get(m.rank as usize).and_then(|r| r.step);
            StalledRank { rank: m.rank, step, power: mean(Col::Power), util: mean(Col::Util) }
        };
        let ranks: Vec<StalledRank> = self.members.iter().map(of).collect();
        match hang::stopped_first(&ranks, self.usual_apart) {
            Some((rank, why)) => {
                let node = self.member(rank).and_then(|m| self.node_name(m));
                let node = node.map_or(String::new(), |n| format!(" on {n}"));
                (format!("; rank {rank}{node} stopped first: {why}"), Some(rank))
            }
            None => (String::new(), None),
        }
    }
}
