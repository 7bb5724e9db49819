//! From rows of nodes and steps of ranks to lines that lie side by side.

use super::Field;
use super::allocation_window::AllocationWindow;
use muster_api::{GpuLine, RankLine, TelemetryBand, TelemetryField};
use muster_metering::track::mean;
use muster_metering::{Band, BandBuilder, Bins, Means, Track};
use muster_model::names::NodeName;
use muster_model::placement::{Placement, Slot};
use muster_server::agents::{Agents, Window};
use std::collections::BTreeMap;

/// GPUs that are reported one by one, whatever was asked for.
const GPUS_MAX: usize = 512;

/// In which order ranks are reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    Rank,
    Slow,
}

/// What was asked for.
#[derive(Debug, Clone)]
pub(super) struct LinesRequest {
    pub(super) fields: Vec<Field>,
    pub(super) order: Order,
    pub(super) from: u32,
    pub(super) ranks: u32,
}

/// What is reported.
#[derive(Debug, Default)]
pub(super) struct Lines {
    pub(super) ranks: u32,
    pub(super) gpus: u32,
    pub(super) fields: Vec<TelemetryField>,
    pub(super) lines: Vec<RankLine>,
    pub(super) next: Option<u32>,
    pub(super) step_band: TelemetryBand,
    pub(super) bands: Vec<TelemetryBand>,
    pub(super) slowest: Option<u32>,
    pub(super) fastest: Option<u32>,
}

pub(super) type Windows = BTreeMap<NodeName, Window>;

/// The rows of all nodes of a placement, of the time that a caller may see of them.
pub(super) fn windows(
    agents: &Agents,
    p: &Placement,
    held: &AllocationWindow,
    whole: bool,
) -> Windows {
    let mut out = Windows::new();
    for slot in &p.slots {
        if !out.contains_key(&slot.node)
            && let Some(mut w) = agents.telemetry(&slot.node)
        {
            held.cut(&slot.node, &mut w, whole);
            out.insert(slot.node.clone(), w);
        }
    }
    out
}

/// The GPUs of one rank of a slot: its share where they can be shared out, else all of them are the
/// first rank's.
fn gpus_of(slot: &Slot, nth: u32) -> impl Iterator<Item = u32> {
    let (gpus, ranks) = (slot.gpus.len(), slot.ranks.max(1));
    let (skip, take) = match gpus % ranks {
        0 => (nth * (gpus / ranks), gpus / ranks),
        _ if nth == 0 => (0, gpus),
        _ => (0, 0),
    };
    let whole = |n: u32| usize::try_from(n).unwrap_or(usize::MAX);
    slot.gpus.iter().skip(whole(skip)).take(whole(take))
}

/// One metric of one GPU; nothing where the device does not report it.
fn metric(window: &Window, name: &str, gpu: u32, bins: Bins) -> Option<Vec<Option<f32>>> {
    let column = window.gpu_columns.iter().position(|c| c == name)?;
    let at = usize::try_from(gpu).ok()?.checked_mul(window.gpu_columns.len())? + column;
    let mut means = Means::default();
    for row in &window.rows {
        if let (Some(bin), Some(v)) = (bins.of(row.heard), row.gpus.get(at)) {
            means.add(bin, *v);
        }
    }
    let line = means.line();
    line.iter().any(Option::is_some).then_some(line)
}

fn band(b: Band) -> TelemetryBand {
    TelemetryBand { low: b.low, median: b.median, high: b.high }
}

