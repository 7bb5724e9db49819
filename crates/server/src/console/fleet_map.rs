//! The picture itself: one cell for every GPU.

use super::layout::{EXCLUDED, Layout, MAINTENANCE, MISSING, STOPPING, states};
use super::snapshot::{NodeSnapshot, SiteSnapshot};
use crate::telemetry::Columns;
use muster_api::node::state_word;
use muster_model::Time;
use muster_model::finding::Severity;
use muster_model::job::{Job, SlotState};
use muster_model::names::{NodeName, ProjectName};
use muster_model::node::NodeRole;
use std::collections::HashMap;
use std::sync::Arc;

/// No figure.
pub(super) const UNKNOWN: u8 = u8::MAX;
/// No power figure, no project, no version.
pub(super) const NONE: u16 = u16::MAX;
/// Somebody else's: of a project, and of a job.
pub(super) const OTHERS: u16 = u16::MAX - 1;
pub(super) const OTHERS_JOB: u32 = u32::MAX;

/// Bits of `flags`. The lowest two say how bad the worst open finding is.
pub(super) const WORST: u8 = 0b11;
const BREAKER: u8 = 1 << 2;
pub(super) const REMEDIATION: u8 = 1 << 3;
pub(super) const WAITS: u8 = 1 << 4;
const SPARE: u8 = 1 << 5;
pub(super) const PROBATION: u8 = 1 << 6;
const HELD: u8 = 1 << 7;

/// What a GPU's figures must change by to be sent again: they tremble all the time.
const UTIL_STEP: u8 = 3;
const TEMP_STEP: u8 = 2;
const POWER_STEP: u16 = 10;

fn state(word: &str) -> u8 {
    states().position(|s| s == word).and_then(|n| u8::try_from(n).ok()).unwrap_or(UNKNOWN)
}

/// One GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cell {
    pub(super) job: u32,
    pub(super) power: u16,
    pub(super) hazard: u16,
    pub(super) tenant: u16,
    pub(super) version: u16,
    pub(super) state: u8,
    pub(super) flags: u8,
    pub(super) util: u8,
    pub(super) temp: u8,
}

/// Names that cells have numbers for. They only grow while somebody watches.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct CellNames {
    pub(super) tenants: Vec<ProjectName>,
    pub(super) versions: Vec<String>,
}

impl CellNames {
    fn tenant(&mut self, name: &ProjectName) -> u16 {
        number(&mut self.tenants, name, |a, b| a == b, Clone::clone)
    }
    fn version(&mut self, text: &str) -> u16 {
        number(&mut self.versions, text, |a, b| a == b, str::to_owned)
    }
}

fn number<T, U: ?Sized>(
    all: &mut Vec<T>,
    one: &U,
    same: impl Fn(&T, &U) -> bool,
    make: impl Fn(&U) -> T,
) -> u16 {
    let at = all.iter().position(|t| same(t, one)).unwrap_or_else(|| {
        all.push(make(one));
        all.len() - 1
    });
    u16::try_from(at).ok().filter(|n| *n < OTHERS).unwrap_or(OTHERS)
}

/// The picture at one moment.
#[derive(Debug)]
pub(super) struct FleetMap {
    pub(super) tick: u64,
    pub(super) at: Time,
    pub(super) layout: Arc<Layout>,
    pub(super) words: CellNames,
    pub(super) cells: Vec<Cell>,
}

/// What is different from the tick before.
#[derive(Debug)]
pub(super) enum Change {
    /// Everything: the layout is another.
    Whole,
    /// These cells, by index.
    Cells {
        /// Indices of the cells, ascending.
        at: Vec<u32>,
        /// Every cell as it was before.
        was: Vec<Cell>,
        /// Names were added.
        words: bool,
    },
}

impl FleetMap {
    /// The picture after the one before.
    pub(super) fn next(before: Option<FleetMap>, look: SiteSnapshot) -> (FleetMap, Change) {
        let layout = Layout::of(&look.nodes, before.as_ref().map(|w| w.layout.clone()));
        let old = before.as_ref().filter(|w| w.layout.version == layout.version);
        let mut words = before.as_ref().map(|w| w.words.clone()).unwrap_or_default();
        let mut cells = Vec::with_capacity(layout.first.last().map_or(0, |n| *n as usize));
        let mut places = MetricColumns::default();
        for (n, seen) in look.nodes.iter().enumerate() {
            let from = layout.first[n] as usize;
            let count = (layout.first[n + 1] - layout.first[n]) as usize;
            let past = old.map(|w| &w.cells[from..from + count]);
            fill(&mut cells, seen, count, past, &mut words, &mut places);
        }
        let index: HashMap<&NodeName, usize> =
            look.nodes.iter().enumerate().map(|(n, s)| (&s.node.name, n)).collect();
        for job in look.jobs.values() {
            hold(&mut cells, job, &layout, &index, &mut words);
        }
        let tick = before.as_ref().map_or(0, |w| w.tick) + 1;
        let at = old.map(|old| differ(&old.cells, &cells));
        let change = match (at, before) {
            (Some(at), Some(before)) => {
                Change::Cells { at, words: before.words != words, was: before.cells }
            }
            _ => Change::Whole,
        };
        (FleetMap { tick, at: look.at, layout, words, cells }, change)
    }
}

fn differ(old: &[Cell], new: &[Cell]) -> Vec<u32> {
    let pairs = old.iter().zip(new).enumerate();
    pairs.filter(|(_, (a, b))| a != b).filter_map(|(i, _)| u32::try_from(i).ok()).collect()
}

