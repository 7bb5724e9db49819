//! Every scenario of the library is lived, with another seed than the one its ranges were set
//! with, and its figures lie where it says.

use muster_model::units::Span;
use muster_sim::{Options, run, scenario};
use std::path::{Path, PathBuf};

fn dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios")
}

/// Lives a file and holds it to its `[expect]`.
fn lives_up_to(name: &str) {
    let file = dir().join(format!("{name}.toml"));
    let text = std::fs::read_to_string(&file).expect("a file of the library");
    let mut s = scenario::read(&text, name).unwrap_or_else(|e| panic!("{e:?}"));
    s.seed += 1;
    assert!(!s.expect.is_empty(), "{name} expects nothing");
    let (outcome, _) = run(&s, &dir(), Options::default(), |_| {}).expect("it can be lived");
    let figures = serde_json::to_value(&outcome).expect("plain figures");
    let mut wrong = Vec::new();
    for (key, [least, most]) in &s.expect {
        let at = key.split('.').try_fold(&figures, |v, k| v.get(k));
        let value = at.and_then(serde_json::Value::as_f64);
        if value.is_none_or(|v| v < *least || v > *most) {
            wrong.push(format!("{key} is {value:?} and not within {least} and {most}"));
        }
    }
    assert!(wrong.is_empty(), "{name} with seed {}: {wrong:#?}", s.seed);
}

/// Lives the first day of a file: its jobs run, and nothing is lost of the time.
fn begins(name: &str) {
    let file = dir().join(format!("{name}.toml"));
    let text = std::fs::read_to_string(&file).expect("a file of the library");
    let mut s = scenario::read(&text, name).unwrap_or_else(|e| panic!("{e:?}"));
    s.length = Span::hours(24);
    let (outcome, _) = run(&s, &dir(), Options::default(), |_| {}).expect("it can be lived");
    assert!(outcome.jobs > 0, "{name}: no job came");
    assert!(outcome.goodput > 0.5, "{name}: goodput {}", outcome.goodput);
}

macro_rules! library {
    (
        every change: $($test:ident: $file:literal,)*;
        too long: $($long:ident: $long_file:literal,)*
    ) => {
        $(
            #[test]
            fn $test() {
                lives_up_to($file);
            }
        )*
        $(
            #[test]
            #[ignore = "takes minutes: `cargo xtask soak year` lives it"]
            fn $long() {
                lives_up_to($long_file);
            }
        )*

        #[test]
        fn the_long_ones_begin() {
            for name in [$($long_file,)*] {
                begins(name);
            }
        }

        #[test]
        fn no_file_of_the_library_is_left_out() {
            let known = [$($file,)* $($long_file,)*];
            for entry in std::fs::read_dir(dir()).expect("the library") {
                let path = entry.expect("a file").path();
                let name = path.file_stem().and_then(|n| n.to_str()).unwrap_or_default();
                let scenario = path.extension().is_some_and(|e| e == "toml");
                assert!(!scenario || known.contains(&name), "{name} has no test");
            }
        }
    };
}

library! {
    every change:
    neocloud_week: "neocloud-week",
    nvl72_rack_loss: "nvl72-rack-loss",
    driver_regression: "driver-regression",
    checkpoint_storm: "checkpoint-storm",
    quota_war: "quota-war",
    spares: "spares",
    ;
    too long:
    llama3_54d: "llama3-54d",
    llama3_54d_naive: "llama3-54d-naive",
    lemon_nodes: "lemon-nodes",
    rsc1_year: "rsc1-year",
    soak_year: "soak-year",
}
