//! One connected agent. One task reads, answers and writes; nothing in it waits for the brain or
//! the disk, so a heartbeat is heard while reports are being committed.

use super::Inner;
use super::acts;
use super::bounds;
use super::checkpoints::{Checkpoints, Written};
use super::conn::Conn;
use super::connections;
use super::hello::SessionStart;
use super::identity;
use super::idle;
use super::node_entry::{NodeEntry, SKEW_MS, Session, TestProgress};
use super::orders::Orders;
use super::steps;
use super::unreadable;
use crate::brain::{Attach, BrainError};
use crate::health::HealthObservation;
use crate::history::HistoryRow;
use crate::logs::LogError;
use crate::metering::step_seconds;
use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};
use muster_engine::State;
use muster_link::LinkError;
use muster_link::frame::Frame;
use muster_link::messages::{FromAgent, FromServer, LogChunk, LogMark, ProgressReport, Telemetry};
use muster_model::clock::ClockStep;
use muster_model::command::{Command, Observed};
use muster_model::fault::ObservedFault;
use muster_model::ids::AttemptKey;
use muster_model::job::SlotEnd;
use muster_model::names::NodeName;
use muster_model::units::{Span, Time};
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Instant;

/// Reports and chunks under way; then reading waits.
const UNDER_WAY: usize = 64;
/// Marks gathered into one message.
const MARKS: usize = 32;
/// An agent that does not read this much is not there.
const BACKLOG: usize = 64 << 20;
/// Output of a rank counts as a sign of life once in this time.
const SIGN_OF_LIFE: Span = Span::secs(1);
/// How far the clock of a simulated node may be from ours and still count: ten years.
const AHEAD_MS: i64 = 10 * 365 * 24 * 3600 * 1000;
/// How far ahead of ours the wall's clock, by which they date faults, may be.
const AHEAD: Span = Span::secs(5);
/// Characters of what an agent says of an act that are kept.
const ACT_WORDS: usize = 500;

