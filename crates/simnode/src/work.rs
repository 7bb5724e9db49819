//! Simulated work: it runs on the node's clock and starts no process.

use crate::stages::{Noise, SOUND, Stages, WorkSlowdown};
use crate::telemetry::Load;
use muster_model::ids::AttemptKey;
use muster_model::spec::Simulate;
use muster_model::units::{Span, Time};

/// Something that simulated work did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SimEvent {
    /// Job and number of the attempt.
    pub key: AttemptKey,
    /// When, on the node's clock.
    pub at: Time,
    /// What the work did.
    pub what: WorkEvent,
}

/// What simulated work can do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkEvent {
    /// It has made progress; reported at most once a second of the node's clock.
    Step {
        /// Steps so far.
        step: u64,
        /// Length of one, rounded.
        took: Span,
        /// Where its time went.
        stages: Stages,
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

/// Where the time of simulated work went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Account {
    /// Until the first step.
    pub startup: Span,
    /// Useful time of this attempt.
    pub useful: Span,
    /// Of it, what came after the newest checkpoint.
    pub unsaved: Span,
    /// Standing still for checkpoints.
    pub saving: Span,
    /// Standing still, or slower than it could be.
    pub slowed: Span,
    /// Useful time in the newest checkpoint, that of earlier attempts included.
    pub saved: Span,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Startup { until: Time },
    Working,
    Saving { until: Time },
    Over,
}

/// Full speed.
const FULL: u64 = 1000;

/// Useful time is counted in thousandths of a millisecond, so that work at any speed is the same
/// however often one looks.
#[derive(Debug, Clone)]
pub(crate) struct Work {
    spec: Simulate,
    pub(crate) gpus: u64,
    /// Everything up to here has happened and was reported.
    at: Time,
    phase: Phase,
    /// Thousandths of its full speed.
    rate: u64,
    /// Useful time so far, and where this attempt began.
    done: u64,
    resumed: u64,
    saved: u64,
    /// The next checkpoint begins here.
    save_at: Option<u64>,
    /// Beats that were reported.
    beats: u64,
    startup: Span,
    saving: Span,
    slowed: u64,
    /// It computes more slowly on this node by so many percent.
    pub(crate) slow_percent: u32,
    /// It waits for data.
    pub(crate) starved: bool,
    /// It stands in a collective that does not end.
    pub(crate) hung: bool,
    drag: WorkSlowdown,
    /// What the slowest share of the gang needs for a step; none when it never ends.
    gang: Option<u64>,
    noise: Noise,
    /// It dies then, with exit code 1.
    doom: Option<Time>,
}

/// Steps shorter than this are reported together.
const PACE: Span = Span::secs(1);

impl Work {
    /// Whether it uses its GPUs, or only holds them.
    pub(crate) fn load(&self) -> Load {
        if self.spec.idle {
            return Load::Held;
        }
        let Some(step) = self.step_needs() else { return Load::Spinning };
        let (util, active) = self.drag.activity(step);
        let thousandths = |v: u64| u16::try_from(v).unwrap_or(1000);
        Load::Busy { active: thousandths(active), util: thousandths(util) }
    }

    /// Whether it is there and uses this GPU.
    pub(crate) fn uses(&self, gpu: u32) -> bool {
        !self.over() && self.gpus & 1u64.checked_shl(gpu).unwrap_or(0) != 0
    }

    /// It dies then, unless it is over before.
    pub(crate) fn doom(&mut self, at: Time) {
        self.doom = Some(self.doom.map_or(at, |d| d.min(at)));
    }

    /// Its devices are in this state now: percent of their arithmetic that is left on the worst,
    /// and whether a bus is narrow. It must have been advanced to this moment.
    pub(crate) fn burden(&mut self, left: u64, narrow: bool) {
        let slow = 100 + u64::from(self.slow_percent);
        self.drag = WorkSlowdown {
            compute: 1000 * slow / left.clamp(1, 100),
            starved: self.starved,
            narrow,
            hung: self.hung,
        };
    }

