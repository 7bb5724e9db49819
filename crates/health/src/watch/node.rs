//! What is remembered of one node, and what a row of it says.

use super::active_findings::{FindingSubject, Findings, PendingFindings, of_node};
use super::gpu::Gpu;
use super::layout::{Col, GpuLayout, HostLayout};
use super::peers::Peers;
use super::port::Port;
use crate::config::{WatchConfig, ms};
use crate::detect::heat;
use crate::detect::host::AgentSilence;
use crate::detect::meter::{Streak, Tick};
use crate::detect::robust::FadingAverage;
use crate::detect::{DetectorVerdict, bus, host, memory};
use crate::hazard;
use muster_model::FailureMode;
use muster_model::entity::Entity;
use muster_model::finding::Severity;
use muster_model::names::NodeName;
use muster_model::units::Time;
use std::sync::Arc;

/// How often hazards are weighed, in milliseconds.
const HAZARD_EVERY: u64 = 600_000;
/// GPUs of one node that are watched; the model knows no more.
const GPUS_MAX: usize = 64;
/// Rows that come from before the last one, in a row, before the clock is believed to be set back.
const LATE_ROWS: u8 = 3;

/// One node.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) name: NodeName,
    pub(super) at: Option<Time>,
    late: u8,
    pub(super) gpu_layout: Option<Arc<GpuLayout>>,
    pub(super) host_layout: Option<Arc<HostLayout>>,
    pub(super) gpus: Vec<Gpu>,
    pub(super) ports: Vec<Port>,
    /// Places in the table of file systems, with what this node sees of each.
    pub(super) mounts: Vec<super::fs::Mount>,
    pub(super) stuck: Streak,
    pub(super) heard: Option<Time>,
    heard_at_row: Option<Time>,
    reporting_since: u32,
    usual_gap: FadingAverage,
    rows_before: u64,
    hazard_at: Option<Time>,
    pub(super) findings: Findings,
}

impl Node {
    pub(super) fn new(name: NodeName) -> Node {
        Node {
            name,
            at: None,
            late: 0,
            gpu_layout: None,
            host_layout: None,
            gpus: Vec::new(),
            ports: Vec::new(),
            mounts: Vec::new(),
            stuck: Streak::default(),
            heard: None,
            heard_at_row: None,
            reporting_since: 0,
            usual_gap: FadingAverage::default(),
            rows_before: 0,
            hazard_at: None,
            findings: Findings::default(),
        }
    }

    /// Takes the time of a row: seconds since the last one, or none when the row comes too late to
    /// say anything. A clock that stays back was set back: what lasts begins anew.
    pub(super) fn tick(&mut self, at: Time) -> Option<f32> {
        let Some(last) = self.at else {
            self.at = Some(at);
            return Some(0.0);
        };
        if at <= last {
            self.late += 1;
            if self.late < LATE_ROWS {
                return None;
            }
            self.forget();
        }
        self.late = 0;
        self.at = Some(at);
        let secs = at.since(last).0 as f32 / 1000.0;
        Some(secs.min(600.0))
    }

    /// Windows begin anew.
    fn forget(&mut self) {
        self.gpus.iter_mut().for_each(Gpu::forget);
        self.ports.iter_mut().for_each(Port::forget);
        self.stuck = Streak::default();
    }

    /// It was repaired: what it was like before says nothing any more.
    pub(super) fn repaired(&mut self) {
        self.forget();
        self.findings.returned();
    }

    /// Remembers that rows come, beside when the agent is heard.
    pub(super) fn note_row(&mut self, rows: u64, news: &mut PendingFindings) {
        if let (Some(heard), Some(before)) = (self.heard, self.heard_at_row) {
            self.usual_gap.add(heard.since(before).0 as f32, 1.0, 4.0);
        }
        self.heard_at_row = self.heard;
        (self.rows_before, self.reporting_since) = (rows, 0);
        let at = self.heard.unwrap_or_default();
        self.of_itself(FailureMode::AGENT_HANG, DetectorVerdict::Good, (at, 0), news);
    }

