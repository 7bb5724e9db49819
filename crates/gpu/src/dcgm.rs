//! The names under which dashboards know the figures of a GPU: those of NVIDIA's DCGM and its
//! exporter, keyed by field id, because DCGM 4.6 renamed the fields and kept their ids.

use crate::sample::{FIELDS, Field};
use std::sync::LazyLock;

/// Which names are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Names {
    /// Those that most dashboards know.
    #[default]
    Classic,
    /// Those of DCGM 4.6 and later.
    Renamed,
}

/// Type of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Goes up and down.
    Gauge,
    /// Only goes up.
    Counter,
}

impl Kind {
    /// As the exposition format writes it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Kind::Gauge => "gauge",
            Kind::Counter => "counter",
        }
    }
}

/// How a figure is shown to dashboards.
#[derive(Debug, Clone, PartialEq)]
pub struct Metric {
    /// The field of a sample it is read from.
    pub field: Field,
    /// Name before DCGM 4.6.
    pub classic: &'static str,
    /// Name from DCGM 4.6 on.
    pub renamed: &'static str,
    /// Counter or gauge.
    pub kind: Kind,
    /// What it is.
    pub help: &'static str,
    /// Turns the figure's unit into the metric's.
    pub factor: f64,
    /// Reported by the exporter when nobody chose anything.
    pub on_by_default: bool,
}

impl Metric {
    /// The name it is exported under.
    #[must_use]
    pub fn name(&self, names: Names) -> &'static str {
        match names {
            Names::Classic => self.classic,
            Names::Renamed => self.renamed,
        }
    }

    /// A figure in the metric's unit.
    #[must_use]
    pub fn value(&self, figure: f64) -> f64 {
        figure * self.factor
    }
}

/// Fields of the exporter that are not figures of a look, and where they are instead.
pub const NOT_MEASURED: [(u16, &str); 11] = [
    (1, "the driver's version is a label of every series"),
    (2, "the library's version is in the inventory of the node"),
    (51, "a brand is a part of the product's name, which is a label"),
    (53, "the serial number is in the inventory of the node"),
    (56, "an OEM's InfoROM has no numbers that anything here needs"),
    (80, "the InfoROM image's version stands for its parts"),
    (81, "the InfoROM image's version stands for its parts"),
    (82, "the InfoROM image's version is in the inventory of the node"),
    (85, "the VBIOS version is in the inventory of the node"),
    (440, "traffic is counted for all links together; a bad link shows in the error counters"),
    (526, "licences of virtual GPUs: whole GPUs and MIG slices have none"),
];

static METRICS: LazyLock<Vec<Option<Metric>>> = LazyLock::new(|| {
    let mut out: Vec<Option<Metric>> = FIELDS.iter().map(|_| None).collect();
    for metric in include_str!("../data/dcgm.csv").lines().filter_map(parse) {
        let place = metric.field.place();
        out[place] = Some(metric);
    }
    out
});

fn parse(line: &'static str) -> Option<Metric> {
    let mut parts = line.split('|');
    let id: u16 = parts.next()?.parse().ok()?;
    let field = FIELDS.into_iter().find(|f| *f as u16 == id)?;
    let classic = parts.next()?;
    let renamed = parts.next()?;
    let kind = if parts.next()? == "counter" { Kind::Counter } else { Kind::Gauge };
    let on_by_default = parts.next()? == "1";
    let factor = parts.next()?.parse().ok()?;
    let renamed = if renamed.is_empty() { classic } else { renamed };
    Some(Metric { field, classic, renamed, kind, help: parts.next()?, factor, on_by_default })
}

/// How a figure is reported; none for one that DCGM does not have.
#[must_use]
pub fn metric(field: Field) -> Option<&'static Metric> {
    METRICS.get(field.place())?.as_ref()
}

/// Every metric, in the order of a row.
pub fn metrics() -> impl Iterator<Item = &'static Metric> {
    METRICS.iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::path::Path;

    #[test]
    fn every_line_is_understood() {
        let lines = include_str!("../data/dcgm.csv").lines().filter(|l| !l.starts_with('#'));
        assert_eq!(lines.count(), metrics().count());
        let mut names = BTreeSet::new();
        for m in metrics() {
            assert!(names.insert(m.classic) && m.classic.starts_with("DCGM_FI_"), "{m:?}");
            assert!(m.renamed == m.classic || names.insert(m.renamed), "{m:?}");
            assert!(m.help.ends_with('.') && m.factor > 0.0, "{m:?}");
        }
    }

    #[test]
    fn every_figure_that_dcgm_has_is_reported() {
        for f in FIELDS {
            assert_eq!(metric(f).is_some(), (f as u16) < 9000, "{f:?}");
        }
        let m = metric(Field::Temp).expect("there");
        assert_eq!(m.name(Names::Classic), "DCGM_FI_DEV_GPU_TEMP");
        assert_eq!(m.name(Names::Renamed), "DCGM_FI_DEV_GPU_TEMP_CELSIUS");
        assert_eq!((m.kind.word(), m.value(61.0)), ("gauge", 61.0));
    }

    /// The exporter's own list, where it lies beside the repository.
    #[test]
    fn everything_the_exporter_reports_is_reported_or_has_a_reason() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let path = root.join("../shared/facts/dcgm_metrics.csv");
        let read = std::fs::read_to_string(&path);
        if !muster_testkit::data(read.is_ok(), "the exporter's list is not beside the repository") {
            return;
        }
        let text = read.expect("it was read");
        let mut seen = 0;
        for line in text.lines().skip(1) {
            // Only the help may hold commas, and the last three columns come after it.
            let columns: Vec<&str> = line.split(',').collect();
            let (name, kind) = (columns[0], columns[1]);
            let [.., on, id, renamed] = columns.as_slice() else { panic!("{line}") };
            let Ok(id) = id.parse::<u16>() else { continue };
            seen += 1;
            let field = FIELDS.into_iter().find(|f| *f as u16 == id);
            let Some(m) = field.and_then(metric) else {
                assert!(NOT_MEASURED.iter().any(|(n, _)| *n == id), "{line}");
                continue;
            };
            assert_eq!((m.classic, m.kind.word()), (name, kind), "{line}");
            assert_eq!(m.on_by_default, *on == "1", "{line}");
            let renamed = if renamed.is_empty() { name } else { renamed };
            assert_eq!(m.renamed, renamed, "{line}");
        }
        assert!(seen > 50, "{seen}");
    }
}
