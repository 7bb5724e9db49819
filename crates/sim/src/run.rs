//! A scenario from its beginning to its end.

use crate::arrivals::{self, FleetSize, Source};
use crate::error::SimError;
use crate::faults::Faults;
use crate::fleet::{self, Fleet};
use crate::job_metrics::JobUse;
use crate::outcome::{History, Outcome};
use crate::scenario::Scenario;
use crate::simulation::{Setting, Simulation};
use crate::traces;
use muster_model::event::Record;
use muster_model::ids::JobId;
use std::collections::BTreeMap;
use std::path::Path;

/// How a scenario is lived.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// It ends when all jobs have, and not with its time.
    pub until_done: bool,
}

/// What came of a run.
#[derive(Debug)]
pub(crate) struct Completed {
    pub(crate) outcome: Outcome,
    pub(crate) history: History,
    /// What each job had of it.
    pub(crate) jobs: BTreeMap<JobId, JobUse>,
}

/// Lives a scenario. Files that it names are found from `dir`; each record of its log goes to
/// `sink`, as one line of JSON without its end.
///
/// # Errors
/// When the scenario cannot begin.
pub fn run(
    s: &Scenario,
    dir: &Path,
    options: Options,
    sink: impl FnMut(&[u8]),
) -> Result<(Outcome, History), SimError> {
    run_while(s, dir, options, &|| true, sink)
}

/// The same, for as long as it may go on: asked again and again.
///
/// # Errors
/// When the scenario cannot begin, or was not to go on to its end.
pub fn run_while(
    s: &Scenario,
    dir: &Path,
    options: Options,
    goes_on: &dyn Fn() -> bool,
    mut sink: impl FnMut(&[u8]),
) -> Result<(Outcome, History), SimError> {
    let fleet = fleet::build(s, dir)?;
    let nodes = u32::try_from(fleet.machines.len()).unwrap_or(u32::MAX);
    let room = FleetSize {
        node_gpus: fleet.machines.iter().map(|m| m.config.gpus).max().unwrap_or(8),
        nodes: nodes - fleet.spares(),
    };
    let sources = arrivals::sources(s, room, dir)?;
    let mut faults = Faults::new(s, &fleet);
    if let Some(file) = &s.failures.titan {
        let path = dir.join(file);
        let text = traces::read_file(&path)?;
        let read = traces::titan::lifetimes(file, text.as_bytes(), traces::OnBadRow::Stop)?;
        faults.replay(&traces::titan::failures(&read.items));
    }
    let done = lived(s, &fleet, sources, faults, options, goes_on, |_, line| sink(line))?;
    Ok((done.outcome, done.history))
}

/// Lives a scenario on machines and with work that were made elsewhere. `sink` gets each record
/// and its line. It is an error when it was not to go on to its end.
pub(crate) fn run_with(
    s: &Scenario,
    fleet: &Fleet,
    sources: Vec<Source>,
    options: Options,
    goes_on: &dyn Fn() -> bool,
    sink: impl FnMut(&Record, &[u8]),
) -> Result<Completed, SimError> {
    lived(s, fleet, sources, Faults::new(s, fleet), options, goes_on, sink)
}

fn lived(
    s: &Scenario,
    fleet: &Fleet,
    sources: Vec<Source>,
    faults: Faults,
    options: Options,
    goes_on: &dyn Fn() -> bool,
    mut sink: impl FnMut(&Record, &[u8]),
) -> Result<Completed, SimError> {
    let mut hash = blake3::Hasher::new();
    let mut line = Vec::new();
    let mut keep = |r: &Record| {
        line.clear();
        if r.write_json(&mut line).is_ok() {
            sink(r, &line);
            line.push(b'\n');
            hash.update(&line);
        }
    };
    let mut done = {
        let mut twin = Simulation::new(
            s,
            fleet,
            sources,
            faults,
            Setting::usual(options.until_done),
            &mut keep,
            goes_on,
        )?;
        if !twin.live_while(goes_on) {
            return Err(SimError::Stopped);
        }
        let (outcome, history) = twin.outcome();
        Completed { outcome, history, jobs: twin.job_uses() }
    };
    done.outcome.log_digest = hash.finalize().to_hex().to_string();
    Ok(done)
}
