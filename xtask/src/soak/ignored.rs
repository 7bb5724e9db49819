//! Which soak runs each test that is ignored otherwise: one that nobody runs proves nothing.

use crate::root;
use std::fs;
use std::path::{Path, PathBuf};

/// Files with ignored tests, and who runs these. `docs/development.md` has the same table.
const RUN_BY: &[(&str, &str)] = &[
    ("sim/tests/library.rs", "`cargo xtask soak year`"),
    ("sim/tests/week.rs", "`cargo xtask soak year`"),
    ("sim/tests/published.rs", "`cargo xtask soak year`"),
    ("sim/tests/system.rs", "`cargo xtask soak year`"),
    ("health/tests/detect/score.rs", "`cargo xtask soak year`"),
    ("cli/tests/fabric.rs", "`cargo xtask soak fabric`"),
    ("cli/tests/straggler.rs", "`cargo xtask soak fabric`"),
    ("store/tests/faults.rs", "runs inside a_crash_at_a_failpoint_keeps_what_was_acknowledged"),
    ("supervise/src/program.rs", "runs inside a_program_of_others_gets_no_secret"),
    ("machine/src/act.rs", "runs inside a_command_gets_no_secret_of_the_agent"),
    ("agent/src/container/mod.rs", "runs inside a_container_runtime_gets_no_secret_of_the_agent"),
    ("sim/src/report/tests.rs", "writes files for a person to look at"),
];

fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn every_ignored_test_is_run_by_somebody() {
    let crates = root().join("crates");
    let mut all = Vec::new();
    sources(&crates, &mut all);
    for path in all {
        let text = fs::read_to_string(&path).unwrap();
        let path = path.strip_prefix(&crates).unwrap();
        for line in text.lines().map(str::trim).filter(|l| l.starts_with("#[ignore")) {
            let by = RUN_BY.iter().find(|(file, _)| path == Path::new(file)).map(|(_, by)| *by);
            assert!(
                by.is_some_and(|by| line.contains(by)),
                "{}: {line}\nname the soak that runs it, or remove the test",
                path.display()
            );
        }
    }
}
