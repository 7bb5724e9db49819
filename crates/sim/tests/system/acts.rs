//! What happens in a random life, and how a life is made from its seed. Numbers in acts are taken
//! modulo what there is to choose from, so that any part of a list of acts is a life too.

use crate::spec::Ask;
use muster_simnode::Random;

/// One thing that happens: milliseconds after the one before, and what.
pub(crate) type Step = (u32, Act);

/// What may happen to a site.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Act {
    Submit(Ask),
    Cancel(u8),
    Hold(u8),
    Release(u8),
    Requeue(u8),
    Update(u8, u8, u8),
    AskCheckpoint(u8),
    /// The GPUs of a job do nothing, for so many minutes.
    Idle(u8, u8),
    /// A machine stops for so many seconds, with all that runs on it.
    Crash(u8, u16),
    /// A machine is cut off for so many seconds; what runs there goes on.
    Cut(u8, u16),
    /// A connection breaks and is made anew.
    Flap(u8),
    /// The agent starts anew; what runs goes on.
    AgentRestart(u8),
    /// Ranks of some job fail on one node: by themselves, or because of the node.
    Fail(u8, u8, bool),
    Cordon(u8),
    Uncordon(u8),
    Drain(u8, bool),
    Undrain(u8),
    /// The machine is switched off for good.
    Retire(u8),
    /// And another comes under its name.
    Enrol(u8),
    Mark(u8, u8, u16),
    Policy(u8),
    Quotas(u8),
    Topology(u8),
    Reserve(u8, u8, u8, u8, u8),
    Unreserve(u8),
    /// The server starts anew, from its newest snapshot and what came after it.
    Restart,
    /// The same from the first record on.
    Replay,
    /// It stops in the middle of its next decision, before that is in the log.
    StopShort,
    Snapshot,
}

/// A site and all that happens to it. The same life is always lived in the same way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Life {
    pub(crate) seed: u64,
    /// Machines.
    pub(crate) nodes: u8,
    /// GPUs of each.
    pub(crate) gpus: u8,
    /// Of the machines, kept as spares.
    pub(crate) spares: u8,
    /// Messages are late by up to so many milliseconds, and come in any order.
    pub(crate) late: u16,
    /// One in so many messages comes twice, and one in ten times as many breaks its connection;
    /// 0: none.
    pub(crate) twice: u8,
    pub(crate) acts: Vec<Step>,
}

impl Life {
    /// The life of a seed.
    pub(crate) fn of(seed: u64) -> Life {
        let r = &mut Random::new(seed, &["life"]);
        let nodes = 3 + low(r, 7);
        let count = 15 + r.below(45);
        let (gpus, spares) = (if r.below(3) == 0 { 4 } else { 8 }, low(r, 3));
        let late = [20, 300, 3000][at(r, 3)];
        let twice = [0, 8, 30][at(r, 3)];
        let acts = (0..count).map(|_| (wait(r), act(r))).collect();
        Life { seed, nodes, gpus, spares, late, twice, acts }
    }
}

fn low(r: &mut Random, n: u64) -> u8 {
    u8::try_from(r.below(n)).expect("below 256")
}

fn at(r: &mut Random, n: u64) -> usize {
    usize::from(low(r, n))
}

fn byte(r: &mut Random) -> u8 {
    low(r, 256)
}

/// Often at once, mostly within a minute, at times after a while.
fn wait(r: &mut Random) -> u32 {
    let most = [1, 1000, 20_000, 60_000, 60_000, 900_000][at(r, 6)];
    u32::try_from(r.below(most)).expect("below a million")
}

fn seconds(r: &mut Random) -> u16 {
    let most = [20, 60, 600, 3600][at(r, 4)];
    u16::try_from(1 + r.below(most)).expect("an hour at most")
}

fn act(r: &mut Random) -> Act {
    match r.below(64) {
        0..24 => Act::Submit(Ask::any(r)),
        24 => Act::Cancel(byte(r)),
        25 => Act::Hold(byte(r)),
        26 => Act::Release(byte(r)),
        27 | 28 => Act::Requeue(byte(r)),
        29 => Act::Update(byte(r), byte(r), byte(r)),
        30 => Act::AskCheckpoint(byte(r)),
        31 => Act::Idle(byte(r), byte(r)),
        32..35 => Act::Crash(byte(r), seconds(r)),
        35..38 => Act::Cut(byte(r), seconds(r)),
        38..40 => Act::Flap(byte(r)),
        40 => Act::AgentRestart(byte(r)),
        41..44 => Act::Fail(byte(r), byte(r), r.below(2) == 0),
        44 => Act::Cordon(byte(r)),
        45 => Act::Uncordon(byte(r)),
        46 | 47 => Act::Drain(byte(r), r.below(2) == 0),
        48 => Act::Undrain(byte(r)),
        49 => Act::Retire(byte(r)),
        50 => Act::Enrol(byte(r)),
        51 => Act::Mark(byte(r), byte(r), u16::from(byte(r)) * 4),
        52 | 53 => Act::Policy(byte(r)),
        54 => Act::Quotas(byte(r)),
        55 => Act::Topology(byte(r)),
        56 => Act::Reserve(byte(r), byte(r), byte(r), byte(r), byte(r)),
        57 => Act::Unreserve(byte(r)),
        58 => Act::Snapshot,
        59 | 60 => Act::Restart,
        61 => Act::Replay,
        _ => Act::StopShort,
    }
}
