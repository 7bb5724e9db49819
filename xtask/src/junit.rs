//! Reads how long each test took from the JUnit file that nextest writes.

use std::fmt;
use std::path::{Path, PathBuf};

/// Where nextest writes it with `--profile ci` (see `.config/nextest.toml`): below the root,
/// wherever cargo builds.
#[must_use]
pub fn file(root: &Path) -> PathBuf {
    root.join("target/nextest/ci/junit.xml")
}

/// One test.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    /// The test program: package, and file of `tests/` where it is one.
    pub program: String,
    /// The test in it.
    pub name: String,
    /// How long it took.
    pub seconds: f64,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>8.1} s  {} {}", self.seconds, self.program, self.name)
    }
}

/// The `count` slowest tests of the file's text, slowest first.
#[must_use]
pub fn slowest(text: &str, count: usize) -> Vec<Case> {
    let mut cases = cases(text);
    cases.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    cases.truncate(count);
    cases
}

fn cases(text: &str) -> Vec<Case> {
    // What tests print is in the file too, with every `<` and `>` of it written in another way.
    text.split("<testcase ")
        .skip(1)
        .filter_map(|rest| {
            let tag = rest.split_once('>')?.0;
            Some(Case {
                program: attribute(tag, "classname")?,
                name: attribute(tag, "name")?,
                seconds: attribute(tag, "time")?.parse().ok()?,
            })
        })
        .collect()
}

fn attribute(tag: &str, name: &str) -> Option<String> {
    // With the blank before it: `classname` ends in `name`.
    let tag = format!(" {tag}");
    let value = tag.split_once(&format!(" {name}=\""))?.1.split_once('"')?.0;
    let plain = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&apos;", "'"), ("&amp;", "&")];
    Some(plain.iter().fold(value.to_string(), |text, (from, to)| text.replace(from, to)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="nextest-run" tests="4" failures="1" errors="0" uuid="0" timestamp="2026-01-01T00:00:00.000+00:00" time="63.100">
    <testsuite name="muster-cli::crash" tests="2" disabled="0" errors="0" failures="1">
        <testcase name="a_killed_server_comes_back" classname="muster-cli::crash" timestamp="2026-01-01T00:00:00.000+00:00" time="61.250">
        </testcase>
        <testcase name="bad" classname="muster-cli::crash" timestamp="2026-01-01T00:00:00.000+00:00" time="0.500">
            <failure message="thread panicked" type="test failure">&lt;testcase name=&quot;no&quot;</failure>
            <system-out>&lt;testcase name="no" classname="no" time="99"&gt;</system-out>
        </testcase>
    </testsuite>
    <testsuite name="muster-model" tests="2" disabled="0" errors="0" failures="0">
        <testcase name="units::tests::a &lt; b &amp;&amp; c" classname="muster-model" timestamp="2026-01-01T00:00:00.000+00:00" time="0.003"/>
        <testcase name="slow" classname="muster-model" timestamp="2026-01-01T00:00:00.000+00:00" time="2.000"/>
    </testsuite>
</testsuites>
"#;

    #[test]
    fn every_test_is_read_once_and_its_output_is_no_test() {
        let all = cases(TEXT);
        let names: Vec<&str> = all.iter().map(|case| case.name.as_str()).collect();
        assert_eq!(
            names,
            ["a_killed_server_comes_back", "bad", "units::tests::a < b && c", "slow"]
        );
        assert_eq!(all[0].program, "muster-cli::crash");
        assert_eq!(cases("no tests were run"), []);
    }

    #[test]
    fn the_slowest_come_first_and_no_more_than_were_asked_for() {
        let slow = slowest(TEXT, 2);
        assert_eq!(slow.iter().map(|case| case.seconds).collect::<Vec<_>>(), [61.25, 2.0]);
        assert_eq!(slow[1].to_string(), "     2.0 s  muster-model slow");
        assert_eq!(slowest(TEXT, 20).len(), 4);
    }
}
