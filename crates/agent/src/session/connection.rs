//! One connection from hello to the last word.

use super::dial::{Stream, chain};
use super::wire::Wire;
use super::{BREATH, Session, fnv};
use crate::clock::wall;
use crate::devices::SimulatedAbsence;
use crate::error::AgentError;
use crate::lease::BootTime;
use crate::runner::GRACE;
use muster_link::frame::{Frame, FrameReader, MAX_FROM_SERVER};
use muster_link::messages::{Action, FromAgent, FromServer, Hello, PROTOCOL, RunDetail, RunOrder};
use muster_model::command::Observed;
use muster_model::ids::AttemptKey;
use muster_model::job::SlotEnd;
use muster_model::units::Span;
use muster_supervise::failpoint::hit;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// How a connection ended.
pub(super) enum End {
    Shutdown,
    Lost {
        why: String,
        welcomed: bool,
    },
    /// The node has more to say of itself than fits into this conversation.
    Anew,
    Away(SimulatedAbsence),
    Fatal(AgentError),
}

/// What the server may take to say welcome.
const WELCOME: Duration = Duration::from_secs(60);
/// Without a sign of life for so long, or for three heartbeats, the connection is given up.
const SILENCE: Duration = Duration::from_secs(15);

/// Clocks of one connection.
struct ConnectionTimers {
    heartbeat: Span,
    telemetry: Span,
    next_heartbeat: Instant,
    next_telemetry: Instant,
    columns_sent: bool,
    /// Welcomed, and not ordered anything since.
    fresh: bool,
    /// The server reads how old output is.
    output_age: bool,
}

impl Session {
    fn hello(&self) -> FromAgent {
        let observed = self.body.observed();
        let ago = |k: &AttemptKey| self.body.ended_ago(*k).map(|ago| (*k, ago));
        let ended_ago = observed.iter().filter_map(|(k, _)| ago(k)).collect();
        FromAgent::Hello(Box::new(Hello {
            protocol: PROTOCOL,
            version: env!("CARGO_PKG_VERSION").into(),
            node: self.config.node.clone(),
            machine: self.config.machine.clone(),
            instance: self.instance.clone(),
            boot: self.body.boot(),
            address: self.config.address.clone(),
            host: self.config.host.clone(),
            inventory: self.body.inventory(),
            site: self.site.site.clone(),
            seq: self.site.seq,
            epoch: self.site.epoch,
            observed,
            ended_ago,
            place: self.config.place.clone(),
            at: wall(),
            qualifying: self.body.testing(),
        }))
    }

