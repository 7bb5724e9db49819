//! The brain: a command or a tick goes in; records come out, and state follows from records
//! alone. No clock, no I/O, no randomness: the same log always gives the same state.
//!
//! - [`Engine::handle`] decides on a request: a refusal (nothing changed) or records.
//! - [`Engine::tick`] lets time pass: deadlines, fences, the scheduling cycle.
//! - [`State::apply`] folds one record in. It holds no policy: every id, deadline and choice is
//!   in the record.

#![forbid(unsafe_code)]

mod apply;
mod decide;
mod explain;
mod hardware;
mod health;
pub mod invariants;
mod keys;
mod look_ahead;
mod lookup;
mod moves_plan;
mod node_actions;
mod node_hello;
mod permissions;
mod plan_execution;
mod preflight;
mod qualify;
mod reliability;
pub mod report;
mod reservations;
mod restored;
mod runbooks;
mod settle;
mod shares;
mod slo;
mod snapshot;
mod stage;
mod state;
mod tick;

pub use health::{
    AllocationBlocker, NOT_CONNECTED, RehearsedRemediation, RehearsedRemediations,
    RemediationRehearsal,
};
pub use lookup::{no_project, task};
pub use node_actions::NodeActionOffer;
pub use node_hello::NodeHello;
pub use permissions::{may_see, may_use_class};
pub use reliability::SpareCount;
pub use report::{Move, MoveProposal};
pub use reservations::ReservationEffect;
pub use runbooks::{current_observation, current_step, rehearse};
pub use snapshot::{SNAPSHOT_FORMAT, SnapshotError};
pub use state::{
    ApplyError, Automation, AutomationStop, BookedReservation, ExternalCondition, FindingTreatment,
    GpuUse, HealthState, KeyEntry, LogGeneration, ObjectiveStatus, ReservedStartStats,
    SiteRunbooks, SloState, State, StoredFault,
};

use muster_model::command::{Answer, Refusal, Request};
use muster_model::event::{Event, Record, SCHEMA};
use muster_model::ids::{JobId, Seq};
use muster_model::names::ProjectName;
use muster_model::spec::{Priority, Tier};
use muster_model::units::{Span, Time};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Nodes whose orders may have changed are listed as they come, up to so many and four times the
/// fleet; then each is kept once.
const TOUCHED_MAX: usize = 1024;

/// Time alone changes shares, and what stopping somebody costs, a little at every moment. Once a plan
/// is so old, any record lets a cycle follow.
const PLAN_STANDS: Span = Span::mins(1);

/// What operators may choose about the engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// Between SIGTERM and SIGKILL when a job does not say.
    pub grace: Span,
    /// Ended jobs kept in the working state.
    pub keep_ended: usize,
    /// First and last port that gangs may rendezvous on.
    pub ports: (u16, u16),
    /// Objectives are judged and alerts are made. Counting goes on without it.
    pub objectives: bool,
    /// Objectives are judged this often, in whole minutes; less often on a site with very many
    /// open jobs.
    pub judged_every: Span,
    /// How this site judges faults, with the operator's own verdicts; none: as Muster does.
    pub faults: Option<Arc<muster_health::faults::Catalogue>>,
}

impl Default for Policy {
    fn default() -> Self {
        Policy {
            grace: muster_model::spec::GRACE,
            // About 1.5 KiB each: 150 MiB at most.
            keep_ended: 100_000,
            // Below the ephemeral range (32768…), so that no outgoing connection sits there.
            ports: (20_000, 29_999),
            // A twin of a site wakes nobody.
            objectives: false,
            judged_every: Span::mins(1),
            faults: None,
        }
    }
}

/// The state machine.
#[derive(Debug, Clone)]
pub struct Engine {
    state: State,
    policy: Policy,
    /// Records made since the caller last took them.
    out: Vec<Record>,
    /// Who the records under way are written for.
    actor: String,
    key: Option<muster_model::command::IdempotencyKey>,
    /// Bytes of the submission under way, with what runs.
    payload_bytes: u64,
    /// What ran that no job needs any more, since the caller last asked.
    unneeded: Vec<JobId>,
    /// Nodes whose orders may have changed since the caller last asked, some of them repeatedly.
    touched: Vec<muster_model::names::NodeName>,
    /// Nodes that are to be heard before limits of what runs there count.
    unheard: Option<tick::AwaitedNodes>,
    /// Something was written since the last tick: another one follows at once.
    dirty: bool,
    /// A cycle may decide otherwise than the last one: the next tick has one.
    plans: bool,
    /// Cycles so far.
    cycles: u64,
    /// The nodes and the rules, numbered, under which reserved starts were last looked at.
    reserved_under: Option<(u64, u64)>,
    /// When the last cycle was, and when time alone may change its answer.
    scheduled_at: Time,
    look_again: Option<Time>,
    defragmented_at: Time,
    /// What of the fleet's health is to be looked at again.
    work: health::Work,
    /// What of objectives and alerts is.
    watch: slo::Watch,
    /// Demands known to fit an empty fleet, by tier and class, with the shape of the fleet this was
    /// found for; under the policy of now. In order.
    possible: Vec<((muster_scheduler::Demand, Tier, Priority), u64)>,
    /// Books of runs that go on, read once.
    books: BTreeMap<u64, std::sync::Arc<muster_runbook::ParsedRunbook>>,
}

