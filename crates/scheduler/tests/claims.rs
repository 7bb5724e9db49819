//! Who makes room for whom, and what reservations, budgets of power and windows of starts do.

use crate::common;

use common::{Build, ClusterRun, ReportedStart, closed, fleet, gang, nvl};
use muster_model::ids::JobId;
use muster_model::job::{Basis, Rank};
use muster_model::names::NodeName;
use muster_model::policy::{OverBudget, SitePolicy};
use muster_model::reservation::{Overrun, Reservation};
use muster_model::spec::{Priority, Tier};
use muster_model::units::{Span, Time};
use std::sync::Arc;

fn saved(life: &mut ClusterRun, id: JobId, at: Time) {
    life.c.running.get_mut(&id).unwrap().saved = at;
}

#[test]
fn the_one_that_loses_least_makes_room() {
    let mut life = ClusterRun::new(fleet(1, 3, 8));
    let all: Vec<JobId> = (0..3).map(|_| life.submit(gang(1, 8).low())).collect();
    life.pass(Span::hours(1));
    let now = life.now;
    saved(&mut life, all[1], now - Span::mins(1));
    let high = life.add(gang(1, 8));
    let p = life.cycle();
    assert_eq!(p.victims.len(), 1);
    let v = p.victims[0];
    assert_eq!((v.job, v.by, v.rank), (all[1], high, Rank::Priority), "it wrote a checkpoint");
    life.pass(Span::mins(1));
    assert!(life.running(high) && life.waits(all[1]));
    life.finish(high);
    life.cycle();
    assert!(life.running(all[1]), "it goes on when there is room");
}

#[test]
fn nobody_leaves_for_nothing() {
    let mut life = ClusterRun::new(fleet(1, 4, 8));
    let small: Vec<JobId> = (0..2).map(|_| life.submit(gang(1, 8).low())).collect();
    let pair = life.submit(gang(2, 8).low());
    life.pass(Span::hours(1));
    let now = life.now;
    for id in &small {
        saved(&mut life, *id, now);
    }
    life.add(gang(2, 8));
    let p = life.cycle();
    let mut victims: Vec<JobId> = p.victims.iter().map(|v| v.job).collect();
    victims.sort();
    assert_eq!(victims, small, "both small ones, and not the pair");
    assert!(life.running(pair));
}

#[test]
fn a_gang_that_is_stopped_anyway_gives_all_its_nodes() {
    let mut life = ClusterRun::new(fleet(1, 4, 8));
    let wide = life.submit(gang(3, 8).low());
    let narrow = life.submit(gang(1, 8).low());
    life.pass(Span::hours(1));
    life.add(gang(3, 8));
    let p = life.cycle();
    let victims: Vec<JobId> = p.victims.iter().map(|v| v.job).collect();
    assert_eq!(victims, [wide], "one is enough");
    assert!(life.running(narrow));
}

#[test]
fn equals_are_left_alone_and_so_are_those_who_just_began() {
    let mut life = ClusterRun::new(fleet(1, 1, 8));
    let first = life.submit(gang(1, 8));
    life.pass(Span::hours(1));
    let equal = life.submit(gang(1, 8));
    assert!(life.waits(equal) && life.running(first));
    let high = life.submit(gang(1, 8).high());
    life.pass(Span::mins(1));
    assert!(life.running(high));
    let critical = gang(1, 8).priority(muster_model::spec::Priority::Critical);
    let critical = life.submit(critical);
    life.pass(Span::mins(1));
    assert!(life.running(high) && life.waits(critical), "it ran for two minutes only");
    life.pass(Span::mins(6));
    assert!(life.running(critical), "time alone lets it claim");
}

#[test]
fn every_claim_is_looked_at_again_when_time_has_passed() {
    let mut life = ClusterRun::new(fleet(1, 2, 8));
    let normal = life.submit(gang(1, 8));
    let high = life.submit(gang(1, 8).high());
    // The first can never be helped; the second can, once the victim has run long enough.
    let never = life.submit(gang(2, 8).high());
    let can = life.submit(gang(1, 8).high());
    assert!(life.waits(never) && life.waits(can) && life.running(high));
    life.pass(Span::mins(12));
    assert!(life.running(can) && life.waits(normal));
}

