//! Rules that need more than the line at hand: what was seen before, on which GPU, by whom.

use super::super::catalogue::{Repeat, Rule};
use super::super::code::Code;
use super::super::line::{Detail, Fault, Verdict};
use super::super::nvlink::{self, NvlinkFault, UnitReport};
use super::super::pci::Pci;
use super::history::{History, Kind};
use muster_model::fault::{FaultAction, FaultClass};
use muster_model::units::Span;
use std::collections::BTreeMap;
use std::fmt;

/// A 48 and the 63 or 64 that belongs to it are no further apart, nor a fault and the driver's
/// verdict on it.
const TOGETHER: u64 = 600_000;
/// Lines of one burst are no further apart (NVSentinel's default).
const BURST: u64 = 180_000;
/// The same for faults that linger: a lost GPU is reported again and again.
const LONG_BURST: u64 = 3 * 3_600_000;
const LINGERING: [u32; 5] = [74, 79, 95, 109, 119];
/// XIDs that the driver gives a verdict on (NVIDIA's XID catalogue, drivers 565 to 575).
const JUDGED_BY_DRIVER: [u32; 24] = [
    48, 62, 63, 64, 74, 79, 94, 95, 109, 110, 120, 136, 143, 144, 145, 146, 147, 148, 149, 150,
    155, 156, 160, 161,
];
/// A second trouble of one link within this is for somebody to look at.
const DAY: Span = Span::secs(86_400);
/// More GPUs than a node has.
const GPUS: usize = 256;

/// How a line is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LineVerdict {
    pub(super) class: FaultClass,
    pub(super) action: FaultAction,
    pub(super) note: Note,
    pub(super) ends: Option<Code>,
}

