//! What a simulated GPU is given to do: phases that come round again.

use muster_model::units::Span;

/// What a rank does for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Matrices are multiplied.
    Compute,
    /// Gradients are exchanged.
    Communicate,
    /// State is written out.
    Checkpoint,
    /// It waits for data.
    Stall,
    /// Nothing runs.
    Idle,
}

/// How busy each part of a GPU is, as fractions.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Activity {
    pub(super) util: f64,
    pub(super) sm: f64,
    pub(super) occupancy: f64,
    pub(super) tensor: f64,
    pub(super) dram: f64,
    pub(super) fp32: f64,
    pub(super) fp16: f64,
    pub(super) nvlink: f64,
    pub(super) pcie_out: f64,
    pub(super) pcie_in: f64,
    /// Share of the power between idle and busy that this takes at full clock.
    pub(super) power: f64,
}

impl Phase {
    pub(super) fn activity(self) -> Activity {
        match self {
            Phase::Compute => Activity {
                util: 1.0,
                sm: 0.92,
                occupancy: 0.34,
                tensor: 0.58,
                dram: 0.46,
                fp32: 0.09,
                fp16: 0.02,
                nvlink: 0.06,
                pcie_out: 0.01,
                pcie_in: 0.01,
                power: 0.97,
            },
            Phase::Communicate => Activity {
                util: 1.0,
                sm: 0.28,
                occupancy: 0.06,
                tensor: 0.01,
                dram: 0.22,
                fp32: 0.02,
                fp16: 0.0,
                nvlink: 0.72,
                pcie_out: 0.30,
                pcie_in: 0.30,
                power: 0.38,
            },
            Phase::Checkpoint => Activity {
                util: 0.18,
                sm: 0.02,
                occupancy: 0.01,
                tensor: 0.0,
                dram: 0.05,
                fp32: 0.0,
                fp16: 0.0,
                nvlink: 0.0,
                pcie_out: 0.35,
                pcie_in: 0.01,
                power: 0.10,
            },
            Phase::Stall => Activity {
                util: 0.04,
                sm: 0.01,
                occupancy: 0.01,
                pcie_in: 0.04,
                power: 0.06,
                ..Activity::default()
            },
            Phase::Idle => Activity::default(),
        }
    }
}

/// Phases that come round again and again.
#[derive(Debug, Clone, PartialEq)]
pub struct Workload {
    /// What, and for how long at full clock. Only computing takes longer on a slower clock.
    pub phases: Vec<(Phase, Span)>,
    /// How hungry it is compared with a usual training run; 1 is usual.
    pub intensity: f64,
    /// Memory it holds.
    pub memory_mib: u64,
}

impl Workload {
    /// One phase for ever.
    #[must_use]
    pub fn steady(phase: Phase) -> Workload {
        Workload { phases: vec![(phase, Span::secs(1))], intensity: 1.0, memory_mib: 40_960 }
    }

    /// A training run with steps of so long, a fifth of each spent exchanging gradients, and a
    /// checkpoint after every hundred steps.
    #[must_use]
    pub fn training(step: Span) -> Workload {
        let exchange = Span(step.0 / 5);
        let compute = Span(step.0 - exchange.0);
        let mut phases = Vec::new();
        for _ in 0..100 {
            phases.extend([(Phase::Compute, compute), (Phase::Communicate, exchange)]);
        }
        phases.push((Phase::Checkpoint, Span::secs(20)));
        Workload { phases, intensity: 1.0, memory_mib: 65_536 }
    }

    /// A run that waits for its data as long as it computes.
    #[must_use]
    pub fn starved() -> Workload {
        let phases = vec![(Phase::Compute, Span::secs(2)), (Phase::Stall, Span::secs(2))];
        Workload { phases, intensity: 1.0, memory_mib: 20_480 }
    }
}

/// Where in a workload a GPU is.
#[derive(Debug, Clone)]
pub(super) struct Run {
    work: Workload,
    at: usize,
    /// Milliseconds of the phase that are done.
    done: f64,
}

impl Run {
    pub(super) fn new(work: Workload) -> Run {
        Run { work, at: 0, done: 0.0 }
    }

    pub(super) fn phase(&self) -> Phase {
        self.work.phases.get(self.at).map_or(Phase::Idle, |(p, _)| *p)
    }

    pub(super) fn intensity(&self) -> f64 {
        self.work.intensity
    }

    pub(super) fn memory_mib(&self) -> u64 {
        self.work.memory_mib
    }

    /// Goes on for so many milliseconds at this fraction of the full clock. Says which phase most
    /// of them were.
    pub(super) fn advance(&mut self, ms: f64, speed: f64) {
        let rate = if self.phase() == Phase::Compute { speed } else { 1.0 };
        self.done += ms * rate;
        // At least one millisecond a phase, so that a list of nothing ends.
        while let Some((_, span)) = self.work.phases.get(self.at) {
            let length = wide(span.0.max(1));
            if self.done < length {
                break;
            }
            self.done -= length;
            self.at = (self.at + 1) % self.work.phases.len();
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "counters this large are not distinct anyway")]
pub(super) fn wide(n: u64) -> f64 {
    n as f64
}