#[test]
fn spot_work_leaves_for_others_at_once() {
    let mut life = ClusterRun::new(fleet(1, 1, 8));
    let spot = life.submit(gang(1, 8).spot());
    let other = life.add(gang(1, 8));
    let p = life.cycle();
    assert_eq!((p.victims[0].job, p.victims[0].rank), (spot, Rank::Spot));
    life.pass(Span::mins(1));
    assert!(life.running(other));
    let more = life.submit(gang(1, 8).spot());
    life.pass(Span::mins(10));
    assert!(life.waits(more) && life.waits(spot), "spot work claims nothing");
}

const LENT: &str = r#"{"tree":[{"name":"co"},
    {"name":"a","parent":"co","projects":["p0"],"gpus":[{"nominal":16}]},
    {"name":"b","parent":"co","projects":["p1"],"gpus":[{"nominal":8}]},
    {"name":"c","parent":"co","projects":["p2"],"gpus":[{"nominal":8}]}]}"#;

#[test]
fn a_claim_takes_from_borrowers_only_and_only_what_they_borrowed() {
    let mut life = ClusterRun::new(fleet(1, 4, 8)).with_quotas(LENT);
    let own = life.submit(gang(1, 8).of("p2", "u2"));
    let lent: Vec<JobId> = (0..3).map(|_| life.submit(gang(1, 8).of("p1", "u1"))).collect();
    assert!(lent.iter().all(|id| life.running(*id)), "idle quota is lent");
    life.pass(Span::mins(10));
    let claim = life.add(gang(2, 8).of("p0", "u0"));
    let p = life.cycle();
    assert_eq!(p.victims.len(), 2);
    assert!(p.victims.iter().all(|v| v.rank == Rank::Quota && lent.contains(&v.job)));
    life.pass(Span::mins(1));
    assert!(life.running(claim) && life.running(own));
    assert_eq!(lent.iter().filter(|id| life.running(**id)).count(), 1, "its own it keeps");
    let beyond = life.submit(gang(1, 8).of("p0", "u0"));
    life.pass(Span::mins(10));
    assert!(life.waits(beyond), "beyond its own it claims nothing");
}

/// So many nodes, quotas for four of them, and all of it lent to one project.
fn all_lent(nodes: u32, kind: impl Fn(Build) -> Build) -> (ClusterRun, Vec<JobId>) {
    let mut life = ClusterRun::new(fleet(1, nodes, 8)).with_quotas(LENT);
    let lent: Vec<JobId> = (0..4).map(|_| life.submit(kind(gang(1, 8).of("p1", "u1")))).collect();
    assert!(lent.iter().all(|id| life.running(*id)), "idle quota is lent");
    life.pass(Span::mins(10));
    (life, lent)
}

fn why(life: &ClusterRun, id: JobId) -> String {
    let w = life.c.queue.get(id).unwrap();
    muster_scheduler::explain(&life.c, w, &life.policy, life.now).summary
}

#[test]
fn no_quota_is_the_reason_where_the_fleet_has_no_such_sku() {
    let own = r#"{"tree":[{"name":"a","projects":["p0"],"gpus":[{"nominal":8}]}]}"#;
    let mut life = ClusterRun::new(fleet(1, 4, 8)).with_quotas(own);
    let beyond = |life: &mut ClusterRun, b: Build| {
        let id = life.add(b);
        life.c.is_beyond_quota(life.c.queue.get(id).unwrap())
    };
    assert!(beyond(&mut life, gang(2, 8)), "it never has 16");
    assert!(!beyond(&mut life, gang(1, 8).sku("b200")));
    assert!(!beyond(&mut life, gang(2, 8).sku("b200")));
    assert!(!beyond(&mut ClusterRun::new([]).with_quotas(own), gang(1, 8)), "there are no nodes");
}

#[test]
fn what_a_quota_never_leaves_is_the_reason_also_where_another_of_its_limits_is_used_up_now() {
    let own = r#"{"tree":[{"name":"a","projects":["p0"],
        "gpus":[{"nominal":8},{"sku":"h100","nominal":4}]}]}"#;
    let mut life = ClusterRun::new(fleet(1, 4, 8)).with_quotas(own);
    let first = life.submit(gang(1, 4).of("p0", "u0"));
    assert!(life.running(first));
    let never = life.add(gang(1, 8).of("p0", "u0"));
    let short = "quota a leaves 0 of the 8 GPUs of SKU h100 it asks for, and never will as the quotas \
                 are set: 4 owned, 4 used";
    assert_eq!(why(&life, never), format!("{short}; a root of the tree borrows from nobody"));
}

