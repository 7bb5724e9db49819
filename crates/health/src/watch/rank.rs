//! One rank: a window of its steps, and what it was before.

use crate::detect::gang::Pace;
use crate::detect::pace::StageKind;
use crate::detect::robust::FadingAverage;
use muster_model::units::Time;

/// A step that takes longer is garbage, in seconds.
pub(super) const STEP_MAX: f64 = 1e6;

/// What the stages of a step took, in seconds.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Parts {
    pub(super) own: f64,
    pub(super) wait: f64,
    pub(super) exchange: f64,
    pub(super) read: f64,
    pub(super) save: f64,
    pub(super) waits_reported: bool,
    pub(super) exchange_reported: bool,
    any: bool,
}

impl Parts {
    pub(super) fn add(&mut self, stage_kind: StageKind, secs: f64) {
        if !(0.0..STEP_MAX).contains(&secs) {
            return;
        }
        self.any = true;
        match stage_kind {
            StageKind::Own => self.own += secs,
            StageKind::Waiting => {
                self.wait += secs;
                self.waits_reported = true;
            }
            StageKind::Exchange => {
                self.exchange += secs;
                self.exchange_reported = true;
            }
            StageKind::Reading => self.read += secs,
            StageKind::Saving => self.save += secs,
        }
    }
}

/// One window of a rank's steps, and what it was before.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rank {
    pub(super) step: Option<u64>,
    pub(super) at: Time,
    n: u32,
    own: [f32; 3],
    t: [f32; 2],
    wait: f32,
    exchange: f32,
    read: f32,
    /// Stages were reported, so that waiting is distinguished.
    open: bool,
    base: FadingAverage,
    windows: u8,
    /// Windows in a row in which it stood out, by cause.
    pub(super) slow: [u8; 4],
    pub(super) since: Time,
}

impl Default for Rank {
    fn default() -> Rank {
        Rank {
            step: None,
            at: Time(0),
            n: 0,
            own: [0.0, 0.0, f32::INFINITY],
            t: [0.0, 0.0],
            wait: 0.0,
            exchange: 0.0,
            read: 0.0,
            open: false,
            base: FadingAverage::default(),
            windows: 0,
            slow: [0; 4],
            since: Time(0),
        }
    }
}

/// A sum without its largest part, by the count: one long step among many says nothing.
fn trimmed(sum: f32, most: f32, n: u32) -> f64 {
    let (sum, most) = (f64::from(sum), f64::from(most));
    if n >= 4 { (sum - most) / f64::from(n - 1) } else { sum / f64::from(n) }
}

/// Windows after which a rank's past can be compared with.
const LEARN: u8 = 3;

impl Rank {
    pub(super) fn take(&mut self, own: f64, t: f64, parts: Parts) {
        self.n += 1;
        let (own, t) = (own as f32, t as f32);
        self.own = [self.own[0] + own, self.own[1].max(own), self.own[2].min(own)];
        self.t = [self.t[0] + t, self.t[1].max(t)];
        self.wait += (parts.wait + parts.exchange) as f32;
        // Without waiting distinguished, it is in the exchange, and says nothing of the network.
        let apart = parts.waits_reported && parts.exchange_reported;
        self.exchange += if apart { parts.exchange as f32 } else { f32::NAN };
        self.read += parts.read as f32;
        self.open = parts.any;
    }

    pub(super) fn steps(&self) -> u32 {
        self.n
    }

    /// Stages are reported.
    pub(super) fn open(&self) -> bool {
        self.open
    }

    /// How fast it was in the window.
    pub(super) fn pace(&self, rank: u32) -> Pace {
        let n = f64::from(self.n.max(1));
        Pace {
            rank,
            own: trimmed(self.own[0], self.own[1], self.n.max(1)),
            least: f64::from(self.own[2]),
            t: trimmed(self.t[0], self.t[1], self.n.max(1)),
            wait: f64::from(self.wait) / n,
            exchange: f64::from(self.exchange) / n,
            read: f64::from(self.read) / n,
            base: self.base.get().filter(|b| self.windows >= LEARN && *b > 0.0),
        }
    }

    /// The window is over. What was slow is no part of how fast it used to be.
    pub(super) fn close(&mut self, own: f64, slow: bool) {
        if self.n > 0 && !slow {
            // The first windows count in full, later ones little: what creeps is seen.
            let tau = if self.windows < LEARN { 1.0 } else { 30.0 };
            self.base.add(own as f32, 1.0, tau);
            self.windows = self.windows.saturating_add(1);
        }
        (self.n, self.own) = (0, [0.0, 0.0, f32::INFINITY]);
        (self.t, self.wait, self.exchange, self.read) = ([0.0, 0.0], 0.0, 0.0, 0.0);
    }
}