/// Why, made into words only when it is reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Note {
    None,
    Words(&'static str),
    Times(u32, Span),
    Processes(u32),
    Place(u32, u16, u16),
    Link(u16, &'static str),
    LinkAgain(u16, &'static str),
    TraceOf(u32),
    Folded,
}

impl Note {
    /// For people; none where there is nothing to say.
    pub(super) fn words(self) -> Option<String> {
        (self != Note::None).then(|| self.to_string())
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Note::None => Ok(()),
            Note::Words(words) => f.write_str(words),
            Note::Times(n, within) => write!(f, "{n} times in {within}"),
            Note::Processes(n) => write!(f, "{n} processes, and only on this GPU"),
            Note::Place(n, gpc, tpc) => write!(f, "{n} times at GPC {gpc}, TPC {tpc}"),
            Note::Link(link, words) => write!(f, "link {link}: {words}"),
            Note::LinkAgain(link, words) => write!(f, "link {link} again: {words}"),
            Note::TraceOf(xid) => write!(f, "follows XID {xid}"),
            Note::Folded => f.write_str("too many different faults to distinguish"),
        }
    }
}

/// What the rules remember. Bounded, whatever is read.
#[derive(Debug, Default)]
pub(super) struct Rules {
    history: History,
    verdicts: BTreeMap<Pci, DriverAdvice>,
}

/// What the driver said of a GPU, and of which faults.
#[derive(Debug)]
struct DriverAdvice {
    action: FaultAction,
    /// XIDs that it was said of: those of the minutes before.
    of: Vec<u32>,
}

impl Rules {
    /// What the driver wants done with a GPU.
    pub(super) fn verdict(&self, pci: Pci) -> Option<FaultAction> {
        self.verdicts.get(&pci).map(|g| g.action)
    }

    /// Judges a line. `rule` is what the catalogue says of it here.
    pub(super) fn evaluate(
        &mut self,
        fault: &Fault<'_>,
        name: u64,
        rule: &Rule,
        driver: Option<u32>,
        now: u64,
    ) -> LineVerdict {
        let mut judged =
            LineVerdict { class: rule.class, action: rule.action, note: Note::None, ends: None };
        match fault.code {
            Code::Xid(n) => self.xid(&mut judged, n, fault, rule, driver, now),
            Code::Sxid(n) => switch(&mut judged, n, fault),
            Code::Other(_) => {}
        }
        // 13 and 31 count in their own ways, 45 counts for nothing.
        if let Some(repeat) = rule.repeat
            && !matches!(fault.code, Code::Xid(13 | 31 | 45 | 154))
        {
            self.burst(&mut judged, fault, name, repeat, now);
        }
        judged
    }

    fn xid(
        &mut self,
        judged: &mut LineVerdict,
        n: u32,
        fault: &Fault<'_>,
        rule: &Rule,
        driver: Option<u32>,
        now: u64,
    ) {
        match (n, fault.detail) {
            (13, Detail::Place { gpc, tpc }) => {
                let place = u64::from(gpc) << 16 | u64::from(tpc);
                let count = self.history.incident(
                    (Kind::Place, fault.code, fault.pci, place),
                    fault.pid,
                    BURST,
                    rule.repeat.map_or(DAY, |r| r.within),
                    now,
                );
                raise(judged, rule.repeat, count, Note::Place(count, gpc, tpc));
            }
            (31, _) => self.page_fault(judged, fault, rule, now),
            (45, detail) => {
                judged.action = FaultAction::None;
                if let Detail::TraceOf(xid) = detail {
                    judged.note = Note::TraceOf(xid);
                }
            }
            (48, _) => {
                let seen = |h: &History, xid| h.recent((xid, fault.pci), TOGETHER, now);
                let together = seen(&self.history, 63) || seen(&self.history, 64);
                if together && rule.action == FaultAction::ResetGpu {
                    judged.action = FaultAction::ResetWhenIdle;
                    judged.note = Note::Words("with 63 or 64: drain, then reset");
                }
            }
            (63, _) if self.history.recent((48, fault.pci), TOGETHER, now) => {
                judged.note = Note::Words("follows a 48: drain, then reset");
            }
            (74, Detail::Registers { link, words }) => {
                self.link(judged, fault, link, NvlinkFault::of(&words), now);
            }
            (144..=150, Detail::Unit { unit, fatal, link, info, status }) => {
                let said = UnitReport { xid: n, unit, fatal, info, status };
                let (action, look) = nvlink::unit(said, driver);
                // An operator who made it lighter or heavier than the catalogue means it.
                if rule.action == FaultAction::ResetGpu {
                    judged.action = action;
                }
                judged.note = match (look, link) {
                    ("", _) => Note::None,
                    (look, Some(link)) => Note::Link(link, look),
                    (look, None) => Note::Words(look),
                };
            }
            (154, detail) => return self.apply_driver_advice(judged, fault, detail, now),
            (162, _) => judged.ends = Some(Code::Xid(163)),
            _ => {}
        }
        if JUDGED_BY_DRIVER.contains(&n) {
            self.by_verdict(judged, n, fault.pci);
            self.history.remember((n, fault.pci), now);
        }
    }

    /// What the driver said of a GPU goes before the table, for the faults that it was said of. A
    /// fault that came later may be worse than what the driver knew.
    fn by_verdict(&self, judged: &mut LineVerdict, n: u32, pci: Option<Pci>) {
        let Some(given) = pci.and_then(|p| self.verdicts.get(&p)) else { return };
        let covered = given.of.contains(&n) || given.action > judged.action;
        // To replace a part is not among the things that a driver says.
        if covered && judged.action <= FaultAction::Reboot {
            judged.action = given.action;
            judged.note = Note::Words("the driver's verdict (154) on this GPU");
        }
    }

    /// XID 31: a GPU is suspect when several processes stumble on it and on no other.
    fn page_fault(&mut self, judged: &mut LineVerdict, fault: &Fault<'_>, rule: &Rule, now: u64) {
        let within = rule.repeat.map_or(DAY, |r| r.within);
        let key = (Kind::PageFault, fault.code, fault.pci, 0);
        // Who is not named may be the one that was: it counts for nothing.
        let count = match fault.pid {
            Some(pid) => self.history.process(key, pid, within, now),
            None => 0,
        };
        if self.history.elsewhere(key, within, now) {
            judged.note = Note::Words("on several GPUs: the job");
        } else if fault.pci.is_some() {
            raise(judged, rule.repeat, count, Note::Processes(count));
        }
    }

    fn link(
        &mut self,
        judged: &mut LineVerdict,
        fault: &Fault<'_>,
        link: Option<u16>,
        trouble: NvlinkFault,
        now: u64,
    ) {
        let number = link.unwrap_or(u16::MAX);
        judged.action = trouble.action().map_or(judged.action, |a| a.min(judged.action));
        judged.note = match link {
            Some(link) => Note::Link(link, trouble.words()),
            None => Note::Words(trouble.words()),
        };
        if trouble.counts() {
            let key = (Kind::Link, fault.code, fault.pci, u64::from(number));
            if self.history.incident(key, None, BURST, DAY, now) >= 2 {
                judged.action = judged.action.max(FaultAction::Inspect);
                judged.note = Note::LinkAgain(number, trouble.words());
            }
        }
    }

    /// XID 154.
    fn apply_driver_advice(
        &mut self,
        judged: &mut LineVerdict,
        fault: &Fault<'_>,
        detail: Detail<'_>,
        now: u64,
    ) {
        let Detail::Verdict(verdict) = detail else { return };
        let action = match verdict {
            Verdict::None => FaultAction::None,
            Verdict::DrainP2p | Verdict::DrainAndReset => FaultAction::ResetWhenIdle,
            Verdict::Reset => FaultAction::ResetGpu,
            Verdict::Reboot => FaultAction::Reboot,
            Verdict::Unknown => return,
        };
        judged.action = action;
        judged.note = Note::Words("the driver's verdict");
        let heavy = action >= FaultAction::ResetWhenIdle;
        judged.class = if heavy { FaultClass::Gpu } else { FaultClass::Notice };
        let Some(pci) = fault.pci else { return };
        if !heavy {
            self.verdicts.remove(&pci);
        } else if self.verdicts.len() < GPUS || self.verdicts.contains_key(&pci) {
            let before = |n: &u32| self.history.recent((*n, Some(pci)), TOGETHER, now);
            let of = JUDGED_BY_DRIVER.into_iter().filter(before).collect();
            self.verdicts.insert(pci, DriverAdvice { action, of });
        }
    }

    fn burst(
        &mut self,
        judged: &mut LineVerdict,
        fault: &Fault<'_>,
        name: u64,
        repeat: Repeat,
        now: u64,
    ) {
        let lingers = matches!(fault.code, Code::Xid(n) if LINGERING.contains(&n));
        let gap = if lingers { LONG_BURST } else { BURST };
        let key = (Kind::Burst, fault.code, fault.pci, name);
        let count = self.history.incident(key, None, gap, repeat.within, now);
        if count >= repeat.count && repeat.action > judged.action {
            judged.action = repeat.action;
            judged.note = Note::Times(count, repeat.within);
        }
    }
}

fn raise(judged: &mut LineVerdict, repeat: Option<Repeat>, count: u32, note: Note) {
    if let Some(repeat) = repeat
        && count >= repeat.count
        && repeat.action > judged.action
    {
        judged.action = repeat.action;
        judged.note = note;
    }
}

/// `SXids`: a code that nobody knows is judged by the word in the line.
fn switch(judged: &mut LineVerdict, n: u32, fault: &Fault<'_>) {
    let fatal = matches!(fault.detail, Detail::Switch { fatal: Some(true), .. });
    if fatal && judged.class == FaultClass::Unknown {
        judged.class = FaultClass::Link;
        judged.action = judged.action.max(FaultAction::Reboot);
        judged.note = Note::Words("not known, but the line says fatal");
    }
    if let Detail::Switch { link: Some(link), .. } = fault.detail
        && judged.note == Note::None
    {
        judged.note = Note::Link(link, "of the switch");
    }
    if n == 10_005 {
        judged.ends = Some(Code::Sxid(10_004));
    }
}
