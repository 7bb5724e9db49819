//! Frames as they go over the wire: little-endian, each with its length in front.
//!
//! A frame has a head of 32 bytes: format (1), kind, two empty bytes, count (u32), version of the
//! layout (u64), number of the tick (u64), time in milliseconds since 1970 (i64). Behind it, for
//! pictures and changes, columns of `count` values: for changes the index (u32), then job (u32),
//! power, hazard, tenant, version (u16 each), state, flags, util, temp (u8 each). For names and
//! hints, `count` bytes of JSON. Every frame is filled up to a multiple of four bytes.

use super::Viewer;
use super::fleet_map::{
    Cell, Change, FleetMap, NONE, OTHERS, OTHERS_JOB, PROBATION, REMEDIATION, UNKNOWN, WAITS, WORST,
};
use bytes::{BufMut as _, Bytes, BytesMut};
use muster_model::event::Event;
use muster_model::names::ProjectName;
use serde::Serialize;
use std::collections::BTreeSet;

const FORMAT: u8 = 1;
const HEAD: usize = 32;
const CELL: usize = 16;

/// What a frame holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    /// Every cell.
    Whole = 0,
    /// The cells that changed.
    Change = 1,
    /// Names for the numbers in cells.
    Words = 2,
    /// What came into the log since the last frame.
    Hints = 3,
    /// The layout itself, as JSON: before a picture of the past, which had its own.
    Layout = 4,
}

/// What came into the log since the last frame.
#[derive(Debug, Default, Serialize)]
pub(super) struct Hints {
    /// So much that anything may be different.
    pub(super) all: bool,
    /// Kinds of events.
    pub(super) kinds: BTreeSet<String>,
}

/// The word of an event: `job_placed`.
pub(super) fn kind(event: &Event) -> String {
    // The first word of its debug form is its name: cheap, where JSON would write all of it.
    struct Head(String);
    impl std::fmt::Write for Head {
        fn write_str(&mut self, s: &str) -> std::fmt::Result {
            let letters = s.chars().take_while(char::is_ascii_alphanumeric);
            let before = self.0.len();
            self.0.extend(letters);
            // The name is over: the rest is not wanted.
            if self.0.len() - before < s.len() { Err(std::fmt::Error) } else { Ok(()) }
        }
    }
    let mut head = Head(String::new());
    let _ = std::fmt::write(&mut head, format_args!("{event:?}"));
    let mut out = String::with_capacity(head.0.len() + 4);
    for c in head.0.chars() {
        if c.is_ascii_uppercase() && !out.is_empty() {
            out.push('_');
        }
        out.push(c.to_ascii_lowercase());
    }
    out
}

/// Names and the whole picture.
pub(super) fn full_frame(map: &FleetMap, viewer: &Viewer) -> Bytes {
    let mut out = BytesMut::with_capacity(map.cells.len() * CELL + 1024);
    words(&mut out, map, viewer);
    cells(&mut out, map, Kind::Whole, None, viewer);
    out.freeze()
}

/// Layout, names and the whole picture of a moment that has passed.
pub(super) fn past(map: &FleetMap, viewer: &Viewer) -> Bytes {
    let mut out = BytesMut::with_capacity(map.cells.len() * CELL + map.layout.json.len() + 1024);
    bytes(&mut out, map, Kind::Layout, &map.layout.json);
    words(&mut out, map, viewer);
    cells(&mut out, map, Kind::Whole, None, viewer);
    out.freeze()
}

/// What follows: hints, new names, and the cells that changed.
pub(super) fn next(
    map: &FleetMap,
    change: &Change,
    hints: Option<&Hints>,
    viewer: &Viewer,
) -> Bytes {
    let mut out = BytesMut::new();
    if let Some(hints) = hints {
        text(&mut out, map, Kind::Hints, hints);
    }
    match change {
        Change::Whole => {
            words(&mut out, map, viewer);
            cells(&mut out, map, Kind::Whole, None, viewer);
        }
        Change::Cells { at, was, words: more } => {
            // A project has one name to know from the beginning: when others come is not reported.
            if *more && viewer.is_none() {
                words(&mut out, map, viewer);
            }
            match viewer {
                None => cells(&mut out, map, Kind::Change, Some(at), viewer),
                Some(own) => {
                    let at = changed_for(own, map, at, was);
                    cells(&mut out, map, Kind::Change, Some(&at), viewer);
                }
            }
        }
    }
    out.freeze()
}

