//! Seeded random lives of a whole site: the engine of production, a server that starts anew, agents
//! whose messages come late, twice, in another order or not at all, machines that fail, users and
//! operators who do what they do. After every event every invariant is checked; in the end, when
//! all is repaired, everything that was submitted has ended.
//!
//! `MUSTER_SIM_SEED=N` lives one seed; `MUSTER_SIM_MINUTES=N` fresh ones for so long (what
//! `cargo xtask soak sim` does); `MUSTER_SIM_TRACE=1` prints every record. A life that ends badly
//! is shrunk and printed as a test for `regressions.rs`.

pub(crate) mod acts;
pub(crate) mod agent;
pub(crate) mod metered;
pub(crate) mod play;
pub(crate) mod shrink;
pub(crate) mod spec;
pub(crate) mod test_site;

use acts::SiteScript;
use muster_model::event::Event;
use muster_model::ids::JobId;
use muster_model::spec::OnPartition;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// Lives a seed; panics with its shortest form when it ends badly.
fn check(seed: u64) {
    let life = SiteScript::of(seed);
    let Some(why) = shrink::run_script(&life) else { return };
    println!("MUSTER_SIM_SEED={seed} ends badly: {why}");
    println!("shrinking …");
    let short = shrink::shrink(&life, Duration::from_secs(60));
    let why = shrink::run_script(&short).unwrap_or(why);
    panic!(
        "MUSTER_SIM_SEED={seed} cargo test -p muster-sim --test it system::\n{} of {} acts are left: {why}\n\n{}",
        short.acts.len(),
        life.acts.len(),
        shrink::as_test(&short, &why)
    );
}

fn asked(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|v| v.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

fn range(from: u64, to: u64) {
    if asked("MUSTER_SIM_SEED").is_none() && asked("MUSTER_SIM_MINUTES").is_none() {
        (from..to).for_each(check);
    }
}

#[test]
fn one_life_that_was_asked_for() {
    if let Some(seed) = asked("MUSTER_SIM_SEED").filter(|_| asked("MUSTER_SIM_MINUTES").is_none()) {
        check(seed);
    }
}

#[test]
fn fresh_histories_until_time_is_over() {
    let Some(minutes) = asked("MUSTER_SIM_MINUTES") else { return };
    let first = asked("MUSTER_SIM_SEED").unwrap_or(1_000_000);
    let until = Instant::now() + Duration::from_secs(minutes * 60);
    let mut lived = 0;
    while Instant::now() < until {
        check(first + lived);
        lived += 1;
    }
    println!("{lived} histories, seeds from {first}: every invariant held, everything ended");
}

#[test]
fn the_same_life_is_lived_in_the_same_way() {
    for seed in 0..3 {
        let digest = || {
            let mut w = test_site::TestSite::new(SiteScript::of(seed));
            let wrong = w.run();
            (wrong, w.events, w.view.digest())
        };
        assert_eq!(digest(), digest());
    }
}

/// How often the next attempt of a job that says nothing about partitions started because the lease
/// of its ranks on a lost node was over.
fn started_after_the_default_lease(w: &test_site::TestSite) -> usize {
    let mut jobs = BTreeSet::new();
    let mut fences = BTreeMap::new();
    let mut count = 0;
    for r in &w.log {
        match &r.event {
            Event::JobSubmitted { id, spec, array, .. }
                if spec.on_partition == Some(OnPartition::default()) =>
            {
                let tasks = array.len().max(1) as u64;
                jobs.extend((id.0..id.0 + tasks).map(JobId));
            }
            Event::StopOrdered { key, fence_until: Some(until), .. } if jobs.contains(&key.job) => {
                fences.insert(key.job, *until);
            }
            Event::JobRequeued { job, .. } => {
                count += usize::from(fences.remove(job).is_some_and(|until| r.at >= until));
            }
            _ => {}
        }
    }
    count
}

#[test]
fn random_histories_start_jobs_again_after_the_default_lease() {
    let lived = |seed| {
        let mut w = test_site::TestSite::new(SiteScript::of(seed));
        assert_eq!(w.run(), None, "seed {seed}");
        started_after_the_default_lease(&w)
    };
    // That no two attempts ran at once was looked at after every event of them.
    let all: usize = (0..12).map(lived).sum();
    assert!(all > 0, "nothing was shown of the default lease");
}

#[test]
fn where_no_cycle_follows_none_would_decide_anything() {
    let compared = |seed| {
        let mut w = test_site::TestSite::new(SiteScript::of(seed));
        w.compares_plans = true;
        assert_eq!(w.run(), None, "seed {seed}");
        w.compared
    };
    let all: usize = (0..8).map(compared).sum();
    assert!(all > 0, "a cycle followed every record");
}

// In parts, so that they are lived beside one another.
#[test]
fn lives_0_to_29() {
    range(0, 30);
}

#[test]
fn lives_30_to_59() {
    range(30, 60);
}

#[test]
fn lives_60_to_89() {
    range(60, 90);
}

#[test]
fn lives_90_to_119() {
    range(90, 120);
}

#[test]
#[ignore = "takes long: `cargo xtask soak year` runs them, `soak sim` fresh ones"]
fn lives_120_to_299() {
    range(120, 300);
}
