//! Pretended work: it lives on the node's clock and starts no process.

use crate::telemetry::Load;
use muster_model::ids::AttemptKey;
use muster_model::spec::Simulate;
use muster_model::units::{Span, Time};

/// Something that pretended work did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SimEvent {
    /// Attempt.
    pub key: AttemptKey,
    /// When, on the node's clock.
    pub at: Time,
    /// What.
    pub what: What,
}

/// What pretended work can do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// It has made progress; told at most once a second of the node's clock.
    Step {
        /// Steps so far.
        step: u64,
        /// Length of one.
        took: Span,
    },
    /// It has written a checkpoint.
    Checkpoint {
        /// Steps in it, when it counts steps.
        step: Option<u64>,
    },
    /// It is over.
    Ended {
        /// Exit code.
        code: u8,
    },
    /// It was asked to stop, and did.
    Stopped,
    /// It was killed.
    Killed,
}

#[derive(Debug, Clone)]
pub(crate) struct Work {
    spec: Simulate,
    pub(crate) gpus: u64,
    from: Time,
    /// Steps and checkpoints are told up to here.
    told: Time,
}

/// Steps shorter than this are told together.
const PACE: Span = Span::secs(1);

impl Work {
    /// Whether it uses its GPUs, or only holds them.
    pub(crate) fn load(&self) -> Load {
        if self.spec.idle { Load::Held } else { Load::Busy }
    }

    pub(crate) fn new(spec: Simulate, gpus: u64, from: Time) -> Work {
        Work { spec, gpus, from, told: from }
    }

    fn end(&self) -> Time {
        self.from + self.spec.run
    }

    /// How often progress is told: the step, or the first multiple of it that is a second.
    fn beat(&self) -> Option<(u64, Span)> {
        let step = self.spec.step.filter(|s| s.0 > 0)?;
        let times = PACE.0.div_ceil(step.0).max(1);
        Some((times, Span(step.0.saturating_mul(times))))
    }

    fn checkpoint(&self) -> Option<Span> {
        self.spec.checkpoint.filter(|c| c.0 > 0)
    }

    pub(crate) fn step_at(&self, at: Time) -> Option<u64> {
        let step = self.spec.step.filter(|s| s.0 > 0)?;
        Some(at.since(self.from).0 / step.0)
    }

    /// The first multiple of `every` after `t` and before the end.
    fn next_multiple(&self, every: Span, t: Time) -> Option<Time> {
        let n = t.since(self.from).0 / every.0 + 1;
        let at = self.from + Span(n.checked_mul(every.0)?);
        (at < self.end()).then_some(at)
    }

    pub(crate) fn next(&self) -> Time {
        let beat = self.beat().and_then(|(_, every)| self.next_multiple(every, self.told));
        let checkpoint = self.checkpoint().and_then(|every| self.next_multiple(every, self.told));
        [beat, checkpoint].into_iter().flatten().min().unwrap_or(self.end())
    }

    pub(crate) fn over(&self, at: Time) -> bool {
        at >= self.end()
    }

    pub(crate) fn advance(&mut self, to: Time, mut tell: impl FnMut(Time, What)) {
        loop {
            let at = self.next();
            if at > to || self.told > self.end() {
                break;
            }
            if at == self.end() {
                tell(at, What::Ended { code: self.spec.exit_code });
                self.told = at + Span(1);
                break;
            }
            if let Some((_, every)) = self.beat()
                && at.since(self.from).0.is_multiple_of(every.0)
            {
                let took = self.spec.step.unwrap_or_default();
                tell(at, What::Step { step: self.step_at(at).unwrap_or(0), took });
            }
            if let Some(every) = self.checkpoint()
                && at.since(self.from).0.is_multiple_of(every.0)
            {
                tell(at, What::Checkpoint { step: self.step_at(at) });
            }
            self.told = at;
        }
    }
}
