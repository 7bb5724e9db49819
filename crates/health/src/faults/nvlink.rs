//! What the figures in the lines of failed NVLinks ask for.

use super::catalogue::word;
use super::pci::hex;
use muster_model::fault::FaultAction;
use std::sync::OnceLock;

/// What the registers of an XID 74 speak of, from NVIDIA's XID catalogue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NvlinkFault {
    /// Nothing that matters.
    Nothing,
    /// Only counters that passed a limit.
    Threshold,
    /// It follows from another fault.
    Secondary,
    /// Memory inside the link.
    Memory,
    /// The signal is at its limit.
    Signal,
    /// Seat, cable, or hardware.
    Seat,
    /// Bits that are not known here, or none at all.
    Unknown,
}

const fn bits(list: &[u32]) -> u32 {
    let mut mask = 0;
    let mut i = 0;
    while i < list.len() {
        mask |= 1 << list[i];
        i += 1;
    }
    mask
}

const FIRST_NOTHING: u32 = bits(&[0, 23, 30]);
const FIRST_SECONDARY: u32 = bits(&[1, 20]);
const FIRST_MEMORY: u32 = bits(&[4, 5]);
const FIRST_SEAT: u32 = bits(&[8, 9, 12, 16, 17, 24, 28]);
const FIRST_SIGNAL: u32 = bits(&[21, 22]);
const THIRD_MEMORY: u32 = bits(&[0, 1, 2, 6]);
const FIFTH_MEMORY: u32 = bits(&[18, 19, 21, 22, 24, 25, 27, 28]);
const FIFTH_THRESHOLD: u32 = bits(&[20, 23, 26, 29]);

impl NvlinkFault {
    /// The worst that the registers speak of.
    pub(super) fn of(words: &[u32; 7]) -> NvlinkFault {
        let [first, _, third, _, fifth, _, _] = *words;
        if first & FIRST_SEAT != 0 {
            NvlinkFault::Seat
        } else if first & FIRST_SIGNAL != 0 {
            NvlinkFault::Signal
        } else if first & FIRST_MEMORY | third & THIRD_MEMORY | fifth & FIFTH_MEMORY != 0 {
            NvlinkFault::Memory
        } else if first & !(FIRST_NOTHING | FIRST_SECONDARY) != 0
            || third != 0
            || fifth & !FIFTH_THRESHOLD != 0
        {
            NvlinkFault::Unknown
        } else if first & FIRST_SECONDARY != 0 {
            NvlinkFault::Secondary
        } else if fifth != 0 {
            NvlinkFault::Threshold
        } else if first != 0 {
            NvlinkFault::Nothing
        } else {
            NvlinkFault::Unknown
        }
    }

    /// What it asks for, where it changes what the catalogue says.
    pub(super) fn action(self) -> Option<FaultAction> {
        match self {
            NvlinkFault::Nothing => Some(FaultAction::None),
            NvlinkFault::Threshold => Some(FaultAction::Watch),
            _ => None,
        }
    }

    /// What people read for it.
    pub(super) fn words(self) -> &'static str {
        match self {
            NvlinkFault::Nothing => "registers: nothing that matters",
            NvlinkFault::Threshold => "registers: only counters that passed a limit",
            NvlinkFault::Secondary => "registers: it follows from another fault",
            NvlinkFault::Memory => "registers: memory inside the link",
            NvlinkFault::Signal => "registers: the signal is at its limit; check seat and cable",
            NvlinkFault::Seat => "registers: check seat and cable if it comes back",
            NvlinkFault::Unknown => "registers: bits that are not known",
        }
    }

    /// Whether a second time on one link means that somebody has to look.
    pub(super) fn counts(self) -> bool {
        matches!(self, NvlinkFault::Memory | NvlinkFault::Signal | NvlinkFault::Seat)
    }
}

/// A pattern of bits, some of which do not matter.
#[derive(Debug, Clone, Copy)]
struct Pattern {
    care: u32,
    value: u32,
}

