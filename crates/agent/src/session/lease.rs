//! When the server was certain to hear this node. What it says proves nothing: it may have lain
//! in the socket while this process was stopped. What it answers does: it heard the question no
//! earlier than that was asked.

use super::Session;
use crate::lease::BootTime;
use muster_link::messages::RunDetail;
use muster_model::ids::AttemptKey;
use muster_model::spec::OnPartition;
use muster_model::units::Span;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

/// A lease is renewed this often while it lasts, so that one late answer ends nothing.
const RENEWALS: u64 = 3;
/// Heartbeats for the sake of a lease are at least this far apart.
const FASTEST: Span = Span(500);

/// When a question was asked.
#[derive(Debug, Clone, Copy)]
pub(super) struct LeaseRequestTime {
    at: Instant,
    boot: BootTime,
}

impl LeaseRequestTime {
    pub(super) fn now() -> LeaseRequestTime {
        // The earlier of the two moments that the caller cannot distinguish.
        let boot = BootTime::now();
        LeaseRequestTime { at: Instant::now(), boot }
    }
}

/// What this node has asked and not heard the answer of, and what waits for one.
#[derive(Debug)]
pub(super) struct Contact {
    hello: Option<LeaseRequestTime>,
    /// Answered in this order.
    beats: VecDeque<LeaseRequestTime>,
    /// The last question that was answered.
    renewed: BootTime,
    /// Starts that wait until the server is certain to be there.
    held_back: BTreeMap<AttemptKey, Arc<RunDetail>>,
}

impl Contact {
    pub(super) fn new() -> Contact {
        Contact {
            hello: None,
            beats: VecDeque::new(),
            renewed: BootTime::now(),
            held_back: BTreeMap::new(),
        }
    }

    /// A new connection, on which nothing was asked but who is there.
    pub(super) fn greeted(&mut self) {
        self.hello = Some(LeaseRequestTime::now());
        self.beats.clear();
        self.held_back.clear();
    }

    /// A heartbeat goes out.
    pub(super) fn asked(&mut self) {
        self.beats.push_back(LeaseRequestTime::now());
    }

    /// Whether an attempt has so much of its lease before it that it may start now.
    fn may_start(&self, detail: &RunDetail) -> bool {
        match detail.on_partition {
            OnPartition::StopAfter(most) => BootTime::now().since(self.renewed).0 <= most.0 / 2,
            OnPartition::Continue => true,
        }
    }

    /// Keeps a start back if it has too little of its lease before it.
    pub(super) fn delay_start(&mut self, key: AttemptKey, detail: &Arc<RunDetail>) -> bool {
        let hold = !self.may_start(detail);
        if hold {
            self.held_back.insert(key, detail.clone());
        }
        hold
    }

    pub(super) fn holds(&self, key: AttemptKey) -> bool {
        self.held_back.contains_key(&key)
    }

    /// Whether an answer is waited for before something can start.
    pub(super) fn waits(&self) -> bool {
        !self.held_back.is_empty()
    }

    /// Drops starts that are no longer wanted.
    pub(super) fn keep(&mut self, wanted: impl Fn(AttemptKey) -> bool) {
        self.held_back.retain(|k, _| wanted(*k));
    }

    /// Starts that wait no longer.
    pub(super) fn released(&mut self) -> Vec<(AttemptKey, Arc<RunDetail>)> {
        let (go, stay) = std::mem::take(&mut self.held_back)
            .into_iter()
            .partition::<BTreeMap<_, _>, _>(|(_, d)| self.may_start(d));
        self.held_back = stay;
        go.into_iter().collect()
    }
}

impl Session {
    /// The server answered the greeting. A second welcome answers nothing.
    pub(super) fn note_welcome(&mut self) {
        if let Some(asked) = self.contact.hello.take() {
            self.renew(asked);
        }
    }

    /// The server answered a heartbeat. One that cannot be certain that it leads proves nothing:
    /// the one that does may not have heard this node.
    pub(super) fn acked(&mut self, certain: bool) {
        if let Some(asked) = self.contact.beats.pop_front()
            && certain
        {
            self.renew(asked);
        }
    }

    fn renew(&mut self, asked: LeaseRequestTime) {
        self.heard = self.heard.max(asked.at);
        self.contact.renewed = self.contact.renewed.max(asked.boot);
        self.body.renewed(asked.boot);
    }

    /// How far heartbeats may be apart.
    pub(super) fn beat_every(&self, heartbeat: Span) -> Span {
        let lease = self.body.shortest_lease();
        lease.map_or(heartbeat, |l| Span(l.0 / RENEWALS).max(FASTEST).min(heartbeat))
    }
}
