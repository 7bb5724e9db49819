//! The simplest agent that does what it is asked to: it runs what must exist on its node, reports
//! until it is heard, stops what nobody names, and what may not go on without a server.

use muster_model::command::Observed;
use muster_model::ids::AttemptKey;
use muster_model::job::{Exit, SlotEnd};
use muster_model::placement::Slot;
use muster_model::spec::OnPartition;
use muster_model::units::{Span, Time};
use muster_simnode::Random;
use std::collections::{BTreeMap, BTreeSet};

/// What the server wants of one attempt on a node.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Order {
    pub(crate) key: AttemptKey,
    /// Stop it, with this grace.
    pub(crate) stop: Option<Span>,
    pub(crate) slot: Slot,
    pub(crate) partition: OnPartition,
    pub(crate) saves: bool,
    /// When a checkpoint was asked for.
    pub(crate) asked: Option<Time>,
}

/// What an agent says.
#[derive(Debug, Clone)]
pub(crate) enum AgentMessage {
    Hello { boot: String, observed: Vec<(AttemptKey, Observed)> },
    Report { key: AttemptKey, observed: Observed },
    Saved { key: AttemptKey, step: u64 },
}

/// What a server says.
#[derive(Debug, Clone)]
pub(crate) enum ServerMessage {
    Welcome,
    Orders {
        seq: u64,
        list: Vec<Order>,
    },
    /// The end of an attempt is in the log.
    Kept {
        key: AttemptKey,
    },
}

#[derive(Debug, Clone, PartialEq)]
enum SlotPhase {
    /// Its ranks come up then.
    Starting(Time),
    /// Its ranks end then, in this way.
    Running(Time, SlotEnd),
    /// Its ranks are gone then; what is reported about it.
    Stopping(Time, SlotEnd),
    Over(SlotEnd),
}

#[derive(Debug, Clone)]
struct Run {
    is: SlotPhase,
    slot: Slot,
    partition: OnPartition,
    saves: bool,
    began: Time,
    saved: Time,
    asked: Option<Time>,
    /// What was last reported on this connection, and when it is reported again.
    reported: Option<(bool, Time)>,
}

impl Run {
    fn observed(&self) -> Observed {
        match &self.is {
            SlotPhase::Over(end) => Observed::Ended(end.clone()),
            _ => Observed::Running,
        }
    }

    /// May a rank of it exist?
    fn alive(&self) -> bool {
        !matches!(self.is, SlotPhase::Over(_))
    }

    fn stop(&mut self, at: Time, end: SlotEnd) {
        if matches!(self.is, SlotPhase::Starting(_) | SlotPhase::Running(..)) {
            self.is = SlotPhase::Stopping(at, end);
        }
    }
}

/// The agent of one machine, and the machine.
#[derive(Debug)]
pub(crate) struct Agent {
    seed: u64,
    pub(crate) name: String,
    /// Switched on.
    pub(crate) power: bool,
    /// Connected to the network.
    pub(crate) link: bool,
    /// Has a certificate that is good.
    pub(crate) enrolled: bool,
    pub(crate) machine: u32,
    pub(crate) boot: u32,
    /// The connection; 0 is none.
    pub(crate) session: u64,
    welcome: bool,
    /// The newest list that was obeyed on this connection.
    seen: u64,
    /// Attempts whose end is in the log: a list from before that may still come and name them.
    kept: BTreeSet<AttemptKey>,
    pub(crate) heard: Time,
    /// When it tries to connect next.
    pub(crate) retry: Time,
    work: BTreeMap<AttemptKey, Run>,
}

/// How long the agent of a machine lets ranks go on that it stops by itself.
const GRACE: Span = Span::secs(10);

impl Agent {
    pub(crate) fn new(seed: u64, name: String, now: Time) -> Agent {
        Agent {
            seed,
            name,
            power: true,
            link: true,
            enrolled: true,
            machine: 1,
            boot: 1,
            session: 0,
            welcome: false,
            seen: 0,
            kept: BTreeSet::new(),
            heard: now,
            retry: now,
            work: BTreeMap::new(),
        }
    }

    /// Slots whose ranks may exist on the machine.
    pub(crate) fn alive(&self) -> impl Iterator<Item = (AttemptKey, &Slot)> {
        self.work.iter().filter(|(_, r)| r.alive()).map(|(k, r)| (*k, &r.slot))
    }

    /// The machine stops, and all that is on it.
    pub(crate) fn lose_all(&mut self) {
        self.work.clear();
        self.boot += 1;
        self.session = 0;
        self.welcome = false;
    }

    /// The connection is gone.
    pub(crate) fn cut(&mut self, now: Time, retry: Time) {
        if self.welcome {
            self.heard = now;
        }
        (self.session, self.welcome) = (0, false);
        self.retry = retry;
    }

    /// A new connection: everything it sees.
    pub(crate) fn hello(&mut self, session: u64) -> AgentMessage {
        (self.session, self.welcome, self.seen) = (session, false, 0);
        self.kept.clear();
        let observed = self.work.iter().map(|(k, r)| (*k, r.observed())).collect();
        for r in self.work.values_mut() {
            r.reported = Some((!r.alive(), Time(i64::MAX)));
        }
        AgentMessage::Hello { boot: self.boot.to_string(), observed }
    }

    pub(crate) fn receive(&mut self, reported: ServerMessage, now: Time) {
        self.heard = now;
        match reported {
            ServerMessage::Welcome => self.welcome = true,
            ServerMessage::Kept { key } => {
                self.kept.insert(key);
                if self.work.get(&key).is_some_and(|r| !r.alive()) {
                    self.work.remove(&key);
                }
            }
            // Lists may overtake one another; the newest counts.
            ServerMessage::Orders { seq, list } if seq >= self.seen => {
                self.seen = seq;
                self.obey(list, now);
            }
            ServerMessage::Orders { .. } => {}
        }
    }

