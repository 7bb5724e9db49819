use super::*;
use crate::draw::Draw;
use proptest::prelude::*;
use std::collections::VecDeque;

fn near(got: f64, want: f64, by: f64) {
    assert!((got - want).abs() <= by, "{got} is not {want}");
}

/// `P(X >= s)` term by term.
fn poisson_tail(s: u32, load: f64) -> f64 {
    let (mut p, mut below) = ((-load).exp(), 0.0);
    for k in 0..s {
        below += p;
        p *= load / f64::from(k + 1);
    }
    1.0 - below
}

#[test]
fn erlang_b_gives_the_values_of_the_tables() {
    // By hand: B(1, 1) = 1/2, B(2, 1) = 1/5, B(3, 1) = 1/16.
    near(erlang_b(1, 1.0), 0.5, 1e-15);
    near(erlang_b(2, 1.0), 0.2, 1e-15);
    near(erlang_b(3, 1.0), 0.0625, 1e-15);
    // Traffic tables: ten lines carry 4.46 erlang at a loss of one percent.
    near(erlang_b(10, 4.46), 0.01, 0.0001);
    assert_eq!(erlang_b(0, 3.0), 1.0);
    assert_eq!(erlang_b(4, 0.0), 0.0);
    assert_eq!(erlang_b(4, -1.0), 0.0);
    assert_eq!(erlang_b(4, f64::NAN), 0.0);
    near(erlang_b(4, f64::INFINITY), 1.0, 1e-9);
}

#[test]
fn spares_of_known_fleets() {
    let day = Span::hours(24);
    // The 99th percentile of a day's failures among 1,024 nodes at 6.5 per thousand is 13, among
    // 2,048 it is 22. A failure that may see 13 others needs a fourteenth spare.
    assert_eq!(spares_for_waiting(1024, Rate::RSC1, day, Span(0), 990_000), 14);
    assert_eq!(spares_for_waiting(2048, Rate::RSC1, day, Span(0), 990_000), 23);
}

#[test]
fn edges_are_plain() {
    let day = Span::hours(24);
    let spares = |nodes, rate, repair| spares_for_waiting(nodes, rate, repair, Span(0), 990_000);
    assert_eq!(spares(0, Rate::RSC1, day), 0);
    assert_eq!(spares(1000, Rate(0), day), 0);
    assert_eq!(spares(1000, Rate::RSC1, Span(0)), 0);
    assert_eq!(spares(u32::MAX, Rate::MAX, day), MOST);
    assert_eq!(spares_for_waiting(1000, Rate::RSC1, day, Span(0), 0), 0);
}

const ROUNDS: u32 = 150_000;

/// The share of failures that finds no spare when it is then met from elsewhere.
fn simulate_loss(spares: usize, load: f64, repair: impl Fn(&mut Draw) -> f64) -> f64 {
    let (mut draw, mut now, mut lost) = (Draw(11), 0.0, 0);
    // When each spare in use comes back.
    let mut in_use: Vec<f64> = vec![];
    for _ in 0..ROUNDS {
        now += draw.exponential(1.0 / load);
        let back = now + repair(&mut draw);
        in_use.retain(|b| *b > now);
        if in_use.len() < spares {
            in_use.push(back);
        } else {
            lost += 1;
        }
    }
    f64::from(lost) / f64::from(ROUNDS)
}

/// The share of failures that waits longer than `t`, first come first served, every broken node
/// being in repair from its failure on.
fn simulate_wait(spares: u32, load: f64, t: f64, repair: impl Fn(&mut Draw) -> f64) -> f64 {
    let (mut draw, mut now, mut late) = (Draw(12), 0.0, 0);
    let (mut ready, mut waiting) = (spares, VecDeque::new());
    // When each broken node is repaired, soonest last.
    let mut broken: Vec<f64> = vec![];
    for _ in 0..ROUNDS {
        now += draw.exponential(1.0 / load);
        while broken.last().is_some_and(|end| *end <= now) {
            let end = broken.pop().unwrap();
            match waiting.pop_front() {
                Some(since) => late += u32::from(end - since > t),
                None => ready += 1,
            }
        }
        let back = now + repair(&mut draw);
        broken.insert(broken.partition_point(|end| *end > back), back);
        if ready > 0 {
            ready -= 1;
        } else {
            waiting.push_back(now);
        }
    }
    f64::from(late) / f64::from(ROUNDS)
}

