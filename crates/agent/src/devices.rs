//! What a node's devices can do, whether they are really there or simulated. A body acts upon
//! them without knowing which.

use crate::cgroup::Cgroups;
use crate::runner::RunnerTools;
use muster_link::messages::{FromAgent, RunDetail, Telemetry};
use muster_model::command::Observed;
use muster_model::fault::ObservedFault;
use muster_model::ids::AttemptKey;
use muster_model::inject::Inject;
use muster_model::node::Inventory;
use muster_model::qualification::Level;
use muster_model::remediation::Act;
use muster_model::units::Span;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::Notify;

/// A while in which a simulated node is not there.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SimulatedAbsence {
    pub(crate) until: Instant,
}

/// An act and what came of it.
pub(crate) type ActResult = (u64, Result<String, String>);

/// How devices take an attempt that is to start.
pub(crate) enum Start {
    /// They simulate all of it.
    Simulated,
    /// Ranks are to be run for it.
    Run,
    /// It cannot run on these devices; the reason in words.
    Refused(String),
}

/// What a fault did.
pub(crate) struct Injected {
    pub(crate) outcome: Result<String, String>,
    pub(crate) away: Option<SimulatedAbsence>,
    pub(crate) crashed: bool,
    pub(crate) kill: Option<AttemptKey>,
    pub(crate) inventory: bool,
}

impl Default for Injected {
    fn default() -> Injected {
        Injected {
            outcome: Ok("done".into()),
            away: None,
            crashed: false,
            kill: None,
            inventory: false,
        }
    }
}

/// The devices of one node. What has a body here is for simulated ones alone: real devices
/// simulate no work.
pub(crate) trait Devices: Send + Sync {
    /// The boot that the node is in.
    fn boot(&self) -> String;

    /// Notified when there is something to report.
    fn news(&self) -> Arc<Notify>;

    /// What ranks on them are run with.
    fn runner_tools(&self) -> RunnerTools;

    /// What is in the node, whose ranks these control groups hold.
    fn inventory(&self, cgroups: &Cgroups) -> Inventory;

    /// The test that is running, or whose end nobody has taken in.
    fn testing(&self) -> Option<u64>;

    /// Begins a test.
    fn qualify(&mut self, id: u64, level: Level, now: Instant);

    /// This test's end is written down, or nobody wants it any more.
    fn qualify_over(&mut self, id: u64);

    /// Faults seen since the last call.
    fn take_faults(&mut self) -> Vec<ObservedFault>;

    /// Begins an act, or says why it cannot. A node that restarts by it at once is away for a
    /// while, and everything that ran there is gone; how the others end is said by
    /// [`Devices::acts_over`].
    fn act(&mut self, id: u64, act: &Act, now: Instant)
    -> Result<Option<SimulatedAbsence>, String>;

    /// Acts that ended since the last call.
    fn acts_over(&mut self, now: Instant) -> Vec<ActResult>;

    /// Has a fault, if they can.
    fn inject(&mut self, fault: &Inject, now: Instant) -> Injected;

    /// The last seconds in numbers; none while the agent is made to hang.
    fn telemetry(&mut self, now: Instant) -> Option<Telemetry>;

    /// Takes an attempt in.
    fn start(&mut self, key: AttemptKey, detail: &RunDetail, now: Instant) -> Start;

    /// Goes on with tests and simulated work, and says what is to be reported.
    fn turn(&mut self, now: Instant, connected: bool, out: &mut Vec<FromAgent>);

    /// A new connection: what may not have arrived is reported again.
    fn rewind(&mut self);

    /// How long the node is not there yet, that was down when its last process ended.
    fn away(&self) -> Option<SimulatedAbsence> {
        None
    }

    /// The ranks that were run for this attempt have ended.
    fn ranks_ended(&mut self, _key: AttemptKey, _now: Instant) {}

    /// Simulated attempts that have not ended.
    fn active(&self) -> Vec<AttemptKey> {
        Vec::new()
    }

    /// What is seen of simulated attempts.
    fn observed(&self) -> Vec<(AttemptKey, Observed)> {
        Vec::new()
    }

    /// Stops a simulated attempt.
    fn stop(&mut self, _key: AttemptKey, _now: Instant) {}

    /// Asks a simulated attempt to save.
    fn ask_checkpoint(&mut self, _key: AttemptKey, _now: Instant) {}

    /// A simulated attempt that has ended is known no more.
    fn forget(&mut self, _key: AttemptKey) {}

    /// Stops simulated attempts that may not go on without a server.
    fn unheard(&mut self, _heard: Instant, _now: Instant) {}

    /// The least time that a simulated attempt may go on without a server.
    fn shortest_lease(&self) -> Option<Span> {
        None
    }

    /// When simulated things have something to do by the clock alone.
    fn due(&self, _heard: Instant) -> Option<Instant> {
        None
    }
}

/// Why an act is refused that no agent carries out.
pub(crate) fn no_act_of_agents(act: &Act) -> String {
    format!("an agent cannot do that: {}", act.word())
}