/// Columns of figures: most nodes share one list of names.
#[derive(Default)]
struct MetricColumns(Option<(Columns, [Option<usize>; 3])>);

impl MetricColumns {
    fn of(&mut self, columns: &Columns) -> [Option<usize>; 3] {
        if let Some((known, at)) = &self.0
            && Arc::ptr_eq(known, columns)
        {
            return *at;
        }
        let at = ["util", "temp", "power"].map(|name| columns.iter().position(|c| c == name));
        self.0 = Some((columns.clone(), at));
        at
    }
}

fn fill(
    cells: &mut Vec<Cell>,
    seen: &NodeSnapshot,
    count: usize,
    past: Option<&[Cell]>,
    words: &mut CellNames,
    places: &mut MetricColumns,
) {
    let node = &seen.node;
    let driver = node.inventory.versions.get("driver");
    let mut flags = 0;
    let marks = [
        (BREAKER, node.breaker.is_some()),
        (REMEDIATION, seen.remediated),
        (WAITS, seen.waits),
        (SPARE, node.role == NodeRole::Spare),
        (PROBATION, node.probation.is_some()),
    ];
    for (bit, _) in marks.iter().filter(|(_, set)| *set) {
        flags |= bit;
    }
    let plain = Cell {
        job: 0,
        power: NONE,
        hazard: u16::try_from(node.hazard).unwrap_or(u16::MAX),
        tenant: NONE,
        version: driver.map_or(NONE, |v| words.version(v)),
        state: state(node_state(seen)),
        flags,
        util: UNKNOWN,
        temp: UNKNOWN,
    };
    let present = node.gpu_set();
    let has_gpus = !node.inventory.gpus.is_empty() || !node.missing_gpus.is_empty();
    let figures = seen.figures.as_ref().map(|(columns, row)| (places.of(columns), columns, row));
    for gpu in 0..u32::try_from(count).unwrap_or(64) {
        let mut cell = plain;
        let here = present.0 >> gpu.min(63) & 1 == 1;
        if has_gpus && !here {
            cell.state = state(MISSING);
        } else if node.excluded_gpus.0 >> gpu.min(63) & 1 == 1 {
            cell.state = state(EXCLUDED);
        }
        let about = seen.findings.iter().filter(|(on, _)| on.is_none_or(|g| g == gpu));
        cell.flags |= about.map(|(_, s)| worst(*s)).max().unwrap_or(0);
        if let (true, Some((at, columns, values))) = (here, figures) {
            let figure = |n: usize| {
                at[n].and_then(|c| values.get(gpu as usize * columns.len() + c)).copied()
            };
            let past = past.and_then(|p| p.get(gpu as usize));
            cell.util = steady(past.map(|p| p.util), percent(figure(0)), UTIL_STEP);
            cell.temp = steady(past.map(|p| p.temp), percent(figure(1)), TEMP_STEP);
            cell.power = steady_power(past.map(|p| p.power), watts(figure(2)));
        }
        cells.push(cell);
    }
}

/// The state of a node's GPUs. An open breaker has a flag, and is why it gets no new work, whatever else is.
pub(super) fn node_state(seen: &NodeSnapshot) -> &'static str {
    match state_word(&seen.node) {
        "ready" if seen.node.breaker.is_some() => "ready",
        "ready" if !seen.node.orphans.is_empty() => STOPPING,
        "ready" if seen.in_maintenance => MAINTENANCE,
        word => word,
    }
}

fn worst(severity: Severity) -> u8 {
    match severity {
        Severity::Info => 0,
        Severity::Warning => 1,
        Severity::Degraded => 2,
        Severity::Critical => 3,
    }
}

/// A figure between 0 and 254; what a device does not report is not zero.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // kept within bounds
fn percent(figure: Option<f32>) -> u8 {
    figure.filter(|f| f.is_finite()).map_or(UNKNOWN, |f| f.round().clamp(0.0, 254.0) as u8)
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // kept within bounds
fn watts(figure: Option<f32>) -> u16 {
    figure.filter(|f| f.is_finite()).map_or(NONE, |f| f.round().clamp(0.0, 65_000.0) as u16)
}

/// The old figure while the new one is close to it. That a GPU does nothing is reported at once.
fn steady(old: Option<u8>, new: u8, step: u8) -> u8 {
    match old {
        Some(old) if old != UNKNOWN && new != UNKNOWN && new != 0 && old.abs_diff(new) < step => {
            old
        }
        _ => new,
    }
}

fn steady_power(old: Option<u16>, new: u16) -> u16 {
    match old {
        Some(old) if old != NONE && new != NONE && old.abs_diff(new) < POWER_STEP => old,
        _ => new,
    }
}

/// Writes a job onto the GPUs it holds.
fn hold(
    cells: &mut [Cell],
    job: &Job,
    layout: &Layout,
    index: &HashMap<&NodeName, usize>,
    words: &mut CellNames,
) {
    let Some(attempt) = &job.attempt else { return };
    let tenant = words.tenant(&job.project);
    let id = u32::try_from(job.id.0).unwrap_or(OTHERS_JOB);
    for (slot, at) in attempt.placement.slots.iter().zip(&attempt.slots) {
        if matches!(at, SlotState::Ended { .. }) {
            continue;
        }
        let Some(n) = index.get(&slot.node) else { continue };
        let (from, end) = (layout.first[*n] as usize, layout.first[n + 1] as usize);
        for gpu in slot.gpus.iter() {
            if let Some(cell) = cells[from..end].get_mut(gpu as usize) {
                cell.job = id;
                cell.tenant = tenant;
                cell.flags |= HELD;
            }
        }
    }
}
