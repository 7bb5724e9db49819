use super::*;
use crate::draw::Draw;
use proptest::prelude::*;

const DAY: Span = Span::hours(24);

fn day(n: u64) -> Time {
    Time(0) + Span(DAY.0 * n)
}

fn worked(days: u64, fails: u64) -> Record {
    let mut r = Record::default();
    r.busy(day(28 - days), day(28), 1000);
    for i in 0..fails {
        r.failed(day(20) + Span::hours(i), JobId(i), 1);
    }
    r
}

/// So many nodes that worked for four weeks, with a failure on every fifth.
fn fleet(nodes: u64, plus: &Record) -> Fleet {
    let records: Vec<Record> =
        (0..nodes).map(|i| worked(28, u64::from(i.is_multiple_of(5)))).collect();
    Fleet::of(records.iter().chain([plus]), day(28))
}

#[test]
fn failures_stand_against_exposure() {
    let own = worked(28, 5);
    let found = lemon(&own, &fleet(500, &own), day(28)).unwrap();
    assert_eq!((found.seen, found.expected_milli), (5, 200));
    assert!(found.confidence > 900, "{found:?}");
    assert_eq!(
        found.reason,
        "5 failures in four weeks with 28.0 days of work, where the fleet's rate lets expect 0.20"
    );
    // As many on a node that did ten times the work of the others are to be expected.
    let idle: Vec<Record> = (0..500).map(|i| worked(2, u64::from(i < 50))).collect();
    let f = Fleet::of(idle.iter().chain([&own]), day(28));
    assert_eq!(lemon(&own, &f, day(28)), None);
    // Two are never enough.
    let own = worked(28, 2);
    assert_eq!(lemon(&own, &fleet(5000, &own), day(28)), None);
}

#[test]
fn failures_are_forgotten_after_four_weeks() {
    let own = worked(28, 5);
    let f = fleet(500, &own);
    assert!(lemon(&own, &f, day(47)).is_some());
    assert_eq!(lemon(&own, &f, day(49)), None);
    assert!(own.is_empty(day(60)));
}

#[test]
fn gangs_share_what_nobody_owns_up_to() {
    let mut own = worked(28, 0);
    for i in 0..40 {
        own.failed(day(20) + Span::hours(i), JobId(i), 64);
    }
    assert_eq!(own.seen_milli(day(28)), 40 * 15);
    assert_eq!(lemon(&own, &fleet(500, &own), day(28)), None);
}

#[test]
fn a_lemon_among_four_nodes_does_not_hide_itself() {
    let own = worked(28, 6);
    assert!(lemon(&own, &fleet(3, &own), day(28)).is_some());
}

#[test]
fn what_happened_at_once_or_under_one_job_is_one_failure() {
    let at = |h: u64| day(20) + Span::hours(h);
    let mut r = Record::default();
    // A lost node ends all of its jobs.
    for job in 0..8 {
        r.failed(at(0) + Span::secs(job), JobId(job), 1);
    }
    assert_eq!(r.seen_milli(day(28)), 1000);
    for h in 1..20 {
        r.failed(at(h), JobId(9), 1);
    }
    assert_eq!(r.seen_milli(day(28)), 2000, "one job that keeps failing");
    r.failed(at(40), JobId(9), 1);
    assert_eq!(r.seen_milli(day(28)), 3000, "another day");
    r.discount_failure(at(40), JobId(9));
    assert_eq!(r.seen_milli(day(28)), 2000);
    r.discount_failures_since(at(1));
    assert_eq!(
        (r.seen_milli(day(28)), r.jobs(day(28)).collect::<Vec<_>>()),
        (1000, vec![JobId(0)])
    );
    r.reset_history();
    assert_eq!(r.seen_milli(day(28)), 0);
}

#[test]
fn a_part_of_a_node_at_work_is_a_part_of_its_exposure() {
    let mut r = Record::default();
    r.busy(day(1), day(2), 125);
    assert_eq!(r.busy_ms(day(2)), DAY.0 / 8);
    for i in 0..100 {
        r.out(day(1) + Span::hours(i));
    }
    assert_eq!(r.outs(day(6)), OUTS_MAX);
    assert_eq!(r.outs(day(60)), 0);
}

struct Score {
    lemons: usize,
    found: usize,
    right: usize,
}

