use super::*;
use muster_model::ids::JobId;
use muster_model::names::NodeName;
use muster_model::topology::Level;
use proptest::prelude::*;

const T0: Time = Time(1_000_000_000);

fn node() -> Entity {
    Entity::Node("n1".parse().unwrap())
}

fn first() -> Breaker {
    open(None, node(), T0, "three jobs failed".into(), Some(7))
}

fn probe() -> Probe {
    Probe::Attempt { key: None }
}

#[test]
fn it_opens_waits_tries_and_closes() {
    let b = first();
    assert_eq!((b.state, b.trips, b.because_of), (BreakerState::Open, 1, Some(7)));
    assert!(!due(&b, T0 + Span::secs(599)) && due(&b, T0 + Span::mins(10)));
    let half = half_open(&b, T0 + Span::mins(10), probe());
    assert_eq!((half.state, half.probe_at), (BreakerState::HalfOpen, None));
    assert!(half.probe.is_some() && !due(&half, T0 + Span::hours(9)));
    let shut = probed(&half, T0 + Span::mins(12), true, "it passed".into());
    assert_eq!((shut.state, &shut.probe), (BreakerState::Closed, &None));
    // Soon again: it remembers. After a day: it does not.
    let again = open(Some(&shut), node(), shut.since + Span::hours(23), "again".into(), None);
    assert_eq!((again.trips, again.probe_at), (2, Some(again.since + Span::mins(20))));
    let later = open(Some(&shut), node(), shut.since + Span::hours(24), "again".into(), None);
    assert_eq!((later.trips, later.probe_at), (1, Some(later.since + Span::mins(10))));
    assert!(forgotten(&shut, later.since) && !forgotten(&b, later.since));
}

#[test]
fn waits_double_up_to_six_hours() {
    let (mut b, mut waits) = (first(), vec![]);
    for _ in 0..8 {
        waits.push(b.probe_at.unwrap().since(b.since).0 / 60_000);
        let half = half_open(&b, b.probe_at.unwrap(), probe());
        b = probed(&half, half.since + Span::secs(9), false, "no".into());
    }
    assert_eq!(waits, [10, 20, 40, 80, 160, 320, 360, 360]);
    assert_eq!(b.trips, 9);
}

#[test]
fn more_failures_of_an_open_one_change_nothing() {
    let b = first();
    assert_eq!(open(Some(&b), node(), T0 + Span::mins(5), "more".into(), None), b);
}

#[test]
fn a_probe_that_came_to_nothing_is_no_trip() {
    let half = half_open(&first(), T0 + Span::mins(10), probe());
    let b = reopen_after_probe(&half, T0 + Span::mins(11), "it was preempted".into());
    assert_eq!((b.state, b.trips, b.back_off), (BreakerState::Open, 1, half.back_off));
    assert!(due(&b, T0 + Span::mins(21)) && b.probe.is_none());
}

#[test]
fn an_operators_word_holds_until_another_one() {
    let b = force(None, node(), Some(BreakerState::Open), "ann", "smoke", T0);
    assert_eq!((b.state, b.pinned.as_deref(), b.trips), (BreakerState::Open, Some("ann"), 0));
    assert!(!due(&b, T0 + Span::hours(900)));
    let back = force(Some(&b), node(), None, "ann", "repaired", T0 + Span::hours(1));
    assert_eq!((back.state, back.pinned.clone()), (BreakerState::Open, None));
    assert!(due(&back, T0 + Span::hours(1)));
    let shut = force(Some(&first()), node(), Some(BreakerState::Closed), "bob", "fine", T0);
    assert_eq!(open(Some(&shut), node(), T0 + Span::hours(1), "no".into(), None), shut);
    let now = force(Some(&first()), node(), Some(BreakerState::HalfOpen), "bob", "try", T0);
    assert!(due(&now, T0) && now.pinned.is_none());
}

fn name(n: &str) -> NodeName {
    n.parse().unwrap()
}

#[test]
fn what_had_another_reason_is_not_counted() {
    let image = Entity::Image("x:1".into());
    let mut c = Count::default();
    for i in 0..4 {
        c.failed(&image, T0 + Span::mins(i), JobId(i), &name("a"));
    }
    c.discount_failure(T0 + Span::mins(1), JobId(1));
    assert_eq!(c.failures(&image, T0 + Span::mins(4)), 3);
    c.keep(|job| job == JobId(3));
    assert_eq!(
        (c.failures(&image, T0 + Span::mins(4)), c.nodes(&image, T0 + Span::mins(4))),
        (1, 1)
    );
}

