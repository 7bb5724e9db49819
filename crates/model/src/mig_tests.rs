//! Plans over the table of a real H200.

use super::*;
use crate::units::Bytes;
use proptest::prelude::*;

/// As an H200 with driver 580 answers.
pub(crate) fn h200() -> Vec<MigProfile> {
    let one = |name: &str, id, most, mib, sms, starts: &[u32], size| MigProfile {
        name: name.into(),
        id,
        most,
        memory: Bytes::mib(mib),
        sms,
        starts: starts.to_vec(),
        size,
    };
    vec![
        one("1g.18gb", 19, 7, 16_384, 16, &[0, 1, 2, 3, 4, 5, 6], 1),
        one("1g.18gb+me", 20, 1, 16_384, 16, &[0, 1, 2, 3, 4, 5, 6], 1),
        one("1g.35gb", 15, 4, 33_280, 26, &[0, 2, 4, 6], 2),
        one("2g.35gb", 14, 3, 33_280, 32, &[0, 2, 4], 2),
        one("3g.71gb", 9, 2, 71_424, 60, &[0, 4], 4),
        one("4g.71gb", 5, 1, 71_424, 64, &[0], 4),
        one("7g.141gb", 0, 1, 143_360, 132, &[0], 8),
    ]
}

fn slice(profile: &str, gi: u32, start: u32) -> MigSlice {
    MigSlice {
        uuid: format!("MIG-{gi}"),
        profile: profile.into(),
        gpu_instance: gi,
        compute_instance: 0,
        start,
    }
}

fn idle(profile: &str, gi: u32, start: u32) -> Present {
    Present { slice: slice(profile, gi, start), user: None }
}

fn used(profile: &str, gi: u32, start: u32) -> Present {
    let user = AttemptKey { job: "1".parse().expect("a job id"), attempt: 1 };
    Present { slice: slice(profile, gi, start), user: Some(user) }
}

fn run(present: &[Present], wanted: &[&str]) -> Result<MigPlan, MigRefusal> {
    let profiles = h200();
    plan(&Start { profiles: &profiles, present, on: true, may_switch: false }, wanted)
}

fn starts(plan: &MigPlan) -> Vec<(&str, u32)> {
    plan.create.iter().map(|c| (c.profile.as_str(), c.start)).collect()
}

#[test]
fn an_empty_gpu_is_cut_so_that_most_is_left() {
    let p = run(&[], &["1g.18gb"]).expect("fits");
    // Slice 6 spoils nothing but itself and one half of the GPU.
    assert_eq!(starts(&p), vec![("1g.18gb", 6)]);
    let p = run(&[], &["3g.71gb", "4g.71gb"]).expect("fits");
    assert_eq!(starts(&p), vec![("3g.71gb", 4), ("4g.71gb", 0)]);
    let p = run(&[], &["1g.18gb"; 7]).expect("fits");
    assert_eq!(p.create.len(), 7);
}

#[test]
fn what_is_there_stays_and_is_not_made_again() {
    let present = [idle("3g.71gb", 1, 0), used("1g.18gb", 2, 4)];
    let p = run(&present, &["3g.71gb", "1g.18gb", "1g.18gb"]).expect("fits");
    assert_eq!((p.keep.len(), p.destroy.len(), p.create.len()), (2, 0, 1));
    assert!(p.is_ready());
    assert!(run(&present, &["1g.18gb"]).expect("there").is_empty());
    assert!(run(&present, &[]).expect("nothing").is_empty());
}

#[test]
fn an_idle_slice_goes_before_one_in_use() {
    let present = [used("3g.71gb", 1, 0), idle("3g.71gb", 2, 4)];
    let p = run(&present, &["2g.35gb"]).expect("fits");
    assert_eq!(p.destroy, vec![slice("3g.71gb", 2, 4)]);
    assert!(p.is_ready());
    // Two small idle ones go rather than a large one that is used.
    let present = [used("4g.71gb", 1, 0), idle("1g.18gb", 2, 4), idle("1g.18gb", 3, 6)];
    let p = run(&present, &["3g.71gb"]).expect("fits");
    assert_eq!((p.destroy.len(), p.must_leave.len()), (2, 0));
}

#[test]
fn who_is_in_the_way_must_leave() {
    let present = [used("1g.18gb", 1, 0)];
    let p = run(&present, &["7g.141gb"]).expect("fits");
    assert_eq!(p.must_leave, vec![slice("1g.18gb", 1, 0)]);
    assert!(!p.is_ready());
}

#[test]
fn parts_of_one_instance_go_together_and_are_no_whole_slice() {
    let part = |ci| {
        let mut p = idle("1c.3g.71gb", 1, 4);
        p.slice.compute_instance = ci;
        p
    };
    let present = [part(0), part(1)];
    let p = run(&present, &["4g.71gb"]).expect("fits");
    assert_eq!((p.keep.len(), p.create.len()), (2, 1));
    let p = run(&present, &["3g.71gb", "3g.71gb"]).expect("fits");
    assert_eq!((p.destroy.len(), p.create.len()), (2, 2));
}

