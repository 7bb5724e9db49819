//! Ranks of one gang beside each other: is it a rank, or is it the job?

use super::robust::{PeerBaseline, median};
use crate::config::WatchConfig;

/// How fast a rank was over one window of steps, in seconds a step. What is not known is NaN.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pace {
    /// The global rank.
    pub rank: u32,
    /// Its own work: a step without waiting and reading.
    pub own: f64,
    /// The least of that in the window.
    pub least: f64,
    /// The whole step.
    pub t: f64,
    /// Of that, waiting for others and exchange with them.
    pub wait: f64,
    /// Of that, exchange alone, where waiting is distinguished.
    pub exchange: f64,
    /// Of that, reading.
    pub read: f64,
    /// Its own work as it used to be.
    pub base: Option<f64>,
}

/// What makes a rank slow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// Its own work, slower than it was.
    Own,
    /// Its own work, slower than others since its first step: may be by design.
    FromStart,
    /// Its exchange with others.
    Network,
    /// Its waiting for input data.
    Reading,
}

/// A rank that stands out.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SlowRank {
    /// The global rank.
    pub rank: u32,
    /// How much slower than is usual: 1.2 is a fifth.
    pub ratio: f64,
    /// What it spends the time on.
    pub cause: Cause,
}

/// What a window says.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Window {
    /// Ranks that stand out.
    pub slow: Vec<SlowRank>,
    /// So many of them that it is the job.
    pub job: bool,
}

/// Steps that take longer by less than this share are noise (Holmes).
const NOISE: f64 = 0.04;
/// From so many ranks on one more or less does not move a median.
const MANY: usize = 12;

/// Figures of a gang, and for each rank what is usual among the others.
struct PeerComparison<'a> {
    all: &'a [f64],
    usual: Option<PeerBaseline>,
}

impl PeerComparison<'_> {
    fn of(all: &[f64]) -> PeerComparison<'_> {
        PeerComparison { all, usual: PeerBaseline::of(all.iter().copied()) }
    }

    fn others(&self, i: usize) -> Option<PeerBaseline> {
        if self.all.len() >= MANY {
            return self.usual;
        }
        let others = self.all.iter().enumerate().filter(|(j, _)| *j != i);
        PeerBaseline::of(others.map(|(_, v)| *v))
    }
}

/// Which ranks stand out in a window. Each is compared with its own past where it has one, so
/// that ranks with other parts of the work are not taken for slow, and with the others.
///
/// These are the ranks' own words: what they may lead to is limited where remediations are chosen.
#[must_use]
pub fn evaluate(c: &WatchConfig, paces: &[Pace]) -> Window {
    let mut out = Window::default();
    let column = |f: &dyn Fn(&Pace) -> f64| paces.iter().map(f).collect::<Vec<f64>>();
    let own = column(&|p| p.own);
    let grown = column(&|p| p.base.map_or(f64::NAN, |b| p.own / b));
    let (whole, wait, read) = (column(&|p| p.t), column(&|p| p.wait), column(&|p| p.read));
    let step = median(&mut whole.clone()).or_else(|| median(&mut own.clone())).unwrap_or(0.0);
    let waits = median(&mut wait.clone()).unwrap_or(0.0);
    let reads = median(&mut read.clone()).unwrap_or(0.0);
    let exchange = column(&|p| p.exchange);
    // Where the work of most ranks grew, the job is slow, and slow work is uneven: a rank is to
    // blame for more than all share only if it is as far from the others as they are from their
    // past. Who was slower than the others from the start is known from what they were before.
    let growth = median(&mut grown.clone()).filter(|g| *g > 1.0 + c.job_slow);
    let own = match growth {
        Some(_) => column(&|p| p.base.unwrap_or(p.own)),
        None => own,
    };
    let (own, grown, whole) =
        (PeerComparison::of(&own), PeerComparison::of(&grown), PeerComparison::of(&whole));
    let exchange = PeerComparison::of(&exchange);
    for (i, p) in paces.iter().enumerate() {
        let found = by_past(c, p, grown.others(i), step)
            .or_else(|| by_exchange(c, p, exchange.others(i), step))
            .or_else(|| by_step(c, p, whole.others(i), (waits, reads)))
            .filter(|(ratio, _)| growth.is_none_or(|g| *ratio > g));
        let found = found.or_else(|| by_peers(c, p, own.all[i], own.others(i), step));
        if let Some((ratio, cause)) = found {
            out.slow.push(SlowRank { rank: p.rank, ratio, cause });
        }
    }
    let hit = out.slow.iter().filter(|s| s.cause != Cause::Reading).count();
    out.job = hit > 1 && hit as f64 >= paces.len() as f64 * c.job_share;
    out
}

