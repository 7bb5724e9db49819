//! `cargo xtask bench build`: what the first build of a fresh clone costs, unit by unit, and what
//! everything that a change must pass does.

use crate::{bench, machine, proc, progress, root, target_dir};
use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

/// So many of the costliest units are named.
const UNITS: usize = 25;

/// One figure, as in the results of the other benchmarks. There is no peer.
#[derive(Debug, Serialize)]
struct Case {
    value: f64,
    unit: &'static str,
    peer: Option<f64>,
    peer_name: Option<String>,
    ratio: Option<f64>,
}

#[derive(Debug, Serialize)]
struct Report {
    name: &'static str,
    commit: String,
    machine: String,
    results: BTreeMap<&'static str, Case>,
}

impl Report {
    fn add(&mut self, name: &'static str, unit: &'static str, value: f64) {
        eprintln!("  {name}: {value:.1} {unit}");
        let value = (value * 1000.0).round() / 1000.0;
        let case = Case { value, unit, peer: None, peer_name: None, ratio: None };
        self.results.insert(name, case);
    }

    fn table(&self) -> String {
        let mut text = format!("{}  commit {}\non {}\n\n", self.name, self.commit, self.machine);
        for (name, case) in &self.results {
            let _ = writeln!(text, "{name:<20} {:>10.1} {}", case.value, case.unit);
        }
        text
    }
}

/// Measures a clone of the last commit.
pub(crate) fn run(options: &bench::Options) -> Result<ExitCode> {
    let commit = machine::commit();
    if commit.ends_with('+') {
        eprintln!("warning: only what is committed is measured");
    }
    let mut report = Report {
        name: "build",
        commit: commit.trim_end_matches('+').into(),
        machine: machine::describe(),
        results: BTreeMap::new(),
    };
    // On the disk that builds are on, where no one takes it for a part of the sources.
    let dir = proc::TempDir::in_dir(&target_dir().join("bench"), "build")?;
    let clone = dir.path().join("muster");
    proc::check(Command::new("git").args(["clone", "--quiet"]).arg(root()).arg(&clone))?;
    // How fast crates are downloaded says nothing about us.
    done(command(&clone, "cargo").args(["fetch", "--locked"]))?;
    let units = release(&clone, &mut report)?;
    if options.ci && !options.quick {
        report.add("ci_cold_s", "s", ci(&clone)?.as_secs_f64());
        report.add("ci_warm_s", "s", ci(&clone)?.as_secs_f64());
    }
    if options.output == "json" {
        eprint!("{}", table(&units));
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        print!("{}\n{}", table(&units), report.table());
    }
    if options.save {
        // A colon is no part of the names of the other results.
        let date = machine::now().trim_end_matches('Z').replace(':', "");
        let file = root().join(format!("bench/results/build-{date}.json"));
        fs::write(&file, serde_json::to_string_pretty(&report)? + "\n")
            .with_context(|| format!("cannot write {}", file.display()))?;
        eprintln!("wrote {}", file.display());
    }
    Ok(ExitCode::SUCCESS)
}

/// The build that a stranger does first, into an empty target directory.
fn release(clone: &Path, report: &mut Report) -> Result<Vec<Unit>> {
    let (began, before) = (Instant::now(), progress::used_by_our_children());
    done(command(clone, "cargo").args(["build", "--release", "--locked", "--timings"]))?;
    let (wall, after) = (began.elapsed(), progress::used_by_our_children());
    report.add("cold_release_s", "s", wall.as_secs_f64());
    report.add("cold_release_cpu_s", "s", after.saturating_sub(before).as_secs_f64());
    let binary = clone.join("target/release/muster");
    let size = fs::metadata(&binary).with_context(|| format!("no {}", binary.display()))?.len();
    report.add("binary_mib", "MiB", size as f64 / 1_048_576.0);
    let timings = clone.join("target/cargo-timings/cargo-timing.html");
    let text = fs::read_to_string(&timings)
        .with_context(|| format!("cannot read {}", timings.display()))?;
    units(&text)
}

/// Everything that a change must pass. What fails is not measured.
fn ci(clone: &Path) -> Result<Duration> {
    let began = Instant::now();
    done(command(clone, "bash").arg(".ci/run"))?;
    Ok(began.elapsed())
}

fn done(command: &mut Command) -> Result<()> {
    let words = proc::describe(command);
    let (status, _) = proc::tee(command)?;
    if !status.success() {
        bail!("`{words}` failed ({status})");
    }
    Ok(())
}

/// A command that works in the clone as a stranger's would: without our settings, our target
/// directory and a cache of compiled code.
fn command(clone: &Path, program: &str) -> Command {
    let mut command = Command::new(program);
    command.current_dir(clone).env("RUSTC_WRAPPER", "");
    for (name, _) in std::env::vars_os().filter(|(name, _)| is_ours(name)) {
        command.env_remove(name);
    }
    command
}

fn is_ours(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    let ours = ["MUSTER_", "CARGO_PKG_", "CARGO_MANIFEST_"];
    ours.iter().any(|start| name.starts_with(start))
        || ["CARGO_TARGET_DIR", "CARGO_INCREMENTAL"].contains(&&*name)
}

/// One unit of a build, as cargo's report describes it.
#[derive(Debug, Deserialize)]
struct Unit {
    name: String,
    version: String,
    /// Empty for a library, ` muster "bin"`, ` build-script (run)`.
    #[serde(default)]
    target: String,
    duration: f64,
    /// When others could begin to use it; code is made after that.
    #[serde(default)]
    rmeta_time: Option<f64>,
    /// The same in parts, where cargo knows more.
    #[serde(default)]
    sections: Option<Vec<(String, Section)>>,
}