    /// Thousandths of a sound step that its own share needs; none when it hangs.
    pub(crate) fn needs(&self) -> Option<u64> {
        (!self.drag.hung).then(|| self.drag.needs())
    }

    /// The slowest share of its gang needs so much. It must have been advanced to this moment.
    pub(crate) fn set_gang(&mut self, slowest: Option<u64>) {
        self.gang = slowest;
    }

    /// Thousandths of a sound step that a step takes; none when no step ends any more.
    fn step_needs(&self) -> Option<u64> {
        Some(self.needs()?.max(self.gang?))
    }

    /// Thousandths of its full speed that it makes now.
    fn speed(&self) -> u64 {
        self.step_needs().map_or(0, |step| self.rate * SOUND / step.max(1))
    }

    pub(crate) fn new(spec: Simulate, gpus: u64, resume: Span, from: Time, noise: Noise) -> Work {
        let done = (resume.0.min(spec.run.0)).saturating_mul(FULL);
        let startup = spec.startup;
        let mut w = Work {
            spec,
            gpus,
            at: from,
            phase: Phase::Startup { until: from + startup },
            rate: FULL,
            done,
            resumed: done,
            saved: done,
            save_at: None,
            beats: 0,
            startup: Span(0),
            saving: Span(0),
            slowed: 0,
            slow_percent: 0,
            starved: false,
            hung: false,
            drag: WorkSlowdown::default(),
            gang: Some(SOUND),
            noise,
            doom: None,
        };
        if startup.0 == 0 {
            w.phase = Phase::Working;
        }
        w.save_at = w.next_save();
        w.beats = w.beat().map_or(0, |b| w.done / b);
        w
    }

    fn end(&self) -> u64 {
        self.spec.run.0.saturating_mul(FULL)
    }

    fn next_save(&self) -> Option<u64> {
        let every = self.spec.checkpoint.filter(|c| c.0 > 0)?;
        let at = self.done.saturating_add(every.0.saturating_mul(FULL));
        (at < self.end()).then_some(at)
    }

    /// How often progress is reported: the step, or the first multiple of it that is a second.
    fn beat(&self) -> Option<u64> {
        let step = self.spec.step.filter(|s| s.0 > 0)?;
        let times = PACE.0.div_ceil(step.0).max(1);
        Some(step.0.saturating_mul(times).saturating_mul(FULL))
    }

    pub(crate) fn step(&self) -> Option<u64> {
        let step = self.spec.step.filter(|s| s.0 > 0)?;
        Some(self.done / step.0.saturating_mul(FULL))
    }

    /// The next useful time at which something happens.
    fn next_mark(&self) -> u64 {
        let beat = self.beat().map(|b| (self.beats + 1).saturating_mul(b));
        [beat, self.save_at, Some(self.end())].into_iter().flatten().min().unwrap_or(self.end())
    }

    /// When so much useful time is reached, if it goes on at this speed.
    fn reaches(&self, mark: u64) -> Option<Time> {
        let left = mark.saturating_sub(self.done);
        let speed = self.speed();
        (speed > 0).then(|| self.at + Span(left.div_ceil(speed)))
    }

    pub(crate) fn next(&self) -> Option<Time> {
        let next = match self.phase {
            Phase::Startup { until } | Phase::Saving { until } => Some(until),
            Phase::Working => self.reaches(self.next_mark()),
            Phase::Over => return None,
        };
        let doom = self.doom.map(|d| d.max(self.at));
        next.into_iter().chain(doom).min()
    }

    /// Not later than its end, if it goes on at this speed; exact at full speed.
    pub(crate) fn ends(&self) -> Option<Time> {
        let mut at = match self.phase {
            Phase::Over => return None,
            Phase::Working => self.at,
            Phase::Startup { until } | Phase::Saving { until } => until,
        };
        let speed = self.speed();
        if speed == 0 {
            return self.doom;
        }
        let left = self.end().saturating_sub(self.done);
        at = at + Span(left / speed);
        if let (Some(save), Some(every)) = (self.save_at, self.spec.checkpoint) {
            let every = every.0.saturating_mul(FULL).max(1);
            let saves = 1 + self.end().saturating_sub(save).saturating_sub(1) / every;
            at = at + Span(saves.saturating_mul(self.spec.checkpoint_cost.0));
        }
        let at = self.doom.map_or(at, |d| d.min(at));
        Some(at.max(self.at + Span(1)))
    }

