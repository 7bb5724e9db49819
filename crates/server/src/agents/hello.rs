//! An agent with a certificate says who it is and everything it sees.

use super::node_entry::{NodeEntry, SKEW_MS, Session};
use super::{Inner, bounds, identity, join, refused};
use crate::brain::{Attach, BrainError};
use muster_engine::{NodeHello, State};
use muster_health::identity::ConnectingAgent;
use muster_link::LinkError;
use muster_link::messages::{FromServer, Hello};
use muster_link::tls::Peer;
use muster_model::command::{Command, Observed};
use muster_model::ids::AttemptKey;
use muster_model::node::Stage;
use muster_model::units::Time;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What a session begins with.
pub(super) struct SessionStart {
    pub(super) node_entry: Arc<NodeEntry>,
    pub(super) session: Arc<Session>,
    pub(super) welcome: FromServer,
    pub(super) protected: bool,
    /// Attempts the agent knows everything about.
    pub(super) known: Vec<AttemptKey>,
    /// Those whose end is in the log now.
    pub(super) ended: Vec<AttemptKey>,
    /// The test that the agent knows of.
    pub(super) testing: Option<u64>,
}

/// Leaves the entry again unless the session begins.
struct Claim<'a> {
    node_entry: &'a NodeEntry,
    session: &'a Session,
    kept: bool,
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        if !self.kept {
            self.node_entry.leave(self.session);
        }
    }
}

fn evaluate(state: &State, peer: &Peer, hello: &Hello, now: Time) -> Result<(), FromServer> {
    join::speaks(hello.protocol)?;
    let node = &hello.node;
    if peer.not_after < now {
        let message = format!("the certificate of node {node} has ended: join again with a token");
        return Err(refused("identity", message, false));
    }
    if peer.node != *node {
        let message = format!(
            "the certificate is of node {}, but the agent calls itself {node}: start it with its own name or its own state directory",
            peer.node
        );
        return Err(refused("identity", message, false));
    }
    let site = state.site.as_ref();
    if site != Some(&peer.site) || hello.site.as_ref().is_some_and(|s| Some(s) != site) {
        let here = site.map_or("no site", |s| s.0.as_str());
        let message = format!(
            "the agent belongs to site {}, and this server serves {here}: check the server's address, or join again",
            hello.site.as_ref().unwrap_or(&peer.site)
        );
        return Err(refused("site", message, false));
    }
    let Some(n) = state.nodes.get(node) else {
        if state.lost_enrolment(node) && (1..=256).contains(&hello.machine.len()) {
            return Ok(());
        }
        let message = format!("this site does not know node {node}: join again with a token");
        return Err(refused("identity", message, false));
    };
    if n.stage == Stage::Retired {
        let message = format!("node {node} is retired: join again with a token to use it anew");
        return Err(refused("retired", message, false));
    }
    if n.enrolment.as_ref().is_some_and(|e| *e != peer.enrolment) {
        let message = format!(
            "this certificate is of an earlier enrolment of node {node}, which has ended: join again with a token"
        );
        return Err(refused("identity", message, false));
    }
    Ok(())
}

/// Whether it is of another machine than the node is enrolled with. What the agent says of itself is no
/// proof, but a copied state directory is noticed.
fn is_other_machine(state: &State, hello: &Hello) -> bool {
    state.nodes.get(&hello.node).is_some_and(|n| n.machine != hello.machine)
}

/// Would the hello be written down?
fn changes(state: &State, hello: &Hello) -> bool {
    let Hello { node, boot, address, host, place, inventory, observed, .. } = hello;
    NodeHello { node, boot, address, host, place, inventory, observed }.changes(state)
}