#[derive(Debug, thiserror::Error)]
enum End {
    #[error("the agent closed the connection")]
    Closed,
    #[error("another session took over, or the node was lost")]
    Replaced,
    #[error("the node was retired")]
    Retired,
    #[error("the agent does not read what it is sent")]
    Backlog,
    #[error(transparent)]
    Link(#[from] LinkError),
    #[error("the log cannot be written")]
    Brain(#[source] BrainError),
    #[error("output cannot be stored")]
    Logs(#[source] LogError),
}

/// What came of something under way.
enum Done {
    Reported { key: AttemptKey, ended: bool, result: Result<(), BrainError> },
    Noted(Result<(), BrainError>),
    Signalled { heard: Instant, result: Result<(), BrainError> },
    Acted { id: u64, result: Result<(), BrainError> },
    Kept(Result<LogMark, LogError>),
}

struct Live {
    inner: Arc<Inner>,
    node_entry: Arc<NodeEntry>,
    session: Arc<Session>,
    orders: Orders,
    protected: bool,
    /// What ended there while the node was held: written to the log when it is let go.
    ended: BTreeMap<AttemptKey, SlotEnd>,
    work: FuturesUnordered<BoxFuture<'static, Done>>,
    appends: usize,
    reports: u32,
    /// Send the list again though it may be the same: a report was taken in.
    again: bool,
    marks: Vec<LogMark>,
    /// Which ranks of an attempt this node may speak for.
    ranks: HashMap<AttemptKey, Vec<Range<u32>>>,
    /// Checkpoints reported on this connection.
    checkpoints: Checkpoints,
    /// When output of a rank was last reported to the watch.
    outputs: HashMap<(AttemptKey, u32), Time>,
    skew_reported: bool,
    /// This agent was informed that its leases are not renewed.
    unsure_reported: bool,
}

/// Gives the node's entry back however the session ends, by a panic too: a node whose session is
/// gone must not look connected.
struct Leave(Arc<NodeEntry>, Arc<Session>);

impl Drop for Leave {
    fn drop(&mut self) {
        self.0.leave(&self.1);
        self.1.abandon();
    }
}

pub(super) async fn run(inner: Arc<Inner>, mut conn: Conn, entered: SessionStart) {
    let SessionStart { node_entry, session, welcome, protected, known, ended, testing } = entered;
    let leave = Leave(node_entry.clone(), session.clone());
    let mut live = Live {
        skew_reported: session.skew_ms.load(Ordering::Relaxed).unsigned_abs() > SKEW_MS,
        inner,
        node_entry,
        session: session.clone(),
        orders: Orders::default(),
        protected,
        ended: BTreeMap::new(),
        work: FuturesUnordered::new(),
        appends: 0,
        reports: 0,
        again: false,
        marks: Vec::new(),
        ranks: HashMap::new(),
        checkpoints: Checkpoints::default(),
        outputs: HashMap::new(),
        unsure_reported: false,
    };
    live.orders.knows(&known, testing);
    let end = match live.begin(&mut conn, &welcome, ended).await {
        Ok(()) => live.talk(&mut conn).await,
        Err(e) => e,
    };
    // A node that is gone for good reports no checkpoint again.
    for (key, w) in live.checkpoints.drain() {
        let request = live.inner.request(&session.node, w.command(key));
        let brain = live.inner.brain.clone();
        tokio::spawn(async move { brain.call(request, Attach::default()).await.map(drop) });
    }
    drop(leave);
    let ended =
        connections::ended(live.inner.clone(), live.node_entry.clone(), session.node.clone());
    tokio::spawn(ended);
    let cause = std::error::Error::source(&end).map(ToString::to_string);
    tracing::debug!(node = %session.node, end = %end, cause, "session ended");
    let answer = match &end {
        End::Link(e) => unreadable(e),
        _ => None,
    };
    if answer.as_ref().is_some_and(|no| conn.w.queue(no).is_ok())
        || !matches!(end, End::Closed | End::Link(_))
    {
        // The other side may not listen any more; nothing is lost if it does not.
        let _ = tokio::time::timeout(std::time::Duration::from_secs(5), conn.w.close()).await;
    }
}

impl Live {
    async fn begin(
        &mut self,
        conn: &mut Conn,
        welcome: &FromServer,
        ended: Vec<AttemptKey>,
    ) -> Result<(), End> {
        self.inner.brain.read(|s| {
            let logged: Vec<_> = s.faults_of(&self.session.node).collect();
            let oldest_first = logged.iter().rev().map(|kept| &kept.fault);
            self.node_entry.faults().note_logged(oldest_first);
        });
        conn.w.queue(welcome)?;
        if !ended.is_empty() {
            ended.iter().for_each(|k| self.orders.forget(*k));
            conn.w.queue(&FromServer::Forget { keys: ended })?;
        }
        self.refresh(conn).await
    }

    async fn talk(&mut self, conn: &mut Conn) -> End {
        loop {
            if let Err(e) = self.turn(conn).await {
                return e;
            }
        }
    }

    async fn turn(&mut self, conn: &mut Conn) -> Result<(), End> {
        if self.session.is_closing() {
            return Err(End::Replaced);
        }
        if conn.w.waiting() > BACKLOG {
            return Err(End::Backlog);
        }
        let session = self.session.clone();
        let waits = self.checkpoints.next().map(|due| due.since(self.inner.clock()).to_std());
        tokio::select! {
            Some(done) = self.work.next(), if !self.work.is_empty() => self.done(conn, done)?,
            frame = conn.r.next::<FromAgent>(), if self.work.len() < UNDER_WAY => {
                let now = self.inner.brain.now();
                self.node_entry.note_contact(self.inner.clock());
                match frame? {
                    None => return Err(End::Closed),
                    Some(Frame::Log(chunk)) => self.log(chunk),
                    Some(Frame::Message(m)) => self.message(conn, m, now)?,
                }
            }
            () = session.poked() => {
                for m in session.take_out() {
                    conn.w.queue(&m)?;
                }
            }
            flushed = conn.w.flush(), if conn.w.is_dirty() => flushed?,
            () = tokio::time::sleep(waits.unwrap_or_default()), if waits.is_some() => {
                for (key, w) in self.checkpoints.due(self.inner.clock()) {
                    self.note_checkpoint(key, w);
                }
            }
        }
        if !self.marks.is_empty() && (self.appends == 0 || self.marks.len() >= MARKS) {
            let kept = std::mem::take(&mut self.marks);
            conn.w.queue(&FromServer::LogKept { kept })?;
        }
        let stale = session.take_stale();
        if stale || (self.again && self.reports == 0) {
            self.refresh(conn).await?;
        }
        Ok(())
    }

    async fn refresh(&mut self, conn: &mut Conn) -> Result<(), End> {
        if !self.inner.brain.read(|s| self.session.is_enrolled(s)) {
            return Err(End::Retired);
        }
        let node = &self.session.node;
        if self.protected {
            let still = self.inner.brain.read(|s| s.nodes.get(node).is_some_and(|n| n.protected));
            if still {
                return Ok(());
            }
            // An operator let us decide again: the agent may take our word from here on.
            self.protected = false;
            self.orders.let_go();
            let welcome = FromServer::Welcome {
                site: self.inner.brain.read(|s| s.site.clone()).unwrap_or_default(),
                epoch: self.inner.brain.epoch(),
                seq: self.inner.brain.durable(),
                heartbeat: self.inner.config.heartbeat,
                telemetry: self.inner.config.telemetry,
                protected: false,
                output_age: true,
            };
            conn.w.queue(&welcome)?;
        }
        let again = std::mem::take(&mut self.again);
        let news = self.orders.refresh(&self.inner, node, again).await.map_err(End::Brain)?;
        for m in &news.messages {
            conn.w.queue(m)?;
        }
        for (key, end) in news.hopeless {
            tracing::warn!(attempt = %key, ?end, "an attempt cannot be ordered");
            self.report(key, Observed::Ended(end), None);
        }
        // The agent said so once, and nobody took it in.
        for (key, end) in std::mem::take(&mut self.ended) {
            self.report(key, Observed::Ended(end), None);
        }
        Ok(())
    }

    fn message(&mut self, conn: &mut Conn, mut m: FromAgent, now: Time) -> Result<(), End> {
        bounds::message(&mut m);
        match m {
            FromAgent::Heartbeat { at } => {
                self.skew(at, now);
                self.other_machine();
                let due = self.node_entry.faults().due(self.inner.clock());
                self.faults(due);
                let at = self.time(now);
                self.report_observation(HealthObservation::Contact {
                    node: self.session.node.clone(),
                    at,
                });
                let uncertain = !self.inner.brain.is_certain_leader();
                if uncertain && !self.unsure_reported {
                    tracing::warn!(node = %self.session.node, "this server cannot be certain that it leads: leases of ranks are not renewed");
                }
                self.unsure_reported = uncertain;
                let seq = self.inner.brain.durable();
                conn.w.queue(&FromServer::Ack { seq, uncertain })?;
            }
            FromAgent::ClockStepped { step } => self.clock_stepped(step),
            FromAgent::Telemetry(t) => self.telemetry(*t, now),
            // A server that is behind the node draws no conclusions from what it sees there.
            FromAgent::Report { key, observed, .. } if self.protected => {
                self.note_end(key, observed);
            }
            FromAgent::Report { key, observed, ago } => {
                if matches!(observed, Observed::Ended(_)) {
                    self.checkpoints_end(key);
                }
                self.report(key, observed, ago);
            }
            FromAgent::Progress { key, rank, report } => self.note_progress(key, rank, report, now),
            FromAgent::Faults { faults } => {
                let skew = self.session.skew_ms.load(Ordering::Relaxed);
                // Simulated nodes report their faults by the wall's clock.
                let simulated = self.session.simulated;
                let dated = |at: Time| match simulated {
                    true => at.clamp(Time(0), now + AHEAD),
                    false => by_server(at, skew, now),
                };
                let passed = self.node_entry.faults().take(faults, self.inner.clock(), dated);
                self.inner.folded.fetch_add(passed.folded, Ordering::Relaxed);
                self.faults(passed.faults);
            }
            FromAgent::Qualifying { id, done, of, doing, eta_s } => {
                let doing = doing.chars().take(200).collect();
                *self.node_entry.progress() =
                    Some(TestProgress { id, done, of, doing, eta_s, at: now });
            }
            FromAgent::Qualified { .. } if self.protected => {}
            FromAgent::Qualified { id, report } => {
                let node = self.session.node.clone();
                self.note(Command::QualificationDone { node, id, report });
            }
            FromAgent::Acted { .. } if self.protected => {}
            FromAgent::Acted { id, ok, message } => self.acted(conn, id, ok, &message)?,
            FromAgent::FabricReady { id, port, error } => {
                self.inner.fabric.ready(&self.session.node, id, port, error);
            }
            FromAgent::FabricDone { id, result } => {
                self.inner.fabric.done(&self.session.node, id, result);
            }
            FromAgent::Renew { csr } => self.renew(conn, &csr, now)?,
            FromAgent::Injected { ok, message } => {
                self.session.answer_injected(if ok { Ok(message) } else { Err(message) });
            }
            FromAgent::Join { .. } | FromAgent::Hello(_) => {
                return Err(End::Link(LinkError::Garbled("a second greeting".into())));
            }
        }
        Ok(())
    }

    fn faults(&self, faults: Vec<ObservedFault>) {
        if faults.is_empty() {
            return;
        }
        let heard = Instant::now();
        let node = self.session.node.clone();
        let command = Command::FaultsSeen { node: node.clone(), faults: faults.clone() };
        let request = self.inner.request(&node, command);
        let (brain, node_entry) = (self.inner.brain.clone(), self.node_entry.clone());
        // A task of its own: it is on its way to the log even while this one is busy with orders, and
        // what fails is put back even when the session has ended by then.
        let call = tokio::spawn(async move {
            let result = brain.call(request, Attach::default()).await;
            if matches!(result, Err(BrainError::Unavailable(_) | BrainError::Archived { .. })) {
                node_entry.faults().put_back(faults);
            }
            result
        });
        self.work.push(Box::pin(async move {
            let gone = |_| Err(BrainError::Unavailable("the server is stopping".into()));
            Done::Signalled { heard, result: call.await.unwrap_or_else(gone).map(drop) }
        }));
    }

    /// What came of an act. The agent says so until it learns that it may forget it.
    fn acted(&self, conn: &mut Conn, id: u64, ok: bool, message: &str) -> Result<(), End> {
        let node = &self.session.node;
        if !self.inner.brain.read(|s| acts::is_open(s, node, id)) {
            conn.w.queue(&FromServer::ActOver { id })?;
            return Ok(());
        }
        let message = message.chars().take(ACT_WORDS).collect();
        let request = self.inner.request(node, Command::ActDone { id, ok, message });
        let brain = self.inner.brain.clone();
        self.work.push(Box::pin(async move {
            Done::Acted { id, result: brain.call(request, Attach::default()).await.map(drop) }
        }));
        Ok(())
    }

    /// Reports to the watch; a server that is behind the node draws no conclusions.
    fn report_observation(&self, reported: HealthObservation) {
        if !self.protected {
            self.inner.health.feed().push(self.session.simulated, reported);
        }
    }

    /// What time it is for the watch: a simulated node has a clock of its own.
    fn time(&self, now: Time) -> Time {
        Time(now.0.saturating_add(self.session.ahead_ms.load(Ordering::Relaxed)))
    }

    /// Another agent with this node's identity was refused, and this one is still there.
    fn other_machine(&self) {
        let Some(line) = self.node_entry.other_machines().heartbeat() else { return };
        let (inner, entry) = (self.inner.clone(), self.node_entry.clone());
        let node = self.session.node.clone();
        self.work.push(Box::pin(async move {
            identity::report(&inner, &entry, &node, line).await;
            Done::Noted(Ok(()))
        }));
    }

    /// Hands something on that nobody waits for an answer to.
    fn note(&self, command: Command) {
        let request = self.inner.request(&self.session.node, command);
        let brain = self.inner.brain.clone();
        self.work.push(Box::pin(async move {
            Done::Noted(brain.call(request, Attach::default()).await.map(drop))
        }));
    }

    fn telemetry(&self, t: Telemetry, now: Time) {
        let config = &self.inner.config;
        let in_time = self.node_entry.may_send_row(
            self.inner.clock(),
            config.telemetry,
            config.telemetry_burst,
        );
        let mut ring = self.node_entry.ring();
        let accepted = match in_time {
            true => ring.push(t, now, &self.inner.columns),
            false => ring.drop_row(),
        };
        self.inner.unaccepted.fetch_add(ring.take_dropped(), Ordering::Relaxed);
        if !accepted {
            tracing::debug!(node = %self.session.node, "telemetry that makes no sense");
            return;
        }
        let newest = ring.newest_row();
        drop(ring);
        let Some((columns, host_columns, row)) = newest else { return };
        let gap = idle::gap(&self.inner);
        self.node_entry.idle().push(&columns, &row.gpus, self.inner.clock(), gap);
        self.inner.metering.row(&self.session.node, now, &columns, &row.gpus);
        self.inner.history.push(HistoryRow {
            node: self.session.node.clone(),
            at: now,
            gpu_columns: columns.clone(),
            gpus: row.gpus.clone(),
            host_columns: host_columns.clone(),
            host: row.host.clone(),
        });
        if self.session.simulated {
            let ahead = row.at.0.saturating_sub(now.0).clamp(-AHEAD_MS, AHEAD_MS);
            self.session.ahead_ms.store(ahead, Ordering::Relaxed);
        }
        self.report_observation(HealthObservation::Row {
            node: self.session.node.clone(),
            at: self.time(now),
            columns,
            gpus: row.gpus,
            host_columns,
            host: row.host,
        });
    }

    fn skew(&mut self, at: Time, now: Time) {
        let skew = at.0.saturating_sub(now.0);
        self.session.skew_ms.store(skew, Ordering::Relaxed);
        let off = skew.unsigned_abs() > SKEW_MS;
        if off && !self.skew_reported {
            tracing::warn!(node = %self.session.node, skew_ms = skew, "the node's clock is off: synchronise it");
        }
        self.skew_reported = off;
    }

    /// The node's clock was set. Simulated nodes have that of one machine, which reports it once.
    fn clock_stepped(&self, step: ClockStep) {
        if self.session.simulated || !self.node_entry.may_step(self.inner.clock()) {
            return;
        }
        let step = ClockStep { node: Some(self.session.node.clone()), ..step };
        let brain = self.inner.brain.clone();
        self.work.push(Box::pin(async move {
            Done::Noted(brain.system(Command::ClockStepped { step }).await.map(drop))
        }));
    }

    /// Something ended on a node that is held.
    fn note_end(&mut self, key: AttemptKey, observed: Observed) {
        // Keys that a node makes up take no room.
        if let Observed::Ended(end) = observed
            && self.orders.is_known(key)
        {
            self.ended.insert(key, end);
        }
    }

    fn report(&mut self, key: AttemptKey, observed: Observed, ago: Option<Span>) {
        let node = self.session.node.clone();
        // It changes nothing, and the agent may forget it.
        if self.inner.brain.read(|s| s.never_ran_here(&node, key, false)) {
            self.inner.foreign.fetch_add(1, Ordering::Relaxed);
        }
        let ended = matches!(observed, Observed::Ended(_));
        let command = Command::SlotReport { node: node.clone(), key, observed, ago };
        let request = self.inner.request(&node, command);
        let inner = self.inner.clone();
        // Whoever sees the end in the log finds all of the output.
        let settle = ended && self.appends > 0;
        self.reports += 1;
        self.session.busy.fetch_add(1, Ordering::Relaxed);
        self.work.push(Box::pin(async move {
            if settle {
                // A keeper that stopped keeps nothing more; the end is still true.
                let _ = inner.keeper.settled().await;
            }
            let result = inner.brain.call(request, Attach::default()).await.map(drop);
            Done::Reported { key, ended, result }
        }));
    }

    fn done(&mut self, conn: &mut Conn, done: Done) -> Result<(), End> {
        match done {
            Done::Reported { key, ended, result } => {
                self.reports -= 1;
                self.session.busy.fetch_sub(1, Ordering::Relaxed);
                match result {
                    Ok(()) => {}
                    // Nothing waits for it, so it need not be reported again.
                    Err(BrainError::Refused(r)) => {
                        tracing::debug!(attempt = %key, refusal = %r, "a report was refused");
                    }
                    Err(e) => return Err(End::Brain(e)),
                }
                if ended {
                    self.orders.forget(key);
                    self.ranks.remove(&key);
                    self.checkpoints_end(key);
                    self.checkpoints.remove(key);
                    self.outputs.retain(|(k, _), _| *k != key);
                    // Of what may still run the agent must say so again, whoever asks.
                    let node = &self.session.node;
                    if !self.inner.brain.read(|s| s.is_lost_on(node, key)) {
                        conn.w.queue(&FromServer::Forget { keys: vec![key] })?;
                    }
                } else {
                    self.again = true;
                }
            }
            Done::Noted(Ok(()) | Err(BrainError::Refused(_))) => {}
            Done::Noted(Err(e)) => return Err(End::Brain(e)),
            Done::Signalled { heard, result } => match result {
                Ok(()) => self.inner.signals.observe(heard.elapsed()),
                Err(BrainError::Refused(_)) => {}
                Err(e) => return Err(End::Brain(e)),
            },
            Done::Acted { id, result } => {
                match result {
                    Ok(()) | Err(BrainError::Refused(_)) => {}
                    Err(e) => return Err(End::Brain(e)),
                }
                let node = &self.session.node;
                let over = !self.inner.brain.read(|s| acts::is_open(s, node, id));
                if over && self.orders.act_over(id) {
                    conn.w.queue(&FromServer::ActOver { id })?;
                }
            }
            Done::Kept(kept) => {
                self.appends -= 1;
                self.mark(kept.map_err(End::Logs)?);
            }
        }
        Ok(())
    }

    fn mark(&mut self, mark: LogMark) {
        let same =
            |m: &&mut LogMark| (m.key, m.rank, m.stream) == (mark.key, mark.rank, mark.stream);
        match self.marks.iter_mut().find(same) {
            Some(m) => m.offset = m.offset.max(mark.offset),
            None => self.marks.push(mark),
        }
    }

    fn log(&mut self, chunk: LogChunk) {
        if !self.speaks_for(chunk.key, chunk.rank) {
            // Not this node's to report; it may forget it.
            let offset = chunk.offset.saturating_add(chunk.data.len() as u64);
            self.mark(LogMark { key: chunk.key, rank: chunk.rank, stream: chunk.stream, offset });
            return;
        }
        let (key, rank, now) = (chunk.key, chunk.rank, self.inner.brain.now());
        let last = self.outputs.get(&(key, rank));
        if last.is_none_or(|t| now.since(*t) >= SIGN_OF_LIFE) {
            self.outputs.insert((key, rank), now);
            self.report_observation(HealthObservation::Output { key, rank, at: self.time(now) });
        }
        let keeper = self.inner.keeper.clone();
        self.appends += 1;
        self.work.push(Box::pin(async move { Done::Kept(keeper.append(chunk).await) }));
    }

    /// Did this node run that rank?
    fn speaks_for(&mut self, key: AttemptKey, rank: u32) -> bool {
        if let Some(known) = self.ranks.get(&key) {
            return known.iter().any(|r| r.contains(&rank));
        }
        let ranks = self.inner.brain.read(|s| ranks_of(s, &self.session.node, key));
        let its = ranks.iter().any(|r| r.contains(&rank));
        // Keys that a node makes up take no room.
        if !ranks.is_empty() {
            self.ranks.insert(key, ranks);
        }
        its
    }

    fn note_progress(&mut self, key: AttemptKey, rank: u32, report: ProgressReport, now: Time) {
        if !self.speaks_for(key, rank) {
            return;
        }
        match report {
            ProgressReport::Step { step, t, ref stages, .. } => {
                let stages = steps::bounded(stages);
                self.inner.metering.step(key, rank, now, step, t, &stages);
                if let Some(seconds) = step_seconds(t, &stages) {
                    self.inner.history.step(key, seconds);
                }
                self.report_observation(HealthObservation::Step {
                    key,
                    rank,
                    at: self.time(now),
                    step,
                    t,
                    stages,
                });
                let mut steps = self.inner.steps.lock().unwrap_or_else(PoisonError::into_inner);
                steps.note(key, rank, now, report);
            }
            ProgressReport::Checkpoint { state, step, path, bytes, blocked_s } => {
                match &state[..] {
                    "done" => {
                        self.report_observation(HealthObservation::Checkpointing {
                            key,
                            going: false,
                        });
                        self.inner.metering.checkpoint(key, now, blocked_s);
                        let blocked_ms = blocked_s
                            .filter(|b| b.is_finite() && (0.0..1e9).contains(b))
                            .map(|b| std::time::Duration::from_secs_f64(b).as_millis())
                            .and_then(|ms| u64::try_from(ms).ok());
                        self.checkpoint(key, Written { step, path, bytes, blocked_ms });
                    }
                    "failed" => {
                        self.report_observation(HealthObservation::Checkpointing {
                            key,
                            going: false,
                        });
                        tracing::warn!(attempt = %key, rank, step, "a checkpoint failed");
                    }
                    "started" => self
                        .report_observation(HealthObservation::Checkpointing { key, going: true }),
                    _ => {}
                }
            }
            ProgressReport::Garbled { lines } => {
                tracing::debug!(attempt = %key, rank, lines, "reports that were not understood");
            }
        }
    }

    /// Every rank may report the same checkpoint; the log hears of it once, and of the newest when
    /// there are too many.
    fn checkpoint(&mut self, key: AttemptKey, w: Written) {
        let known = self.inner.brain.read(|s| {
            let c = s.jobs.get(&key.job).filter(|j| j.checkpoint_asked.is_none())?;
            let c = c.checkpoint.as_ref().filter(|c| c.attempt == key.attempt)?;
            Some(c.step == w.step && c.path == w.path)
        });
        if self.checkpoints.is_repeat(key, &w) || w.step.is_some() && known == Some(true) {
            return;
        }
        let newest = self.checkpoints.newest(key, w);
        self.note_checkpoint(key, newest);
    }

    /// Writes a checkpoint down, now or later.
    fn note_checkpoint(&mut self, key: AttemptKey, w: Written) {
        let (wanted, past) = self.inner.brain.read(|s| {
            let Some(job) = s.jobs.get(&key.job) else { return (false, false) };
            let noticed = job.attempt.as_ref().is_some_and(|a| a.notice.is_some());
            let known = job.checkpoint.as_ref().filter(|c| c.attempt == key.attempt);
            (job.checkpoint_asked.is_some() || noticed, known.is_some_and(|c| c.step > w.step))
        });
        // Another node reported a later one.
        if past {
            return;
        }
        let now = self.inner.clock();
        let wait = {
            let mut steps = self.inner.steps.lock().unwrap_or_else(PoisonError::into_inner);
            steps.wait_for_checkpoint(key, now, wanted)
        };
        match wait {
            Some(wait) => self.checkpoints.wait(key, w, now + wait),
            None => self.note(w.command(key)),
        }
    }

    /// Before the end of an attempt, the last of its checkpoints: the next attempt begins there.
    fn checkpoints_end(&mut self, key: AttemptKey) {
        if let Some(w) = self.checkpoints.end_waiting(key) {
            self.note(w.command(key));
        }
    }

    fn renew(&self, conn: &mut Conn, csr: &str, now: Time) -> Result<(), End> {
        let node = &self.session.node;
        let (site, enrolled) =
            self.inner.brain.read(|s| (s.site.clone(), self.session.is_enrolled(s)));
        if !enrolled {
            return Err(End::Retired);
        }
        let Some(site) = site else { return Ok(()) };
        let ttl = self.inner.config.certificate;
        let enrolment = Some(self.session.enrolment.as_str());
        match self.inner.authority.sign_node(csr, node, enrolment, &site, ttl, now) {
            Ok(cert) => {
                tracing::info!(%node, "renewed the node's certificate");
                conn.w.queue(&FromServer::Renewed { cert })?;
            }
            Err(e) => tracing::warn!(%node, error = %e, "a certificate could not be renewed"),
        }
        Ok(())
    }
}

/// Which ranks of an attempt a node may speak for.
fn ranks_of(s: &State, node: &NodeName, key: AttemptKey) -> Vec<Range<u32>> {
    let Some(job) = s.jobs.get(&key.job).filter(|_| s.ran_here(node, key).is_some()) else {
        return Vec::new();
    };
    match job.attempt.as_ref().filter(|a| a.no == key.attempt) {
        Some(a) => {
            let slots = a.placement.slots.iter().filter(|s| s.node == *node);
            slots.map(|s| s.first_rank..s.first_rank.saturating_add(s.ranks)).collect()
        }
        // An attempt that is over: which of its ranks ran here is not known any more.
        None => {
            let most = job.spec.elastic.map_or(0, |e| e.max_nodes);
            let ranks = job.groups.iter().map(|g| g.nodes.max(most).saturating_mul(g.ranks));
            std::iter::once(0..ranks.fold(0, u32::saturating_add)).collect()
        }
    }
}

/// A clock that seems to be off by less is right: the link takes its time, too.
const OFF_MS: u64 = 1000;

/// A moment of a node's clock by this server's, which is the one the log knows.
fn by_server(at: Time, skew_ms: i64, now: Time) -> Time {
    let off = if skew_ms.unsigned_abs() > OFF_MS { skew_ms } else { 0 };
    Time(at.0.saturating_sub(off)).min(now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_node_saw_is_dated_by_the_servers_clock() {
        let now = Time(1_000_000);
        // Ten minutes behind, ten minutes ahead, and right.
        assert_eq!(by_server(Time(397_000), -600_000, now), Time(997_000));
        assert_eq!(by_server(Time(1_597_000), 600_000, now), Time(997_000));
        assert_eq!(by_server(Time(997_000), -400, now), Time(997_000));
        assert_eq!(by_server(Time(1_000_300), 300, now), now, "never later than it was heard");
        assert_eq!(by_server(Time(i64::MIN), i64::MIN, now), Time(0), "whatever a node says");
    }
}