    pub(crate) fn over(&self) -> bool {
        self.phase == Phase::Over
    }

    /// Lets time pass within one phase.
    fn pass(&mut self, to: Time) {
        let span = to.since(self.at);
        self.at = self.at.max(to);
        match self.phase {
            Phase::Startup { .. } => self.startup = Span(self.startup.0 + span.0),
            Phase::Saving { .. } => self.saving = Span(self.saving.0 + span.0),
            Phase::Working => {
                let gained = span.0.saturating_mul(self.speed()).min(self.end() - self.done);
                self.slowed += span.0.saturating_mul(FULL).saturating_sub(gained);
                self.done += gained;
            }
            Phase::Over => {}
        }
    }

    pub(crate) fn advance(&mut self, to: Time, mut report: impl FnMut(Time, WorkEvent)) {
        while let Some(at) = self.next().filter(|at| *at <= to) {
            self.pass(at);
            if self.doom.is_some_and(|d| d <= at) && self.done < self.end() {
                self.phase = Phase::Over;
                report(at, WorkEvent::Ended { code: 1 });
                return;
            }
            match self.phase {
                Phase::Startup { .. } => self.phase = Phase::Working,
                Phase::Saving { .. } => self.save(at, &mut report),
                Phase::Working if self.done >= self.end() => {
                    self.phase = Phase::Over;
                    report(at, WorkEvent::Ended { code: self.spec.exit_code });
                }
                Phase::Working => {
                    // At less than full speed the moment comes a little late.
                    let beats = self.beat().map_or(0, |b| self.done / b);
                    if beats > std::mem::replace(&mut self.beats, beats) {
                        report(at, self.make_step_event());
                    }
                    if self.save_at.is_some_and(|s| self.done >= s) {
                        self.begin_save(at, &mut report);
                    }
                }
                Phase::Over => return,
            }
        }
        self.pass(to);
    }

    fn make_step_event(&self) -> WorkEvent {
        let sound = self.spec.step.unwrap_or_default();
        let step = self.step().unwrap_or(0);
        let needs = self.step_needs().unwrap_or(SOUND);
        let stages = self.drag.stages(sound.0.saturating_mul(1000), needs, self.noise, step);
        WorkEvent::Step { step, took: Span(sound.0.saturating_mul(needs) / SOUND), stages }
    }

    fn begin_save(&mut self, at: Time, report: &mut impl FnMut(Time, WorkEvent)) {
        self.phase = Phase::Saving { until: at + self.spec.checkpoint_cost };
        if self.spec.checkpoint_cost.0 == 0 {
            self.save(at, report);
        }
    }

    fn save(&mut self, at: Time, report: &mut impl FnMut(Time, WorkEvent)) {
        self.phase = Phase::Working;
        self.saved = self.done;
        self.save_at = self.next_save();
        report(at, WorkEvent::Checkpoint { step: self.step() });
    }

    /// Writes a checkpoint now, unless it is not up yet or writes one already.
    pub(crate) fn ask(&mut self, at: Time, mut report: impl FnMut(Time, WorkEvent)) {
        if self.phase == Phase::Working {
            self.begin_save(at, &mut report);
        }
    }

    /// From now on it makes so many thousandths of its full speed.
    pub(crate) fn set_rate(&mut self, permille: u32) {
        self.rate = u64::from(permille).min(FULL);
    }

    pub(crate) fn account(&self) -> Account {
        Account {
            startup: self.startup,
            useful: Span((self.done - self.resumed) / FULL),
            unsaved: Span((self.done - self.saved) / FULL),
            saving: self.saving,
            slowed: Span(self.slowed / FULL),
            saved: Span(self.saved / FULL),
        }
    }
}
