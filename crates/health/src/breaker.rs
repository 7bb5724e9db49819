//! Circuit breakers: when they open, when they try again, when they close. Plain steps from
//! one state to the next; who asks, and what a probe is, is decided elsewhere.
//!
//! ```text
//!            failures                wait is over
//!   closed ───────────▶ open ────────────────────▶ half open
//!      ▲                  ▲  ◀── probe came to      │     │
//!      │                  │      nothing ───────────┤     │
//!      │                  └──────── probe failed ───┘     │
//!      └─────────────────────────── probe passed ─────────┘
//! ```
//!
//! The wait is ten minutes at first and doubles with every trip, up to six hours. A breaker that
//! stayed closed for a day begins anew. An operator's word pins a breaker: nothing but another word
//! moves it.

mod count;
#[cfg(test)]
mod tests;

pub use count::{Count, should_trip};
use muster_model::breaker::{Breaker, BreakerState, Probe};
use muster_model::entity::Entity;
use muster_model::units::{Span, Time};

/// The first wait for a probe.
pub const BACK_OFF_MIN: Span = Span::mins(10);
/// The longest wait for a probe.
pub const BACK_OFF_MAX: Span = Span::hours(6);
/// Closed for so long, it forgets that it was open.
pub const FORGOTTEN_AFTER: Span = Span::hours(24);

fn doubled(s: Span) -> Span {
    Span(s.0.saturating_mul(2)).clamp(BACK_OFF_MIN, BACK_OFF_MAX)
}

/// Opens because of what failed. One that is open stays as it is, and so does a pinned one. A
/// failure while a probe is under way ends the probe.
#[must_use]
pub fn open(
    old: Option<&Breaker>,
    entity: Entity,
    now: Time,
    reason: String,
    because_of: Option<u64>,
) -> Breaker {
    let known = old.filter(|b| !forgotten(b, now));
    if let Some(b) = old
        && (b.pinned.is_some() || b.state == BreakerState::Open)
    {
        return b.clone();
    }
    let wait = known.map_or(BACK_OFF_MIN, |b| b.back_off.clamp(BACK_OFF_MIN, BACK_OFF_MAX));
    Breaker {
        entity,
        state: BreakerState::Open,
        since: now,
        reason,
        probe_at: Some(now + wait),
        back_off: doubled(wait),
        trips: known.map_or(0, |b| b.trips).saturating_add(1),
        pinned: None,
        because_of,
        probe: None,
        project: None,
    }
}

/// Whether it is time for a probe.
#[must_use]
pub fn due(b: &Breaker, now: Time) -> bool {
    b.state == BreakerState::Open && b.pinned.is_none() && b.probe_at.is_some_and(|at| at <= now)
}

/// Whether it was closed for so long that nothing of it needs to be kept.
#[must_use]
pub fn forgotten(b: &Breaker, now: Time) -> bool {
    b.state == BreakerState::Closed && b.pinned.is_none() && now.since(b.since) >= FORGOTTEN_AFTER
}

/// Lets one probe through. Only an open one that is not pinned does.
#[must_use]
pub fn half_open(b: &Breaker, now: Time, probe: Probe) -> Breaker {
    if b.state != BreakerState::Open || b.pinned.is_some() {
        return b.clone();
    }
    Breaker {
        state: BreakerState::HalfOpen,
        since: now,
        probe_at: None,
        probe: Some(probe),
        ..b.clone()
    }
}

/// What the probe came to: closed when it passed, open for longer when it failed.
#[must_use]
pub fn probed(b: &Breaker, now: Time, ok: bool, why: String) -> Breaker {
    if b.state != BreakerState::HalfOpen || b.pinned.is_some() {
        return b.clone();
    }
    if !ok {
        return open(Some(b), b.entity.clone(), now, why, b.because_of);
    }
    Breaker {
        state: BreakerState::Closed,
        since: now,
        reason: why,
        probe_at: None,
        probe: None,
        ..b.clone()
    }
}

/// The probe came to nothing: it was preempted, cancelled or lost. Open again, no trip counted; the
/// next probe may come after the shortest wait.
#[must_use]
pub fn reopen_after_probe(b: &Breaker, now: Time, why: String) -> Breaker {
    if b.state != BreakerState::HalfOpen || b.pinned.is_some() {
        return b.clone();
    }
    Breaker {
        state: BreakerState::Open,
        since: now,
        reason: why,
        probe_at: Some(now + BACK_OFF_MIN),
        probe: None,
        ..b.clone()
    }
}

/// An operator's word. Open or closed holds it there; half open asks for a probe at once, and none
/// gives it back to the control plane where it stands.
#[must_use]
pub fn force(
    old: Option<&Breaker>,
    entity: Entity,
    word: Option<BreakerState>,
    by: &str,
    reason: &str,
    now: Time,
) -> Breaker {
    let was = old.map_or(BreakerState::Closed, |b| b.state);
    let mut b = old.cloned().unwrap_or(Breaker {
        entity,
        state: BreakerState::Closed,
        since: now,
        reason: String::new(),
        probe_at: None,
        back_off: BACK_OFF_MIN,
        trips: 0,
        pinned: None,
        because_of: None,
        probe: None,
        project: None,
    });
    let (state, pinned, probe_at) = match word {
        Some(BreakerState::HalfOpen) => (BreakerState::Open, false, Some(now)),
        Some(state) => (state, true, None),
        // A probe that is under way may go on.
        None if was == BreakerState::Open => (was, false, Some(b.probe_at.unwrap_or(now))),
        None => (was, false, None),
    };
    if state != was {
        b.since = now;
    }
    if state != BreakerState::HalfOpen {
        b.probe = None;
    }
    // Whoever forces it open means everybody's work.
    if word == Some(BreakerState::Open) {
        b.project = None;
    }
    reason.clone_into(&mut b.reason);
    b.state = state;
    b.pinned = pinned.then(|| by.to_owned());
    b.probe_at = probe_at;
    b
}
