//! Doing what the server says: starting and stopping work, tests, acts.

use super::gang::{Gang, later};
use super::{FaultFleet, RankDeath};
use crate::link::{ConnectionCommand, ConnectionEvent};
use muster_link::messages::{
    Action, FabricMeasurement, FromAgent, FromServer, RunDetail, RunOrder,
};
use muster_model::command::Observed;
use muster_model::ids::AttemptKey;
use muster_model::job::{Exit, SlotEnd};
use muster_model::qualification::{Check, Level, Outcome, Qualification};
use muster_model::remediation::Act;
use muster_model::units::{Span, Time};

/// Seconds that a restart takes.
const RESTART_S: f64 = 45.0;

impl FaultFleet {
    pub(super) fn hear(&mut self, i: usize, what: ConnectionEvent) {
        match what {
            ConnectionEvent::Up => {
                self.nodes[i].up = true;
                for id in std::mem::take(&mut self.nodes[i].acted) {
                    self.nodes[i].send(FromAgent::Acted { id, ok: true, message: "done".into() });
                }
            }
            ConnectionEvent::Down => {
                self.nodes[i].up = false;
                if self.nodes[i].back_at.is_none() {
                    self.nodes[i].open();
                }
            }
            ConnectionEvent::Said(message) => self.obey(i, *message),
        }
    }

    fn obey(&mut self, i: usize, message: FromServer) {
        match message {
            FromServer::Desired { runs, .. } => self.reconcile(i, runs),
            FromServer::Forget { keys } => {
                for key in keys {
                    self.nodes[i].ended.remove(&key);
                }
            }
            FromServer::Qualify { id, level } => self.test(i, id, level),
            FromServer::Act { id, act } => self.act(i, id, &act),
            FromServer::FabricServe { id, .. } => {
                let error = Some("nothing listens here".to_string());
                self.nodes[i].send(FromAgent::FabricReady { id, port: 0, error });
            }
            FromServer::FabricDial { id, .. } => {
                let error = Some("nothing dials here".to_string());
                let result = FabricMeasurement { error, ..FabricMeasurement::default() };
                self.nodes[i].send(FromAgent::FabricDone { id, result });
            }
            _ => {}
        }
    }

    fn reconcile(&mut self, i: usize, runs: Vec<RunOrder>) {
        let wanted: Vec<AttemptKey> = runs.iter().map(|r| r.key).collect();
        let stale: Vec<AttemptKey> =
            self.nodes[i].work.keys().filter(|k| !wanted.contains(k)).copied().collect();
        for key in stale {
            self.end(i, key, SlotEnd::Stopped);
        }
        for RunOrder { key, action, detail } in runs {
            let report = |observed| FromAgent::Report { key, observed, ago: None };
            if let Some(end) = self.nodes[i].ended.get(&key) {
                let message = report(Observed::Ended(end.clone()));
                self.nodes[i].send(message);
                continue;
            }
            let runs = self.nodes[i].work.contains_key(&key);
            match (runs, action, detail) {
                (true, Action::Run, _) => {}
                (_, Action::Stop { .. }, _) => self.end(i, key, SlotEnd::Stopped),
                (false, Action::Run, Some(detail)) => {
                    self.begin(i, key, &detail);
                    self.nodes[i].send(report(Observed::Running));
                }
                (false, Action::Run, None) => {
                    let end = SlotEnd::fault("the node knows nothing of this attempt");
                    self.nodes[i].send(report(Observed::Ended(end)));
                }
            }
        }
    }

    fn begin(&mut self, i: usize, key: AttemptKey, detail: &RunDetail) {
        let now = self.now;
        let run_s = detail.simulate.as_ref().map_or(3600.0, |s| s.run.0 as f64 / 1000.0);
        let rng = &mut self.rng;
        let gang = self.gangs.entry(key).or_insert_with(|| {
            Gang::new(key, detail.nodes.len(), detail.slot.ranks, run_s, now, rng)
        });
        if gang.nodes.is_empty() {
            gang.nodes =
                detail.nodes.iter().filter_map(|n| self.names.get(n.as_str()).copied()).collect();
        }
        gang.first_rank.insert(i, detail.slot.first_rank);
        self.nodes[i].work.insert(key, detail.slot.first_rank);
        if gang.started.is_none() && gang.first_rank.len() >= gang.world {
            gang.started = Some(now);
        }
    }