#[test]
fn a_simulated_fleet_agrees_for_any_repair() {
    let (spares, load) = (5, 3.0);
    let exponential = |d: &mut Draw| d.exponential(1.0);
    let constant = |_: &mut Draw| 1.0;
    // One in ten takes long: 2.25 times the variance of the exponential.
    let mixed = |d: &mut Draw| if d.uniform() < 0.1 { 5.5 } else { 0.5 };
    for repair in [&exponential as &dyn Fn(&mut Draw) -> f64, &constant, &mixed] {
        near(simulate_loss(spares, load, repair), erlang_b(5, load), 0.005);
        near(simulate_wait(5, load, 0.0, repair), waiting_share(5, load, 0.0), 0.008);
    }
}

/// What `waiting_share` bounds, with the nodes that fail later and are repaired before `t`.
fn exact_wait(spares: u32, load: f64, t: f64) -> f64 {
    let q = (-t).exp();
    let later = load * (t - 1.0 + q);
    let (mut p, mut sum) = ((-later).exp(), 0.0);
    for n in 0..50 {
        let left = |more| poisson_tail(spares + n + more, load * q);
        sum += p * (q * left(0) + (1.0 - q) * left(1));
        p *= later / f64::from(n + 1);
    }
    sum
}

#[test]
fn a_simulated_wait_is_within_the_bound() {
    let (spares, load) = (4, 3.5);
    for t in [0.01, 0.1, 0.3, 1.0] {
        let exact = exact_wait(spares, load, t);
        near(simulate_wait(spares, load, t, |d| d.exponential(1.0)), exact, 0.008);
        let bound = waiting_share(spares, load, t);
        assert!(exact <= bound && bound <= exact + load * t * t / 2.0, "{exact} {bound}");
    }
}

proptest! {
    #[test]
    fn the_tail_is_the_sum_of_its_terms(s in 0..200u32, load in 0.0..150.0f64) {
        prop_assert!((waiting_share(s, load, 0.0) - poisson_tail(s, load)).abs() < 1e-9);
    }

    #[test]
    fn waiting_is_never_better_than_going_elsewhere(s in 0..300u32, load in 0.0..1e4f64) {
        let (b, wait) = (erlang_b(s, load), waiting_share(s, load, 0.0));
        prop_assert!((0.0..=1.0).contains(&b) && (0.0..=1.0).contains(&wait));
        prop_assert!(b <= wait + 1e-12);
    }

    #[test]
    fn more_spares_and_more_patience_never_hurt(
        s in 0..300u32, load in 0.0..400.0f64, t in 0.0..5.0f64, more in 0.0..2.0f64,
    ) {
        prop_assert!(erlang_b(s + 1, load) <= erlang_b(s, load));
        prop_assert!(waiting_share(s + 1, load, t) <= waiting_share(s, load, t) + 1e-12);
        prop_assert!(waiting_share(s, load, t + more) <= waiting_share(s, load, t) + 1e-12);
    }

    #[test]
    fn the_number_meets_its_target_and_one_less_does_not(
        nodes in 1..20_000u32, rate in 1..10_000u64, hours in 1..200u64, ppm in 1..1_000_000u32,
    ) {
        let (rate, repair) = (Rate(rate), Span::hours(hours));
        let share = f64::from(ppm) / 1e6;
        let patient = spares_for_waiting(nodes, rate, repair, Span::mins(2), ppm);
        let wait = |s| {
            waiting_share(s, rate.expected(nodes, repair), 120_000.0 / repair.0 as f64)
        };
        prop_assert!(wait(patient) <= 1.0 - share + 1e-12);
        prop_assert!(patient == 0 || wait(patient - 1) > 1.0 - share - 1e-12);
        prop_assert!(patient <= spares_for_waiting(nodes, rate, repair, Span(0), ppm));
    }
}

proptest! {
    // Few: the largest answers take a million steps.
    #![proptest_config(ProptestConfig::with_cases(16))]
    #[test]
    fn any_numbers_are_answered(
        nodes in any::<u32>(), rate in any::<u64>(), repair in any::<u64>(), ppm in any::<u32>(),
        within in any::<u64>(),
    ) {
        let got = spares_for_waiting(nodes, Rate(rate), Span(repair), Span(within), ppm);
        prop_assert!(got <= MOST);
    }
}
