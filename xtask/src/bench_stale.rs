//! Whether the saved result of a benchmark is one of the sources as they are.

use serde_json::Value;

/// How everything is compiled.
const BUILD: &[&str] = &["Cargo.toml"];
/// What decides.
const CORE: &[&str] = &[
    "crates/engine/src",
    "crates/health/src",
    "crates/lifecycle/src",
    "crates/model/src",
    "crates/runbook/src",
    "crates/scheduler/src",
    "crates/slo/src",
];
/// What a server has besides.
const SERVER: &[&str] = &[
    "crates/api/src",
    "crates/executors/src",
    "crates/history/src",
    "crates/http/src",
    "crates/link/src",
    "crates/metering/src",
    "crates/records/src",
    "crates/serve/src",
    "crates/server/src",
    "crates/store/src",
    "crates/supervise/src",
];
const SIMULATOR: &[&str] = &["crates/sim/src", "crates/simnode/src", "crates/specs/src"];

/// What each benchmark measures, itself included: a change there makes its results stale.
const MEASURED: &[(&str, &[&[&str]])] = &[
    (
        "submit",
        &[
            CORE,
            SERVER,
            &["crates/agent/src", "crates/cli/src", "crates/client/src", "bench/src/submit"],
        ],
    ),
    (
        "agent",
        &[&[
            "crates/gpu/src",
            "crates/health/src",
            "crates/model/src",
            "crates/monitor/src",
            "bench/src/agent.rs",
            "bench/src/kmsg.rs",
        ]],
    ),
    ("agents", &[CORE, SERVER, &["crates/agent/src", "crates/simnode/src", "bench/src/agents.rs"]]),
    (
        "slurm",
        &[CORE, SERVER, &["crates/agent/src", "crates/simnode/src", "bench/src/slurm_place"]],
    ),
    ("scheduler", &[&["crates/model/src", "crates/scheduler/src", "bench/src/scheduler"]]),
    ("topology", &[&["crates/model/src", "crates/scheduler/src", "bench/src/topology"]]),
    ("openb", &[CORE, SIMULATOR, &["bench/src/openb"]]),
    ("backfill", &[CORE, SIMULATOR, &["bench/src/backfill"]]),
    ("forecast", &[CORE, &["bench/src/forecast.rs", "bench/src/forecast_explain.rs"]]),
    (
        "sim",
        &[
            CORE,
            SIMULATOR,
            &["crates/records/src", "crates/simcli/src", "scenarios", "bench/src/simulator.rs"],
        ],
    ),
    ("ui", &[CORE, SERVER, &["crates/console/src", "web/src", "bench/src/ui.rs"]]),
    ("health", &[CORE, SERVER, &["bench/faultgen/src", "bench/src/health"]]),
    ("history", &[&["crates/history/src", "bench/src/history"]]),
    ("pressure", &[CORE, SERVER, &["bench/src/pressure"]]),
    ("growth", &[CORE, SERVER, &["crates/simnode/src", "bench/src/growth"]]),
    ("build", &[&["Cargo.lock", "crates", "xtask/src/bench_build.rs"]]),
];

/// The paths whose changes make a result of this benchmark stale.
pub(crate) fn measured(benchmark: &str) -> Vec<&'static str> {
    let own = MEASURED.iter().find(|(name, _)| *name == benchmark);
    let own = own.into_iter().flat_map(|(_, groups)| groups.iter().copied());
    std::iter::once(BUILD).chain(own).flatten().copied().collect()
}

/// The commit that a result is of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Commit {
    /// As git names it.
    pub(crate) hash: String,
    /// Whether the sources differed from it.
    edited: bool,
}

/// The newest result of a benchmark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SavedResult {
    /// The day on which it was measured.
    pub(crate) date: String,
    /// None where it names none.
    pub(crate) commit: Option<Commit>,
    /// How many commits have changed what it measures; none where git does not know its commit.
    pub(crate) changes: Option<u64>,
}

/// The moment that a result's file has in its name; none for those of other benchmarks, for shorter
/// runs and parts of them (`health-quick-…`), and for what a result was compared with (`…-before`).
fn moment<'a>(benchmark: &str, file: &'a str) -> Option<&'a str> {
    let shape = "0000-00-00T000000";
    let rest = file.strip_suffix(".json")?.strip_prefix(benchmark)?.strip_prefix('-')?;
    let (moment, suffix) = rest.split_at_checked(shape.len())?;
    let fits = moment.bytes().zip(shape.bytes()).all(|(found, wanted)| match wanted {
        b'0' => found.is_ascii_digit(),
        sign => found == sign,
    });
    (fits && suffix != "-before").then_some(moment)
}

/// The file with the newest result of a benchmark, and its day.
pub(crate) fn newest<'a>(benchmark: &str, files: &'a [String]) -> Option<(&'a str, &'a str)> {
    let all = files.iter().filter_map(|file| Some((moment(benchmark, file)?, file.as_str())));
    let (moment, file) = all.max()?;
    Some((file, moment.split('T').next()?))
}

