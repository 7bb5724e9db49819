//! Newcomers: connections whose agent is not let in yet. Anybody can open them, so nobody's may keep
//! an agent out. Those from addresses that an enrolled node was last heard from have places of their
//! own. Where a new one finds no place, it gets the oldest one's; where one finds no turn for its
//! handshake, it gets one of an address that has more than its share. Sessions are not counted here.

use muster_link::limits::caller;
use muster_model::names::NodeName;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

/// All newcomers, and which addresses are known.
pub(super) struct Newcomers {
    known: Arc<Pool>,
    strangers: Arc<Pool>,
    heard: Mutex<LastAddresses>,
}

impl Newcomers {
    /// So many places for either kind, half of them for one address, and so many handshakes at once
    /// of known addresses; of strangers half as many.
    pub(super) fn new(places: usize, handshakes: usize) -> Newcomers {
        let total = places.max(2);
        let pool = |turns: usize| {
            let (per_address, turns) = (total / 2, turns.max(1));
            Arc::new(Pool { total, per_address, turns, places: Mutex::default() })
        };
        let (known, strangers) = (pool(handshakes), pool(handshakes / 2));
        Newcomers { known, strangers, heard: Mutex::default() }
    }

    /// An enrolled node was heard from here.
    pub(super) fn note_contact(&self, node: &NodeName, from: IpAddr) {
        lock(&self.heard).note(node, caller(from));
    }

    /// A node is gone for good: its address is a stranger's again, unless another node has it as well.
    pub(super) fn forget(&self, node: &NodeName) {
        lock(&self.heard).forget(node);
    }

    /// A place for a new connection; none where all are taken by nodes that are about to be let in.
    pub(super) fn admit(&self, from: IpAddr) -> Option<NewcomerSlot> {
        let address = caller(from);
        let known = lock(&self.heard).nodes_at.contains_key(&address);
        if known { self.known.admit(address) } else { self.strangers.admit(address) }
    }
}

/// Where nodes were last heard from.
#[derive(Default)]
struct LastAddresses {
    by_node: HashMap<NodeName, IpAddr>,
    nodes_at: HashMap<IpAddr, usize>,
}

impl LastAddresses {
    fn note(&mut self, node: &NodeName, address: IpAddr) {
        let before = self.by_node.insert(node.clone(), address);
        *self.nodes_at.entry(address).or_default() += 1;
        if let Some(before) = before {
            self.leave(before);
        }
    }

    fn forget(&mut self, node: &NodeName) {
        if let Some(address) = self.by_node.remove(node) {
            self.leave(address);
        }
    }