#[test]
fn quota_is_claimed_back_from_spot_work_too_where_nodes_are_free() {
    let (mut life, lent) = all_lent(6, |b| b.low().spot());
    let claim = life.add(gang(1, 8).of("p0", "u0"));
    let short =
        "quota a leaves 0 of the 8 GPUs it asks for: 16 owned, 0 used, 16 borrowed by others";
    let reclaims = "what it owns is reclaimed from spot work at once, from other work once that \
                    has run for 5m";
    assert_eq!(why(&life, claim), format!("{short}; {reclaims}"));
    let p = life.cycle();
    assert_eq!(p.victims.len(), 1, "two nodes are free, but all quota is lent: {p:?}");
    assert_eq!((p.victims[0].by, p.victims[0].rank), (claim, Rank::Quota));
    life.pass(Span::mins(1));
    assert!(life.running(claim));
    assert_eq!(lent.iter().filter(|id| life.running(**id)).count(), 3);
    let beyond = life.submit(gang(2, 8).of("p0", "u0"));
    life.pass(Span::mins(10));
    assert!(life.waits(beyond), "beyond its own it claims nothing");
}

#[test]
fn quota_is_claimed_back_behind_a_job_that_has_a_reserved_start() {
    let (mut life, lent) = all_lent(8, |b| b.limit(120).spot());
    let ahead = life.submit(gang(6, 8).limit(60).spot().of("p9", "u9"));
    let reserved = life.reported[&ahead].at;
    let claim = life.submit(gang(1, 8).limit(10).of("p0", "u0"));
    life.pass(Span::mins(1));
    assert!(life.running(claim), "{}", why(&life, claim));
    assert!(life.waits(ahead) && life.reported[&ahead].at <= reserved);
    assert_eq!(lent.iter().filter(|id| life.running(**id)).count(), 3);
}

#[test]
fn quota_that_is_given_back_for_a_job_is_taken_by_nobody_else() {
    let (mut life, _) = all_lent(6, |b| b);
    let claim = life.add(gang(2, 8).of("p0", "u0"));
    let p = life.cycle();
    assert_eq!(p.victims.len(), 2, "{p:?}");
    // One leaves long before the other; somebody else would take what it gives back.
    let late = p.victims[1].job;
    life.stops.get_mut(&late).unwrap().0 = life.now + Span::mins(2);
    let greedy = life.submit(gang(1, 8).of("p1", "u2"));
    life.pass(Span::mins(1));
    assert!(life.waits(greedy) && life.waits(claim), "it is kept");
    assert!(life.waits(p.victims[0].job), "who gave it back does not take it again");
    let short = "quota b leaves 0 of the 8 GPUs it asks for: 8 owned, 16 borrowed, 8 more to borrow, \
                 24 used";
    let kept = "8 reserved for jobs that others are preempted for; 8 of what is given back are \
                reserved for them";
    let may = "it may borrow what others do not use now";
    assert_eq!(why(&life, greedy), format!("{short}, {kept}; {may}"));
    life.pass(Span::mins(2));
    assert!(life.running(claim) && life.waits(greedy));
}

#[test]
fn quota_that_is_kept_is_free_again_when_its_job_is_gone() {
    let (mut life, lent) = all_lent(6, |b| b);
    let claim = life.add(gang(2, 8).of("p0", "u0"));
    life.cycle();
    life.c.queue.remove(claim);
    life.c.fleet.release_reservation(claim);
    life.reported.remove(&claim);
    life.pass(Span::mins(1));
    assert!(lent.iter().all(|id| life.running(*id)), "those who were stopped go on");
}

#[test]
fn a_job_whose_quota_was_taken_by_others_claims_again() {
    let (mut life, lent) = all_lent(6, |b| b);
    let claim = life.add(gang(2, 8).of("p0", "u0"));
    // Room was made for it, and others took the quota: logs of before have such states.
    let busy: Vec<String> = lent.iter().flat_map(|id| life.on(*id)).collect();
    let free = life.nodes.keys().filter(|n| !busy.contains(&n.to_string()));
    let nodes: Vec<NodeName> = free.cloned().collect();
    let w = life.c.queue.get(claim).unwrap().clone();
    let (at, basis) = (life.now, Basis::Preemption);
    life.c.fleet.keep(&w, &nodes, (at, w.ends(at)), basis);
    life.reported.insert(claim, ReportedStart { at, nodes, basis });
    let p = life.cycle();
    assert_eq!(p.victims.len(), 2, "{p:?}");
    life.pass(Span::mins(1));
    assert!(life.running(claim));
}