fn by_past(
    c: &WatchConfig,
    p: &Pace,
    others: Option<PeerBaseline>,
    step: f64,
) -> Option<(f64, Cause)> {
    let (base, others) = (p.base?, others?);
    let grown = p.own / base;
    // With one peer there is no knowing how far apart two of them usually are.
    let share = if others.count < 2 { c.slow_share * 2.0 } else { c.slow_share };
    let ratio = grown / others.median;
    let least = p.least > base * others.median * (1.0 + share / 2.0);
    let seen = (grown - others.median) * base > step * NOISE;
    (others.above(grown, c.deviations, share) && least && seen && grown > 1.0 + share)
        .then_some((ratio, Cause::Own))
}

fn by_peers(
    c: &WatchConfig,
    p: &Pace,
    own: f64,
    others: Option<PeerBaseline>,
    step: f64,
) -> Option<(f64, Cause)> {
    let others = others.filter(|o| o.count >= 2)?;
    let ratio = own / others.median;
    let far = others.above(own, c.deviations, c.slow_from_start);
    let least = p.least > others.median * (1.0 + c.slow_from_start / 2.0);
    let seen = own - others.median > step * NOISE;
    (far && least && seen).then_some((ratio, Cause::FromStart))
}

/// Exchange that takes longer than that of others, beside waiting for them: its network.
fn by_exchange(
    c: &WatchConfig,
    p: &Pace,
    others: Option<PeerBaseline>,
    step: f64,
) -> Option<(f64, Cause)> {
    let others = others.filter(|o| o.count >= 2)?;
    let gap = p.exchange - others.median;
    let far = others.above(p.exchange, c.deviations, c.slow_from_start);
    (far && step > 0.0 && gap > step * c.slow_share).then(|| (1.0 + gap / step, Cause::Network))
}

