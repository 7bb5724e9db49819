//! What a benchmark found: a table for people, JSON for machines.

use crate::machine;
use anyhow::{Context, Result};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// One figure, with the peer's beside it where there is one.
#[derive(Debug, Clone, Serialize, PartialEq)]
pub(crate) struct Case {
    /// Ours; none when our side was not measured.
    pub(crate) value: Option<f64>,
    pub(crate) unit: String,
    /// What the peer reached, in the same unit.
    pub(crate) peer: Option<f64>,
    pub(crate) peer_name: Option<String>,
    /// Ours divided by theirs.
    pub(crate) ratio: Option<f64>,
}

/// The whole result.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    name: String,
    commit: String,
    machine: String,
    results: BTreeMap<String, Case>,
    #[serde(skip)]
    order: Vec<String>,
    #[serde(skip)]
    notes: Vec<String>,
    /// Where it was saved.
    #[serde(skip)]
    file: Option<PathBuf>,
}

impl Report {
    pub(crate) fn new(name: &str) -> Report {
        Report {
            name: name.into(),
            commit: machine::commit(),
            machine: machine::describe(),
            results: BTreeMap::new(),
            order: Vec::new(),
            notes: Vec::new(),
            file: None,
        }
    }

    fn case(&mut self, name: &str, unit: &str) -> &mut Case {
        if !self.order.iter().any(|n| n == name) {
            self.order.push(name.into());
        }
        self.results.entry(name.into()).or_insert_with(|| Case {
            value: None,
            unit: unit.into(),
            peer: None,
            peer_name: None,
            ratio: None,
        })
    }

    /// Our figure.
    pub(crate) fn ours(&mut self, name: &str, unit: &str, value: f64) {
        eprintln!("  ours   {name}: {} {unit}", short(value));
        let case = self.case(name, unit);
        case.value = Some(rounded(value));
        case.ratio = ratio(case);
    }

    /// Our figure, which was shown already where it was measured.
    pub(crate) fn quietly(&mut self, name: &str, unit: &str, value: f64) {
        let case = self.case(name, unit);
        case.value = Some(rounded(value));
        case.ratio = ratio(case);
    }

    /// Our figure as far as it is known.
    pub(crate) fn value(&self, name: &str) -> Option<f64> {
        self.results.get(name)?.value
    }

    /// The peer's figure; of several, the best counts (`higher_is_better`).
    pub(crate) fn theirs(
        &mut self,
        name: &str,
        unit: &str,
        peer_name: &str,
        value: f64,
        higher_is_better: bool,
    ) {
        eprintln!("  theirs {name}: {} {unit} ({peer_name})", short(value));
        let case = self.case(name, unit);
        let better = case.peer.is_none_or(|old| (value > old) == higher_is_better);
        if better {
            case.peer = Some(rounded(value));
            case.peer_name = Some(peer_name.into());
            case.ratio = ratio(case);
        }
    }

    /// Something the reader of the figures must know.
    pub(crate) fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// The results as a table, for people.
    pub(crate) fn table(&self) -> String {
        let mut rows =
            vec![["case", "unit", "ours", "theirs", "ours/theirs", "peer"].map(String::from)];
        let number = |v: Option<f64>| v.map_or_else(|| "-".into(), short);
        for name in &self.order {
            let case = &self.results[name];
            rows.push([
                name.clone(),
                case.unit.clone(),
                number(case.value),
                number(case.peer),
                case.ratio.map_or_else(|| "-".into(), |r| format!("{}x", short(r))),
                case.peer_name.clone().unwrap_or_default(),
            ]);
        }
        let widths: Vec<usize> =
            (0..6).map(|i| rows.iter().map(|r| r[i].chars().count()).max().unwrap_or(0)).collect();
        let mut out = format!("{}  commit {}\non {}\n\n", self.name, self.commit, self.machine);
        for row in &rows {
            let mut line = String::new();
            for (i, cell) in row.iter().enumerate() {
                let width = widths[i];
                let _ = match i {
                    2..=4 => write!(line, "{cell:>width$}  "),
                    _ => write!(line, "{cell:<width$}  "),
                };
            }
            out += line.trim_end();
            out.push('\n');
        }
        for note in &self.notes {
            let _ = write!(out, "\n{note}");
        }
        if !self.notes.is_empty() {
            out.push('\n');
        }
        out
    }