#[test]
fn claims_count_those_before_them() {
    let (mut life, lent) = all_lent(4, |b| b);
    let claims: Vec<JobId> = (0..4).map(|_| life.add(gang(1, 8).of("p0", "u0"))).collect();
    let p = life.cycle();
    assert_eq!(p.victims.len(), 2, "only two of them are within their own: {p:?}");
    life.pass(Span::mins(1));
    assert_eq!(claims.iter().filter(|id| life.running(**id)).count(), 2);
    assert_eq!(lent.iter().filter(|id| life.running(**id)).count(), 2);
}

#[test]
fn a_claim_in_pieces_takes_whole_pieces() {
    let mut life = ClusterRun::new(nvl(2, 4));
    let low: Vec<JobId> = (0..8).map(|_| life.submit(gang(1, 4).low())).collect();
    life.pass(Span::hours(1));
    let job = life.submit(gang(4, 4).segment(4));
    life.pass(Span::mins(1));
    assert!(life.running(job), "one rack is cleared for it");
    assert_eq!(low.iter().filter(|id| life.running(**id)).count(), 4);
}

fn changed(
    c: muster_scheduler::ReservedNodes,
    f: impl FnOnce(&mut Reservation),
) -> muster_scheduler::ReservedNodes {
    let mut r = (*c.reservation).clone();
    f(&mut r);
    muster_scheduler::ReservedNodes { reservation: Arc::new(r), nodes: c.nodes }
}

#[test]
fn maintenance_keeps_long_work_off_and_lets_short_work_pass() {
    let mut life = ClusterRun::new(fleet(1, 2, 8));
    let at = life.now + Span::mins(60);
    life.reserve(closed("fix", &["n000", "n001"], &[], at, 30));
    let long = life.submit(gang(1, 8).limit(90).runs(5));
    let short = life.submit(gang(1, 8).limit(60).runs(60));
    assert!(life.waits(long) && life.running(short));
    assert_eq!(life.reported[&long].at, at + Span::mins(30), "reserved after the window");
    let endless = life.submit(gang(1, 4).runs(500));
    assert!(life.running(endless), "without a limit it may stay until then");
    life.pass(Span::mins(61));
    assert!(life.c.running.is_empty(), "nobody is there during the window");
    assert!(life.waits(endless));
    life.pass(Span::mins(29));
    assert!(life.running(long) && life.running(endless), "time alone lets them start");
}

#[test]
fn a_window_belongs_to_its_projects() {
    let mut life = ClusterRun::new(fleet(1, 2, 8));
    let r = closed("mine", &["n000"], &["p1"], life.now, 60);
    life.reserve(changed(r, |r| r.lend = true));
    let other = life.submit(gang(2, 8).limit(60));
    assert!(life.waits(other), "one node is reserved");
    let own = life.submit(gang(1, 4).limit(60).of("p1", "u1").tier(Tier::Reserved));
    assert_eq!(life.on(own), ["n000"]);
    let spot = life.submit(gang(1, 4).limit(60).spot());
    let spot2 = life.submit(gang(1, 8).limit(60).spot());
    assert!(life.running(spot) && life.running(spot2), "what is idle in it is lent");
}

#[test]
fn overrun_finish_lets_nobody_begin_who_has_no_limit() {
    let mut life = ClusterRun::new(fleet(1, 1, 8));
    let r = closed("later", &["n000"], &[], life.now + Span::mins(60), 60);
    life.reserve(changed(r, |r| r.overrun = Overrun::Finish));
    let endless = life.submit(gang(1, 8).runs(5));
    assert!(life.waits(endless), "it would go on into the window");
    life.pass(Span::mins(121));
    assert!(life.running(endless));
}

#[test]
fn a_window_comes_again() {
    let mut life = ClusterRun::new(fleet(1, 1, 8));
    let r = closed("nightly", &["n000"], &[], life.now + Span::mins(10), 10);
    life.reserve(changed(r, |r| r.every = Some(Span::mins(60))));
    let never = life.submit(gang(1, 8).limit(51));
    let fits = life.submit(gang(1, 8).limit(50).runs(50));
    life.pass(Span::mins(19));
    assert!(life.waits(fits));
    life.pass(Span::mins(2));
    assert!(life.running(fits) && life.waits(never), "between two windows");
}

