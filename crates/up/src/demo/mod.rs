//! `muster up --demo`: a site with a week behind it. The week is lived by the twin, which is the
//! production engine in virtual time; its log goes into a fresh store before the server opens it,
//! and the simulated nodes learn what they have behind them. From then on it is a site like any
//! other.

mod live;

pub(crate) use live::{people, run_demo};

use muster_model::NodeName;
use muster_model::topology::Topology;
use muster_model::units::{Span, Time};
use muster_sim::demo::{self, Week};
use muster_simnode::NodeHistory;
use muster_store::{Batch, Entry, LeaseAnswer, Store, StoreUrl};
use muster_terminal::fail::Fail;
use muster_terminal::output;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// What says that a data directory was made by `--demo`.
const MARK: &str = "demo.json";
/// What the nodes have behind them; read once.
const PAST: &str = "past.json";
/// Between two lines about how far the simulation has come.
const PROGRESS_EVERY: Duration = Duration::from_secs(3);

#[derive(Debug, Serialize, Deserialize)]
struct Mark {
    /// The seed of the week that is behind the site.
    seed: u64,
}

/// A demonstration that is ready to be served.
pub(crate) struct Demo {
    pub(crate) seed: u64,
    pub(crate) topology: Topology,
    /// Where the nodes find what they have behind them.
    pub(crate) past: Option<PathBuf>,
}

fn failed(what: impl std::fmt::Display) -> Fail {
    Fail::failed(format!("the demonstration cannot be made: {what}"))
}

fn mark(data_dir: &Path) -> Option<Mark> {
    let text = std::fs::read(data_dir.join(MARK)).ok()?;
    serde_json::from_slice(&text).ok()
}

/// Whether this data directory was made by `--demo`.
pub(crate) fn is_demo(data_dir: &Path) -> bool {
    mark(data_dir).is_some()
}

/// Makes the demonstration in a fresh data directory, or takes up one that is there. `fleet` is
/// where the simulated nodes keep their things.
///
/// # Errors
/// When the directory holds a site of somebody's own, or the demonstration of another seed.
pub(crate) fn prepare(
    data_dir: &Path,
    store: &StoreUrl,
    fleet: &Path,
    seed: Option<u64>,
) -> Result<Demo, Fail> {
    let known = mark(data_dir);
    let mut opened = muster_store::open(store).map_err(failed)?;
    let empty = opened.head().map_err(failed)?.last_seq.0 == 0;
    match (empty, known) {
        (true, _) => make(data_dir, &mut *opened, fleet, seed.unwrap_or(1)),
        (false, None) => {
            let dir = data_dir.display();
            Err(Fail::usage(format!("{dir} has a site that is not a demonstration"))
                .hint("choose another with --data-dir, or leave --demo out to take it up"))
        }
        (false, Some(Mark { seed: old })) => match seed {
            Some(new) if new != old => {
                let dir = data_dir.display();
                Err(Fail::usage(format!("{dir} has the demonstration of seed {old}"))
                    .hint("choose another with --data-dir, or remove it, for another history"))
            }
            _ => {
                let past = fleet.join(PAST);
                let past = past.exists().then_some(past);
                Ok(Demo { seed: old, topology: topology(), past })
            }
        },
    }
}

/// Where its nodes stand.
fn topology() -> Topology {
    muster_specs::generate::hgx(demo::NODES, demo::NODE_GPUS)
}

fn make(data_dir: &Path, store: &mut dyn Store, fleet: &Path, seed: u64) -> Result<Demo, Fail> {
    let begun = Instant::now();
    output::note(
        "simulating a week of 64 nodes; this takes seconds, on a busy machine a minute or two",
    );
    let write = |path: &Path, what: &dyn Fn() -> serde_json::Result<Vec<u8>>| {
        let text = what().map_err(failed)?;
        std::fs::write(path, text).map_err(|e| failed(format!("{}: {e}", path.display())))
    };
    // First of all, so that half a demonstration is not taken for somebody's site.
    write(&data_dir.join(MARK), &|| serde_json::to_vec(&Mark { seed }))?;
    let host = muster_agent::sim_host(&fleet.join("simulated")).map_err(failed)?;
    let hosted = muster_sim::Hosted {
        machine: host.machine,
        shared: Some((host.host, host.address)),
        isolation: host.isolation,
        can: host.can,
    };
    let end = now();
    let mut progress = WeekProgress::new(end - demo::LENGTH);
    let mut seen = |at: Time| {
        if let Some(line) = progress.line(at, begun.elapsed()) {
            output::note(&line);
        }
    };
    let week = demo::week(seed, end, hosted, &mut seen).map_err(failed)?;
    for r in &week.refused {
        tracing::warn!(refusal = r, "the site refused a part of the history");
    }
    let past = fleet.join(PAST);
    write(&past, &|| serde_json::to_vec(&week.past))?;
    let topology = week.topology.clone();
    output::note(&format!("writing {} records of the week into the store", week.log.len()));
    keep(store, week)?;
    Ok(Demo { seed, topology, past: Some(past) })
}

