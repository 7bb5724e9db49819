//! What others plug into the agent of a real machine: who tests it, who watches its devices, and
//! who reads their figures. A machine without them runs work all the same.

use crate::runner::RunnerTools;
use muster_model::fault::ObservedFault;
use muster_model::qualification::{Level, Qualification};
use muster_model::units::Span;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use tokio::sync::Notify;

/// How far a test is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// Checks done.
    pub done: u32,
    /// Checks in all.
    pub of: u32,
    /// What is being done.
    pub doing: String,
    /// How long it will still take, about.
    pub eta: Option<Span>,
}

/// Tests this machine. Called on a thread of its own.
pub trait Qualifier: Send + Sync {
    /// Runs a whole test and says how far it is now and then. Once `stop` is set it ends soon;
    /// what it returns then is thrown away.
    fn run(&self, level: Level, progress: &dyn Fn(Progress), stop: &AtomicBool) -> Qualification;
}

/// Watches this machine for faults.
pub trait FaultSource: Send + Sync {
    /// Faults seen since the last call, repeats folded. It keeps a bounded number of them while
    /// nobody asks.
    fn take(&self) -> Vec<ObservedFault>;
    /// Notified when there is something to take.
    fn waker(&self) -> Arc<Notify>;
}

/// Figures of this machine's GPUs.
pub trait TelemetrySource: Send + Sync {
    /// Names of the figures; those of `muster_simnode::COLUMNS` mean the same here.
    fn columns(&self) -> Vec<String>;
    /// One row for each GPU in index order. What a device does not report is none.
    fn rows(&self) -> Vec<Vec<Option<f32>>>;
    /// Figures of the host by name, beside those that every agent reads by itself.
    fn host(&self) -> BTreeMap<String, f64> {
        BTreeMap::new()
    }
}

/// Does to this machine what nobody else on it can. Called on a thread of its own, one act at a
/// time.
pub trait Actor: Send + Sync {
    /// What it may do: `reset`, `reboot`.
    fn can(&self) -> BTreeSet<String>;
    /// Resets a GPU that nobody uses.
    ///
    /// # Errors
    /// Why it was not reset, in words.
    fn reset_gpu(&self, gpu: u32) -> Result<String, String>;
    /// Restarts the machine. That it was asked for is no proof: the machine comes back with
    /// another boot id.
    ///
    /// # Errors
    /// Why it will not restart, in words.
    fn reboot(&self) -> Result<(), String>;
}

/// All of them; the default has none.
#[derive(Clone, Default)]
pub struct Hooks {
    /// Tests the node when the server asks.
    pub qualifier: Option<Arc<dyn Qualifier>>,
    /// Reports faults that the node's monitor saw.
    pub faults: Option<Arc<dyn FaultSource>>,
    /// Who reads figures.
    pub telemetry: Option<Arc<dyn TelemetrySource>>,
    /// What ranks are run with.
    pub runner_tools: RunnerTools,
    /// Who resets and restarts; without one the machine refuses.
    pub actor: Option<Arc<dyn Actor>>,
    /// The pool this machine belongs to; empty stands for the default one.
    pub pool: String,
}

impl std::fmt::Debug for Hooks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hooks")
            .field("qualifier", &self.qualifier.is_some())
            .field("faults", &self.faults.is_some())
            .field("telemetry", &self.telemetry.is_some())
            .field("actor", &self.actor.is_some())
            .field("pool", &self.pool)
            .finish()
    }
}
