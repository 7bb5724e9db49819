//! A node's place here, and the agent that sits on it.

use super::faults::Gate;
use super::pace::Pace;
use crate::telemetry::{Columns, Ring, Window};
use muster_engine::State;
use muster_health::identity::OtherMachines;
use muster_health::idle::IdleGpus;
use muster_link::messages::FromServer;
use muster_model::clock::STEPS_APART;
use muster_model::names::NodeName;
use muster_model::node::Stage;
use muster_model::units::{Span, Time};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{Notify, oneshot};

fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing panics while holding these; a poisoned lock still guards sound data.
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A connected agent as others see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionInfo {
    /// The node the agent serves.
    pub node: NodeName,
    /// When it connected.
    pub since: Time,
    /// When it was last heard.
    pub last_heartbeat: Time,
    /// How far its clock is ahead of the server's, in milliseconds.
    pub skew_ms: i64,
    /// Version of the agent.
    pub version: String,
    /// Where it connects from.
    pub addr: SocketAddr,
}

/// How far the test of a node is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestProgress {
    /// The test's number.
    pub id: u64,
    /// Checks done.
    pub done: u32,
    /// Checks in all.
    pub of: u32,
    /// What is being done.
    pub doing: String,
    /// Seconds it will still take, about.
    pub eta_s: Option<u64>,
    /// When this was reported.
    pub at: Time,
}

/// Clocks further apart than this are complained about.
pub(super) const SKEW_MS: u64 = 30_000;

/// Changes of a node's own facts that are written down at once.
const CHANGES: u64 = 10;
/// And then one in this time.
const CHANGE_EVERY: Span = Span::secs(6);

/// That another machine has its identity is written down so often.
const COPY_EVERY: Span = Span::mins(1);

/// A node's place: outlives its connections.
#[derive(Debug, Default)]
pub(super) struct NodeEntry {
    /// Zero: never.
    heard: AtomicI64,
    session: Mutex<Option<Arc<Session>>>,
    ring: Mutex<Ring>,
    idle: Mutex<IdleGpus>,
    faults: Mutex<Gate>,
    progress: Mutex<Option<TestProgress>>,
    /// When a step of its clock was last written down; zero: never.
    stepped: AtomicI64,
    /// How often what it says of itself may change.
    changes: Mutex<Pace>,
    /// How often it may send a row of metrics.
    rows: Mutex<Pace>,
    /// What is known of other machines with its identity.
    other_machines: Mutex<OtherMachines>,
    /// How often that is written down.
    copies: Mutex<Pace>,
}

impl NodeEntry {
    pub(super) fn last_heartbeat(&self) -> Option<Time> {
        Some(Time(self.heard.load(Ordering::Relaxed))).filter(|t| t.0 != 0)
    }

    pub(super) fn note_contact(&self, now: Time) {
        self.heard.fetch_max(now.0, Ordering::Relaxed);
    }

    /// Whether a step of its clock may be written down now: an agent that reports more is not
    /// heard.
    pub(super) fn may_step(&self, now: Time) -> bool {
        let last = Time(self.stepped.load(Ordering::Relaxed));
        let may = last.0 == 0 || now.since(last) >= STEPS_APART;
        if may {
            self.stepped.store(now.0, Ordering::Relaxed);
        }
        may
    }

    /// How long a change of what the node says of itself has to wait; none: it may be written down.
    pub(super) fn wait_for_change(&self, now: Time) -> Option<Span> {
        lock(&self.changes).wait(now, CHANGE_EVERY, CHANGES)
    }

    /// Whether a row of metrics is accepted now: `burst` at once, then ten in each `interval`.
    pub(super) fn may_send_row(&self, now: Time, interval: Span, burst: u64) -> bool {
        lock(&self.rows).wait(now, Span((interval.0 / 10).max(1)), burst).is_none()
    }

    pub(super) fn session(&self) -> Option<Arc<Session>> {
        lock(&self.session).clone()
    }

    /// Sits a new session down. The one that sits there goes, unless it is another agent process
    /// that `alive` says was heard just now.
    pub(super) fn claim(
        &self,
        new: &Arc<Session>,
        alive: impl FnOnce(&Session) -> bool,
    ) -> Result<(), Arc<Session>> {
        let mut node_entry = lock(&self.session);
        if let Some(old) = node_entry.as_ref() {
            if old.instance != new.instance && !old.is_closing() && alive(old) {
                return Err(old.clone());
            }
            old.close();
        }
        *node_entry = Some(new.clone());
        Ok(())
    }

    pub(super) fn leave(&self, session: &Session) {
        let mut node_entry = lock(&self.session);
        if node_entry.as_ref().is_some_and(|s| s.id == session.id) {
            *node_entry = None;
        }
    }