/// How far the simulation of the week has come, every few seconds.
struct WeekProgress {
    begin: Time,
    /// Of the time that it has taken: the next line is due then.
    next: Duration,
}

impl WeekProgress {
    fn new(begin: Time) -> WeekProgress {
        WeekProgress { begin, next: PROGRESS_EVERY }
    }

    /// A line for people, when one is due after so much time.
    fn line(&mut self, at: Time, took: Duration) -> Option<String> {
        if took < self.next {
            return None;
        }
        self.next = took + PROGRESS_EVERY;
        let done = at.since(self.begin).0.min(demo::LENGTH.0) * 100 / demo::LENGTH.0;
        Some(format!("{done}% of the week is simulated, after {} s", took.as_secs()))
    }
}

/// Writes the week's log: all of it or nothing.
fn keep(store: &mut dyn Store, week: Week) -> Result<(), Fail> {
    let lease = store.acquire_lease("demo", Span::secs(15)).map_err(failed)?;
    let LeaseAnswer::Granted(epoch) = lease else {
        return Err(failed("another server uses the store"));
    };
    let entry = |l: demo::Line| Entry { seq: l.seq, at: l.at, body: l.body };
    let entries = week.log.into_iter().map(entry).collect();
    let written = store.append(&Batch { epoch, entries, ..Batch::default() });
    store.release_lease(epoch).map_err(failed)?;
    written.map_err(failed)
}

fn now() -> Time {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    Time(since.map_or(0, |d| i64::try_from(d.as_millis()).unwrap_or(i64::MAX)))
}

/// What the nodes have behind them, once: from then on each keeps what it suffers from itself.
pub(crate) fn past(file: Option<&Path>) -> BTreeMap<NodeName, NodeHistory> {
    let Some(file) = file else { return BTreeMap::new() };
    let read = std::fs::read(file).ok().and_then(|text| serde_json::from_slice(&text).ok());
    let _ = std::fs::remove_file(file);
    read.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_far_the_week_has_come_is_said_every_few_seconds() {
        let mut p = WeekProgress::new(Time(1000));
        let at = |hours| Time(1000) + Span::hours(hours);
        let s = Duration::from_secs;
        assert_eq!(p.line(at(1), s(1)), None, "a fast machine says nothing of it");
        let first = p.line(at(84), s(3));
        assert_eq!(first.as_deref(), Some("50% of the week is simulated, after 3 s"));
        assert_eq!(p.line(at(85), s(5)), None);
        let last = p.line(at(200), s(90));
        assert_eq!(last.as_deref(), Some("100% of the week is simulated, after 90 s"));
    }

    #[test]
    fn a_site_of_ones_own_is_left_alone() {
        let dir = tempfile::tempdir().expect("a directory");
        let store = StoreUrl::Sqlite(dir.path().join("muster.db"));
        let mut s = muster_store::open(&store).expect("a store");
        let LeaseAnswer::Granted(epoch) = s.acquire_lease("x", Span::secs(5)).expect("free") else {
            panic!("nobody else is there");
        };
        let entry = Entry { seq: muster_model::ids::Seq(1), at: Time(1), body: b"{}".to_vec() };
        s.append(&Batch { epoch, entries: vec![entry], ..Batch::default() }).expect("written");
        drop(s);
        let refused = |seed| match prepare(dir.path(), &store, &dir.path().join("fleet"), seed) {
            Err(e) => e,
            Ok(_) => panic!("it would have been mixed"),
        };
        let e = refused(None);
        assert_eq!(e.code, 2);
        assert!(e.message.contains("not a demonstration"), "{}", e.message);
        assert!(e.hint.as_deref().is_some_and(|h| h.contains("--data-dir")));
        assert!(!is_demo(dir.path()));
        std::fs::write(dir.path().join(MARK), r#"{"seed":3}"#).expect("written");
        assert!(is_demo(dir.path()));
        assert!(refused(Some(4)).message.contains("seed 3"));
        let again = prepare(dir.path(), &store, &dir.path().join("fleet"), None);
        let again = again.unwrap_or_else(|e| panic!("{}", e.message));
        assert_eq!((again.seed, again.topology.nodes.len()), (3, 64));
        assert!(again.past.is_none());
    }
}