/// Steps that are longer although its own work is not: the network, or its data.
fn by_step(
    c: &WatchConfig,
    p: &Pace,
    others: Option<PeerBaseline>,
    (waits, reads): (f64, f64),
) -> Option<(f64, Cause)> {
    let others = others.filter(|o| o.count >= 2)?;
    if !others.above(p.t, c.deviations, c.slow_share) {
        return None;
    }
    let (ratio, gap) = (p.t / others.median, p.t - others.median);
    if p.read - reads > gap * 0.6 {
        Some((ratio, Cause::Reading))
    } else if p.wait - waits > gap * 0.6 {
        Some((ratio, Cause::Network))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pace(rank: u32, own: f64, base: Option<f64>) -> Pace {
        Pace {
            rank,
            own,
            least: own * 0.98,
            t: 1.3,
            wait: 1.3 - own,
            exchange: f64::NAN,
            read: 0.0,
            base,
        }
    }

    fn gang(n: u32) -> Vec<Pace> {
        (0..n).map(|r| pace(r, 1.0 + 0.01 * f64::from(r % 3), Some(1.0))).collect()
    }

    #[test]
    fn one_rank_that_became_slow_stands_out() {
        let c = WatchConfig::default();
        for n in [2, 3, 8, 64] {
            let mut g = gang(n);
            g[1] = pace(1, 1.2, Some(1.0));
            let w = evaluate(&c, &g);
            assert_eq!(w.slow.len(), 1, "{n}: {w:?}");
            assert_eq!((w.slow[0].rank, w.slow[0].cause, w.job), (1, Cause::Own, false));
        }
        let mut g = gang(8);
        g[1] = pace(1, 1.05, Some(1.0));
        assert!(evaluate(&c, &g).slow.is_empty(), "five percent are noise");
    }

    #[test]
    fn half_of_the_ranks_are_the_job() {
        let c = WatchConfig::default();
        let g: Vec<Pace> =
            (0..16).map(|r| pace(r, if r < 8 { 1.25 } else { 1.0 }, Some(1.0))).collect();
        let w = evaluate(&c, &g);
        assert!(w.job || w.slow.is_empty(), "{w:?}");
        let all: Vec<Pace> = (0..16).map(|r| pace(r, 1.25, Some(1.0))).collect();
        assert!(evaluate(&c, &all).slow.is_empty(), "all alike");
    }

    #[test]
    fn a_job_that_is_slow_is_uneven_and_no_rank_is_the_cause() {
        let c = WatchConfig::default();
        // All got little of a processor, some of them less than others.
        let own = |of: [f64; 4]| -> Vec<Pace> {
            (0..4).map(|r| pace(r, of[r as usize], Some(1.0))).collect()
        };
        assert_eq!(evaluate(&c, &own([5.0, 5.1, 4.9, 9.0])), Window::default());
        assert_eq!(evaluate(&c, &own([1.3, 1.31, 1.3, 1.5])), Window::default());
        // One of them is another matter.
        let w = evaluate(&c, &own([1.3, 1.31, 1.3, 2.2]));
        assert_eq!((w.slow.len(), w.slow[0].rank, w.slow[0].cause), (1, 3, Cause::Own), "{w:?}");
        // Slow from the start, and now as much slower as all others.
        let mut g = own([1.3, 1.31, 1.3, 2.0]);
        g[3].base = Some(1.5);
        let w = evaluate(&c, &g);
        assert_eq!((w.slow[0].rank, w.slow[0].cause), (3, Cause::FromStart), "{w:?}");
    }

    #[test]
    fn other_parts_of_the_work_are_not_slow() {
        let c = WatchConfig::default();
        let role = |r: u32| if r % 4 == 3 { 1.3 } else { 1.0 };
        let g: Vec<Pace> = (0..16).map(|r| pace(r, role(r), Some(role(r)))).collect();
        let own = evaluate(&c, &g).slow.iter().filter(|s| s.cause == Cause::Own).count();
        assert_eq!(own, 0);
        let mut g = g;
        g[2] = pace(2, 1.2, Some(1.0));
        let w = evaluate(&c, &g);
        assert!(w.slow.iter().any(|s| s.rank == 2 && s.cause == Cause::Own), "{w:?}");
    }

    #[test]
    fn a_rank_with_one_long_step_is_not_slow() {
        let c = WatchConfig::default();
        let mut g = gang(8);
        g[4] = Pace { least: 1.0, ..pace(4, 1.2, Some(1.0)) };
        assert!(evaluate(&c, &g).slow.is_empty(), "its quickest step was as quick as ever");
    }

    #[test]
    fn waiting_and_reading_are_distinguished() {
        let c = WatchConfig::default();
        let step = |r, wait, read| Pace {
            rank: r,
            own: 1.0,
            least: 1.0,
            t: 1.0 + wait + read,
            wait,
            exchange: f64::NAN,
            read,
            base: Some(1.0),
        };
        let mut g: Vec<Pace> = (0..8).map(|r| step(r, 0.2, 0.05)).collect();
        g[5] = step(5, 0.6, 0.05);
        assert_eq!(evaluate(&c, &g).slow[0].cause, Cause::Network);
        g[5] = step(5, 0.2, 0.6);
        assert_eq!(evaluate(&c, &g).slow[0].cause, Cause::Reading);
        // The one with the slow network exchanges for long and waits for nobody.
        let reported = |r, exchange: f64| Pace { exchange, ..step(r, 0.5, 0.05) };
        let mut g: Vec<Pace> = (0..8).map(|r| reported(r, 0.2)).collect();
        g[5] = reported(5, 0.45);
        let w = evaluate(&c, &g);
        assert_eq!((w.slow.len(), w.slow[0].rank, w.slow[0].cause), (1, 5, Cause::Network));
    }

    #[test]
    fn garbage_is_no_straggler() {
        let c = WatchConfig::default();
        let nan = f64::NAN;
        let mut g = gang(8);
        g[0] = Pace {
            own: nan,
            least: nan,
            t: nan,
            wait: nan,
            exchange: nan,
            read: nan,
            base: None,
            rank: 0,
        };
        g[1] = Pace { base: Some(0.0), ..g[1] };
        assert!(evaluate(&c, &g).slow.iter().all(|s| s.rank == 1));
        assert_eq!(evaluate(&c, &[]), Window::default());
    }
}
