//! What a job can expect: the share of its time that ends as progress (ETTR, effective training
//! time ratio). For reports; nothing is decided from these figures.

use crate::interval::checkpoint_every;
use crate::rate::Rate;
use crate::series::exp_m1;
use muster_model::units::Span;

/// A job and its circumstances.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expect {
    /// Nodes of the gang; a failure of any stops it.
    pub nodes: u32,
    /// How often its nodes fail.
    pub rate: Rate,
    /// From a failure to computing again, on nodes: detect, stop, start, load.
    pub restart: Span,
    /// How long it waits for nodes after each failure.
    pub queue: Span,
    /// How long a checkpoint holds it up.
    pub cost: Span,
    /// How long it computes between two checkpoints.
    pub every: Span,
}

impl Expect {
    /// Failures expected per `span` on nodes.
    fn failures(&self, span: Span) -> f64 {
        self.rate.expected(self.nodes, span)
    }

    /// Computing between two checkpoints; no interval is as the shortest one.
    fn step(&self) -> Span {
        self.every.max(Span(1))
    }
}

/// The expected share to first order: `(1 - N r (u0 + every/2)) / ((1 + cost/every) (1 + N r q))`
/// with `N` nodes, rate `r`, restart `u0` and queue `q` (arXiv:2410.21680; the factor for the queue
/// follows from failures that come only while the gang holds nodes). For reports.
///
/// It takes failures as rare: none while restarting, half an interval lost to each. Good while the
/// loss is below about a quarter; beyond, it is too low, and zero where it would be negative.
#[must_use]
pub fn ettr(x: &Expect) -> f64 {
    let every = x.step();
    let lost = x.failures(x.restart) + x.failures(every) / 2.0;
    let writing = x.cost.0 as f64 / every.0 as f64;
    (1.0 - lost).max(0.0) / ((1.0 + writing) * (1.0 + x.failures(x.queue)))
}

/// The expected share when failures come independently at a constant rate, without the
/// approximation: `every / (M e^(u0/M) (e^((every + cost)/M) - 1) (1 + q/M))`, `M` the mean time
/// between failures. For reports.
///
/// Each stretch of computing and its write is repeated until one passes without a failure, each
/// restart too (Daly 2006 gives the time on nodes). Over that time failures come at rate `1/M`, so
/// it holds time/M failures on average, and each queues once.
#[must_use]
pub fn ettr_exact(x: &Expect) -> f64 {
    let every = x.step();
    let stretch = Span(every.0.saturating_add(x.cost.0));
    let failures = x.failures(stretch);
    if failures <= 0.0 {
        return every.0 as f64 / stretch.0 as f64;
    }
    let on_nodes = (1.0 + exp_m1(x.failures(x.restart))) * exp_m1(failures);
    x.failures(every) / (on_nodes * (1.0 + x.failures(x.queue)))
}