    fn chance(&self, what: &str, key: AttemptKey) -> Random {
        Random::new(self.seed, &[what, &self.name, &key.to_string()])
    }

    fn obey(&mut self, list: Vec<Order>, now: Time) {
        for (key, r) in &mut self.work {
            if !list.iter().any(|o| o.key == *key) {
                r.stop(now + GRACE, SlotEnd::Stopped);
            }
        }
        for o in list.into_iter().filter(|o| !self.kept.contains(&o.key)) {
            let mut luck = self.chance("start", o.key);
            let fresh = Run {
                is: SlotPhase::Starting(now + Span(200 + luck.below(20_000))),
                slot: o.slot,
                partition: o.partition,
                saves: o.saves,
                began: now,
                saved: now,
                asked: None,
                reported: None,
            };
            let r = self.work.entry(o.key).or_insert(fresh);
            if let Some(grace) = o.stop {
                let takes = Span(luck.below(grace.0.max(1)));
                r.stop(now + takes, SlotEnd::Stopped);
            } else if o.asked.is_some() && o.asked != r.asked && luck.below(4) > 0 {
                r.asked = o.asked;
                r.saved = Time(0);
            }
        }
    }

    /// Ranks of an attempt fail.
    pub(crate) fn fail(&mut self, n: u8, node: bool, now: Time) {
        let alive: Vec<AttemptKey> = self.alive().map(|(k, _)| k).collect();
        let Some(key) = alive.get(usize::from(n) % alive.len().max(1)) else { return };
        let end =
            if node { SlotEnd::fault("a GPU is gone") } else { SlotEnd::Failed { exit: crash(3) } };
        if let Some(r) = self.work.get_mut(key) {
            r.is = SlotPhase::Over(end);
            r.reported = r.reported.map(|(over, _)| (over, now));
        }
    }

    /// Lets time pass on the machine. Returns what there is to say.
    pub(crate) fn poll(&mut self, now: Time) -> Vec<AgentMessage> {
        let mut out = Vec::new();
        if !self.power {
            return out;
        }
        let unheard = if self.welcome { Span(0) } else { now.since(self.heard) };
        let luck: Vec<Random> = self.work.keys().map(|k| self.chance("fate", *k)).collect();
        for ((key, r), mut luck) in self.work.iter_mut().zip(luck) {
            if let OnPartition::StopAfter(most) = r.partition
                && unheard >= most
            {
                r.stop(now + GRACE, SlotEnd::no_server(most));
            }
            match r.is.clone() {
                SlotPhase::Starting(at) if at <= now => {
                    // All ranks of a gang end in much the same way at much the same time.
                    let mut fate = Random::new(self.seed, &["fate", &key.to_string()]);
                    let length = [30, 600, 3600, 7200][usize::try_from(fate.below(4)).unwrap_or(0)];
                    let takes = Span(1000 * (1 + fate.below(length)) + luck.below(3000));
                    let fails = fate.below(8) == 0 && luck.below(2) == 0;
                    let end = if fails { SlotEnd::Failed { exit: crash(1) } } else { SlotEnd::Ok };
                    r.is = SlotPhase::Running(now + takes, end);
                }
                SlotPhase::Running(at, end) | SlotPhase::Stopping(at, end) if at <= now => {
                    r.is = SlotPhase::Over(end);
                }
                _ => {}
            }
            if !self.welcome {
                continue;
            }
            let running = matches!(r.is, SlotPhase::Running(..));
            if running && r.saves && r.slot.node_rank == 0 && now.since(r.saved) >= SAVE {
                r.saved = now;
                out.push(AgentMessage::Saved { key: *key, step: now.since(r.began).0 / 1000 });
            }
            let over = !r.alive();
            let due = match r.reported {
                Some((reported, again)) => reported != over || (over && again <= now),
                None => over || matches!(r.is, SlotPhase::Running(..) | SlotPhase::Stopping(..)),
            };
            if due {
                r.reported = Some((over, if over { now + AGAIN } else { Time(i64::MAX) }));
                out.push(AgentMessage::Report { key: *key, observed: r.observed() });
            }
        }
        out
    }

    /// When something happens there next by itself.
    pub(crate) fn due(&self) -> Option<Time> {
        if !self.power {
            return None;
        }
        let mut all: Vec<Time> = Vec::new();
        if self.link && self.enrolled && self.session == 0 {
            all.push(self.retry);
        }
        for r in self.work.values() {
            match &r.is {
                SlotPhase::Starting(t) | SlotPhase::Running(t, _) | SlotPhase::Stopping(t, _) => {
                    all.push(*t)
                }
                SlotPhase::Over(_) => {}
            }
            if matches!(r.is, SlotPhase::Starting(_) | SlotPhase::Running(..))
                && !self.welcome
                && let OnPartition::StopAfter(most) = r.partition
            {
                all.push(self.heard + most);
            }
            if self.welcome {
                if matches!(r.is, SlotPhase::Running(..)) && r.saves && r.slot.node_rank == 0 {
                    all.push(r.saved + SAVE);
                }
                if !r.alive() {
                    all.extend(r.reported.map(|(over, t)| if over { t } else { Time(0) }));
                }
            }
        }
        all.into_iter().filter(|t| *t < Time(i64::MAX)).min()
    }
}

/// Between two checkpoints.
const SAVE: Span = Span::mins(4);
/// An end that nobody answers is reported again.
const AGAIN: Span = Span::secs(20);

fn crash(code: i32) -> Exit {
    Exit { rank: 0, code: Some(code), signal: None, note: String::new() }
}
