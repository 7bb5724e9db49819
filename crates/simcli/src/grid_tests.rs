//! Assignments as they are typed, and what they do to a scenario.

use super::*;

const TEXT: &str = r#"
name = "small"
length = "1d"
[fleet]
kind = "hgx"
nodes = 16
spares = 2
[failures]
preset = "llama3"
[[workload]]
kind = "train"
name = "big"
nodes = 8
[[workload]]
kind = "stream"
name = "little"
per_hour = 1.0
run = { median = "1h" }
"#;

fn base() -> LoadedScenario {
    let scenario = scenario::read(TEXT, "small.toml").expect("a good scenario");
    LoadedScenario { scenario, text: TEXT.into(), file: "small.toml".into() }
}

fn labels(sets: &[&str]) -> Vec<String> {
    let sets: Vec<String> = sets.iter().map(ToString::to_string).collect();
    grid(&sets).expect("a good grid").iter().map(|s| label(s)).collect()
}

fn fails(sets: &[&str]) -> String {
    let sets: Vec<String> = sets.iter().map(ToString::to_string).collect();
    let made = grid(&sets).and_then(|g| points(&base(), g));
    made.expect_err("a bad grid").render(false)
}

fn with(set: &str) -> Scenario {
    let mut all = points(&base(), grid(&[set.to_owned()]).expect("good")).expect("good");
    assert_eq!(all.len(), 1, "{set}");
    all.remove(0).scenario
}

#[test]
fn a_grid_has_every_combination() {
    assert_eq!(
        labels(&["fleet.spares=0,4", "failures.scale=1,2.5"]),
        [
            "fleet.spares=0 failures.scale=1",
            "fleet.spares=0 failures.scale=2.5",
            "fleet.spares=4 failures.scale=1",
            "fleet.spares=4 failures.scale=2.5"
        ]
    );
}

#[test]
fn ranges_include_their_ends() {
    assert_eq!(labels(&["a=0..32/16"]), ["a=0", "a=16", "a=32"]);
    assert_eq!(labels(&["a=2..4"]), ["a=2", "a=3", "a=4"]);
    assert_eq!(labels(&["a=0.1..0.5/0.2"]), ["a=0.1", "a=0.3", "a=0.5"]);
    assert_eq!(labels(&["a=10s..1m/25s"]), ["a=10s", "a=35s", "a=1m"]);
    assert_eq!(labels(&["a=1,8..9,20"]), ["a=1", "a=8", "a=9", "a=20"]);
    for bad in ["a=5..1", "a=1..5/0", "a=0.5..1", "a=x..y/2", "a=0..99999999", "a=1,,2", "a="] {
        assert!(grid(&[bad.to_owned()]).is_err(), "{bad}");
    }
}

#[test]
fn values_with_commas_stay_whole() {
    assert_eq!(labels(&["a=[1, 2],\"x,y\""]), ["a=[1, 2]", "a=x,y"]);
    assert_eq!(labels(&["fleet.spares={ share = 0.99 },4"]).len(), 2);
}

#[test]
fn keys_reach_into_lists_and_into_what_the_file_leaves_out() {
    assert_eq!(with("operations.detect=45s").operations.detect, Span::secs(45));
    let s = with("policy.backfill.mode=easy");
    assert_ne!(s.policy.backfill.mode, base().scenario.policy.backfill.mode);
    let by_number = with("workload.0.saving.every=10m");
    assert_eq!(by_number.workload, with("workload.big.saving.every=10m").workload);
    assert_ne!(by_number.workload, base().scenario.workload);
}

#[test]
fn a_wrong_key_names_the_likely_one() {
    let said = fails(&["fleet.spars=1,2"]);
    assert!(said.contains("small.toml with fleet.spars=1"), "{said}");
    assert!(said.contains("did you mean `spares`?"), "{said}");
    assert!(fails(&["flet.spares=1"]).contains("did you mean `fleet`?"));
    assert!(fails(&["operations.detekt=20s"]).contains("did you mean `detect`?"));
    assert!(fails(&["workload.litle.per_hour=2"]).contains("did you mean `little`?"));
    assert!(fails(&["workload.7.nodes=2"]).contains("has no `7`"));
    assert!(fails(&["length.days=2"]).contains("has no keys"));
    assert!(fails(&["seed=1,2"]).contains("--seeds"));
    assert!(fails(&["fleet.spares=1", "fleet.spares=2"]).contains("set twice"));
    assert!(fails(&["fleet.spares"]).contains("KEY=VALUE"));
}

#[test]
fn values_that_make_no_sense_are_refused_before_anything_runs() {
    let said = fails(&["fleet.spares=4,16"]);
    assert!(said.contains("with fleet.spares=16") && said.contains("no node to work"), "{said}");
    let said = fails(&["operations.detect=20"]);
    assert!(said.contains("unit"), "{said}");
}

#[test]
fn lists_have_one_point_a_line() {
    let text = "# spares\nfleet.spares=1 failures.scale=2\n\n  operations.detect='1m 30s'\n";
    let sets = list(text, "points.txt").expect("a good list");
    let labels: Vec<String> = sets.iter().map(|s| label(s)).collect();
    assert_eq!(labels, ["fleet.spares=1 failures.scale=2", "operations.detect=1m 30s"]);
    let e = list("fleet.spares=1\nnonsense\n", "points.txt").expect_err("a bad line");
    assert!(e.message.starts_with("points.txt:2: "), "{}", e.message);
    assert!(list("# nothing\n", "points.txt").is_err());
}