impl Pattern {
    fn parse(text: &str) -> Option<Pattern> {
        if text.len() != 32 {
            return None;
        }
        let mut p = Pattern { care: 0, value: 0 };
        for b in text.bytes() {
            p.care = p.care << 1 | u32::from(b != b'-');
            p.value = p.value << 1 | u32::from(b == b'1');
        }
        Some(p)
    }

    fn fits(self, word: u32) -> bool {
        word & self.care == self.value
    }
}

/// A row of the table of NVLink 5 units.
struct Row {
    xid: u32,
    units: &'static str,
    before_575: Pattern,
    since_575: Pattern,
    /// Empty: any.
    status: Vec<u32>,
    /// None: the driver's verdict decides.
    action: Option<FaultAction>,
    worse: Option<(Pattern, Pattern, FaultAction)>,
    look: &'static str,
}

fn row(line: &'static str) -> Option<Row> {
    let c: Vec<&'static str> = line.split('|').collect();
    let [xid, units, before, since, status, action, worse_before, worse_since, then, look] = c[..]
    else {
        return None;
    };
    let number = |s: &str| hex(s.strip_prefix("0x")?.as_bytes(), 8).map(|(n, _)| n);
    let worse = if then.is_empty() {
        None
    } else {
        Some((Pattern::parse(worse_before)?, Pattern::parse(worse_since)?, word(then)?))
    };
    Some(Row {
        xid: xid.parse().ok()?,
        units,
        before_575: Pattern::parse(before)?,
        since_575: Pattern::parse(since)?,
        status: status.split('/').filter_map(number).collect(),
        action: if action == "verdict" { None } else { Some(word(action)?) },
        worse,
        look,
    })
}

fn rows() -> &'static [Row] {
    static ROWS: OnceLock<Vec<Row>> = OnceLock::new();
    ROWS.get_or_init(|| include_str!("../../data/nvlink5.psv").lines().filter_map(row).collect())
}

/// What a unit of NVLink 5 said.
#[derive(Debug, Clone, Copy)]
pub(super) struct UnitReport<'a> {
    pub(super) xid: u32,
    pub(super) unit: &'a str,
    pub(super) fatal: bool,
    pub(super) info: u32,
    pub(super) status: u32,
}

/// What it asks for, and what to look at. The layout of the first word changed with driver 575;
/// where the driver is not known, the newer one is tried first.
pub(super) fn unit(said: UnitReport<'_>, driver: Option<u32>) -> (FaultAction, &'static str) {
    let newer = || matching(said, true);
    let older = || matching(said, false);
    let found = match driver {
        Some(d) if d < 575 => older(),
        Some(_) => newer(),
        None => newer().or_else(older),
    };
    found.unwrap_or(if said.fatal {
        (FaultAction::ResetGpu, "status words that are not known; the line says fatal")
    } else {
        (FaultAction::Watch, "status words that are not known; the line says not fatal")
    })
}

fn matching(said: UnitReport<'_>, newer: bool) -> Option<(FaultAction, &'static str)> {
    let fits = |before: Pattern, since: Pattern| {
        if newer { since.fits(said.info) } else { before.fits(said.info) }
    };
    let here = |r: &&Row| r.xid == said.xid && named(r, said.unit);
    let exact = |r: &&Row| r.status.is_empty() || r.status.contains(&said.status);
    // Of a status made of several bits, the worst counts. Units of the network interface number
    // their errors instead.
    let partly =
        |r: &&Row| !r.units.starts_with("NETIR") && r.status.iter().any(|s| s & said.status != 0);
    let judged = |r: &Row| {
        let worse = r.worse.filter(|(before, since, _)| fits(*before, *since));
        let action = worse.map_or(r.action, |(_, _, then)| Some(then));
        match action {
            Some(action) => (action, r.look),
            None => (FaultAction::Watch, "the driver's verdict (154) decides"),
        }
    };
    let fit = |r: &&Row| {
        fits(r.before_575, r.since_575)
            || r.worse.is_some_and(|(before, since, _)| fits(before, since))
    };
    let rows = || rows().iter().filter(here).filter(fit);
    rows()
        .filter(exact)
        .map(judged)
        .max_by_key(|(action, _)| *action)
        .or_else(|| rows().filter(partly).map(judged).max_by_key(|(action, _)| *action))
}