#[test]
fn how_many_failures_are_enough() {
    let template = Entity::Template("p".parse().unwrap(), "t".into());
    let image = Entity::Image("x:1".into());
    let mut c = Count::default();
    for i in 0..4 {
        c.failed(&template, T0 + Span::mins(i), JobId(1), &name("a"));
    }
    assert!(!should_trip(&template, c.failures(&template, T0 + Span::mins(4)), 0, 0));
    c.failed(&template, T0 + Span::mins(5), JobId(1), &name("b"));
    assert_eq!(c.nodes(&template, T0 + Span::mins(5)), 2);
    assert!(should_trip(&template, c.failures(&template, T0 + Span::mins(5)), 0, 0));
    // The first ones are an hour old by then; or one went well.
    assert!(!should_trip(&template, c.failures(&template, T0 + Span::mins(62)), 0, 0));
    c.succeeded(&template);
    assert!(c.is_empty());
    for (entity, hours) in [(&image, 0), (&node(), 9)] {
        let mut c = Count::default();
        for (i, job) in [1, 1, 2, 2, 3].into_iter().enumerate() {
            let at = T0 + Span::hours(hours * i as u64);
            assert!(!should_trip(entity, c.failures(entity, at), 0, 0));
            c.failed(entity, at, JobId(job), &name("a"));
        }
        // Nine hours apart the first job's failures are more than a day old.
        assert_eq!(
            should_trip(entity, c.failures(entity, T0 + Span::hours(hours * 4)), 0, 0),
            hours == 0
        );
    }
    let leaf = Entity::Domain(Level::Leaf, "l".into());
    let version = Entity::Version("driver".into(), "1".into());
    for (entity, hit, of, want) in [
        (&leaf, 4, 16, true),
        (&leaf, 3, 16, false),
        (&leaf, 2, 2, false),
        (&version, 5, 100, true),
        (&version, 4, 100, false),
        (&node(), 9, 9, false),
    ] {
        assert_eq!(should_trip(entity, 0, hit, of), want, "{entity} {hit}/{of}");
    }
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Fail,
    Half,
    Probe(bool),
    Lapse,
    Force(Option<BreakerState>),
}

fn steps() -> impl Strategy<Value = Vec<(Step, u64)>> {
    use BreakerState::{Closed, HalfOpen, Open};
    let step = prop_oneof![
        6 => Just(Step::Fail),
        6 => Just(Step::Half),
        6 => any::<bool>().prop_map(Step::Probe),
        1 => Just(Step::Lapse),
        1 => prop::sample::select(vec![None, Some(Open), Some(Closed), Some(HalfOpen)])
            .prop_map(Step::Force),
    ];
    prop::collection::vec((step, 0u64..90_000_000), 1..60)
}

proptest! {
    #[test]
    fn no_step_breaks_an_invariant(steps in steps()) {
        let (mut b, mut now) = (first(), T0);
        for (step, ms) in steps {
            now = now + Span(ms);
            let next = match step {
                Step::Fail => open(Some(&b), node(), now, "f".into(), None),
                Step::Half => half_open(&b, now, probe()),
                Step::Probe(ok) => probed(&b, now, ok, "p".into()),
                Step::Lapse => reopen_after_probe(&b, now, "l".into()),
                Step::Force(word) => force(Some(&b), node(), word, "ann", "w", now),
            };
            // Only a word moves a pinned one.
            if b.pinned.is_some() && !matches!(step, Step::Force(_)) {
                prop_assert_eq!(&next, &b);
            }
            // Only a probe that passed, or a word, closes.
            if next.state == BreakerState::Closed && b.state != BreakerState::Closed {
                let passed = matches!(step, Step::Probe(true)) && b.state == BreakerState::HalfOpen;
                prop_assert!(passed || matches!(step, Step::Force(Some(BreakerState::Closed))));
            }
            if matches!(step, Step::Probe(false)) && b.state == BreakerState::HalfOpen
                && b.pinned.is_none()
            {
                prop_assert_eq!(next.state, BreakerState::Open);
            }
            // Waits only grow, until it forgets.
            if !forgotten(&b, now) {
                prop_assert!(next.back_off >= b.back_off);
                prop_assert!(next.trips >= b.trips);
            }
            prop_assert!(next.back_off <= BACK_OFF_MAX);
            // An open one that is not pinned always has a probe coming; no other has.
            let waits = next.state == BreakerState::Open && next.pinned.is_none();
            prop_assert_eq!(next.probe_at.is_some(), waits);
            prop_assert_eq!(next.probe.is_some(), next.state == BreakerState::HalfOpen);
            b = next;
        }
    }
}
