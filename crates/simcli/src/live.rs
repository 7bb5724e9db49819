//! From a scenario's file to what came of it.

use super::log::Log;
use super::progress::Progress;
use muster_sim::library;
use muster_sim::outcome::{History, Outcome};
use muster_sim::scenario::{self, Scenario};
use muster_sim::{Options, SimError};
use muster_specs::FileError;
use muster_terminal::fail::{Fail, REFUSED, USAGE};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// A scenario and where it came from.
#[derive(Debug, Clone)]
pub(crate) struct LoadedScenario {
    pub(crate) scenario: Scenario,
    pub(crate) text: String,
    pub(crate) file: PathBuf,
}

impl LoadedScenario {
    /// Reads a scenario's file, or the one of the library that has this name, and checks it.
    pub(crate) fn read(file: &Path) -> Result<LoadedScenario, Fail> {
        let text = match (std::fs::read_to_string(file), file.to_str().and_then(library::text)) {
            (Ok(text), _) => text,
            // A file of that name goes before it, also one that cannot be read.
            (Err(e), Some(text)) if e.kind() == ErrorKind::NotFound => text.to_owned(),
            (Err(e), _) => {
                let fail = Fail::usage(format!("cannot read {}: {e}", file.display()));
                if e.kind() != ErrorKind::NotFound {
                    return Err(fail);
                }
                let names: Vec<&str> = library::names().collect();
                let names = names.join(", ");
                return Err(fail.hint(format!("name a scenario's file, or one of these: {names}")));
            }
        };
        let origin = file.display().to_string();
        let scenario = scenario::read(&text, &origin).map_err(all_wrong)?;
        Ok(LoadedScenario { scenario, text, file: file.into() })
    }

    /// Where the files that it names are found from.
    pub(crate) fn dir(&self) -> &Path {
        self.file.parent().unwrap_or(Path::new(""))
    }
}

/// Everything that is wrong with a file.
fn all_wrong(errors: Vec<FileError>) -> Fail {
    match <[FileError; 1]>::try_from(errors) {
        Ok([one]) => one.into(),
        Err(many) => {
            let each: Vec<String> = many.iter().map(ToString::to_string).collect();
            Fail::usage(each.join("\n"))
        }
    }
}

/// How a scenario that cannot be lived is reported.
pub(crate) fn fail(e: SimError) -> Fail {
    match e {
        SimError::File(e) => (*e).into(),
        SimError::Refused(r) => Fail::new(REFUSED, r),
        SimError::Impossible(_) | SimError::Trace(_) | SimError::Stopped => Fail::new(USAGE, e),
    }
}

/// Lives a scenario and takes the time.
pub(crate) fn simulate(
    s: &Scenario,
    dir: &Path,
    progress: &Progress,
    mut log: Option<&mut Log>,
) -> Result<(Outcome, History), Fail> {
    let started = Instant::now();
    let mut part = progress.begin(s.length);
    let (mut outcome, history) = muster_sim::run(s, dir, Options::default(), |line| {
        part.record(line);
        if let Some(log) = &mut log {
            log.record(line);
        }
    })
    .map_err(fail)?;
    outcome.wall_s = started.elapsed().as_secs_f64();
    outcome.peak_rss_bytes = peak_rss();
    Ok((outcome, history))
}

/// Most memory that this process has held, where the system reports.
pub(crate) fn peak_rss() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    high_water(&status).unwrap_or(0)
}

fn high_water(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scenario_of_the_library_is_read_by_its_name() {
        let read = LoadedScenario::read(Path::new("neocloud-week")).unwrap();
        assert_eq!(Some(read.scenario), library::find("neocloud-week"));
        assert!(LoadedScenario::read(Path::new("neocloud-wek")).is_err());
        assert!(LoadedScenario::read(Path::new("./neocloud-week")).is_err(), "that is a file");
    }

    #[test]
    fn the_most_memory_is_read_from_the_system() {
        let status = "Name:\tmuster\nVmPeak:\t  900 kB\nVmHWM:\t     128 kB\nVmRSS:\t 64 kB\n";
        assert_eq!(high_water(status), Some(131_072));
        assert_eq!(high_water("Name:\tmuster\n"), None);
    }
}