    pub(super) async fn talk(&mut self, stream: Stream, shutdown: &CancellationToken) -> End {
        let (reader, writer) = tokio::io::split(stream);
        let mut reader = FrameReader::new(reader, MAX_FROM_SERVER);
        let (wire, mut sending) = Wire::new(writer);
        self.body.rewind();
        self.collect_messages(false);
        self.contact.greeted();
        wire.send_message(self.hello());
        let opened = Instant::now();
        let mut last = opened;
        let mut beats: Option<ConnectionTimers> = None;
        let end = loop {
            let full = match &beats {
                Some(b) => self.pump(&wire, b.output_age),
                None => {
                    self.collect_messages(false);
                    false
                }
            };
            let silence = match &beats {
                Some(b) => last + SILENCE.max(b.heartbeat.to_std().saturating_mul(3)),
                None => opened + WELCOME,
            };
            if let Some(b) = &mut beats {
                // A lease may have begun that wants to be renewed sooner.
                let soon = Instant::now() + self.beat_every(b.heartbeat).to_std();
                b.next_heartbeat = b.next_heartbeat.min(soon);
            }
            let clocks = beats.as_ref().map(|b| b.next_heartbeat.min(b.next_telemetry));
            let next = self.next_look(Some(clocks.map_or(silence, |c| c.min(silence))), BREATH);
            let (wake, news) = (self.body.waker(), self.body.news());
            tokio::select! {
                biased;
                () = shutdown.cancelled() => break End::Shutdown,
                frame = reader.next::<FromServer>() => {
                    last = Instant::now();
                    let message = match frame {
                        Ok(Some(Frame::Message(m))) => m,
                        Ok(Some(Frame::Log(_))) => continue,
                        Ok(None) => break lost("the server hung up", &beats),
                        Err(e) => break lost(&chain(&e), &beats),
                    };
                    if let Err(end) = self.take(message, &wire, &mut beats) {
                        break end;
                    }
                }
                () = wake.notified() => tokio::time::sleep_until((self.looked + BREATH).into()).await,
                () = news.notified() => tokio::time::sleep_until((self.looked + BREATH).into()).await,
                () = wire.wait_for_capacity(), if full => {}
                done = &mut sending => {
                    let why = match done.map_err(tokio::task::JoinError::try_into_panic) {
                        Err(Ok(panic)) => {
                            let said = muster_supervise::words(&*panic);
                            break End::Fatal(AgentError::Panicked { part: "agent-send", said });
                        }
                        Ok(Err(e)) => chain(&e),
                        _ => "the connection ended".into(),
                    };
                    break lost(&why, &beats);
                }
                () = tokio::time::sleep_until(next.into()) => {}
            }
            if Instant::now() >= silence && last + SILENCE.min(WELCOME) <= Instant::now() {
                break lost("the server sends nothing any more", &beats);
            }
            if let Some(b) = &mut beats {
                self.beat(b, &wire);
            }
            self.save_site(false);
        };
        match end {
            // What is left is sent, then the sender hangs up.
            End::Shutdown | End::Anew => {
                drop(wire);
                let _ = tokio::time::timeout(Duration::from_secs(1), sending).await;
            }
            _ => sending.abort(),
        }
        end
    }

    /// Hands over what is new, output before reports; says whether output waits for room.
    fn pump(&mut self, wire: &Wire, output_age: bool) -> bool {
        // Ends are seen first, then their last output is shipped, then they are reported.
        let early = self.collect_messages(false);
        let room = wire.free_space();
        let mut left = room;
        while left > 0 {
            let chunks = self.body.logs(left);
            if chunks.is_empty() {
                break;
            }
            for mut chunk in chunks {
                left = left.saturating_sub(crate::logs::cost(&chunk.data));
                if !output_age {
                    chunk.age = Some(Span(0));
                }
                wire.log(chunk);
            }
        }
        let late = self.collect_messages(true);
        for message in early.into_iter().chain(late) {
            wire.send_message(message);
        }
        left == 0
    }

    fn beat(&mut self, b: &mut ConnectionTimers, wire: &Wire) {
        let now = Instant::now();
        if now >= b.next_heartbeat {
            b.next_heartbeat = now + self.beat_every(b.heartbeat).to_std();
            self.contact.asked();
            wire.send_message(FromAgent::Heartbeat { at: wall() });
            self.body.beat();
            if let Some(step) = self.clock.observe_clocks(Span(BootTime::now().0), wall()) {
                tracing::warn!(node = %self.config.node, by_ms = step.by_ms, "the machine's clock was set");
                wire.send_message(FromAgent::ClockStepped { step });
            }
            let waiting = self.renewing.as_ref().is_some_and(|(_, at)| at.elapsed() < WELCOME);
            if !waiting && self.must_renew() {
                // With the key of the enrolment: it stays the node's until it is retired.
                let key = self.stored.as_ref().map(|s| s.key.clone()).unwrap_or_default();
                match muster_link::pki::request_with(&self.config.node, &key) {
                    Ok(csr) => {
                        self.renewing = Some((key, now));
                        wire.send_message(FromAgent::Renew { csr });
                    }
                    Err(e) => tracing::warn!(error = %chain(&e), "cannot ask for a certificate"),
                }
            }
        }
        if now >= b.next_telemetry {
            b.next_telemetry = now + b.telemetry.to_std();
            let columns = !std::mem::replace(&mut b.columns_sent, true);
            match self.body.telemetry(now, columns) {
                Some(t) => wire.send_message(FromAgent::Telemetry(Box::new(t))),
                // Nothing was said, so the names of the columns are still to be reported.
                None => b.columns_sent = !columns,
            }
        }
    }