/// Those of the cells that changed for one project. What others' GPUs do is not theirs to know, and so is not
/// when it changes.
fn changed_for(own: &ProjectName, map: &FleetMap, at: &[u32], was: &[Cell]) -> Vec<u32> {
    let own = map.words.tenants.iter().position(|t| t == own);
    let changed = |i: &u32| {
        let i = *i as usize;
        masked(was[i], own) != masked(map.cells[i], own)
    };
    at.iter().copied().filter(changed).collect()
}

#[derive(Serialize)]
struct FrameNames<'a> {
    tenants: Vec<&'a str>,
    versions: &'a [String],
}

fn words(out: &mut BytesMut, map: &FleetMap, viewer: &Viewer) {
    let given = match viewer {
        None => {
            let tenants = map.words.tenants.iter().map(|t| t.as_str()).collect();
            FrameNames { tenants, versions: &map.words.versions }
        }
        Some(own) => FrameNames { tenants: vec![own.as_str()], versions: &[] },
    };
    text(out, map, Kind::Words, &given);
}

fn text<T: Serialize>(out: &mut BytesMut, map: &FleetMap, kind: Kind, body: &T) {
    bytes(out, map, kind, &serde_json::to_vec(body).unwrap_or_default());
}

fn bytes(out: &mut BytesMut, map: &FleetMap, kind: Kind, json: &[u8]) {
    let filled = json.len().next_multiple_of(4);
    head(out, map, kind, json.len(), filled);
    out.put_slice(json);
    out.put_bytes(b' ', filled - json.len());
}

fn head(out: &mut BytesMut, map: &FleetMap, kind: Kind, count: usize, body: usize) {
    out.put_u32_le(small(HEAD + body));
    out.put_u8(FORMAT);
    out.put_u8(kind as u8);
    out.put_u16_le(0);
    out.put_u32_le(small(count));
    out.put_u64_le(map.layout.version);
    out.put_u64_le(map.tick);
    out.put_i64_le(map.at.0);
}

fn small(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

fn cells(out: &mut BytesMut, map: &FleetMap, kind: Kind, at: Option<&[u32]>, viewer: &Viewer) {
    let own = viewer.as_ref().map(|e| map.words.tenants.iter().position(|t| t == e));
    let shown = |cell: &Cell| match own {
        None => *cell,
        Some(own) => masked(*cell, own),
    };
    let count = at.map_or(map.cells.len(), <[u32]>::len);
    let picked: Vec<Cell> = match at {
        None => map.cells.iter().map(shown).collect(),
        Some(at) => at.iter().map(|i| shown(&map.cells[*i as usize])).collect(),
    };
    let body = (count * CELL + at.map_or(0, |at| at.len() * 4)).next_multiple_of(4);
    head(out, map, kind, count, body);
    out.reserve(body);
    let end = out.len() + body;
    for i in at.unwrap_or_default() {
        out.put_u32_le(*i);
    }
    for c in &picked {
        out.put_u32_le(c.job);
    }
    for of in [|c: &Cell| c.power, |c: &Cell| c.hazard, |c: &Cell| c.tenant, |c: &Cell| c.version] {
        for c in &picked {
            out.put_u16_le(of(c));
        }
    }
    for of in [|c: &Cell| c.state, |c: &Cell| c.flags, |c: &Cell| c.util, |c: &Cell| c.temp] {
        for c in &picked {
            out.put_u8(of(c));
        }
    }
    out.put_bytes(0, end - out.len());
}

/// The cell as one project sees it: others' work has no name and no figures, and what the site's
/// hardware is and what is wrong with it is not theirs to know.
fn masked(mut cell: Cell, own: Option<usize>) -> Cell {
    if own == Some(usize::from(cell.tenant)) {
        // The only name that was reported.
        cell.tenant = 0;
    } else {
        if cell.tenant != NONE {
            cell.tenant = OTHERS;
            cell.job = OTHERS_JOB;
        }
        cell.power = NONE;
        cell.util = UNKNOWN;
        cell.temp = UNKNOWN;
    }
    cell.hazard = 0;
    cell.version = NONE;
    cell.flags &= !(WORST | WAITS | REMEDIATION | PROBATION);
    cell
}