    /// One node less was last heard from there.
    fn leave(&mut self, address: IpAddr) {
        if let Some(n) = self.nodes_at.get_mut(&address) {
            *n -= 1;
            if *n == 0 {
                self.nodes_at.remove(&address);
            }
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// It said nothing yet, waits for its turn, or showed no certificate: others may have its place.
    Waits,
    /// Its handshake is under way.
    Turn,
    /// It showed a certificate, or is being enrolled.
    Safe,
}

struct Newcomer {
    address: IpAddr,
    stage: Stage,
    /// Calls it when it is its turn.
    call: Option<oneshot::Sender<()>>,
    dropped: CancellationToken,
}

/// Newcomers by number; the oldest has the smallest.
#[derive(Default)]
struct NewcomerSlots {
    last: u64,
    all: BTreeMap<u64, Newcomer>,
}

impl NewcomerSlots {
    fn count(&self, what: impl Fn(&Newcomer) -> bool) -> usize {
        self.all.values().filter(|n| what(n)).count()
    }

    /// Handshakes under way, by address.
    fn turns(&self) -> BTreeMap<IpAddr, usize> {
        let mut turns: BTreeMap<IpAddr, usize> = BTreeMap::new();
        for n in self.all.values().filter(|n| n.stage == Stage::Turn) {
            *turns.entry(n.address).or_default() += 1;
        }
        turns
    }

    /// Sends the oldest away of those that `which` says; whether there was one.
    fn send_away(&mut self, which: impl Fn(&Newcomer) -> bool) -> bool {
        let oldest = self.all.iter().find(|(_, n)| which(n)).map(|(id, _)| *id);
        let gone = oldest.and_then(|id| self.all.remove(&id));
        if let Some(n) = &gone {
            n.dropped.cancel();
        }
        gone.is_some()
    }

    /// The address with most handshakes under way, if they are so many more than this one's that
    /// one of them is too many.
    fn greedy(&self, address: IpAddr) -> Option<IpAddr> {
        let turns = self.turns();
        let own = turns.get(&address).copied().unwrap_or(0);
        let most = turns.into_iter().max_by_key(|(_, n)| *n);
        most.filter(|(_, n)| *n > own + 1).map(|(a, _)| a)
    }

    /// Gives free turns to those that wait: the address that has fewest first, then the oldest.
    fn call_next(&mut self, most: usize) {
        while self.count(|n| n.stage == Stage::Turn) < most {
            let turns = self.turns();
            let waits = self.all.iter().filter(|(_, n)| n.call.is_some());
            let next = waits.map(|(id, n)| (turns.get(&n.address).copied(), *id)).min();
            let Some(n) = next.and_then(|(_, id)| self.all.get_mut(&id)) else { return };
            if let Some(call) = n.call.take()
                && call.send(()).is_ok()
            {
                n.stage = Stage::Turn;
            }
        }
    }
}

/// Newcomers of one kind.
struct Pool {
    total: usize,
    per_address: usize,
    /// Handshakes at once.
    turns: usize,
    places: Mutex<NewcomerSlots>,
}

impl Pool {
    fn admit(self: &Arc<Self>, address: IpAddr) -> Option<NewcomerSlot> {
        let mut p = lock(&self.places);
        let near = p.count(|n| n.address == address) >= self.per_address;
        let full = near || p.all.len() >= self.total;
        let may = |n: &Newcomer| n.stage == Stage::Waits && (!near || n.address == address);
        if full && !p.send_away(may) {
            return None;
        }
        p.last += 1;
        let (id, dropped) = (p.last, CancellationToken::new());
        let stage = Stage::Waits;
        p.all.insert(id, Newcomer { address, stage, call: None, dropped: dropped.clone() });
        drop(p);
        Some(NewcomerSlot { pool: Arc::clone(self), id, dropped })
    }
}

/// A newcomer's place; free again when dropped.
pub(super) struct NewcomerSlot {
    pool: Arc<Pool>,
    id: u64,
    /// Its place is another one's now.
    pub(super) dropped: CancellationToken,
}

impl NewcomerSlot {
    /// Waits for the turn of its handshake. Whoever is sent away meanwhile learns it by `dropped`.
    pub(super) async fn turn(&self) {
        let Some(called) = self.ask() else { return };
        // Nobody calls who was sent away.
        if called.await.is_err() {
            self.dropped.cancelled().await;
        }
    }

    /// Takes a turn, or leaves word where to call.
    fn ask(&self) -> Option<oneshot::Receiver<()>> {
        let mut p = lock(&self.pool.places);
        let address = p.all.get(&self.id)?.address;
        let free = p.count(|n| n.stage == Stage::Turn) < self.pool.turns;
        let taken = free
            || p.greedy(address)
                .is_some_and(|other| p.send_away(|n| n.stage == Stage::Turn && n.address == other));
        let me = p.all.get_mut(&self.id)?;
        if taken {
            me.stage = Stage::Turn;
            return None;
        }
        let (call, called) = oneshot::channel();
        me.call = Some(call);
        Some(called)
    }

    /// The handshake is over: from here on its place is safe, or it is not. Whether it still has one.
    pub(super) fn settle(&self, safe: bool) -> bool {
        let mut p = lock(&self.pool.places);
        let has_one = match p.all.get_mut(&self.id) {
            Some(me) => {
                me.stage = if safe { Stage::Safe } else { Stage::Waits };
                true
            }
            None => false,
        };
        p.call_next(self.pool.turns);
        has_one
    }
}

impl Drop for NewcomerSlot {
    fn drop(&mut self) {
        let mut p = lock(&self.pool.places);
        p.all.remove(&self.id);
        p.call_next(self.pool.turns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    fn at(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn is_sent_away(p: &NewcomerSlot) -> bool {
        p.dropped.is_cancelled()
    }

    /// Whether it has its turn at once.
    fn has_turn(p: &NewcomerSlot) -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        pin!(p.turn()).poll(&mut cx) == Poll::Ready(())
    }

    #[test]
    fn the_oldest_of_a_full_address_goes_and_others_keep_their_places() {
        let all = Newcomers::new(8, 2);
        let other = all.admit(at("10.0.0.2")).unwrap();
        let flood: Vec<NewcomerSlot> =
            (0..50).map(|_| all.admit(at("10.0.0.1")).unwrap()).collect();
        assert!(flood[..46].iter().all(is_sent_away) && !flood[46..].iter().any(is_sent_away));
        assert!(!is_sent_away(&other));
        // Many addresses together: the oldest of all goes. One /64 is one address.
        let many = |i: u16| at(&format!("2001:db8:{i}::1"));
        let more: Vec<NewcomerSlot> = (0..8).map(|i| all.admit(many(i)).unwrap()).collect();
        assert!(is_sent_away(&other) && flood.iter().all(is_sent_away));
        let near: Vec<NewcomerSlot> =
            (1..6).map(|i| all.admit(at(&format!("2001:db8:ffff::{i}"))).unwrap()).collect();
        assert!(is_sent_away(&near[0]) && !is_sent_away(&near[4]));
        drop((other, flood, more, near));
        assert!(lock(&all.strangers.places).all.is_empty());
    }

    #[test]
    fn strangers_take_no_place_of_a_known_address_and_who_has_a_certificate_stays() {
        let all = Newcomers::new(4, 2);
        let node: NodeName = "n1".parse().unwrap();
        all.note_contact(&node, at("10.0.0.1"));
        let known = all.admit(at("10.0.0.1")).unwrap();
        let flood: Vec<NewcomerSlot> =
            (0..99).map(|i| all.admit(at(&format!("10.0.1.{i}"))).unwrap()).collect();
        assert!(!is_sent_away(&known));
        // It is heard from elsewhere now: the old address is a stranger's again.
        all.note_contact(&node, at("10.0.0.9"));
        assert_eq!(lock(&all.heard).nodes_at.len(), 1);
        let gone: NodeName = "n2".parse().unwrap();
        all.note_contact(&gone, at("10.0.0.9"));
        all.note_contact(&gone, at("10.0.0.8"));
        all.forget(&gone);
        assert_eq!(lock(&all.heard).nodes_at.len(), 1, "a node that is gone leaves nothing");
        let _old = all.admit(at("10.0.0.1")).unwrap();
        assert!(is_sent_away(&flood[95]));
        assert!(flood[96..].iter().all(|p| p.settle(true)) && !flood[95].settle(true));
        let _new = all.admit(at("10.0.0.3")).unwrap();
        assert!(!flood[96..].iter().any(is_sent_away));
    }

    #[test]
    fn handshakes_that_stand_still_leave_turns_to_other_addresses() {
        let all = Newcomers::new(64, 8);
        let (bad, good) = (at("10.0.0.1"), at("10.0.0.2"));
        let flood: Vec<NewcomerSlot> = (0..20).map(|_| all.admit(bad).unwrap()).collect();
        let turns: Vec<bool> = flood.iter().map(has_turn).collect();
        assert!(turns[..4].iter().all(|t| *t) && !turns[4..].iter().any(|t| *t));
        let one = all.admit(good).unwrap();
        assert!(has_turn(&one) && is_sent_away(&flood[0]));
        // A fair share is left to everybody.
        let more = [all.admit(good).unwrap(), all.admit(good).unwrap()];
        assert!(has_turn(&more[0]) && is_sent_away(&flood[1]));
        assert!(!has_turn(&more[1]) && !is_sent_away(&flood[2]));
    }

    #[test]
    fn a_turn_that_is_free_again_goes_to_the_address_that_has_fewest() {
        let all = Newcomers::new(64, 4);
        let mut cx = Context::from_waker(Waker::noop());
        let two = [all.admit(at("10.0.0.1")).unwrap(), all.admit(at("10.0.0.2")).unwrap()];
        assert!(two.iter().all(has_turn));
        let (third, fourth) =
            (all.admit(at("10.0.0.1")).unwrap(), all.admit(at("10.0.0.3")).unwrap());
        let mut a = pin!(third.turn());
        let mut b = pin!(fourth.turn());
        assert!(a.as_mut().poll(&mut cx).is_pending() && b.as_mut().poll(&mut cx).is_pending());
        assert!(two[1].settle(true));
        assert!(a.as_mut().poll(&mut cx).is_pending() && b.as_mut().poll(&mut cx).is_ready());
        drop(two);
        assert!(a.as_mut().poll(&mut cx).is_ready());
    }
}