    fn take(
        &mut self,
        message: FromServer,
        wire: &Wire,
        beats: &mut Option<ConnectionTimers>,
    ) -> Result<(), End> {
        let now = Instant::now();
        match message {
            FromServer::Welcome {
                site,
                epoch,
                seq,
                heartbeat,
                telemetry,
                protected,
                output_age,
            } => {
                if let Some(own) = self.site.site.as_ref().filter(|s| **s != site) {
                    return Err(End::Fatal(AgentError::WrongSite {
                        own: own.to_string(),
                        found: site.to_string(),
                    }));
                }
                self.leader(epoch, beats)?;
                self.note_welcome();
                self.site.site = Some(site);
                if protected {
                    tracing::warn!(node = %self.config.node, server = %seq, seen = %self.site.seq,
                        "the server knows less than this node has seen; everything stays as it is");
                } else {
                    // What counts from here on is this server's log. After a reconcile it ends
                    // earlier than what this node saw in a life of the log that is lost.
                    self.site.seq = seq;
                }
                let timers = self.beats(heartbeat, telemetry, now);
                *beats = Some(ConnectionTimers { output_age, ..timers });
                self.save_site(true);
            }
            FromServer::Refused { code, message, retry: false } => {
                let node = self.config.node.to_string();
                return Err(End::Fatal(AgentError::Refused { node, code, message }));
            }
            FromServer::Refused { message, .. } => return Err(lost(&message, beats)),
            FromServer::Desired { epoch, seq, runs } => {
                hit("agent.orders");
                self.leader(epoch, beats)?;
                self.site.seq = self.site.seq.max(seq);
                self.save_site(false);
                let fresh = beats.as_mut().is_some_and(|b| std::mem::take(&mut b.fresh));
                self.reconcile(runs, fresh, wire, now);
                if let Some(b) = beats.as_mut().filter(|_| self.contact.waits()) {
                    b.next_heartbeat = now;
                }
            }
            FromServer::Ack { seq, uncertain } => {
                self.site.seq = self.site.seq.max(seq);
                self.body.acked();
                self.acked(!uncertain);
                if uncertain && self.config.servers.several() {
                    return Err(lost("the server cannot be certain that it leads", &None));
                }
                for (key, detail) in self.contact.released() {
                    self.start(key, &detail, wire, now);
                }
            }
            FromServer::Qualify { id, level } => self.body.qualify(id, level, now),
            FromServer::QualifyOver { id } => self.body.qualify_over(id),
            FromServer::Act { id, act } => {
                if let Some(away) = self.body.act(id, &act, now) {
                    return Err(End::Away(away));
                }
            }
            FromServer::ActOver { id } => self.body.act_over(id),
            FromServer::FabricServe { id, bind, length } => {
                crate::fabric::serve(id, bind, &self.config.address, length, wire.message_sender());
            }
            FromServer::FabricDial { id, to, bind, streams, length, one_way } => {
                let send = wire.message_sender();
                crate::fabric::dial(id, to, bind, streams, length, one_way, send);
            }
            FromServer::LogKept { kept } => kept.into_iter().for_each(|m| self.body.kept(m)),
            FromServer::Forget { keys } => keys.into_iter().for_each(|k| self.body.forget(k)),
            FromServer::AskCheckpoint { key } => self.body.ask_checkpoint(key, now),
            FromServer::Renewed { cert } => self.renewed(cert),
            FromServer::Inject { fault } => {
                let (outcome, away, inventory) = self.body.inject(&fault, now);
                let (ok, message) = match outcome {
                    Ok(m) => (true, m),
                    Err(m) => (false, m),
                };
                wire.send_message(FromAgent::Injected { ok, message });
                if let Some(away) = away {
                    return Err(End::Away(away));
                }
                if inventory {
                    // What was seen of it comes first; the whole inventory is reported by
                    // connecting anew.
                    if let Some(output_age) = beats.as_ref().map(|b| b.output_age) {
                        self.pump(wire, output_age);
                    }
                    return Err(End::Anew);
                }
            }
            FromServer::Joined { .. } => {}
        }
        Ok(())
    }