fn starts_of(gpus: u32) -> SitePolicy {
    let mut p = SitePolicy::default();
    p.power.stagger_gpus = gpus;
    p.power.stagger_window = Span::secs(10);
    p
}

#[test]
fn starts_are_staggered() {
    let mut life = ClusterRun::new(fleet(1, 4, 8)).with_policy(starts_of(16));
    for _ in 0..4 {
        life.add(gang(1, 8));
    }
    let p = life.cycle();
    assert_eq!(p.starts.len(), 2);
    assert_eq!(p.look_again, Some(life.now + Span::secs(10)));
    life.pass(Span::secs(9));
    assert_eq!(life.c.running.len(), 2);
    life.pass(Span::secs(1));
    assert_eq!(life.c.running.len(), 4, "time alone lets them start");
    let mut life = ClusterRun::new(fleet(1, 4, 8)).with_policy(starts_of(16));
    let big = life.submit(gang(4, 8));
    assert!(life.running(big), "one that is larger than a window starts alone");
}

fn budget(watts: u64, over: OverBudget) -> SitePolicy {
    let mut p = SitePolicy::default();
    p.power.feeds.insert("f1".into(), watts);
    p.power.gpu_watts.insert("h100".into(), 700);
    p.power.node_watts = 2400;
    p.power.over_budget = over;
    p
}

#[test]
fn a_budget_of_power_is_kept() {
    // A full node draws 8000 W.
    let mut life = ClusterRun::new(fleet(1, 3, 8)).with_policy(budget(20_000, OverBudget::Refuse));
    let a = life.submit(gang(2, 8).runs(30));
    let b = life.submit(gang(1, 8));
    assert!(life.running(a) && life.waits(b));
    assert!(!life.reported.contains_key(&b), "a node is free, but nobody knows when power will be");
    life.pass(Span::mins(30));
    assert!(life.running(b));
    let never = life.submit(gang(3, 8));
    let e = muster_scheduler::explain(
        &life.c,
        life.c.queue.get(never).unwrap(),
        &life.policy,
        life.now,
    );
    assert!(e.impossible, "{e:?}");
}

#[test]
fn a_budget_may_cap_instead() {
    let mut life = ClusterRun::new(fleet(1, 3, 8)).with_policy(budget(20_000, OverBudget::Cap));
    let a = life.submit(gang(2, 8));
    let b = life.submit(gang(1, 8));
    assert_eq!(life.c.running[&a].placement.cap_watts, None);
    let cap = life.c.running[&b].placement.cap_watts.expect("it is over the budget");
    assert!(cap < 700, "{cap}");
}

#[test]
fn a_reserved_start_of_a_lower_class_shields_nobody() {
    let mut life = ClusterRun::new(fleet(1, 4, 8));
    let running = life.submit(gang(4, 8).low().limit(60));
    life.pass(Span::mins(50));
    let queued = life.submit(gang(4, 8).low().limit(60));
    let reported = life.reported[&queued].at;
    assert_eq!(reported, life.now + Span::mins(10));
    let critical = life.add(gang(4, 8).limit(30).priority(Priority::Critical));
    let p = life.cycle();
    assert_eq!(p.victims.iter().map(|v| (v.job, v.by)).collect::<Vec<_>>(), [(running, critical)]);
    assert_eq!(life.reported[&critical].basis, Basis::Preemption);
    let moved = p.reserved_starts.iter().rfind(|p| p.job == queued).expect("it is planned anew");
    assert!(moved.at > reported, "behind the critical one: {moved:?}");
    assert!(moved.moved.as_deref().is_some_and(|m| m.contains("higher priority class")));
    life.pass(Span::mins(1));
    assert!(life.running(critical) && life.waits(queued) && life.waits(running));
}

#[test]
fn a_reserved_start_stays_where_a_higher_class_is_over_before_it() {
    let mut life = ClusterRun::new(fleet(1, 4, 8));
    let running = life.submit(gang(4, 8).low().limit(60));
    life.pass(Span::mins(10));
    let queued = life.submit(gang(4, 8).low().limit(60));
    let reported = life.reported[&queued].at;
    let critical = life.add(gang(4, 8).limit(30).priority(Priority::Critical));
    let p = life.cycle();
    assert_eq!(p.victims.iter().map(|v| (v.job, v.by)).collect::<Vec<_>>(), [(running, critical)]);
    assert_eq!(life.reported[&queued].at, reported, "in 50 minutes: {p:?}");
}