    /// The agent is heard: is it silent otherwise? `rows` of all nodes came so far.
    pub(super) fn check_silence(
        &mut self,
        c: &WatchConfig,
        at: Time,
        rows: u64,
        nodes: u64,
        news: &mut PendingFindings,
    ) {
        let last = self.heard.replace(at);
        let Some(before) = self.heard_at_row.filter(|_| self.at.is_some()) else {
            self.heard_at_row = Some(at);
            return;
        };
        // Back after a while: its silence was that of the connection, and begins anew.
        let away = last.is_none_or(|l| at < l || at.since(l).0 > c.silent_for.0 / 2);
        if away {
            (self.heard_at_row, self.rows_before, self.reporting_since) = (Some(at), rows, 0);
            return;
        }
        self.reporting_since = self.reporting_since.saturating_add(1);
        let silence = AgentSilence {
            ms: ms(at.since(before)),
            usual_ms: self.usual_gap.get().unwrap_or(0.0),
            heard: self.reporting_since,
            rounds: rows.saturating_sub(self.rows_before) / nodes.saturating_sub(1).max(1),
        };
        let say = host::silent(c, silence).since(before);
        self.of_itself(FailureMode::AGENT_HANG, say, (at, 0), news);
    }

    /// Takes in the GPUs of a row.
    pub(super) fn gpu_rows(&mut self, c: &WatchConfig, figures: &[f32], at: Time, dt: f32) {
        let Some(layout) = &self.gpu_layout else { return };
        let width = layout.width();
        if width == 0 {
            return;
        }
        let rows = (figures.len() / width).min(GPUS_MAX);
        if self.gpus.len() < rows {
            self.gpus.resize_with(rows, Gpu::default);
        }
        let mut given = figures.chunks_exact(width);
        for gpu in &mut self.gpus {
            gpu.take(c, given.next().map(|r| layout.read(r)), at, dt);
        }
    }

    /// Judges the GPUs by their newest row.
    pub(super) fn evaluate_gpus(&mut self, c: &WatchConfig, at: Time, news: &mut PendingFindings) {
        let peers = Peers::of(&self.gpus);
        let reporting = self.gpus.iter().filter(|g| g.reported && g.without == 0).count();
        for i in 0..self.gpus.len() {
            let g = &mut self.gpus[i];
            if !g.reported {
                continue;
            }
            let missing = host::missing(c, g.without, reporting > 0);
            let dbe = match g.dbe {
                Tick::Rose(by) => memory::uncorrectable(by, false),
                Tick::Restarted => memory::uncorrectable(0.0, true),
                _ => DetectorVerdict::Unknown,
            };
            let best = peers.best(g.best());
            let link = g.link();
            let narrow = g.busy && (link.width < best.width || link.generation < best.generation);
            g.narrow.add(g.busy.then_some(narrow), at);
            let lasts = g.narrow.lasts(3, ms(c.load_for));
            let [pending, failed] = [Col::RemapPending, Col::RemapFailed].map(|f| g.get(f));
            let says = [
                (FailureMode::GPU_MISSING, missing, ms(c.over_after)),
                (FailureMode::ECC_UNCORRECTABLE, dbe, 0),
                (FailureMode::ECC_RATE, memory::correctable(c, g.sbe.rise(), peers.sbe), 600_000),
                (
                    FailureMode::ROW_REMAP_PENDING,
                    memory::remap_pending(pending, g.pending.rows()),
                    0,
                ),
                (FailureMode::ROW_REMAP_FAILURE, memory::remap_failed(failed, g.failed.rows()), 0),
                (FailureMode::PCIE_REPLAY, bus::replay(c, g.replay.rise(), best), 600_000),
                (
                    FailureMode::PCIE_DOWNGRADE,
                    bus::downgrade(link, best, g.busy, lasts),
                    ms(c.over_after),
                ),
            ];
            for (kind, say, over) in says {
                self.of_gpu(i, kind, say, (at, over), news);
            }
        }
        let over = ms(c.over_after);
        let says = self.each(|g| {
            if g.without > 0 {
                DetectorVerdict::Unknown
            } else {
                bus::nvlink(c, g.nvlink.rise(), g.nvlink_long.rise(), peers.nvlink)
            }
        });
        self.of_all(FailureMode::NVLINK_ERRORS, says, (at, 600_000), news);
        let says = self.each(|g| g.thermal(c, &peers, at));
        self.of_all(FailureMode::THERMAL, says, (at, over), news);
        let says = self.each(|g| {
            let now = heat::mask(g.get(Col::Throttle)) & heat::reason::POWER_BRAKE != 0;
            if !g.get(Col::Throttle).is_finite() {
                return DetectorVerdict::Unknown;
            }
            let since = g.brake.since();
            heat::power_brake(g.brake.lasts(3, ms(c.throttle_for)), now).since(since)
        });
        self.of_all(FailureMode::POWER_BRAKE, says, (at, over), news);
        let says = self.each(|g| g.clocks(c, &peers, at));
        self.of_all(FailureMode::CLOCKS_LOW, says, (at, over), news);
    }

