//! The last ten minutes of each node in numbers. In memory only, never logged.

use muster_link::messages::Telemetry;
use muster_model::text::is_odd;
use muster_model::units::Time;
use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

/// Rows kept for each node.
const ROWS: usize = 60;
/// More than any machine sends; what is larger is not believed.
const MOST_GPUS: usize = 64;
const MOST_COLUMNS: usize = 64;
/// Figures of a host: sixteen ports and as many file systems, and some beside.
const MOST_HOST: usize = 256;
/// Bytes of the name of a GPU's figure, and of a host's, in which the path of a file system may be.
const MOST_NAME: usize = 64;
const MOST_HOST_NAME: usize = 256;
/// Different names of one node since this server started, of GPUs and of the host. A node that has
/// more makes them up.
const MOST_NAMES: usize = 512;

/// Is it the name of a metric? Names are shown to people and stored for as long as the history.
fn is_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_:.-/@".contains(c);
    match name.strip_prefix("fs.") {
        // The path of a file system is in it, which has characters of any language.
        Some(path) => !path.contains(is_odd),
        None => !name.is_empty() && name.chars().all(plain),
    }
}

/// Names of columns, shared by all nodes that have the same.
pub type Columns = Arc<[String]>;

/// The newest rows of a node, oldest first.
#[derive(Debug, Clone, Default)]
pub struct Window {
    /// Names of the figures of a GPU.
    pub gpu_columns: Columns,
    /// Names of the host's figures.
    pub host_columns: Columns,
    /// The rows, oldest first.
    pub rows: Vec<Row>,
}

/// One summary. A value that a device does not have is `NaN`.
#[derive(Debug, Clone)]
pub struct Row {
    /// When it was taken, by the node's clock.
    pub at: Time,
    /// When it was heard, by this server's clock.
    pub heard: Time,
    /// GPU after GPU, each with one value per column.
    pub gpus: Arc<[f32]>,
    /// One value per host column.
    pub host: Arc<[f32]>,
}

/// Lists of names that were seen; a site has very few different ones.
#[derive(Debug, Default)]
pub(crate) struct Interned(BTreeSet<Columns>);

impl Interned {
    /// Past this a node makes names up; its own copy is used.
    const MOST: usize = 256;

    fn get(&mut self, names: Vec<String>) -> Columns {
        if let Some(known) = self.0.get(names.as_slice()) {
            return known.clone();
        }
        let new: Columns = names.into();
        if self.0.len() < Self::MOST {
            self.0.insert(new.clone());
        }
        new
    }
}

/// A node's rows.
#[derive(Debug, Default)]
pub(crate) struct Ring {
    gpu_columns: Columns,
    host_columns: Columns,
    rows: VecDeque<Row>,
    /// When the newest row came in, by this server's clock.
    came_at: Option<Time>,
    /// Names that the node used so far.
    names: BTreeSet<String>,
    /// Metrics and rows that were not accepted.
    dropped: u64,
}

impl Ring {
    /// Takes a summary in; says no to one that makes no sense.
    pub(crate) fn push(&mut self, mut t: Telemetry, now: Time, shared: &Mutex<Interned>) -> bool {
        if t.gpus.len() > MOST_GPUS || t.columns.len() > MOST_COLUMNS || t.host.len() > MOST_HOST {
            return self.drop_row();
        }
        // Names are looked at once: most rows have those of the row before.
        if *t.columns != *self.gpu_columns
            && !t.columns.iter().all(|name| self.knows(name, MOST_NAME))
        {
            return self.drop_row();
        }
        // Somebody's path may be long: only that figure is left out.
        let reported = t.host.len();
        if !self.host_columns.iter().eq(t.host.keys()) {
            t.host.retain(|name, _| self.knows(name, MOST_HOST_NAME));
        }
        self.dropped += (reported - t.host.len()) as u64;
        let host_changed = !self.host_columns.iter().eq(t.host.keys());
        let gpus_changed = !t.columns.is_empty() && *t.columns != *self.gpu_columns;
        if host_changed || gpus_changed {
            let mut names = shared.lock().unwrap_or_else(PoisonError::into_inner);
            if gpus_changed {
                self.gpu_columns = names.get(t.columns);
            }
            if host_changed {
                self.host_columns = names.get(t.host.keys().cloned().collect());
            }
            // Old rows have other columns.
            self.rows.clear();
        }
        let width = self.gpu_columns.len();
        if t.gpus.iter().any(|g| g.len() != width) {
            return self.drop_row();
        }
        #[allow(clippy::cast_possible_truncation)] // a figure for people and detectors
        let host = t.host.values().map(|v| *v as f32).collect();
        let gpus = t.gpus.iter().flatten().map(|v| v.unwrap_or(f32::NAN)).collect();
        if self.rows.len() >= ROWS {
            self.rows.pop_front();
        }
        self.rows.push_back(Row { at: t.at, heard: now, gpus, host });
        self.came_at = Some(crate::brain::clock());
        true
    }