/// One node is free until both are needed for a normal job that waits.
fn one_node_reserved() -> (ClusterRun, JobId, Time) {
    let mut life = ClusterRun::new(fleet(1, 2, 8));
    let first = life.submit(gang(1, 8).limit(60));
    let wide = life.submit(gang(2, 8).limit(60));
    assert!(life.running(first) && life.waits(wide));
    let reported = life.reported[&wide].at;
    assert_eq!(reported, life.now + Span::mins(60));
    (life, wide, reported)
}

#[test]
fn a_higher_class_does_not_wait_behind_a_reserved_start_of_a_lower_one() {
    let (mut life, wide, reported) = one_node_reserved();
    let mut equals = life.clone();
    let equal = equals.submit(gang(1, 8).limit(120));
    assert!(equals.waits(equal) && equals.reported[&wide].at == reported, "its own class does");
    let high = life.submit(gang(1, 8).high().limit(120));
    assert!(life.running(high));
    assert_eq!(life.reported[&wide].at, reported + Span::mins(60), "and it is planned anew");
}

#[test]
fn a_reserved_start_is_left_alone_where_a_higher_class_fits_beside_it() {
    let (mut life, wide, reported) = one_node_reserved();
    let short = life.submit(gang(1, 8).high().limit(30));
    assert!(life.running(short));
    assert_eq!(life.reported[&wide].at, reported);
}

#[test]
fn a_reserved_start_is_taken_back_where_nobody_can_say_when_a_higher_class_ends() {
    let (mut life, wide, _) = one_node_reserved();
    let high = life.add(gang(1, 8).high());
    let p = life.cycle();
    assert!(life.running(high));
    let [(job, why)] = &p.dropped[..] else { panic!("{:?}", p.dropped) };
    assert_eq!(*job, wide);
    assert!(why.contains("higher priority class"), "{why}");
    assert!(life.waits(wide) && !life.reported.contains_key(&wide));
}

/// Critical work on two nodes that is on its way out, low work on two more, and one node free for a
/// critical gang that needs three.
fn one_leaves() -> (ClusterRun, JobId, [JobId; 2], JobId) {
    let mut life = ClusterRun::new(fleet(1, 5, 8));
    let critical = |n| gang(n, 8).priority(Priority::Critical);
    let leaves = life.submit(critical(2));
    let low = [0, 1].map(|_| life.submit(gang(1, 8).low()));
    life.pass(Span::mins(10));
    life.stop(leaves, life.now + Span::secs(30), None);
    let waits = life.add(critical(3));
    let p = life.cycle();
    assert!(p.victims.is_empty(), "what is being freed is enough: {p:?}");
    (life, leaves, low, waits)
}

#[test]
fn nobody_is_stopped_while_enough_is_being_freed() {
    let (mut life, leaves, low, waits) = one_leaves();
    // Of its two nodes one is free before the other.
    let slot = life.c.running[&leaves].slots()[0].clone();
    life.c.fleet.release(leaves, &slot);
    let p = life.cycle();
    assert!(p.victims.is_empty(), "{p:?}");
    life.finish(leaves);
    life.cycle();
    assert!(life.running(waits) && low.iter().all(|id| life.running(*id)));
}

#[test]
fn who_does_not_leave_in_time_is_counted_on_no_longer() {
    let (mut life, leaves, low, waits) = one_leaves();
    life.stops.remove(&leaves);
    life.pass(Span::mins(2));
    assert!(life.running(waits) && low.iter().all(|id| life.waits(*id)));
    assert!(life.running(leaves));
}

#[test]
fn only_as_many_are_stopped_as_are_missing_beside_what_is_being_freed() {
    let mut life = ClusterRun::new(fleet(1, 4, 8));
    let leaves = life.submit(gang(2, 8).high());
    let low = [0, 1].map(|_| life.submit(gang(1, 8).low()));
    life.pass(Span::mins(10));
    life.stop(leaves, life.now + Span::secs(30), None);
    life.add(gang(3, 8).high());
    let p = life.cycle();
    assert_eq!(p.victims.len(), 1, "{p:?}");
    assert!(low.contains(&p.victims[0].job));
}