pub(super) fn of(
    placement: Option<&Placement>,
    windows: &Windows,
    track: &Track,
    asked: &LinesRequest,
    bins: Bins,
) -> Lines {
    let fields = asked.fields.iter().map(|(name, title, unit)| TelemetryField {
        name: (*name).into(),
        title: (*title).into(),
        unit: (*unit).into(),
    });
    let mut out = Lines { fields: fields.collect(), ..Lines::default() };
    let Some(p) = placement else { return out };
    out.gpus = p.slots.iter().map(|s| s.gpus.len()).sum();
    for (name, ..) in &asked.fields {
        let mut crowd = BandBuilder::default();
        for slot in &p.slots {
            let Some(w) = windows.get(&slot.node) else { continue };
            slot.gpus.iter().filter_map(|g| metric(w, name, g, bins)).for_each(|l| crowd.add(&l));
        }
        out.bands.push(band(crowd.band()));
    }
    // Every rank with where it runs and how long its steps take.
    let mut crowd = BandBuilder::default();
    let mut ranks = Vec::new();
    for slot in &p.slots {
        for nth in 0..slot.ranks {
            let rank = slot.first_rank + nth;
            let line = track.line(rank, bins);
            if let Some(l) = &line {
                crowd.add(l);
            }
            ranks.push((rank, slot, nth, line.as_deref().and_then(mean)));
        }
    }
    out.step_band = band(crowd.band());
    let reported = ranks.iter().filter_map(|(rank, _, _, m)| Some((*rank, (*m)?)));
    out.slowest = reported.clone().max_by(|a, b| a.1.total_cmp(&b.1)).map(|(rank, _)| rank);
    out.fastest = reported.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(rank, _)| rank);
    if asked.order == Order::Slow {
        // Those that report nothing come last; equals stay in the order of their ranks.
        let key = |m: Option<f32>| m.unwrap_or(f32::NEG_INFINITY);
        ranks.sort_by(|a, b| key(b.3).total_cmp(&key(a.3)));
    }
    out.ranks = u32::try_from(ranks.len()).unwrap_or(u32::MAX);
    let mut room = GPUS_MAX;
    let mut shown = 0u32;
    let whole = |n: u32| usize::try_from(n).unwrap_or(usize::MAX);
    for (rank, slot, nth, mean_ms) in ranks.iter().skip(whole(asked.from)).take(whole(asked.ranks))
    {
        let gpus: Vec<u32> = gpus_of(slot, *nth).collect();
        if gpus.len() > room && shown > 0 {
            break;
        }
        room = room.saturating_sub(gpus.len());
        shown += 1;
        let window = windows.get(&slot.node);
        let gpu = |gpu: u32| GpuLine {
            gpu,
            metrics: asked
                .fields
                .iter()
                .map(|(name, ..)| {
                    window.and_then(|w| metric(w, name, gpu, bins)).unwrap_or_default()
                })
                .collect(),
        };
        out.lines.push(RankLine {
            rank: *rank,
            node: slot.node.to_string(),
            mean_ms: *mean_ms,
            step_ms: track.line(*rank, bins).unwrap_or_default(),
            gpus: gpus.into_iter().map(gpu).collect(),
        });
    }
    out.next = asked.from.checked_add(shown).filter(|n| shown > 0 && *n < out.ranks);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_model::placement::{Fabric, GpuSet};
    use muster_model::topology::Level;
    use muster_model::units::{Bytes, Time};
    use muster_server::agents::{Columns, Row};

    const NOW: Time = Time(1_000_000_000_000);

    fn gang(nodes: u32, ranks: u32, gpus: u32) -> Placement {
        let slot = |n: u32| Slot {
            node: format!("n{n}").parse().unwrap(),
            group: 0,
            node_rank: n,
            first_rank: n * ranks,
            ranks,
            gpus: GpuSet::first(gpus),
            cpus: 8,
            memory: Bytes(1),
            part: None,
        };
        Placement {
            slots: (0..nodes).map(slot).collect(),
            port: 1,
            domain: String::new(),
            level: Level::Leaf,
            fabric: Fabric::default(),
            cap_watts: None,
            checkpoint_every: None,
        }
    }

    fn asked(order: Order, from: u32, ranks: u32) -> LinesRequest {
        let fields = ["util", "power"];
        let known = super::super::FIELDS.iter().filter(|(n, ..)| fields.contains(n));
        LinesRequest { fields: known.copied().collect(), order, from, ranks }
    }

    fn rows(nodes: u32, gpus: u8) -> Windows {
        let columns: Columns = ["util".to_string()].to_vec().into();
        let window = |n: u32| {
            let gpus = (0..gpus).map(|g| f32::from(g) + 10.0).collect();
            let row = Row { at: Time(0), heard: NOW, gpus, host: Vec::new().into() };
            let gpu_columns = Columns::clone(&columns);
            let window = Window { gpu_columns, rows: vec![row], ..Window::default() };
            (format!("n{n}").parse().unwrap(), window)
        };
        (0..nodes).map(window).collect()
    }

    fn make_lines(p: &Placement, windows: &Windows, order: Order, from: u32, ranks: u32) -> Lines {
        let asked = asked(order, from, ranks);
        of(Some(p), windows, &Track::default(), &asked, Bins::until(NOW))
    }

    #[test]
    fn ranks_have_their_own_gpus_and_pages_follow_one_another() {
        let p = gang(4, 8, 8);
        let l = make_lines(&p, &rows(4, 8), Order::Rank, 0, 20);
        assert_eq!((l.ranks, l.gpus, l.lines.len(), l.next), (32, 32, 20, Some(20)));
        assert_eq!((l.lines[9].rank, l.lines[9].node.as_str()), (9, "n1"));
        assert_eq!(l.lines[9].gpus.len(), 1);
        let g = &l.lines[9].gpus[0];
        assert_eq!((g.gpu, g.metrics[0].last().unwrap()), (1, &Some(11.0)));
        assert!(g.metrics[1].is_empty(), "nobody reports power");
        assert_eq!(l.bands[0].high.last().unwrap(), &Some(17.0));
        let l = make_lines(&p, &rows(4, 8), Order::Rank, 20, 20);
        assert_eq!((l.lines.len(), l.next), (12, None));
        let l = make_lines(&p, &rows(4, 8), Order::Rank, 99, 20);
        assert_eq!((l.lines.len(), l.next), (0, None), "past the end is empty");
    }

    #[test]
    fn one_rank_on_a_node_has_all_its_gpus() {
        let l = make_lines(&gang(2, 1, 8), &rows(2, 8), Order::Rank, 0, 9);
        assert_eq!(l.lines.iter().map(|l| l.gpus.len()).collect::<Vec<_>>(), [8, 8]);
        // Three ranks cannot share eight GPUs out: they are reported with the first.
        let l = make_lines(&gang(1, 3, 8), &rows(1, 8), Order::Rank, 0, 9);
        assert_eq!(l.lines.iter().map(|l| l.gpus.len()).collect::<Vec<_>>(), [8, 0, 0]);
    }

    #[test]
    fn the_slowest_come_first_when_they_are_asked_for() {
        let mut t = Track::default();
        for (rank, us) in [(0, 400_000), (1, 900_000), (2, 300_000)] {
            t.step(rank, NOW, us);
        }
        let bins = Bins::until(NOW);
        let l = of(Some(&gang(4, 1, 0)), &Windows::new(), &t, &asked(Order::Slow, 0, 2), bins);
        assert_eq!(l.lines.iter().map(|l| l.rank).collect::<Vec<_>>(), [1, 0]);
        assert_eq!((l.slowest, l.fastest, l.ranks, l.next), (Some(1), Some(2), 4, Some(2)));
        assert_eq!(l.step_band.median.last().unwrap(), &Some(400.0));
        assert_eq!(l.lines[0].mean_ms, Some(900.0));
    }

    #[test]
    fn however_large_the_gang_is_the_answer_is_bounded() {
        let l = make_lines(&gang(400, 1, 8), &rows(400, 8), Order::Rank, 0, 256);
        assert_eq!(l.lines.iter().map(|l| l.gpus.len()).sum::<usize>(), GPUS_MAX);
        assert_eq!(l.next, Some(64));
        let (one, bins) = (asked(Order::Rank, 0, 1), Bins::until(NOW));
        let none = of(None, &Windows::new(), &Track::default(), &one, bins);
        assert_eq!((none.ranks, none.fields.len(), none.bands.len()), (0, 2, 0));
    }
}