#[test]
fn what_cannot_be_is_refused_with_its_reason() {
    assert!(matches!(run(&[], &["9g.1gb"]), Err(MigRefusal::NoSuchProfile { .. })));
    assert!(matches!(run(&[], &["3g.71gb"; 3]), Err(MigRefusal::TooMany { most: 2, .. })));
    assert_eq!(run(&[], &["4g.71gb", "7g.141gb"]), Err(MigRefusal::DoNotFit));
    let none = Start { profiles: &[], present: &[], on: true, may_switch: true };
    assert_eq!(plan(&none, &["1g.18gb"]), Err(MigRefusal::NotCuttable));
    assert_eq!(plan(&none, &[]), Ok(MigPlan::default()));
}

#[test]
fn the_mode_is_switched_only_where_that_was_allowed() {
    let profiles = h200();
    let off = Start { profiles: &profiles, present: &[], on: false, may_switch: false };
    assert_eq!(plan(&off, &["1g.18gb"]), Err(MigRefusal::ModeOff));
    let p = plan(&Start { may_switch: true, ..off }, &["1g.18gb"]).expect("allowed");
    assert_eq!(p.switch, Some(true));
}

/// Some slices that can really be beside each other, some of them used.
fn some_present() -> impl Strategy<Value = Vec<Present>> {
    let pick = (0..7usize, 0..7usize, any::<bool>());
    proptest::collection::vec(pick, 0..7).prop_map(|picks| {
        let table = h200();
        let (mut taken, mut out) = (0, Vec::new());
        for (gi, (p, at, busy)) in picks.into_iter().enumerate() {
            let profile = &table[p];
            let start = profile.starts[at % profile.starts.len()];
            let cells = bits(start, profile.size).expect("in range");
            let same = out.iter().filter(|o: &&Present| o.slice.profile == profile.name).count();
            if taken & cells != 0 || same >= profile.most as usize {
                continue;
            }
            taken |= cells;
            let gi = u32::try_from(gi).expect("small");
            let make = if busy { used } else { idle };
            out.push(make(&profile.name, gi, start));
        }
        out
    })
}

fn some_wanted() -> impl Strategy<Value = Vec<String>> {
    let names: Vec<String> = h200().into_iter().map(|p| p.name).collect();
    proptest::collection::vec(proptest::sample::select(names), 0..5)
}

proptest! {
    #[test]
    fn every_plan_is_possible_and_complete(present in some_present(), wanted in some_wanted()) {
        let table = h200();
        let names: Vec<&str> = wanted.iter().map(String::as_str).collect();
        let Ok(p) = run(&present, &names) else {
            // What does not fit around anything does not fit on an empty GPU either.
            prop_assert!(run(&[], &names).is_err());
            return Ok(());
        };
        let size = |name: &str| table.iter().find(|q| q.name == name).map_or(99, |q| q.size);
        let mut taken = 0;
        let after = p.keep.iter().map(|s| (s.profile.as_str(), s.start));
        let after: Vec<_> = after.chain(starts(&p)).collect();
        for (name, start) in &after {
            let cells = bits(*start, size(name)).expect("in range");
            prop_assert_eq!(taken & cells, 0, "two slices in one place");
            taken |= cells;
        }
        for q in &table {
            let want = names.iter().filter(|n| **n == q.name).count();
            let have = after.iter().filter(|(n, _)| *n == q.name).count();
            prop_assert!(have >= want, "{} of {}", have, q.name);
            if want > 0 { prop_assert!(have <= q.most as usize); }
        }
        for c in &p.create {
            let q = table.iter().find(|q| q.name == c.profile).expect("known");
            prop_assert!(q.starts.contains(&c.start) && q.id == c.id);
        }
        prop_assert_eq!(p.keep.len() + p.destroy.len(), present.len());
        let used = |s: &MigSlice| present.iter().any(|q| q.slice == *s && q.user.is_some());
        prop_assert!(p.must_leave.iter().all(used));
        prop_assert_eq!(p.must_leave.len(), p.destroy.iter().filter(|s| used(s)).count());
    }

    #[test]
    fn a_plan_carried_out_leaves_nothing_to_do(present in some_present(), wanted in some_wanted()) {
        let names: Vec<&str> = wanted.iter().map(String::as_str).collect();
        let Ok(p) = run(&present, &names) else { return Ok(()) };
        let made = p.create.iter().zip(20u32..).map(|(c, gi)| slice(&c.profile, gi, c.start));
        let after: Vec<Present> =
            p.keep.iter().cloned().chain(made).map(|slice| Present { slice, user: None }).collect();
        prop_assert!(run(&after, &names).expect("there").is_empty());
    }

    #[test]
    fn nothing_is_destroyed_that_could_stay(present in some_present(), wanted in some_wanted()) {
        let names: Vec<&str> = wanted.iter().map(String::as_str).collect();
        let Ok(p) = run(&present, &names) else { return Ok(()) };
        // With any one of the destroyed slices pinned by a user, the plan cannot be cheaper.
        let cost = |p: &MigPlan| (p.must_leave.len(), p.destroy.len());
        for gone in &p.destroy {
            let without: Vec<Present> =
                present.iter().filter(|q| q.slice != *gone).cloned().collect();
            let q = run(&without, &names).expect("easier");
            prop_assert!(cost(&q) <= cost(&p));
        }
    }
}