    fn beats(&self, heartbeat: Span, telemetry: Span, now: Instant) -> ConnectionTimers {
        // At least a little: a server that says zero must not make us spin.
        let (heartbeat, telemetry) = (heartbeat.max(Span(10)), telemetry.max(Span(10)));
        let share = |every: Span, what: &str| {
            Duration::from_millis(fnv(&[self.config.node.as_str(), what]) % every.0)
        };
        ConnectionTimers {
            next_heartbeat: now + share(heartbeat, "heartbeat"),
            next_telemetry: now + share(telemetry, "telemetry"),
            heartbeat,
            telemetry,
            columns_sent: false,
            fresh: true,
            output_age: false,
        }
    }

    /// A leader that was replaced must not be obeyed.
    fn leader(
        &mut self,
        epoch: muster_model::Epoch,
        beats: &Option<ConnectionTimers>,
    ) -> Result<(), End> {
        if epoch < self.site.epoch {
            tracing::warn!(node = %self.config.node, epoch = %epoch, seen = %self.site.epoch,
                "a server that no longer leads was refused");
            return Err(lost("the server no longer leads", beats));
        }
        self.site.epoch = epoch;
        Ok(())
    }

    fn start(&mut self, key: AttemptKey, detail: &RunDetail, wire: &Wire, now: Instant) {
        if let Some(end) = self.body.start(key, detail, now) {
            wire.send_message(FromAgent::Report { key, observed: Observed::Ended(end), ago: None });
        }
    }

    /// Does what is ordered. The first orders after a welcome are answered by everything that has
    /// ended: a server that was behind this node took no report in until then.
    fn reconcile(&mut self, runs: Vec<RunOrder>, fresh: bool, wire: &Wire, now: Instant) {
        let named: BTreeSet<_> = runs.iter().map(|r| r.key).collect();
        let to_run = |k: AttemptKey| runs.iter().any(|r| r.key == k && r.action == Action::Run);
        self.contact.keep(to_run);
        let observed: BTreeMap<_, _> = self.body.observed().into_iter().collect();
        for key in self.body.active() {
            if !named.contains(&key) {
                tracing::info!(node = %self.config.node, attempt = %key, "not ordered any more");
                self.body.stop(key, GRACE, now);
            }
        }
        for (key, seen) in observed.iter().filter(|(key, _)| fresh && !named.contains(*key)) {
            if let Observed::Ended(_) = seen {
                wire.send_message(FromAgent::Report {
                    key: *key,
                    observed: seen.clone(),
                    ago: self.body.ended_ago(*key),
                });
            }
        }
        for RunOrder { key, action, detail } in runs {
            let ago = self.body.ended_ago(key);
            let say = |observed| wire.send_message(FromAgent::Report { key, observed, ago });
            match (observed.get(&key), action, detail) {
                (Some(ended @ Observed::Ended(_)), _, _) => say(ended.clone()),
                (Some(Observed::Running), Action::Stop { grace }, _) => {
                    self.body.stop(key, grace, now);
                }
                (Some(Observed::Running), Action::Run, _) => {}
                (None, Action::Stop { .. }, _) => say(Observed::Ended(SlotEnd::Stopped)),
                // An order may have waited here for longer than the server waited for us.
                (None, Action::Run, Some(detail)) if self.contact.delay_start(key, &detail) => {}
                (None, Action::Run, None) if self.contact.holds(key) => {}
                (None, Action::Run, Some(detail)) => self.start(key, &detail, wire, now),
                (None, Action::Run, None) => {
                    say(Observed::Ended(SlotEnd::fault("the node knows nothing of this attempt")));
                }
            }
        }
    }
}

fn lost(why: &str, beats: &Option<ConnectionTimers>) -> End {
    End::Lost { why: why.to_owned(), welcomed: beats.is_some() }
}
