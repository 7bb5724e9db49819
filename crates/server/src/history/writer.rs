//! From rows and steps to samples of series.

use super::allocations::{Allocation, Allocations};
use super::steps::{self, STEP_TIME, StepCells};
use super::{HistoryRow, StepSeries};
use crate::brain::clock;
use crate::telemetry::Columns;
use muster_history::{Cell, HistoryError, Limits, SeriesId, Store};
use muster_model::ids::JobId;
use muster_model::names::NodeName;
use muster_model::units::{Span, Time};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

/// Columns whose bits mean something each: they have no mean.
const MASKS: [&str; 1] = ["throttle"];

/// The series of a node in the order of its rows.
struct NodeSeries {
    gpu_columns: Columns,
    gpus: usize,
    host_columns: Columns,
    /// None where a metric is not kept.
    ids: Vec<Option<SeriesId>>,
}

fn same(a: &Columns, b: &Columns) -> bool {
    Arc::ptr_eq(a, b) || a == b
}

impl NodeSeries {
    fn is_of(&self, row: &HistoryRow) -> bool {
        self.gpus == row.gpus.len()
            && same(&self.gpu_columns, &row.gpu_columns)
            && same(&self.host_columns, &row.host_columns)
    }
}

/// The store, and which series is which of a row.
pub(super) struct Writer {
    pub(super) store: Store,
    pub(super) allocations: Allocations,
    nodes: HashMap<NodeName, NodeSeries>,
    samples: Vec<(SeriesId, f32)>,
    /// The series of steps by their numbers.
    step_ids: HashMap<u32, SeriesId>,
    /// Files of the coarsest steps that were deleted for space when it was last logged.
    reported: u64,
}

impl Writer {
    pub(super) fn open(dir: &Path, limits: Limits) -> Result<Writer, HistoryError> {
        let now = clock();
        let mut store = Store::open(dir, limits)?;
        // A disk that is full may still be read, and may have space later.
        if let Err(e) = store.advance(now.0) {
            tracing::warn!(error = %e, "old metrics of the history could not be removed");
        }
        let path = dir.join("allocations");
        let allocations = Allocations::open(&path, now).map_err(|source| HistoryError::Io {
            what: format!("cannot use {}", path.display()),
            source,
        })?;
        Ok(Writer {
            store,
            allocations,
            nodes: HashMap::new(),
            samples: Vec::new(),
            step_ids: HashMap::new(),
            reported: 0,
        })
    }

    /// Logs that the coarsest steps do not fit, once a file.
    pub(super) fn report_short(&mut self) {
        let Some(coarsest) = self.store.tier_stats().pop() else { return };
        if coarsest.dropped_files == self.reported {
            return;
        }
        self.reported = coarsest.dropped_files;
        let now = clock();
        let stored = coarsest.known_from.map_or(Span(0), |at| now.since(Time(at)));
        let wanted = Span(u64::try_from(coarsest.keep_ms).unwrap_or(0));
        tracing::warn!(
            %stored, %wanted,
            "the history of metrics does not fit into its limit and reaches back less than it \
             should; --history-bytes sets the limit"
        );
    }

    pub(super) fn take(&mut self, row: &HistoryRow) -> Result<(), HistoryError> {
        if self.nodes.get(&row.node).is_none_or(|known| !known.is_of(row)) {
            let series = self.series(row)?;
            self.nodes.insert(row.node.clone(), series);
        }
        let Some(known) = self.nodes.get(&row.node) else { return Ok(()) };
        let values = row.gpus.iter().chain(row.host.iter());
        let sampled = known.ids.iter().zip(values).filter_map(|(id, v)| Some(((*id)?, *v)));
        self.samples.clear();
        self.samples.extend(sampled);
        self.store.append(row.at.0, &self.samples)
    }

    /// Takes steps in; those of attempts without a number are left out.
    pub(super) fn take_steps(&mut self, at: Time, steps: &StepCells) -> Result<(), HistoryError> {
        let mut cells: Vec<(SeriesId, Cell)> = Vec::with_capacity(steps.len());
        for (key, cell) in steps {
            let Some(line) = self.allocations.line_of(*key) else { continue };
            let id = match self.step_ids.get(&line) {
                Some(id) => *id,
                None => {
                    let (name, part) = steps::place(line);
                    let id = match self.store.series(&name, Some(part), STEP_TIME) {
                        Ok(id) => id,
                        Err(HistoryError::TooManySeries(_)) => continue,
                        Err(e) => return Err(e),
                    };
                    self.step_ids.insert(line, id);
                    id
                }
            };
            cells.push((id, *cell));
        }
        self.store.merge(at.0, &cells)
    }

    pub(super) fn steps_of(&self, job: JobId) -> Vec<StepSeries> {
        let series = |a: Arc<Allocation>| {
            let steps = a.steps?;
            let (name, part) = steps::place(steps.line);
            let all = self.store.series_of(&name);
            let (series, _) = all.into_iter().find(|(_, key)| key.gpu == Some(part))?;
            Some(StepSeries {
                attempt: a.attempt,
                placed_at: a.placed_at,
                series,
                since: steps.from,
                until: self.allocations.steps_until(steps),
            })
        };
        self.allocations.of(job).into_iter().filter_map(series).collect()
    }

    fn series(&mut self, row: &HistoryRow) -> Result<NodeSeries, HistoryError> {
        let width = row.gpu_columns.len().max(1);
        let mut ids = Vec::with_capacity(row.gpus.len() + row.host.len());
        for at in 0..row.gpus.len() {
            let gpu = u32::try_from(at / width).ok();
            let name = row.gpu_columns.get(at % width);
            ids.push(self.id(&row.node, gpu, name.map_or("", String::as_str))?);
        }
        for name in row.host_columns.iter().take(row.host.len()) {
            ids.push(self.id(&row.node, None, name)?);
        }
        Ok(NodeSeries {
            gpu_columns: row.gpu_columns.clone(),
            gpus: row.gpus.len(),
            host_columns: row.host_columns.clone(),
            ids,
        })
    }

    fn id(
        &mut self,
        node: &NodeName,
        gpu: Option<u32>,
        metric: &str,
    ) -> Result<Option<SeriesId>, HistoryError> {
        // A node has no steps: only jobs have.
        if metric.is_empty() || MASKS.contains(&metric) || metric == STEP_TIME {
            return Ok(None);
        }
        match self.store.series(node.as_str(), gpu, metric) {
            Ok(id) => Ok(Some(id)),
            // The others of the row are kept.
            Err(HistoryError::TooManySeries(_) | HistoryError::LongName(_)) => Ok(None),
            Err(e) => Err(e),
        }
    }
}