pub(super) async fn enter(
    inner: &Inner,
    peer: &Peer,
    hello: &mut Hello,
    addr: SocketAddr,
) -> Result<Result<SessionStart, FromServer>, LinkError> {
    let bounded = bounds::hello(hello);
    let (now, hello) = (inner.brain.now(), &*hello);
    let node = &hello.node;
    if let Err(why) = bounded {
        let message = format!("node {node} reports more than is accepted: {why}");
        return Ok(Err(refused("protocol", message, false)));
    }
    let verdict = inner.brain.read(|s| {
        evaluate(s, peer, hello, now)?;
        if is_other_machine(s, hello) {
            return Ok(None);
        }
        let noted = s.nodes.get(node).is_some_and(|n| n.enrolment.is_some());
        Ok(Some((s.site.clone(), noted, s.lost_enrolment(node), changes(s, hello))))
    });
    let verdict = match verdict {
        Ok(verdict) => verdict,
        Err(no) => return Ok(Err(no)),
    };
    let node_entry = inner.node_entry_or_new(node);
    let simulated = hello.inventory.simulated;
    let agent = ConnectingAgent { boot: &hello.boot, from: addr.ip(), simulated };
    let Some((site, noted, forgotten, changed)) = verdict else {
        identity::report(inner, &node_entry, node, agent.of_other_machine()).await;
        let message = format!(
            "this certificate belongs to another machine: node {node} is enrolled elsewhere; join this machine under a name of its own"
        );
        return Ok(Err(refused("identity", message, false)));
    };
    let site = site.unwrap_or_default();
    if let Some(wait) = changed.then(|| node_entry.wait_for_change(inner.clock())).flatten() {
        // It comes again with what is true then: that is the newest, and nothing is lost.
        let message = format!(
            "node {node} reports something else about itself at each connection: its next change \
             is accepted in {wait}"
        );
        return Ok(Err(refused("changing", message, true)));
    }
    let id = inner.next_session.fetch_add(1, Ordering::Relaxed);
    let session = Arc::new(Session::new(id, hello, &peer.enrolment, addr, now));
    let lost_after = inner.config.lost_after;
    let fresh = |_: &Session| {
        node_entry.last_heartbeat().is_some_and(|h| inner.clock().since(h) < lost_after)
    };
    if let Err(other) = node_entry.claim(&session, fresh) {
        node_entry.other_machines().refused(&agent);
        let message = format!(
            "another agent with the identity of node {node} is connected from {}: stop one of the two; if it is gone, this one is let in after {lost_after}",
            other.addr
        );
        return Ok(Err(refused("duplicate", message, true)));
    }
    let mut claim = Claim { node_entry: &node_entry, session: &session, kept: false };
    let skew = session.skew_ms.load(Ordering::Relaxed);
    if skew.unsigned_abs() > SKEW_MS {
        tracing::warn!(%node, skew_ms = skew, "the node's clock is off: synchronise it");
    }
    let held = || hello.observed.iter().map(|(key, _)| *key);
    let ahead = forgotten
        || hello.epoch > inner.brain.epoch()
        || inner.brain.read(|s| {
            s.is_behind(hello.seq, hello.epoch) || s.holds_lost_attempts(node, hello.epoch, held())
        });
    if ahead {
        tracing::error!(
            %node, agent_seq = hello.seq.0, server_seq = inner.brain.durable().0, forgotten,
            "the node has seen more of the log than this server has (a restored backup?): nothing is started or stopped there until `muster node reconcile`"
        );
    }
    if !noted {
        let (node, key) = (node.clone(), peer.enrolment.clone());
        let command = match forgotten {
            true => Command::ReadmitNode { node, machine: hello.machine.clone(), key },
            // Let in before keys were noted: from now on the name belongs to this enrolment.
            false => Command::NoteNodeKey { node, key },
        };
        if let Err(e) = inner.brain.system(command).await {
            let message = format!("the server cannot take agents now: {e}");
            return Ok(Err(refused("stale_leader", message, true)));
        }
    }
    let moved = inner.brain.read(|s| {
        let known = s.nodes.get(node).filter(|n| n.boot == hello.boot && !n.place.is_empty());
        known.is_some_and(|n| !hello.place.is_empty() && n.place != hello.place)
    });
    if moved {
        tracing::warn!(
            %node, place = %hello.place,
            "the agent runs in another data directory than before: ranks that were started from that one may still run"
        );
    }
    let silent_for = node_entry.last_heartbeat().map(|h| inner.clock().since(h));
    node_entry.note_contact(inner.clock());
    let command = Command::NodeConnected {
        node: node.clone(),
        machine: hello.machine.clone(),
        boot: hello.boot.clone(),
        address: hello.address.clone(),
        host: hello.host.clone(),
        inventory: Box::new(hello.inventory.clone()),
        observed: hello.observed.clone(),
        ended_ago: hello.ended_ago.clone(),
        place: hello.place.clone(),
        ahead,
        silent_for,
    };
    session.busy.fetch_add(1, Ordering::Relaxed);
    let answer = inner.brain.call(inner.request(node, command), Attach::default()).await;
    session.busy.fetch_sub(1, Ordering::Relaxed);
    match answer {
        Ok(_) => inner.brain.show_connection(node, true),
        Err(BrainError::Refused(r)) => {
            let hint = r.hint.map(|h| format!(": {h}")).unwrap_or_default();
            return Ok(Err(refused("identity", format!("{}{hint}", r.message), false)));
        }
        Err(e) => {
            let message = format!("the server cannot take agents now: {e}");
            return Ok(Err(refused("stale_leader", message, true)));
        }
    }
    let foreign = inner.brain.read(|s| {
        let behind = ahead || s.nodes.get(node).is_some_and(|n| n.protected);
        let never_here = |(key, _): &&(AttemptKey, Observed)| s.never_ran_here(node, *key, behind);
        hello.observed.iter().filter(never_here).count()
    });
    if foreign > 0 {
        inner.foreign.fetch_add(foreign as u64, Ordering::Relaxed);
        tracing::warn!(%node, foreign, "the agent reports attempts that never ran there: they are ignored");
    }
    let other = node_entry.other_machines().entered(&agent);
    if let Some(line) = other {
        identity::report(inner, &node_entry, node, line).await;
    }
    // A welcome renews leases, too, and nothing may have been written for it.
    if !inner.brain.is_certain_leader() {
        let message = "the server cannot renew its own lease in the store, so it cannot be certain that it leads: try again";
        return Ok(Err(refused("stale_leader", message, true)));
    }
    node_entry.note_contact(inner.clock());
    let protected = inner.brain.read(|s| s.nodes.get(node).is_some_and(|n| n.protected)) || ahead;
    let welcome = FromServer::Welcome {
        site,
        epoch: inner.brain.epoch(),
        seq: inner.brain.durable(),
        heartbeat: inner.config.heartbeat,
        telemetry: inner.config.telemetry,
        protected,
        output_age: true,
    };
    claim.kept = true;
    drop(claim);
    let over = |o: &Observed| matches!(o, Observed::Ended(_)) && !protected;
    let mut ended: Vec<AttemptKey> =
        hello.observed.iter().filter(|(_, o)| over(o)).map(|(k, _)| *k).collect();
    // Of what may still run the agent must say so again, whoever asks.
    inner.brain.read(|s| ended.retain(|k| !s.is_lost_on(node, *k)));
    let known = hello.observed.iter().map(|(k, _)| *k).collect();
    let testing = hello.qualifying;
    Ok(Ok(SessionStart { node_entry, session, welcome, protected, known, ended, testing }))
}