/// Whether a row speaks of a unit. Lines name some units shorter than the table.
fn named(row: &Row, unit: &str) -> bool {
    row.units.split('/').any(|u| u == unit || u.starts_with(unit) || unit.starts_with(u))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_table_is_read() {
        let lines = include_str!("../../data/nvlink5.psv").lines();
        assert_eq!(rows().len(), lines.filter(|l| !l.starts_with('#')).count());
        assert_eq!(rows().len(), 95);
    }

    #[test]
    fn units_are_judged_by_their_words_and_the_drivers_age() {
        let link_down = |info, driver| {
            let said =
                UnitReport { xid: 149, unit: "NETIR_LINK_EVT", fatal: true, info, status: 0 };
            unit(said, driver)
        };
        assert_eq!(link_down(0x0250_01c6, Some(570)).0, FaultAction::ResetGpu);
        assert_eq!(link_down(0x0250_01c6, Some(570)).1, "look at the other end of the link");
        assert_eq!(link_down(0x0260_01c6, Some(570)).0, FaultAction::Watch);
        assert_eq!(link_down(0x0250_0011, Some(580)).1, "look at the other end of the link");
        assert_eq!(link_down(0x0250_01c6, None).1, "look at the other end of the link");

        let rx = |status, driver| {
            let (unit_, info) = ("RLW_RXPIPE", 0x0409_a0c2);
            unit(UnitReport { xid: 145, unit: unit_, fatal: false, info, status }, driver)
        };
        assert_eq!(rx(0x8, Some(570)).0, FaultAction::Watch);
        // Not in the table: what the line says of itself decides.
        assert_eq!(rx(0x4000, Some(570)).0, FaultAction::Watch);
    }

    #[test]
    fn of_several_bits_the_worst_counts() {
        let said = UnitReport { xid: 144, unit: "SAW_MVB", fatal: true, info: 0x21, status: 0x3 };
        assert_eq!(unit(said, Some(570)).0, FaultAction::ResetGpu);
        let said = UnitReport { status: 0x4, ..said };
        assert_eq!(unit(said, Some(570)).0, FaultAction::None);
    }

    #[test]
    fn a_pipe_that_is_worse_asks_for_a_reset() {
        let said =
            |info| UnitReport { xid: 145, unit: "RLW_RXPIPE", fatal: false, info, status: 1 };
        assert_eq!(unit(said(0b00_1100_0010), Some(570)).0, FaultAction::Watch);
        assert_eq!(unit(said(0b100_1100_0010), Some(570)).0, FaultAction::ResetGpu);
    }

    #[test]
    fn registers_of_older_links_say_what_is_wrong() {
        let of = |first, third, fifth| NvlinkFault::of(&[first, 0, third, 0, fifth, 0, 0]);
        assert_eq!(of(0x1_0000, 0, 0), NvlinkFault::Seat);
        assert_eq!(of(1 << 21, 0, 0), NvlinkFault::Signal);
        assert_eq!(of(1 << 4, 0, 0), NvlinkFault::Memory);
        assert_eq!(of(0, 1 << 6, 0), NvlinkFault::Memory);
        assert_eq!(of(0, 0, 1 << 18), NvlinkFault::Memory);
        assert_eq!(of(0, 0, 1 << 20), NvlinkFault::Threshold);
        assert_eq!(of(1 << 23, 0, 0), NvlinkFault::Nothing);
        assert_eq!(of(1 << 20, 0, 0), NvlinkFault::Secondary);
        assert_eq!(of(1 << 2, 0, 0), NvlinkFault::Unknown);
        assert_eq!(of(0, 1 << 13, 0), NvlinkFault::Unknown);
        assert_eq!(of(0, 0, 0), NvlinkFault::Unknown);
    }
}
