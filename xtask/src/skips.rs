//! Tests that could not run here, in their own words: each appends a line to a file.

use std::fs;
use std::path::PathBuf;

/// The file that `MUSTER_TEST_SKIPS` names for the tests.
#[must_use]
pub fn file() -> PathBuf {
    crate::target_dir().join("test-skips")
}

/// Forgets those of an earlier run.
pub fn clear() {
    let _ = fs::create_dir_all(crate::target_dir());
    let _ = fs::remove_file(file());
}

/// One line per test that was skipped.
#[must_use]
pub fn read() -> Vec<String> {
    let text = fs::read_to_string(file()).unwrap_or_default();
    text.lines().filter(|line| !line.trim().is_empty()).map(String::from).collect()
}