    /// GPUs that are likely to fail soon, by their figures alone.
    pub(super) fn evaluate_hazard(
        &mut self,
        c: &WatchConfig,
        at: Time,
        news: &mut PendingFindings,
    ) {
        if self.hazard_at.is_some_and(|h| at >= h && at.since(h).0 < HAZARD_EVERY) {
            return;
        }
        self.hazard_at = Some(at);
        for i in 0..self.gpus.len() {
            if !self.gpus[i].reported || self.gpus[i].without > 0 {
                continue;
            }
            let precursors = self.gpus[i].precursors();
            let chance = hazard::hazard(&precursors);
            let say = if chance >= c.hazard_permille {
                let why = hazard::hazard_reasons(&precursors).join(", ");
                let percent = f64::from(chance) / 10.0;
                // The chance itself: what a node is marked with.
                let sure = u16::try_from(chance).unwrap_or(1000);
                DetectorVerdict::bad(
                    Severity::Warning,
                    sure,
                    format!("{percent:.0}% within a month: {why}"),
                )
            } else {
                DetectorVerdict::good_if(chance < c.hazard_permille / 2)
            };
            self.of_gpu(i, FailureMode::HAZARD, say, (at, 0), news);
        }
    }

    fn each(&mut self, say: impl FnMut(&mut Gpu) -> DetectorVerdict) -> Vec<DetectorVerdict> {
        self.gpus.iter_mut().map(say).collect()
    }

    /// Of the node as a whole.
    pub(super) fn of_itself(
        &mut self,
        kind: FailureMode,
        say: DetectorVerdict,
        when: (Time, i64),
        news: &mut PendingFindings,
    ) {
        let name = &self.name;
        let entity = || Entity::Node(name.clone());
        self.findings.settle(news, kind, entity, say, when, FindingSubject::default());
    }

    fn of_gpu(
        &mut self,
        i: usize,
        kind: FailureMode,
        say: DetectorVerdict,
        when: (Time, i64),
        news: &mut PendingFindings,
    ) {
        let name = &self.name;
        let entity = || Entity::Gpu(name.clone(), u32::try_from(i).unwrap_or(u32::MAX));
        self.findings.settle(news, kind, entity, say, when, FindingSubject::default());
    }

    /// One finding of the node where half of its GPUs have it, else one for each.
    fn of_all(
        &mut self,
        kind: FailureMode,
        says: Vec<DetectorVerdict>,
        when: (Time, i64),
        news: &mut PendingFindings,
    ) {
        if let Some(because) = of_node(&says) {
            self.of_itself(kind, DetectorVerdict::Bad(because), when, news);
            return;
        }
        let good =
            says.contains(&DetectorVerdict::Good) && !says.iter().any(DetectorVerdict::is_bad);
        let say = DetectorVerdict::good_if(good);
        self.of_itself(kind, say, when, news);
        for (i, say) in says.into_iter().enumerate() {
            self.of_gpu(i, kind, say, when, news);
        }
    }
}