#[derive(Debug, Deserialize)]
struct Section {
    start: f64,
    end: f64,
}

impl Unit {
    /// Seconds in which code was made; none when cargo did not report.
    fn codegen(&self) -> Option<f64> {
        if let Some(sections) = &self.sections {
            let parts = sections.iter().filter(|(name, _)| name.eq_ignore_ascii_case("codegen"));
            return Some(parts.map(|(_, part)| part.end - part.start).sum());
        }
        self.rmeta_time.map(|rmeta| self.duration - rmeta)
    }
}

/// Reads the units of cargo's HTML report, costliest first.
fn units(html: &str) -> Result<Vec<Unit>> {
    const MARK: &str = "const UNIT_DATA = ";
    let data = html.split_once(MARK).context("cargo's report of timings has no UNIT_DATA")?.1;
    let mut parsed = serde_json::Deserializer::from_str(data).into_iter::<Vec<Unit>>();
    let mut units = parsed
        .next()
        .context("the UNIT_DATA of cargo's report is empty")?
        .context("the UNIT_DATA of cargo's report cannot be read")?;
    units.sort_by(|a, b| b.duration.total_cmp(&a.duration));
    Ok(units)
}

fn table(units: &[Unit]) -> String {
    let mut text = format!("{:>8} {:>10}  unit\n", "s", "codegen s");
    for unit in units.iter().take(UNITS) {
        let codegen = unit.codegen().map_or_else(|| "-".into(), |s| format!("{s:.1}"));
        let Unit { name, version, target, duration, .. } = unit;
        let _ = writeln!(text, "{duration:>8.1} {codegen:>10}  {name} {version}{target}");
    }
    let all: f64 = units.iter().map(|unit| unit.duration).sum();
    let _ = writeln!(text, "{all:>8.1} {:>10}  all {} units", "", units.len());
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const HTML: &str = r#"<html><script>
DURATION = 9;
const UNIT_DATA = [
  {
    "i": 0,
    "name": "libc",
    "version": "0.2.1",
    "mode": "run-custom-build",
    "target": " build-script (run)",
    "start": 0.1,
    "duration": 0.25,
    "rmeta_time": null,
    "unlocked_units": [1],
    "unlocked_rmeta_units": [],
    "sections": null
  },
  {
    "i": 1,
    "name": "serde",
    "version": "1.0.1",
    "mode": "todo",
    "target": "",
    "start": 0.4,
    "duration": 4.5,
    "rmeta_time": 3.0,
    "unlocked_units": [],
    "unlocked_rmeta_units": [2]
  },
  {
    "i": 2,
    "name": "muster-cli",
    "version": "0.1.0",
    "mode": "todo",
    "target": " muster \"bin\"",
    "start": 3.4,
    "duration": 9.0,
    "rmeta_time": null,
    "sections": [["frontend", {"start": 0.0, "end": 4.0}], ["codegen", {"start": 4.0, "end": 7.5}], ["link", {"start": 7.5, "end": 9.0}]]
  }
];
const CONCURRENCY_DATA = [];
</script></html>"#;

    #[test]
    fn the_costliest_units_come_first_with_the_part_in_which_code_was_made() {
        let units = units(HTML).unwrap();
        let read: Vec<_> =
            units.iter().map(|u| (u.name.as_str(), u.duration, u.codegen())).collect();
        assert_eq!(
            read,
            [("muster-cli", 9.0, Some(3.5)), ("serde", 4.5, Some(1.5)), ("libc", 0.25, None)]
        );
        let table = table(&units);
        assert!(
            table.contains("     9.0        3.5  muster-cli 0.1.0 muster \"bin\"\n"),
            "{table}"
        );
        assert!(table.contains("libc 0.2.1 build-script (run)\n"), "{table}");
        assert!(table.ends_with("all 3 units\n"), "{table}");
    }

    #[test]
    fn a_report_of_another_form_is_named_as_what_it_is() {
        assert!(units("<html></html>").unwrap_err().to_string().contains("UNIT_DATA"));
        assert!(units("const UNIT_DATA = {};").is_err());
    }

    #[test]
    fn the_result_has_the_fields_of_every_benchmark() {
        let mut report = Report {
            name: "build",
            commit: "0123abcd".into(),
            machine: "2 x y".into(),
            results: BTreeMap::new(),
        };
        report.add("cold_release_s", "s", 123.456_7);
        let json = serde_json::to_value(&report).unwrap();
        let case = &json["results"]["cold_release_s"];
        assert_eq!(case["value"], 123.457);
        assert_eq!(case["unit"], "s");
        assert!(case["peer"].is_null() && case["peer_name"].is_null() && case["ratio"].is_null());
        assert!(report.table().contains("cold_release_s            123.5 s\n"));
    }

    #[test]
    fn a_clone_is_built_without_our_settings() {
        for name in ["MUSTER_CONSOLE", "CARGO_TARGET_DIR", "CARGO_MANIFEST_DIR", "CARGO_PKG_NAME"] {
            assert!(is_ours(OsStr::new(name)), "{name}");
        }
        for name in ["PATH", "CARGO_HOME", "CARGO_REGISTRIES_X_INDEX", "CARGO"] {
            assert!(!is_ours(OsStr::new(name)), "{name}");
        }
    }
}