    /// Writes the JSON to `NAME-DATE.json` in this directory, or in `bench/results`. A benchmark that
    /// takes long saves what it has so far: the same file is written again.
    pub(crate) fn save(&mut self, dir: Option<&Path>) -> Result<PathBuf> {
        let file = match self.file.take() {
            Some(file) => file,
            None => {
                let dir = dir.map_or_else(|| xtask::root().join("bench/results"), PathBuf::from);
                std::fs::create_dir_all(&dir)?;
                let date = jiff::Zoned::now().strftime("%Y-%m-%dT%H%M%S").to_string();
                dir.join(format!("{}-{date}.json", self.name))
            }
        };
        let mut text = serde_json::to_string_pretty(self)?;
        text.push('\n');
        std::fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
        self.file = Some(file.clone());
        Ok(file)
    }
}

fn ratio(case: &Case) -> Option<f64> {
    match (case.value, case.peer) {
        (Some(ours), Some(theirs)) if theirs > 0.0 => Some(rounded(ours / theirs)),
        _ => None,
    }
}

/// Three decimals are more than any of these figures is worth.
fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

fn short(value: f64) -> String {
    match value.abs() {
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_of_several_peers_counts_and_the_ratio_follows() {
        let mut report = Report::new("x");
        report.ours("jobs_per_s", "1/s", 100.0);
        report.theirs("jobs_per_s", "1/s", "slow", 5.0, true);
        report.theirs("jobs_per_s", "1/s", "fast", 10.0, true);
        report.theirs("jobs_per_s", "1/s", "middle", 7.0, true);
        let case = &report.results["jobs_per_s"];
        assert_eq!(case.peer, Some(10.0));
        assert_eq!(case.peer_name.as_deref(), Some("fast"));
        assert_eq!(case.ratio, Some(10.0));
        report.theirs("ms", "ms", "a", 5.0, false);
        report.theirs("ms", "ms", "b", 3.0, false);
        report.theirs("ms", "ms", "c", 4.0, false);
        assert_eq!(report.results["ms"].peer, Some(3.0));
    }

    #[test]
    fn the_json_has_exactly_the_documented_fields() {
        let mut report = Report::new("x");
        report.ours("a", "ms", 1.0);
        report.note("not in the JSON");
        let json = serde_json::to_value(&report).unwrap();
        let keys = |v: &serde_json::Value| {
            v.as_object().unwrap().keys().cloned().collect::<std::collections::BTreeSet<_>>()
        };
        assert_eq!(keys(&json), ["commit", "machine", "name", "results"].map(String::from).into());
        assert_eq!(
            keys(&json["results"]["a"]),
            ["peer", "peer_name", "ratio", "unit", "value"].map(String::from).into()
        );
        assert!(json["results"]["a"]["peer"].is_null());
    }

    #[test]
    fn what_is_saved_on_the_way_is_in_the_same_file_as_the_end() {
        let dir = xtask::proc::TempDir::new("report-test").unwrap();
        let mut report = Report::new("x");
        report.ours("a", "ms", 1.0);
        let first = report.save(Some(dir.path())).unwrap();
        report.ours("b", "ms", 2.0);
        assert_eq!(report.save(Some(dir.path())).unwrap(), first);
        let text = std::fs::read_to_string(&first).unwrap();
        assert!(text.contains("\"a\"") && text.contains("\"b\""), "{text}");
    }

    #[test]
    fn a_table_has_a_line_per_case_in_the_order_measured() {
        let mut report = Report::new("x");
        report.ours("zebra", "ms", 1.0);
        report.ours("ant", "ms", 2.0);
        let table = report.table();
        assert!(table.find("zebra") < table.find("ant"), "{table}");
    }
}
