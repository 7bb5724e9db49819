//! What happens in a random life, and how a life is made from its seed. Numbers in acts are taken
//! modulo what there is to choose from, so that any part of a list of acts is a life too.

use super::spec::Ask;
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
pub(crate) struct SiteScript {
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

impl SiteScript {
    /// The life of a seed.
    pub(crate) fn of(seed: u64) -> SiteScript {
        let r = &mut Random::new(seed, &["life"]);
        let nodes = 3 + low(r, 7);
        let count = 20 + r.below(60);
        let (gpus, spares) = (if r.below(3) == 0 { 4 } else { 8 }, low(r, 3));
        let late = [20, 300, 3000][at(r, 3)];
        let twice = [0, 8, 30][at(r, 3)];
        let acts = (0..count).map(|_| (wait(r), act(r))).collect();
        SiteScript { seed, nodes, gpus, spares, late, twice, acts }
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
    let most = [1, 1000, 10_000, 30_000, 60_000, 300_000][at(r, 6)];
    u32::try_from(r.below(most)).expect("below a million")
}

fn seconds(r: &mut Random) -> u16 {
    let most = [20, 120, 600, 3600][at(r, 4)];
    u16::try_from(1 + r.below(most)).expect("an hour at most")
}

fn act(r: &mut Random) -> Act {
    match r.below(80) {
        0..26 => Act::Submit(Ask::any(r)),
        26..28 => Act::Cancel(byte(r)),
        28 => Act::Hold(byte(r)),
        29 => Act::Release(byte(r)),
        30..34 => Act::Requeue(byte(r)),
        34 => Act::Update(byte(r), byte(r), byte(r)),
        35 => Act::AskCheckpoint(byte(r)),
        36 => Act::Idle(byte(r), byte(r)),
        37..41 => Act::Crash(byte(r), seconds(r)),
        41..47 => Act::Cut(byte(r), seconds(r)),
        47..49 => Act::Flap(byte(r)),
        49..52 => Act::Fail(byte(r), byte(r), r.below(2) == 0),
        52 => Act::Cordon(byte(r)),
        53 => Act::Uncordon(byte(r)),
        54..57 => Act::Drain(byte(r), r.below(2) == 0),
        57 => Act::Undrain(byte(r)),
        58..61 => Act::Retire(byte(r)),
        61..63 => Act::Enrol(byte(r)),
        63 => Act::Mark(byte(r), byte(r), u16::from(byte(r)) * 4),
        64..67 => Act::Policy(byte(r)),
        67 => Act::Quotas(byte(r)),
        68 => Act::Topology(byte(r)),
        69..71 => Act::Reserve(byte(r), byte(r), byte(r), byte(r), byte(r)),
        71 => Act::Unreserve(byte(r)),
        72..74 => Act::Snapshot,
        74..76 => Act::Restart,
        76 => Act::Replay,
        _ => Act::StopShort,
    }
}
