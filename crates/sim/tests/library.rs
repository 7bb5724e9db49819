//! Every scenario of the library is lived, with another seed than the one its ranges were set
//! with, and its figures lie where it says. With every change its first hours are lived; `cargo
//! xtask soak year` lives all of it.

use muster_model::units::Span;
use muster_sim::outcome::Outcome;
use muster_sim::scenario::{self, Scenario};
use muster_sim::{Options, run};
use std::path::{Path, PathBuf};

fn dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios")
}

fn read(name: &str) -> Scenario {
    let file = dir().join(format!("{name}.toml"));
    let text = std::fs::read_to_string(&file).expect("a file of the library");
    let mut s = scenario::read(&text, name).unwrap_or_else(|e| panic!("{e:?}"));
    s.seed += 1;
    s
}

fn live(s: &Scenario) -> Outcome {
    run(s, &dir(), Options::default(), |_| {}).expect("it can be simulated").0
}

/// Holds figures to ranges.
fn lie_within<'a>(s: &Scenario, o: &Outcome, ranges: impl Iterator<Item = (&'a str, [f64; 2])>) {
    let figures = serde_json::to_value(o).expect("plain figures");
    let mut wrong = Vec::new();
    for (key, [least, most]) in ranges {
        let at = key.split('.').try_fold(&figures, |v, k| v.get(k));
        let value = at.and_then(serde_json::Value::as_f64);
        if value.is_none_or(|v| v < least || v > most) {
            wrong.push(format!("{key} is {value:?} and not within {least} and {most}"));
        }
    }
    assert!(wrong.is_empty(), "{} with seed {}: {wrong:#?}", s.name, s.seed);
}

/// Lives a file and holds it to its `[expect]`.
fn lives_up_to(name: &str) {
    let s = read(name);
    assert!(!s.expect.is_empty(), "{name} expects nothing");
    lie_within(&s, &live(&s), s.expect.iter().map(|(key, range)| (key.as_str(), *range)));
}

/// Lives the first hours of a file, which are those of its whole life: its jobs run, little is lost
/// of the time, and what these hours can show lies where it should.
fn begins(name: &str, hours: u64, shows: &[(&str, [f64; 2])]) {
    let mut s = read(name);
    s.length = Span::hours(hours);
    let o = live(&s);
    assert!(o.jobs > 0, "{name}: no job came");
    assert!(o.goodput > 0.5, "{name}: goodput {}", o.goodput);
    lie_within(&s, &o, shows.iter().copied());
}

macro_rules! library {
    ($($test:ident: $file:literal, $hours:literal, [$($shows:expr),*];)*) => {
        $(
            #[test]
            #[ignore = "takes minutes: `cargo xtask soak year` runs it"]
            fn $test() {
                lives_up_to($file);
            }
        )*

        mod first_hours {
            $(
                #[test]
                fn $test() {
                    super::begins($file, $hours, &[$($shows),*]);
                }
            )*
        }

        #[test]
        fn no_file_of_the_library_is_left_out() {
            let known = [$($file,)*];
            for entry in std::fs::read_dir(dir()).expect("the library") {
                let path = entry.expect("a file").path();
                let name = path.file_stem().and_then(|n| n.to_str()).unwrap_or_default();
                let scenario = path.extension().is_some_and(|e| e == "toml");
                assert!(!scenario || known.contains(&name), "{name} has no test");
            }
        }
    };
}

// How many of its first hours are lived with every change, and what they show.
library! {
    neocloud_week: "neocloud-week", 12, [];
    // The rack is lost after 48 hours, and small work leaves for its job.
    nvl72_rack_loss: "nvl72-rack-loss", 60,
        [("faults.rack power", [1.0, 1.0]), ("preemptions", [1.0, 60.0])];
    driver_regression: "driver-regression", 12, [];
    // 3 minutes in every 33 go into checkpoints from the first hour on.
    checkpoint_storm: "checkpoint-storm", 24, [("ettr", [0.89, 0.93])];
    // The other half comes for its own after 36 hours.
    quota_war: "quota-war", 48, [("preemptions", [1.0, 700.0])];
    // As many as are computed, before anything breaks.
    spares: "spares", 12, [("spares", [4.0, 12.0])];
    llama3_54d: "llama3-54d", 6, [];
    llama3_54d_naive: "llama3-54d-naive", 6, [];
    lemon_nodes: "lemon-nodes", 12, [];
    rsc1_year: "rsc1-year", 6, [];
    soak_year: "soak-year", 6, [];
}

/// What driver-regression shows, in a day and a half in the place of two weeks.
#[test]
fn a_bad_driver_interrupts_more_than_a_good_one() {
    let mut s = read("driver-regression");
    s.length = Span::hours(36);
    let rollout = s.failures.incidents.first_mut().expect("a roll-out");
    (rollout.at, rollout.lasts) = (Span::hours(6), Some(Span::hours(30)));
    let bad = live(&s).interruptions;
    s.failures.incidents.clear();
    let good = live(&s).interruptions;
    // About 13 and 2 are to be expected.
    assert!(bad > good, "{bad} with the bad driver, {good} without");
}
