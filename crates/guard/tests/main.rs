//! The program that is counted, without the counting.

use std::process::Command;

fn guard(argument: &str) -> (bool, String) {
    let out = Command::new(env!("CARGO_BIN_EXE_muster-guard")).arg(argument).output().unwrap();
    // Shown where the test fails.
    eprint!("{}", String::from_utf8_lossy(&out.stderr));
    (out.status.success(), String::from_utf8(out.stdout).unwrap())
}

#[test]
fn every_case_is_named_once_and_says_what_of_it_is_counted() {
    let (_, list) = guard("--list");
    let mut names: Vec<&str> =
        list.lines().filter_map(|l| l.split_once(' ')).map(|c| c.0).collect();
    assert!(names.len() >= 8, "{list}");
    assert!(list.lines().all(|l| l.ends_with(" all") || l.ends_with(" written")), "{list}");
    let all = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all, "{list}");
    assert!(!guard("no-such-case").0);
}

#[test]
fn a_case_writes_the_same_every_time() {
    for case in ["submit", "submit-http"] {
        let (ok, first) = guard(case);
        assert!(ok && first.contains("\"records\":"), "{case}: {first}");
        assert!(!first.contains("\"records\":0"), "{case} wrote nothing: {first}");
        assert_eq!(guard(case).1, first, "{case}");
    }
}

/// So that only what it costs can distinguish them.
#[test]
fn the_slow_case_writes_what_the_other_does() {
    let (ok, line) = guard("heartbeat");
    assert!(ok && line.contains("\"bytes\":"), "{line}");
    assert_eq!(guard("heartbeat-slow"), (true, line));
}