/// [`ettr`] at the interval of [`checkpoint_every`], without queueing. For reports.
#[must_use]
pub fn best_ettr(nodes: u32, rate: Rate, restart: Span, cost: Span) -> f64 {
    let every = checkpoint_every(cost, rate.mtbf(nodes));
    ettr(&Expect { nodes, rate, restart, queue: Span(0), cost, every })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn near(got: f64, want: f64, by: f64) {
        assert!((got - want).abs() <= by, "{got} is not {want}");
    }

    #[test]
    fn agrees_with_known_figures() {
        // GPUs, then the share at RSC-1's and RSC-2's rate.
        let slow = [(1024, 0.978, 0.987), (8192, 0.924, 0.959), (16_384, 0.880, 0.938)];
        for (gpus, worse, better) in slow {
            let at = |rate| best_ettr(gpus / 8, rate, Span::mins(5), Span::secs(20));
            near(at(Rate::RSC1), worse, 0.001);
            near(at(Rate::RSC2), better, 0.001);
        }
        let at = |rate| best_ettr(12_500, rate, Span::mins(5), Span::secs(20));
        near(at(Rate::RSC1), 0.567, 0.003);
        near(at(Rate::RSC2), 0.795, 0.003);
        for (gpus, worse, better) in [(16_384, 0.952, 0.975), (100_000, 0.819, 0.916)] {
            let at = |rate| best_ettr(gpus / 8, rate, Span::mins(2), Span::secs(3));
            near(at(Rate::RSC1), worse, 0.001);
            near(at(Rate::RSC2), better, 0.001);
        }
    }

    #[test]
    fn a_large_gang_with_quick_restarts_keeps_its_share() {
        let (nodes, rate, restart, cost) = (2032, Rate::LLAMA3, Span::mins(2), Span::secs(1));
        near(best_ettr(nodes, rate, restart, cost), 0.976, 0.0005);
        let every = checkpoint_every(cost, rate.mtbf(nodes));
        let x = Expect { nodes, rate, restart, queue: Span(0), cost, every };
        near(ettr_exact(&x), 0.976, 0.0005);
        // RSC-1's authors give 0.70 for hourly checkpoints at 16,000 GPUs and 0.93 for one in five
        // minutes; here with restarts of five minutes.
        let x = Expect { rate: Rate::RSC1, nodes: 2000, restart: Span::mins(5), ..x };
        let rsc = |every| ettr(&Expect { every, ..x });
        near(rsc(Span::mins(60)), 0.70, 0.02);
        near(rsc(Span::mins(5)), 0.93, 0.01);
    }

    #[test]
    fn the_first_order_is_too_low_where_much_is_lost() {
        let (cost, rate) = (Span::secs(20), Rate::RSC1);
        let every = checkpoint_every(cost, rate.mtbf(12_500));
        let restart = Span::mins(5);
        let x = Expect { nodes: 12_500, rate, restart, queue: Span(0), cost, every };
        near(ettr(&x), 0.569, 0.001);
        near(ettr_exact(&x), 0.617, 0.001);
    }

    #[test]
    fn edges_are_plain() {
        let sure = Expect {
            nodes: 8,
            rate: Rate(0),
            restart: Span::mins(5),
            queue: Span::hours(1),
            cost: Span::secs(10),
            every: Span::secs(90),
        };
        near(ettr(&sure), 0.9, 1e-12);
        near(ettr_exact(&sure), 0.9, 1e-12);
        let hopeless = Expect { rate: Rate::MAX, ..sure };
        assert_eq!(ettr(&hopeless), 0.0);
        assert_eq!(ettr_exact(&hopeless), 0.0);
        let never = Expect { every: Span(0), ..sure };
        assert!(ettr(&never) < 0.001 && ettr_exact(&never) < 0.001);
    }

    #[test]
    fn waiting_for_nodes_counts_once_per_failure() {
        let x = Expect {
            nodes: 1000,
            rate: Rate(10_000),
            restart: Span(0),
            queue: Span(0),
            cost: Span(0),
            every: Span(1),
        };
        // Ten failures a day, each queueing for 2.4 h: half of all time is spent waiting.
        let queued = Expect { queue: Span(8_640_000), ..x };
        near(ettr(&queued) / ettr(&x), 0.5, 1e-9);
        near(ettr_exact(&queued) / ettr_exact(&x), 0.5, 1e-9);
    }

    // The exact form against a run of it: a step that fails is repeated, restarts can fail too.
    #[test]
    fn a_simulated_job_gets_the_exact_share() {
        let x = Expect {
            nodes: 4096,
            rate: Rate::RSC1,
            restart: Span::mins(8),
            queue: Span::mins(4),
            cost: Span::secs(60),
            every: Span::mins(15),
        };
        let mean = 1.0 / x.failures(Span(1));
        let mut draw = crate::draw::Draw(7);
        let (mut useful, mut wall, mut next) = (0.0, 0.0, draw.exponential(mean));
        let (every, cost) = (x.every.0 as f64, x.cost.0 as f64);
        let mut need_restart = false;
        while useful < 2e4 * every {
            let need = if need_restart { x.restart.0 as f64 } else { every + cost };
            if next < need {
                wall += next + x.queue.0 as f64;
                next = draw.exponential(mean);
                need_restart = true;
            } else {
                wall += need;
                next -= need;
                useful += if need_restart { 0.0 } else { every };
                need_restart = false;
            }
        }
        near(useful / wall, ettr_exact(&x), 0.01);
    }

    proptest! {
        #[test]
        fn shares_are_shares(
            nodes in any::<u32>(), rate in any::<u64>(), restart in any::<u64>(),
            queue in any::<u64>(), cost in any::<u64>(), every in any::<u64>(),
        ) {
            let x = Expect {
                nodes,
                rate: Rate(rate),
                restart: Span(restart),
                queue: Span(queue),
                cost: Span(cost),
                every: Span(every),
            };
            prop_assert!((0.0..=1.0).contains(&ettr(&x)));
            prop_assert!((0.0..=1.0).contains(&ettr_exact(&x)));
        }

        #[test]
        fn both_forms_agree_where_failures_are_rare(
            nodes in 1..2000u32, rate in 1..7000u64, restart in 0..300_000u64,
            cost in 0..10_000u64,
        ) {
            let (rate, cost) = (Rate(rate), Span(cost));
            let every = checkpoint_every(cost, rate.mtbf(nodes));
            let x = Expect {
                nodes, rate, restart: Span(restart), queue: Span(0), cost, every,
            };
            prop_assume!(ettr(&x) > 0.9);
            prop_assert!((ettr(&x) - ettr_exact(&x)).abs() < 0.01);
        }
    }
}