    /// A node's share of an attempt is over.
    pub(super) fn end(&mut self, i: usize, key: AttemptKey, how: SlotEnd) {
        self.nodes[i].work.remove(&key);
        self.nodes[i].ended.insert(key, how.clone());
        let observed = Observed::Ended(how);
        self.nodes[i].send(FromAgent::Report { key, observed, ago: None });
        let left = self.nodes.iter().any(|n| n.work.contains_key(&key));
        if !left && let Some(gang) = self.gangs.remove(&key) {
            if let Some(id) = gang.episode {
                self.cut(id);
            }
            for n in gang.nodes {
                self.nodes[n].free_after = self.nodes[n].free_after.max(later(self.now, 60.0));
            }
        }
    }

    /// Work whose time has come ends well.
    pub(super) fn finish_work(&mut self) {
        let now = self.now;
        let over: Vec<AttemptKey> =
            self.gangs.values().filter(|g| g.ends_at <= now && !g.broken).map(|g| g.key).collect();
        for key in over {
            for i in 0..self.nodes.len() {
                if self.nodes[i].work.contains_key(&key) {
                    self.end(i, key, SlotEnd::Ok);
                }
            }
        }
    }

    pub(super) fn die(&mut self) {
        let now = self.now;
        let all = std::mem::take(&mut self.deaths);
        let (due, rest): (Vec<_>, Vec<_>) = all.into_iter().partition(|d| d.0 <= now);
        self.deaths = rest;
        for (_, i, key, how) in due {
            let Some(rank) = self.nodes[i].work.get(&key).copied() else { continue };
            let exit = match how {
                RankDeath::Signal(s) => {
                    Exit { rank, code: None, signal: Some(s), note: String::new() }
                }
                RankDeath::Code(c) => {
                    Exit { rank, code: Some(c), signal: None, note: String::new() }
                }
                RankDeath::OutOfMemory => {
                    Exit { rank, code: None, signal: Some(9), note: "out of memory".into() }
                }
            };
            self.end(i, key, SlotEnd::Failed { exit });
        }
    }

    fn test(&mut self, i: usize, id: u64, level: Level) {
        // Whoever tests it finds what is still there, and then it is repaired.
        let unhealthy = self.repair(i);
        let outcome = if unhealthy { Outcome::Failed } else { Outcome::Passed };
        let check = Check::plain("made-up", None, outcome, "");
        let report = Qualification {
            level,
            started_at: crate::wall(),
            took: Span::secs(1),
            outcome,
            checks: vec![check],
        };
        self.nodes[i].send(FromAgent::Qualified { id, report: Box::new(report) });
    }

    fn act(&mut self, i: usize, id: u64, act: &Act) {
        match act {
            Act::Reboot { .. } | Act::PowerCycle { .. } => {
                self.repair(i);
                self.nodes[i].acted.push(id);
                self.hang_up(i, RESTART_S);
            }
            _ => {
                self.repair(i);
                self.nodes[i].send(FromAgent::Acted { id, ok: true, message: "done".into() });
            }
        }
    }

    /// The node is away for so long, and comes back with nothing of what ran.
    pub(crate) fn hang_up(&mut self, i: usize, seconds: f64) {
        let back = later(self.now, seconds);
        let node = &mut self.nodes[i];
        node.back_at = Some(back);
        let _ = node.say.send(ConnectionCommand::Close);
        let gone: Vec<AttemptKey> = node.work.keys().copied().collect();
        node.restarted();
        node.up = false;
        for key in gone {
            let left = self.nodes.iter().any(|n| n.work.contains_key(&key));
            if !left
                && let Some(gang) = self.gangs.remove(&key)
                && let Some(id) = gang.episode
            {
                self.cut(id);
            }
        }
    }

    /// Those that were away come back.
    pub(super) fn returns(&mut self) {
        let now = self.now;
        for node in &mut self.nodes {
            if node.back_at.is_some_and(|t: Time| t <= now) {
                node.back_at = None;
                node.open();
            }
        }
    }
}

impl FaultFleet {
    /// The connection is dropped and made again at once; what runs goes on.
    pub(crate) fn reconnect(&mut self, i: usize) {
        let _ = self.nodes[i].say.send(ConnectionCommand::Close);
        self.nodes[i].up = false;
    }

    /// Whatever runs on the node then, dies.
    pub(crate) fn lemon_dies(&mut self, at: Time, i: usize) {
        self.sour.push((at, i));
    }

    pub(super) fn sours(&mut self) {
        let now = self.now;
        let all = std::mem::take(&mut self.sour);
        let (due, rest): (Vec<_>, Vec<_>) = all.into_iter().partition(|d| d.0 <= now);
        self.sour = rest;
        for (_, i) in due {
            for key in self.nodes[i].work.keys().copied().collect::<Vec<_>>() {
                self.death(now, i, key, RankDeath::Signal(11));
            }
        }
    }
}