    pub(super) fn ring(&self) -> MutexGuard<'_, Ring> {
        lock(&self.ring)
    }

    pub(super) fn idle(&self) -> MutexGuard<'_, IdleGpus> {
        lock(&self.idle)
    }

    pub(super) fn faults(&self) -> MutexGuard<'_, Gate> {
        lock(&self.faults)
    }

    pub(super) fn other_machines(&self) -> MutexGuard<'_, OtherMachines> {
        lock(&self.other_machines)
    }

    /// Whether that another machine has its identity may be written down now.
    pub(super) fn may_report_copy(&self, now: Time) -> bool {
        lock(&self.copies).wait(now, COPY_EVERY, 1).is_none()
    }

    pub(super) fn progress(&self) -> MutexGuard<'_, Option<TestProgress>> {
        lock(&self.progress)
    }

    pub(super) fn window(&self) -> Option<Window> {
        lock(&self.ring).window()
    }

    /// How long ago the newest row came in.
    pub(super) fn metrics_age(&self, now: Time) -> Option<Span> {
        lock(&self.ring).newest_row_at().map(|t| now.since(t))
    }

    pub(super) fn newest(&self) -> Option<(Columns, Arc<[f32]>)> {
        lock(&self.ring).newest()
    }
}

type InjectAnswer = oneshot::Sender<Result<String, String>>;

/// What others need of a connection.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) id: u64,
    pub(super) node: NodeName,
    pub(super) instance: String,
    /// The enrolment that its certificate belongs to.
    pub(super) enrolment: String,
    pub(super) version: String,
    pub(super) addr: SocketAddr,
    pub(super) since: Time,
    /// Its devices are simulated: its own clock counts.
    pub(super) simulated: bool,
    /// How far the clock of a simulated node is ahead, by its newest row, in milliseconds.
    pub(super) ahead_ms: AtomicI64,
    pub(super) skew_ms: AtomicI64,
    /// Reports of its that the brain has not answered yet: it is not silent, we are slow.
    pub(super) busy: AtomicU32,
    poke: Notify,
    stale: AtomicBool,
    closing: AtomicBool,
    out: Mutex<Vec<FromServer>>,
    injected: Mutex<VecDeque<InjectAnswer>>,
}

impl Session {
    pub(super) fn new(
        id: u64,
        hello: &muster_link::messages::Hello,
        enrolment: &str,
        addr: SocketAddr,
        now: Time,
    ) -> Session {
        Session {
            id,
            node: hello.node.clone(),
            instance: hello.instance.clone(),
            enrolment: enrolment.to_owned(),
            version: hello.version.clone(),
            addr,
            since: now,
            simulated: hello.inventory.simulated,
            ahead_ms: AtomicI64::new(0),
            skew_ms: AtomicI64::new(hello.at.0.saturating_sub(now.0)),
            busy: AtomicU32::new(0),
            poke: Notify::new(),
            stale: AtomicBool::new(false),
            closing: AtomicBool::new(false),
            out: Mutex::default(),
            injected: Mutex::default(),
        }
    }

    pub(super) fn info(&self, node_entry: &NodeEntry) -> SessionInfo {
        SessionInfo {
            node: self.node.clone(),
            since: self.since,
            last_heartbeat: node_entry.last_heartbeat().unwrap_or(self.since),
            skew_ms: self.skew_ms.load(Ordering::Relaxed),
            version: self.version.clone(),
            addr: self.addr,
        }
    }

    /// Whether its certificate still counts: it ends with the enrolment that it belongs to.
    pub(super) fn is_enrolled(&self, state: &State) -> bool {
        state.nodes.get(&self.node).is_some_and(|n| {
            n.stage != Stage::Retired && n.enrolment.as_ref().is_none_or(|e| *e == self.enrolment)
        })
    }

    pub(super) fn close(&self) {
        self.closing.store(true, Ordering::Release);
        self.poke.notify_one();
    }

    pub(super) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    /// What must run there may have changed.
    pub(super) fn touch(&self) {
        self.stale.store(true, Ordering::Release);
        self.poke.notify_one();
    }

    pub(super) fn take_stale(&self) -> bool {
        self.stale.swap(false, Ordering::AcqRel)
    }

    pub(super) async fn poked(&self) {
        self.poke.notified().await;
    }

    pub(super) fn take_out(&self) -> Vec<FromServer> {
        std::mem::take(&mut *lock(&self.out))
    }

    /// Sends the agent something that nobody keeps for it: when it goes away, that is lost.
    pub(super) fn send_message(&self, message: FromServer) {
        lock(&self.out).push(message);
        self.poke.notify_one();
    }

    pub(super) fn ask_injected(&self, message: FromServer, answer: InjectAnswer) {
        // Both under one lock, so that answers come back in the order of the questions.
        let mut out = lock(&self.out);
        lock(&self.injected).push_back(answer);
        out.push(message);
        drop(out);
        self.poke.notify_one();
    }

    pub(super) fn answer_injected(&self, answer: Result<String, String>) {
        if let Some(tx) = lock(&self.injected).pop_front() {
            // Whoever asked may have given up.
            let _ = tx.send(answer);
        }
    }

    /// Whoever still waits for an answer hears that the agent is gone.
    pub(super) fn abandon(&self) {
        lock(&self.injected).clear();
    }
}
