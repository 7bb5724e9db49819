//! What a simulated node suffers from, kept for the next process that hosts it: hardware does not
//! get well when somebody restarts a server, and the log goes on with what it knew of the node.

use super::{Simulated, SimulatedAttempt};
use crate::clock::wall;
use crate::run_dir::RunDir;
use muster_model::names::NodeName;
use muster_simnode::NodeHistory;
use std::path::Path;

/// Where the life of one node is kept. A sound one that was never restarted has no file.
#[derive(Debug)]
pub(crate) struct NodeStateFile {
    dir: RunDir,
    file: String,
    there: bool,
}

impl NodeStateFile {
    /// That of a node of the fleet that keeps its things in `state`.
    pub(crate) fn of(state: &Path, node: &NodeName) -> NodeStateFile {
        let (dir, file) = (RunDir(state.join("lives")), format!("{node}.json"));
        let there = dir.path(&file).exists();
        NodeStateFile { dir, file, there }
    }

    /// What the last process wrote down.
    pub(crate) fn read(&self) -> Option<NodeHistory> {
        let read = self.there.then(|| self.dir.read(&self.file)).flatten();
        if self.there && read.is_none() {
            let path = self.dir.path(&self.file);
            tracing::warn!(path = %path.display(), "cannot be read: the node begins healthy");
        }
        read
    }

    /// Writes down what it has behind it now. Work is not part of that: it is started anew.
    pub(crate) fn write(&mut self, past: &NodeHistory) {
        let sound = past.boots == 0 && past.faults.is_empty() && past.away.is_none();
        let path = self.dir.path(&self.file);
        let done = match (sound, self.there) {
            (true, false) => return,
            (true, true) => std::fs::remove_file(&path),
            (false, _) => self.dir.create().and_then(|()| self.dir.write(&self.file, past)),
        };
        match done {
            Ok(()) => self.there = !sound,
            Err(e) => tracing::warn!(path = %path.display(), error = %e, "cannot be written"),
        }
    }
}

impl Simulated {
    /// Takes up the life that is given, or the one that the last process kept, and keeps it from
    /// now on.
    pub(crate) fn restore_state(&mut self, life: NodeStateFile, given: Option<NodeHistory>) {
        if let Some(past) = given.or_else(|| life.read()) {
            self.take_up(&past);
        }
        self.life = Some(life);
        self.keep();
    }

    /// Writes down what the next process has to know of it.
    pub(super) fn keep(&mut self) {
        let now = wall();
        self.away_until = self.away_until.filter(|t| *t > now);
        if let Some(life) = &mut self.life {
            life.write(&NodeHistory {
                boots: self.node.boots(),
                faults: self.node.current_faults(),
                work: Vec::new(),
                at: Some(now),
                away: self.away_until,
            });
        }
    }

    /// Takes up a life that was lived elsewhere: what the node suffers from, and its work.
    fn take_up(&mut self, past: &NodeHistory) {
        self.node.take_up(past, self.clock.start);
        self.away_until = past.away;
        self.gangs_seen = None;
        for w in &past.work {
            let mut share = SimulatedAttempt::new(w.rank, w.gpus, w.shares);
            share.checkpoints.clone_from(&w.checkpoints);
            share.on_partition = w.on_partition;
            self.work.insert(w.key, share);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Gangs, SimClock};
    use super::*;
    use crate::devices::Devices;
    use muster_model::inject::Inject;
    use muster_model::units::Span;
    use muster_simnode::{SimConfig, Sku};
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    fn started(state: &Path) -> Simulated {
        let (node, gangs) = ("n1".parse().expect("a name"), Arc::new(Gangs::default()));
        let config = SimConfig::of(Sku::H100Sxm, 8);
        let mut s = Simulated::new(1, config, "n1", SimClock::new(1.0), gangs);
        s.restore_state(NodeStateFile::of(state, &node), None);
        s
    }

    #[test]
    fn a_node_that_is_down_stays_down_in_the_next_process() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut first = started(dir.path());
        assert!(first.away().is_none());
        assert!(!dir.path().join("lives").exists(), "a sound node writes nothing");
        let boot = first.boot();
        first.inject(&Inject::Crash { down: Span::hours(2) }, Instant::now());

        let mut second = started(dir.path());
        let until = second.away().expect("it is not back yet").until;
        let left = until.saturating_duration_since(Instant::now());
        assert!(left > Duration::from_secs(3600), "{left:?}");
        assert!(left <= Duration::from_secs(7200), "{left:?}");
        assert_ne!(second.boot(), boot);
        assert_eq!(second.boot(), first.boot());

        let gone = Inject::LoseGpu { gpu: 2 };
        second.inject(&gone, Instant::now());
        assert_eq!(started(dir.path()).node.inventory().gpus.len(), 7);
        second.inject(&Inject::Repair, Instant::now());
        assert_eq!(started(dir.path()).node.inventory().gpus.len(), 8);
    }
}
