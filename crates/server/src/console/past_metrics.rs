//! Metrics of GPUs at a moment that has passed, out of the history.

use super::snapshot::NodeSnapshot;
use crate::history::{History, NoHistory};
use crate::telemetry::{Columns, Row};
use muster_history::SeriesQuery;
use muster_model::job::Job;
use muster_model::names::{NodeName, ProjectName};
use muster_model::{Span, Time};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What the map is coloured by.
const METRICS: [&str; 3] = ["util", "temp", "power"];
/// The newest sample of so long before the moment counts: one step of what is kept longest.
const BACK: Span = Span::secs(60);
/// More than one point for each second of it is not needed.
const POINTS: usize = 60;
/// Nodes that are read at once, and bytes of files for them: what would need more has no metrics.
const AT_ONCE: usize = 256;
const BYTES_MAX: u64 = 64 << 20;

/// From when GPUs are allocated to one project, by node: what they did before is not its to know.
pub(super) type Since<'a> = BTreeMap<&'a NodeName, BTreeMap<u32, Time>>;

/// From when each GPU of a project is allocated to it.
pub(super) fn since<'a>(
    jobs: impl Iterator<Item = &'a Arc<Job>>,
    project: &ProjectName,
) -> Since<'a> {
    let mut out = Since::new();
    for job in jobs.filter(|j| j.project == *project) {
        let Some(attempt) = &job.attempt else { continue };
        for slot in &attempt.placement.slots {
            let gpus = out.entry(&slot.node).or_default();
            for gpu in slot.gpus.iter() {
                let known = gpus.entry(gpu).or_insert(attempt.placed_at);
                *known = (*known).max(attempt.placed_at);
            }
        }
    }
    out
}

/// A row in memory without what GPUs did before they were allocated to a project.
pub(super) fn hide_before(
    own: Option<&BTreeMap<u32, Time>>,
    row: &Row,
    columns: usize,
) -> Arc<[f32]> {
    let mut gpus = row.gpus.to_vec();
    for (gpu, values) in (0..).zip(gpus.chunks_mut(columns.max(1))) {
        if own.and_then(|own| own.get(&gpu)).is_none_or(|since| *since > row.heard) {
            values.fill(f32::NAN);
        }
    }
    gpus.into()
}

/// Fills in what is not known of reachable nodes yet; with `own`, only of these GPUs and their time.
/// Reads files, and so takes its time.
pub(super) fn fill(
    nodes: &mut [NodeSnapshot],
    history: &History,
    at: Time,
    own: Option<&Since<'_>>,
) {
    let columns: Columns = METRICS.map(str::to_owned).to_vec().into();
    let lacking = nodes.iter_mut().filter(|n| n.node.reachable && n.figures.is_none());
    let mut lacking: Vec<&mut NodeSnapshot> = lacking.collect();
    for part in lacking.chunks_mut(AT_ONCE) {
        match fill_some(part, history, &columns, at, own) {
            Ok(()) | Err(NoHistory::TooMuch { .. }) => {}
            // There is none to read.
            Err(_) => return,
        }
    }
}

fn fill_some(
    nodes: &mut [&mut NodeSnapshot],
    history: &History,
    columns: &Columns,
    at: Time,
    own: Option<&Since<'_>>,
) -> Result<(), NoHistory> {
    let mut wants = Vec::new();
    // Where the value of each line goes: which node, and which place in its row.
    let mut places: Vec<(usize, usize)> = Vec::new();
    for (n, seen) in nodes.iter().enumerate() {
        for (series, key) in history.series_of(seen.node.name.as_str())? {
            let metric = METRICS.iter().position(|m| **m == *key.metric);
            // A map has 64 GPUs of a node at most.
            let (Some(metric), Some(gpu)) = (metric, key.gpu.filter(|g| *g < 64)) else { continue };
            let line = places.len();
            match own {
                None => wants.push(SeriesQuery::whole(series, line)),
                // A step that has more than the project's own time in it is left out.
                Some(own) => {
                    let since = own.get(&seen.node.name).and_then(|gpus| gpus.get(&gpu));
                    let Some(since) = since else { continue };
                    let (since, until) = (since.0, at.0);
                    wants.push(SeriesQuery { series, line, since, until, regular: true });
                }
            }
            places.push((n, gpu as usize * METRICS.len() + metric));
        }
    }
    // Only steps that had begun by then.
    let points = history.read(wants, at - BACK, at + Span(1), POINTS, BYTES_MAX)?;
    let mut rows: Vec<Vec<f32>> = vec![Vec::new(); nodes.len()];
    for ((n, place), line) in places.into_iter().zip(&points.lines) {
        let Some(mean) = line.iter().rev().find_map(muster_history::Cell::mean) else { continue };
        let row = &mut rows[n];
        if row.len() <= place {
            row.resize(place + 1, f32::NAN);
        }
        row[place] = mean;
    }
    for (seen, row) in nodes.iter_mut().zip(rows).filter(|(_, row)| !row.is_empty()) {
        seen.figures = Some((columns.clone(), row.into()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_gpu_did_before_its_allocation_is_hidden() {
        let row = Row {
            at: Time(50),
            heard: Time(50),
            gpus: Arc::from([1.0, 2.0, 3.0, 4.0]),
            host: Arc::from([]),
        };
        let shown = |own: &[(u32, i64)]| {
            let own: BTreeMap<u32, Time> = own.iter().map(|(g, t)| (*g, Time(*t))).collect();
            let row = hide_before(Some(&own), &row, 2);
            row.iter().map(|v| v.is_nan()).collect::<Vec<bool>>()
        };
        assert_eq!(shown(&[(0, 50), (1, 51)]), [false, false, true, true]);
        assert_eq!(shown(&[(1, 1)]), [true, true, false, false]);
    }
}
