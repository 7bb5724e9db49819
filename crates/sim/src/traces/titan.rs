//! Lives of GPUs on Titan (olcf/TitanGPULife; Ostrouchov et al., "GPU Lifetimes on Titan", SC'20):
//! where each card stood, from when to when, and what ended it. As a stream of failures it can be
//! replayed against a fleet. Times are those of the site's clock, summer time included, so a stay
//! can seem an hour longer or shorter than it was.

use super::error::{OnBadRow, Read, TraceError};
use super::table::{self, Cells, Layout, not};
use muster_model::units::{Span, Time};
use std::fmt;
use std::str::FromStr;

/// Where a card stood: `c11-2c1s4n1` is column 11, row 2, cage 1, slot 4, node 1. A column and a
/// row name a cabinet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct CabinetLocation {
    /// Column of cabinets, 0 to 24.
    pub column: u8,
    /// Row of cabinets, 0 to 7.
    pub row: u8,
    /// Cage of the cabinet, 0 to 2.
    pub cage: u8,
    /// Blade of the cage.
    pub slot: u8,
    /// Node of the blade; each has one GPU.
    pub node: u8,
}

impl fmt::Display for CabinetLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CabinetLocation { column, row, cage, slot, node } = self;
        write!(f, "c{column}-{row}c{cage}s{slot}n{node}")
    }
}

impl FromStr for CabinetLocation {
    type Err = ();
    fn from_str(s: &str) -> Result<CabinetLocation, ()> {
        let mut rest = s;
        let mut next = |mark: char| -> Result<u8, ()> {
            let after = rest.strip_prefix(mark).ok_or(())?;
            let digits = after.bytes().take_while(u8::is_ascii_digit).count();
            rest = &after[digits..];
            after[..digits].parse().map_err(|_| ())
        };
        let (column, row) = (next('c')?, next('-')?);
        let (cage, slot, node) = (next('c')?, next('s')?, next('n')?);
        if rest.is_empty() {
            Ok(CabinetLocation { column, row, cage, slot, node })
        } else {
            Err(())
        }
    }
}

/// What went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TitanEvent {
    /// An error of two bits in its memory, beyond what ECC repairs.
    DoubleBit,
    /// It was no longer seen on the bus.
    OffTheBus,
}

/// One stay of a card in one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lifetime {
    /// Serial number.
    pub sn: String,
    /// Where it stood.
    pub location: CabinetLocation,
    /// When it came; none in a row that only reports an event, mostly within a stay of another row.
    pub insert: Option<Time>,
    /// When it left, or when the event happened, or when the log ended.
    pub remove: Time,
    /// Whether it was then taken out for good; not known where there is no insert.
    pub out: Option<bool>,
    /// What happened at `remove`; nothing when it was moved or the log ended.
    pub event: Option<TitanEvent>,
}

/// Reads `gc_full`: `SN,location,insert,remove,duration,out,event`.
pub fn lifetimes(file: &str, bytes: &[u8], on_bad: OnBadRow) -> Result<Read<Lifetime>, TraceError> {
    let need = &["SN", "location", "insert", "remove", "out", "event"];
    let layout = Layout { cells: Cells::Commas, fixed: None, need, remark: None };
    table::read(file, bytes, on_bad, &layout, |r| {
        let location = r.text("location")?;
        let (insert, remove) = (r.maybe_time("insert")?, r.time("remove")?);
        if insert.is_some_and(|at| at > remove) {
            return Err("it was removed before it was inserted".into());
        }
        Ok(Lifetime {
            sn: r.text("SN")?.into(),
            location: location
                .parse()
                .map_err(|()| not("location", location, "like c0-0c0s0n0"))?,
            insert,
            remove,
            out: r.maybe_flag("out")?,
            event: match r.get("event") {
                None => None,
                Some("DBE") => Some(TitanEvent::DoubleBit),
                Some("OTB") => Some(TitanEvent::OffTheBus),
                Some(other) => return Err(not("event", other, "DBE or OTB")),
            },
        })
    })
}

/// One failure of the stream.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Failure {
    /// Since the first card came.
    pub at: Span,
    /// The slot the card was in.
    pub location: CabinetLocation,
    /// What failed.
    pub event: TitanEvent,
    /// The card's serial number.
    pub sn: String,
}

/// The failures in the order of time.
#[must_use]
pub fn failures(lives: &[Lifetime]) -> Vec<Failure> {
    let first = lives.iter().map(|l| l.insert.unwrap_or(l.remove)).min().unwrap_or_default();
    let mut out: Vec<Failure> = lives
        .iter()
        .filter_map(|l| {
            let at = l.remove.since(first);
            Some(Failure { at, location: l.location, event: l.event?, sn: l.sn.clone() })
        })
        .collect();
    out.sort();
    out
}

#[cfg(test)]
pub(super) const SAMPLE: &str = "\
SN,location,insert,remove,duration,out,event
0320117100060,c11-2c1s4n1,2017-04-09 21:36:19,2019-08-01 20:07:33,72916274,FALSE,
0320117100219,c13-5c2s2n1,2017-04-09 21:36:19,2018-03-03 10:04:58,28301319,FALSE,DBE
0323712007755,c12-7c1s5n0,2014-01-21 10:28:50,2016-07-19 20:15:20,78655590,TRUE,DBE
0323712007755,c12-7c1s5n0,,2016-07-19 20:15:20,,,OTB
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lives_become_a_stream_of_failures() {
        let read = lifetimes("gc_full.csv", SAMPLE.as_bytes(), OnBadRow::Stop).unwrap();
        assert_eq!(read.items[0].location.to_string(), "c11-2c1s4n1");
        assert_eq!(read.items[0].event, None);
        // An hour more than its `duration`: it came in winter and left in summer.
        let stay = read.items[2].remove.since(read.items[2].insert.unwrap());
        assert_eq!(stay, Span::secs(78_659_190));
        let failures = failures(&read.items);
        let what: Vec<_> = failures.iter().map(|f| (f.at.0 / 1000, f.event)).collect();
        let bus = (78_659_190, TitanEvent::OffTheBus);
        let bits = (78_659_190, TitanEvent::DoubleBit);
        assert_eq!(what, [bits, bus, (129_771_368, TitanEvent::DoubleBit)]);
    }

    #[test]
    fn an_odd_place_or_event_is_a_bad_row() {
        let text = SAMPLE.replace("c13-5c2s2n1", "c13-5").replace("FALSE,\n", "FALSE,XID\n");
        let read = lifetimes("gc_full.csv", text.as_bytes(), OnBadRow::Skip).unwrap();
        let said: Vec<_> = read.skipped.iter().map(|p| p.message.as_str()).collect();
        let want =
            ["`event` is `XID`, not DBE or OTB", "`location` is `c13-5`, not like c0-0c0s0n0"];
        assert_eq!(said, want);
    }
}