    /// Is it one of the node's names, of which it may have so many? A new one has at most so many
    /// bytes.
    fn knows(&mut self, name: &str, bytes: usize) -> bool {
        if self.names.contains(name) {
            return name.len() <= bytes;
        }
        let good = name.len() <= bytes && is_name(name) && self.names.len() < MOST_NAMES;
        good && self.names.insert(name.to_owned())
    }

    /// A row is not accepted.
    pub(crate) fn drop_row(&mut self) -> bool {
        self.dropped += 1;
        false
    }

    /// How many metrics and rows were not accepted since the last call.
    pub(crate) fn take_dropped(&mut self) -> u64 {
        std::mem::take(&mut self.dropped)
    }

    /// When the newest row came in.
    pub(crate) fn newest_row_at(&self) -> Option<Time> {
        self.came_at
    }

    /// The newest row, with the names of a GPU's figures.
    pub(crate) fn newest(&self) -> Option<(Columns, Arc<[f32]>)> {
        self.rows.back().map(|r| (self.gpu_columns.clone(), r.gpus.clone()))
    }

    /// The newest row as it is, with the names of all its figures.
    pub(crate) fn newest_row(&self) -> Option<(Columns, Columns, Row)> {
        let row = self.rows.back()?.clone();
        Some((self.gpu_columns.clone(), self.host_columns.clone(), row))
    }

    pub(crate) fn window(&self) -> Option<Window> {
        (!self.rows.is_empty()).then(|| Window {
            gpu_columns: self.gpu_columns.clone(),
            host_columns: self.host_columns.clone(),
            rows: self.rows.iter().cloned().collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(columns: &[&str], gpus: Vec<Vec<Option<f32>>>) -> Telemetry {
        let columns = columns.iter().map(ToString::to_string).collect();
        Telemetry { at: Time(1), columns, gpus, host: [("load".to_string(), 0.5)].into() }
    }

    #[test]
    fn the_window_keeps_the_newest_rows_and_shares_the_names() {
        let names = Mutex::default();
        let (mut a, mut b) = (Ring::default(), Ring::default());
        assert!(a.window().is_none());
        assert!(a.push(summary(&["temp", "util"], vec![vec![Some(1.0), None]]), Time(1), &names));
        assert!(b.push(summary(&["temp", "util"], vec![vec![None, None]]), Time(1), &names));
        assert!(Arc::ptr_eq(&a.gpu_columns, &b.gpu_columns));
        for i in 0..100u8 {
            assert!(a.push(summary(&[], vec![vec![Some(f32::from(i)), None]]), Time(1), &names));
        }
        let w = a.window().unwrap();
        assert_eq!(w.rows.len(), ROWS);
        assert_eq!(w.rows[ROWS - 1].gpus[0], 99.0);
        assert!(w.rows[0].gpus[1].is_nan());
    }

    #[test]
    fn a_summary_that_does_not_fit_its_columns_is_not_believed() {
        let names = Mutex::default();
        let mut r = Ring::default();
        assert!(!r.push(summary(&["temp"], vec![vec![Some(1.0), Some(2.0)]]), Time(1), &names));
        assert!(!r.push(summary(&[], vec![vec![]; 65]), Time(1), &names));
        let long = "x".repeat(MOST_NAME + 1);
        assert!(!r.push(summary(&[&long], vec![vec![None]]), Time(1), &names));
        assert!(r.window().is_none());
        let mut deep = summary(&["temp"], vec![vec![None]]);
        deep.host.insert(format!("fs./{}", "x".repeat(MOST_HOST_NAME)), 1.0);
        assert!(r.push(deep, Time(1), &names));
        assert_eq!(r.window().unwrap().host_columns[..], ["load".to_string()]);
    }

    #[test]
    fn names_that_are_made_up_are_dropped_and_counted() {
        let names = Mutex::default();
        let mut r = Ring::default();
        let mut evil = summary(&["temp"], vec![vec![None]]);
        evil.host.insert("cpu\u{1b}[2J\u{7}".into(), 1.0);
        evil.host.insert("fs./a\u{1b}b.free".into(), 1.0);
        evil.host.insert("fs./données 1.free".into(), 1.0);
        assert!(r.push(evil, Time(1), &names));
        let kept = ["fs./données 1.free", "load"].map(String::from);
        assert_eq!((r.window().unwrap().host_columns[..] == kept, r.take_dropped()), (true, 2));
        assert!(!r.push(summary(&["te\u{1b}mp"], vec![vec![None]]), Time(1), &names));
        assert_eq!(r.take_dropped(), 1);
        // Ever new ones: so many, and the old ones are still accepted.
        for n in 0..1000 {
            let mut t = summary(&["temp"], vec![vec![None]]);
            t.host.extend((0..4).map(|i| (format!("made_up_{}", n * 4 + i), 1.0)));
            assert!(r.push(t, Time(1), &names));
        }
        assert_eq!(r.names.len(), MOST_NAMES);
        assert_eq!(r.take_dropped(), 4000 - (MOST_NAMES as u64 - 3));
        assert_eq!(r.window().unwrap().host_columns[..], ["load".to_string()]);
        assert!(!r.push(summary(&["fresh"], vec![vec![None]]), Time(1), &names));
    }
}
