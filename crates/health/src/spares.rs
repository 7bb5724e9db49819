//! How many nodes to hold ready, so that the wanted share of failures finds one.
//!
//! Failures of `N` nodes come as a Poisson stream of rate `N r`. Each takes a spare at once, and
//! the failed node comes back as a spare when it is repaired, after `R` on average. The *load*
//! `N r R` is the number of nodes in repair on average.
//!
//! A failure that finds no spare waits for the next repair. Every broken node is in repair from its
//! failure on, so their number is that of a queue with endless servers: Poisson with the load as
//! its mean, for any distribution of repair times. A failure finds no spare when `s` or more are in
//! repair. This chance is above Erlang's loss formula B, which is for failures that are met from
//! elsewhere; Erlang's C would be too high, as it lets a repair begin only when a spare is free.
//!
//! It errs on the safe side in one respect: nodes in repair and gangs that wait do not fail, which
//! the constant stream ignores. It does not know of failures that come together (a rack, a switch):
//! those need spares of their own.

use crate::rate::Rate;
use crate::series::exp_neg;
use muster_model::units::Span;

/// More spares than any fleet has nodes; the search ends there.
const MOST: u32 = 1 << 20;
const MILLION: u32 = 1_000_000;

/// The chance of finding no spare that a target leaves to one failure.
fn allowed(share_ppm: u32) -> f64 {
    f64::from(MILLION - share_ppm.min(MILLION - 1)) / f64::from(MILLION)
}

/// Erlang's loss formula: the chance that a failure finds all `servers` spares in use, `load` being
/// the number that would be in use if there were enough. A load that is no positive number is none;
/// with no spares every failure finds none. Only `+ * /`.
#[must_use]
pub fn erlang_b(servers: u32, load: f64) -> f64 {
    let load = tidy(load);
    (1..=servers).fold(1.0, |b, k| next_b(b, k, load))
}

/// From the chance with one spare fewer to that with `k`.
fn next_b(b: f64, k: u32, load: f64) -> f64 {
    load * b / (f64::from(k) + load * b)
}

fn tidy(load: f64) -> f64 {
    // A load beyond the largest search means the same as any larger one, and keeps sums finite.
    if load > 0.0 { load.min(1e12) } else { 0.0 }
}

/// The least number of spares with which a share `share_ppm` of the failures of `nodes` nodes waits
/// no longer than `within` for one, when `repair` is the mean time until a failed node is a spare
/// again and a failure without a spare waits for the next repair. With `within` at zero it holds for
/// any distribution of repair times; above, it takes them as exponential and is on the safe side
/// (see [`waiting_share`]). At most 2^20, also where that is not enough.
#[must_use]
pub fn spares_for_waiting(
    nodes: u32,
    rate: Rate,
    repair: Span,
    within: Span,
    share_ppm: u32,
) -> u32 {
    let (load, allowed) = (tidy(rate.expected(nodes, repair)), allowed(share_ppm));
    let t = if within.0 == 0 { 0.0 } else { within.0 as f64 / repair.0.max(1) as f64 };
    let kept = |spares| load == 0.0 || waiting_share(spares, load, t) <= allowed;
    if kept(0) {
        return 0;
    }
    // One step costs as much as the number it asks about, so small numbers are asked first.
    let (mut broken, mut holds) = (0, 1);
    while !kept(holds) {
        if holds == MOST {
            return MOST;
        }
        (broken, holds) = (holds, holds * 2);
    }
    while holds - broken > 1 {
        let middle = broken + (holds - broken) / 2;
        if kept(middle) {
            holds = middle;
        } else {
            broken = middle;
        }
    }
    holds
}

/// The chance, at most, that a failure waits longer than `t_over_repair` mean repair times for a
/// node, when failures wait in order of arrival for the next repair.
///
/// To wait longer than `t`, more than `spares` of the nodes in repair when it came, its own among
/// them, must still be there after `t`. Those before it are Poisson with mean `load`; if repairs
/// are exponential, each is still there with chance `q = e^-t`, so those left are Poisson with mean
/// `load * q`, and its own makes one more with chance `q`:
/// `q P(X >= spares) + (1 - q) P(X > spares)`.
///
/// It leaves out nodes that fail later and are repaired within `t`, which also go to whoever waits
/// longest: at most `load * t^2 / 2` of them on average, so the chance is too high by no more than
/// that. At `t = 0` it is exact whatever the distribution of repairs, and an upper bound for every
/// `t`.
#[must_use]
pub fn waiting_share(spares: u32, load: f64, t_over_repair: f64) -> f64 {
    let still = exp_neg(t_over_repair);
    let left = tidy(load) * still;
    // Relative to P(X = spares), `h` lies above and 1/B up to it. So no power of e is needed, and
    // nothing underflows for large loads.
    let (h, b) = (above(spares, left), erlang_b(spares, left));
    if h.is_infinite() {
        1.0
    } else if b <= 0.0 {
        0.0
    } else {
        (still + h) / (1.0 / b + h)
    }
}

/// `P(X > s) / P(X = s)` for a Poisson `X`; endless where it is beyond 10^18, `P(X > s)` being one
/// to twelve digits.
fn above(s: u32, load: f64) -> f64 {
    let (mut term, mut sum, mut k) = (1.0, 0.0, f64::from(s));
    loop {
        k += 1.0;
        term *= load / k;
        sum += term;
        if sum > 1e18 {
            return f64::INFINITY;
        }
        // Past the peak terms fall ever faster; the rest is below the last bit.
        if k > load && term * k <= sum * 1e-17 * (k - load) {
            return sum;
        }
    }
}

#[cfg(test)]
mod tests;