/// Nodes with jobs of 1 to 64 nodes, half a year, asked every third day. Returns who was ever named.
fn simulate(seed: u64, per_1000_node_days: f64, known: f64) -> Score {
    const NODES: usize = 2000;
    let mut draw = Draw(seed);
    let lemons: Vec<bool> = (0..NODES).map(|_| draw.uniform() < 0.012).collect();
    // How much of its time each node works, so that exposure differs.
    let load: Vec<f64> = (0..NODES).map(|_| 0.1 + 0.9 * draw.uniform()).collect();
    let mut records = vec![Record::default(); NODES];
    let mut named = vec![false; NODES];
    let mut job = 0;
    for d in 0..180 {
        let from = day(d);
        // The day's gangs: neighbours in a row of 1, 2, 4 ... 64.
        let mut at = 0;
        while at < NODES {
            let n = (1usize << ((draw.uniform() * 7.0) as u32).min(6)).min(NODES - at);
            for i in at..at + n {
                let busy = load[i] * 86_400_000.0;
                records[i].busy(from, from + Span(busy as u64), 1000);
                let rate = per_1000_node_days / 1000.0 * load[i];
                let mean = 1.0 / (rate * if lemons[i] { 10.0 } else { 1.0 });
                let mut t = draw.exponential(mean);
                while t < 1.0 {
                    let when = from + Span((t * 86_400_000.0) as u64);
                    job += 1;
                    if draw.uniform() <= known {
                        records[i].failed(when, JobId(job), 1);
                    } else {
                        for r in &mut records[at..at + n] {
                            r.failed(when, JobId(job), u32::try_from(n).unwrap());
                        }
                    }
                    t += draw.exponential(mean);
                }
            }
            at += n;
        }
        if d % 3 != 0 {
            continue;
        }
        let now = day(d + 1);
        let fleet = Fleet::of(&records, now);
        for i in 0..NODES {
            if !named[i] && lemon(&records[i], &fleet, now).is_some() {
                named[i] = true;
            }
        }
    }
    let both = named.iter().zip(&lemons);
    Score {
        lemons: lemons.iter().filter(|l| **l).count(),
        found: named.iter().filter(|n| **n).count(),
        right: both.filter(|(n, l)| **n && **l).count(),
    }
}

#[test]
#[allow(clippy::disallowed_macros, reason = "what was reached is printed")]
fn more_than_85_percent_of_those_named_are_lemons() {
    for (rate, known, seeds) in [(6.5, 1.0, 2), (6.5, 0.7, 2), (20.0, 0.7, 1)] {
        let mut all = Score { lemons: 0, found: 0, right: 0 };
        for seed in 1..=seeds {
            let s = simulate(seed, rate, known);
            all.lemons += s.lemons;
            all.found += s.found;
            all.right += s.right;
        }
        let precision = all.right * 1000 / all.found.max(1);
        let recall = all.right * 1000 / all.lemons.max(1);
        println!(
            "{rate} failures per 1,000 node-days, culprit known in {known}: precision {precision}, \
             recall {recall} thousandths ({} lemons, {} named, {} of them rightly)",
            all.lemons, all.found, all.right
        );
        assert!(precision >= 850, "{rate} {known}: {precision}");
        assert!(recall >= 200, "{rate} {known}: {recall}");
    }
}

proptest! {
    #[test]
    fn a_record_is_bounded_and_more_failures_are_never_better(
        fails in prop::collection::vec((0u64..60 * 24, 1u32..100), 0..200),
        work in prop::collection::vec((0u64..60 * 24, 0u64..2000), 0..80),
    ) {
        let mut r = Record::default();
        for (from, hours) in work {
            r.busy(day(0) + Span::hours(from), day(0) + Span::hours(from + hours), 1000);
        }
        for (at, n) in fails {
            r.failed(day(0) + Span::hours(at), JobId(at), n);
        }
        prop_assert!(r.fails.len() <= FAILS_MAX && r.busy.len() <= 29);
        let now = day(28);
        let f = fleet(100, &r);
        let before = lemon(&r, &f, now);
        r.failed(now, JobId(1), 1);
        if let Some(b) = before {
            let after = lemon(&r, &f, now).unwrap();
            prop_assert!(after.seen >= b.seen && after.confidence >= b.confidence);
        }
    }
}
