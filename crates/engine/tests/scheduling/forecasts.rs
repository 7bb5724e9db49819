//! When a waiting job starts: between durations seen and limits as written.

use crate::common::{TestSite, gang, limited, node, replay};
use muster_model::ids::JobId;
use muster_model::job::JobState;
use muster_model::spec::JobSpec;
use muster_model::units::Span;
use muster_scheduler::Estimate;
use muster_scheduler::forecast::LOOKED_AT;
use serde_json::json;
use std::sync::Arc;

/// A site on whose only node so many jobs had an hour and ran a quarter of it.
fn quarters(n: usize) -> TestSite {
    let mut w = TestSite::new(1, 8);
    for _ in 0..n {
        let id = w.run(limited(1, 8, 60));
        w.pass(Span::mins(15));
        w.finish(id);
        assert_eq!(w.job(id).state, JobState::Succeeded);
    }
    w
}

fn start(w: &TestSite, id: JobId) -> Estimate {
    let e = w.explain(id).estimate.expect("it waits for what has a limit");
    assert!(e.earliest.is_none_or(|t| w.now <= t && t <= e.at), "{e:?}");
    e
}

#[test]
fn with_too_few_seen_there_is_only_an_upper_bound_and_it_is_said_why() {
    let mut w = quarters(7);
    w.run(limited(1, 8, 60));
    let id = w.submit(limited(1, 8, 60));
    let said = start(&w, id);
    assert_eq!((said.earliest, said.at), (None, w.now + Span::mins(60)));
    let few = "of the last 16 jobs of each user too few had a time limit to say how much";
    assert!(said.basis.contains(&format!("{few} (7 of 8)")), "{}", said.basis);
    // Newer jobs without a limit take the place of older ones with one: that is what is said.
    let mut w = quarters(8);
    for _ in 0..10 {
        let id = w.run(gang(1, 8));
        w.pass(Span::mins(15));
        w.finish(id);
    }
    w.run(limited(1, 8, 60));
    let id = w.submit(limited(1, 8, 60));
    let said = start(&w, id);
    assert!(said.basis.contains(&format!("{few} (6 of 8)")), "{}", said.basis);
}

#[test]
fn a_job_behind_one_that_ends_as_its_like_did_starts_inside_the_range() {
    let mut w = quarters(8);
    let first = w.run(limited(1, 8, 60));
    let id = w.submit(limited(1, 8, 60));
    let said = start(&w, id);
    assert_eq!(said.at, w.now + Span::mins(60), "the late end are limits as written");
    assert!(said.basis.contains("how long 8 past jobs ran"), "{}", said.basis);
    let earliest = said.earliest.expect("enough were seen");
    assert!(earliest <= w.now + Span::mins(15), "{said:?}");
    w.pass(Span::mins(15));
    w.finish(first);
    assert_eq!(w.job(id).state, JobState::Starting);
    assert!(earliest <= w.now && w.now <= said.at, "{said:?}");
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}

#[test]
fn a_start_that_nobodys_early_end_moves_says_so() {
    let mut w = quarters(8);
    let begins = w.now + Span::hours(1);
    let over = json!({"nodes": [node(0)]});
    w.reserve(json!({"name": "fans", "over": over, "start": begins.0, "length": "2h"}));
    let id = w.submit(limited(1, 8, 90));
    let said = start(&w, id);
    let ends = begins + Span::hours(2);
    assert_eq!((said.earliest, said.at), (Some(ends), ends));
    assert!(said.basis.starts_with("reserved from the end of reservation `fans`, "), "{said:?}");
    assert!(said.basis.ends_with("it starts no earlier"), "{said:?}");
}

#[test]
fn a_dry_run_gives_the_same_range_as_the_job_it_asks_for() {
    let mut w = quarters(8);
    w.run(limited(1, 8, 60));
    let spec = Arc::new(limited(1, 8, 60));
    let dry = w.engine.state().explain_spec(&spec, "user:ann", w.now).unwrap().estimate.unwrap();
    let id = w.submit_as("ann", limited(1, 8, 60));
    let said = start(&w, id);
    assert_eq!((dry.earliest, dry.at), (said.earliest, said.at));
    assert!(dry.earliest.is_some_and(|t| t < dry.at), "{dry:?}");
}

#[test]
fn the_late_end_counts_with_jobs_ahead_for_which_nothing_is_reserved() {
    let mut w = TestSite::new(1, 8);
    w.policy(|p| p.backfill.reserved_starts = 1);
    w.run(limited(1, 8, 60));
    w.submit(limited(1, 8, 60));
    w.submit(limited(1, 8, 60));
    let last = w.submit(limited(1, 8, 60));
    assert_eq!(w.job(last).reserved_start, None);
    let said = start(&w, last);
    assert_eq!(said.at, w.now + Span::mins(180), "two go first, an hour each: {said:?}");
    assert!(said.basis.contains("jobs ahead"), "{}", said.basis);
}

#[test]
fn only_a_reserved_start_is_a_bound_and_a_shorter_job_that_is_let_in_does_not_move_it() {
    let mut w = TestSite::new(2, 8);
    w.policy(|p| p.backfill.reserved_starts = 1);
    w.run(limited(1, 8, 60));
    let first = w.submit(limited(2, 8, 60));
    let second = w.submit(limited(2, 8, 60));
    let (bound, expected) = (start(&w, first), start(&w, second));
    assert!(bound.reserved && !expected.reserved, "{bound:?} {expected:?}");
    let moves = "no start is reserved for it: later if jobs that are submitted after it go first";
    assert!(expected.basis.contains(moves), "{}", expected.basis);
    let short = w.submit(limited(1, 8, 30));
    assert_eq!(w.job(short).state, JobState::Starting, "backfill");
    let said = start(&w, first);
    assert_eq!((said.at, said.reserved), (bound.at, true));
}

#[test]
fn of_a_long_queue_the_beginning_is_looked_at_and_that_is_said() {
    let mut w = quarters(8);
    w.run(limited(1, 8, 60));
    let array = Some(format!("1-{}", LOOKED_AT + 2));
    let first = w.submit(JobSpec { array, ..limited(1, 8, 60) });
    assert_eq!(w.engine.state().queue_len(), LOOKED_AT + 2);
    let cut = "; the first 2,000 waiting jobs are looked at";
    let said = start(&w, first);
    assert!(said.basis.contains(cut), "{}", said.basis);
    let at = w.now + Span::mins(60);
    assert_eq!(said.at, at, "who is behind changes nothing for the first");
    let spec = Arc::new(limited(1, 8, 60));
    let dry = w.engine.state().explain_spec(&spec, "user:ann", w.now).unwrap().estimate.unwrap();
    assert!(dry.basis.contains(cut), "{}", dry.basis);
}