impl Engine {
    /// An engine over a state.
    #[must_use]
    pub fn new(state: State, policy: Policy) -> Engine {
        Engine {
            state,
            policy,
            out: Vec::new(),
            actor: "system".into(),
            key: None,
            payload_bytes: 0,
            unneeded: Vec::new(),
            touched: Vec::new(),
            unheard: None,
            dirty: true,
            plans: true,
            cycles: 0,
            reserved_under: None,
            scheduled_at: Time(0),
            look_again: None,
            defragmented_at: Time(0),
            work: health::Work { all: true, inventoried: Some(Time(0)), ..health::Work::default() },
            watch: slo::Watch::default(),
            possible: Vec::new(),
            books: BTreeMap::new(),
        }
    }

    /// What it knows.
    #[must_use]
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Decides on a request and applies what follows. The records are in [`Engine::take`].
    ///
    /// # Errors
    /// A [`Refusal`]; then nothing has changed.
    pub fn handle(&mut self, req: &Request) -> Result<Answer, Refusal> {
        if let Some(key) = &req.key
            && let Some(seen) = self.state.keys.get(&key.key)
        {
            return decide::replay(seen, key);
        }
        self.advance(req.at);
        self.actor.clone_from(&req.actor.name);
        self.key.clone_from(&req.key);
        let before = self.out.len();
        let answer = self.decide(req);
        debug_assert!(answer.is_ok() || self.out.len() == before, "a refusal changes nothing");
        self.key = None;
        self.actor = "system".into();
        answer
    }

    /// As [`Engine::handle`], for a submission of so many bytes, with what runs.
    ///
    /// # Errors
    /// A [`Refusal`]; then nothing has changed.
    pub fn handle_with_payload(&mut self, req: &Request, bytes: u64) -> Result<Answer, Refusal> {
        self.payload_bytes = bytes;
        let answer = self.handle(req);
        self.payload_bytes = 0;
        answer
    }

    /// Decides on a request within the present round: of a caller, or of a runbook, whose acts
    /// are requests like any other.
    fn decide(&mut self, req: &Request) -> Result<Answer, Refusal> {
        decide::decide(self, req)
    }

    /// Time never runs backwards, whatever the clock does.
    fn advance(&mut self, now: Time) {
        self.state.now = self.state.now.max(now);
    }

    /// Records made since the last call.
    pub fn take(&mut self) -> Vec<Record> {
        std::mem::take(&mut self.out)
    }

    /// Nodes whose orders may have changed since the last call.
    pub fn take_touched(&mut self) -> Vec<muster_model::names::NodeName> {
        self.merge_touched();
        std::mem::take(&mut self.touched)
    }

    /// Forgets the same, for a caller that sends no orders.
    pub fn discard_touched(&mut self) {
        self.touched.clear();
    }

    /// Each of them once, in order.
    fn merge_touched(&mut self) {
        self.touched.sort();
        self.touched.dedup();
    }

    /// What ran of jobs that left the working state since the last call: it need not be stored any
    /// more.
    pub fn take_unneeded(&mut self) -> Vec<JobId> {
        std::mem::take(&mut self.unneeded)
    }

    /// Makes an event a record, applies it and remembers it.
    fn emit(&mut self, project: Option<&ProjectName>, event: Event) {
        let record = Record {
            seq: self.state.seq.next(),
            at: self.state.now.max(self.state.at),
            v: SCHEMA,
            org: "default".into(),
            project: project.cloned(),
            actor: self.actor.clone(),
            // Only the first record of a request carries its key.
            key: self.key.take(),
            event,
        };
        apply::touched_by(&self.state, &record.event, &mut self.touched);
        // A caller that never asks must not fill the memory.
        if self.touched.len() > TOUCHED_MAX + 4 * self.state.nodes.len() {
            self.merge_touched();
        }
        self.work.note(&record, &self.state);
        self.watch.note(&record, &self.state);
        let stale = record.at.since(self.scheduled_at) >= PLAN_STANDS;
        self.plans |= stale || moves_plan::moves_plan(&self.state, &record.event);
        self.state.apply(&record).expect("the engine only makes records that follow its own state");
        self.dirty = true;
        self.out.push(record);
    }

    /// How many scheduling cycles there were.
    #[must_use]
    pub fn cycles(&self) -> u64 {
        self.cycles
    }

    /// Sequence number of the newest record.
    #[must_use]
    pub fn seq(&self) -> Seq {
        self.state.seq
    }
}