/// The commit that a result names. Of two that were measured in turns it is the later one.
pub(crate) fn commit_of(result: &str) -> Option<Commit> {
    let result: Value = serde_json::from_str(result).ok()?;
    let named = result.get("commit").or_else(|| result.get("commits")?.get("after"))?;
    let word = named.as_str()?.split_whitespace().next()?;
    let hash = word.trim_end_matches('+');
    // Nothing else is handed to git.
    let is_hash = (7..=40).contains(&hash.len()) && hash.bytes().all(|b| b.is_ascii_hexdigit());
    is_hash.then(|| Commit { hash: hash.to_string(), edited: hash != word })
}

/// What the list says of a benchmark's newest result.
pub(crate) fn mark(newest: Option<&SavedResult>) -> String {
    let Some(SavedResult { date, commit, changes }) = newest else {
        return "never: no result is saved".into();
    };
    let (Some(Commit { hash, edited }), Some(changes)) = (commit, changes) else {
        return format!("commit unknown: result of {date}");
    };
    let plus = if *edited { "+" } else { "" };
    let result = format!("{hash}{plus} of {date}");
    match *changes {
        0 if *edited => format!("stale: {result}, with changes that are in no commit"),
        0 => format!("current: {result}"),
        1 => format!("stale: {result}, 1 change since"),
        n => format!("stale: {result}, {n} changes since"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::BENCHMARKS;

    #[test]
    fn every_benchmark_says_what_it_measures_and_that_is_there() {
        let names: Vec<&str> = BENCHMARKS.iter().map(|(name, _)| *name).collect();
        let known: Vec<&str> = MEASURED.iter().map(|(name, _)| *name).collect();
        assert_eq!(known, names);
        for name in names {
            for path in measured(name) {
                assert!(crate::root().join(path).exists(), "{name}: there is no {path}");
            }
        }
    }

    #[test]
    fn the_newest_result_is_the_last_whole_one() {
        let files: Vec<String> = [
            "health-2026-11-15T164355.json",
            "health-2026-11-16T002442.json",
            "health-2026-11-17T002442-before.json",
            "health-quick-2026-11-18T064600.json",
            "scheduler-2026-11-17T173000-after.json",
            "scheduler-2026-11-17T173000-before.json",
            "agents-2026-11-18T042823.json",
            "agent-2026-11-15T142100.json",
            "h200-faults.json",
            "sim-é.json",
            "soak.jsonl",
        ]
        .map(String::from)
        .into();
        let of = |name| newest(name, &files);
        assert_eq!(of("health"), Some(("health-2026-11-16T002442.json", "2026-11-16")));
        assert_eq!(of("scheduler"), Some(("scheduler-2026-11-17T173000-after.json", "2026-11-17")));
        assert_eq!(of("agent"), Some(("agent-2026-11-15T142100.json", "2026-11-15")));
        assert_eq!(of("sim"), None);
        assert_eq!(of("build"), None);
    }

    #[test]
    fn a_result_names_its_commit_or_none_that_git_could_know() {
        let commit = |hash: &str, edited| Some(Commit { hash: hash.into(), edited });
        assert_eq!(commit_of(r#"{"commit": "96ac76cfcf66"}"#), commit("96ac76cfcf66", false));
        assert_eq!(commit_of(r#"{"commit": "85e0ec15a2ac+"}"#), commit("85e0ec15a2ac", true));
        let turns = r#"{"commits": {"before": "ac908f87", "after": "c4fe8f48 (at opt-level 2)"}}"#;
        assert_eq!(commit_of(turns), commit("c4fe8f48", false));
        for none in [
            "",
            "{}",
            r#"{"commit": null}"#,
            r#"{"commit": ""}"#,
            r#"{"commit": "unknown"}"#,
            r#"{"commit": "--output=x"}"#,
            r#"{"commits": {"before": "ac908f87"}}"#,
        ] {
            assert_eq!(commit_of(none), None, "{none}");
        }
    }

    #[test]
    fn a_result_is_current_until_what_it_measures_changes() {
        let result = |edited, changes| {
            let commit = Some(Commit { hash: "748ccea8".into(), edited });
            mark(Some(&SavedResult { date: "2026-11-18".into(), commit, changes }))
        };
        assert_eq!(result(false, Some(0)), "current: 748ccea8 of 2026-11-18");
        assert_eq!(result(false, Some(1)), "stale: 748ccea8 of 2026-11-18, 1 change since");
        assert_eq!(result(true, Some(5)), "stale: 748ccea8+ of 2026-11-18, 5 changes since");
        assert_eq!(
            result(true, Some(0)),
            "stale: 748ccea8+ of 2026-11-18, with changes that are in no commit"
        );
    }

    #[test]
    fn a_result_without_a_known_commit_is_marked() {
        let unknown = "commit unknown: result of 2026-11-17";
        let result = |commit, changes| {
            mark(Some(&SavedResult { date: "2026-11-17".into(), commit, changes }))
        };
        assert_eq!(result(None, None), unknown);
        let not_in_git = Commit { hash: "0123456789ab".into(), edited: false };
        assert_eq!(result(Some(not_in_git), None), unknown);
        assert_eq!(mark(None), "never: no result is saved");
    }
}
