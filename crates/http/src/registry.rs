//! The one registry of the server's figures. Each is declared once, with its kind and its help, and
//! then has its values, read at that moment. Out of it come the page for Prometheus and the samples for
//! remote write: what is on one is in the other.

use muster_server::brain::Histogram;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{Display, Write as _};

/// One figure with its labels, among them `__name__`.
#[derive(Debug)]
pub(crate) struct Sample {
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) value: f64,
}

/// Takes figures in.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    page: String,
    /// Where values go instead of onto the page.
    samples: Option<Vec<Sample>>,
    declared: BTreeSet<&'static str>,
}

impl Registry {
    /// These figures as a page in the text format.
    pub(crate) fn page(write: impl FnOnce(&mut Registry)) -> String {
        let mut out = Registry::default();
        write(&mut out);
        out.page
    }

    /// These figures one by one.
    pub(crate) fn samples(write: impl FnOnce(&mut Registry)) -> Vec<Sample> {
        let mut out = Registry { samples: Some(Vec::new()), ..Registry::default() };
        write(&mut out);
        out.samples.unwrap_or_default()
    }

    /// A figure that goes up and down.
    pub(crate) fn gauge(&mut self, name: &'static str, help: &str) -> Family<'_> {
        self.declare(name, "gauge", help)
    }

    /// One that only grows; its name ends in `_total`.
    pub(crate) fn counter(&mut self, name: &'static str, help: &str) -> Family<'_> {
        self.declare(name, "counter", help)
    }

    /// How often something took how long.
    pub(crate) fn histogram(&mut self, name: &'static str, help: &str) -> Family<'_> {
        self.declare(name, "histogram", help)
    }

    fn declare(&mut self, name: &'static str, kind: &str, help: &str) -> Family<'_> {
        let new = self.declared.insert(name);
        // Prometheus refuses a page on which one is declared twice.
        debug_assert!(new, "{name} is declared twice");
        if new && self.samples.is_none() {
            let _ = writeln!(self.page, "# HELP {name} {help}\n# TYPE {name} {kind}");
        }
        Family { out: self, name }
    }

    fn put(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        if let Some(samples) = &mut self.samples {
            let all = [("__name__", name)].into_iter().chain(labels.iter().copied());
            let labels = all.map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
            // As it is shown, so that both say the same.
            let value = value.to_string().parse().unwrap_or(f64::NAN);
            return samples.push(Sample { labels, value });
        }
        self.page.push_str(name);
        for (i, (key, v)) in labels.iter().enumerate() {
            self.page.push(if i == 0 { '{' } else { ',' });
            let _ = write!(self.page, "{key}=\"");
            for c in v.chars() {
                match c {
                    '\\' => self.page.push_str("\\\\"),
                    '"' => self.page.push_str("\\\""),
                    '\n' => self.page.push_str("\\n"),
                    c => self.page.push(c),
                }
            }
            self.page.push('"');
        }
        if !labels.is_empty() {
            self.page.push('}');
        }
        let _ = writeln!(self.page, " {value}");
    }
}

/// A figure that is declared, and takes its values.
pub(crate) struct Family<'a> {
    out: &'a mut Registry,
    name: &'static str,
}

impl Family<'_> {
    /// The value with these labels.
    pub(crate) fn put(&mut self, labels: &[(&str, &str)], value: impl Display) {
        self.out.put(self.name, labels, value);
    }

    /// Its only value.
    pub(crate) fn set(mut self, value: impl Display) {
        self.put(&[], value);
    }

    /// The values of a histogram, with labels that all of them have.
    pub(crate) fn times(&mut self, labels: &[(&str, &str)], h: &Histogram) {
        let name = self.name;
        let bucket = format!("{name}_bucket");
        for (le, n) in &h.cumulative {
            let le = le.to_string();
            self.out.put(&bucket, &[labels, &[("le", &le)]].concat(), n);
        }
        self.out.put(&bucket, &[labels, &[("le", "+Inf")]].concat(), h.count);
        self.out.put(&format!("{name}_sum"), labels, h.sum);
        self.out.put(&format!("{name}_count"), labels, h.count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(out: &mut Registry) {
        out.gauge("a", "x").set(1);
        let mut b = out.counter("b_total", "Things.");
        b.put(&[("x", "1"), ("y", "a\"b\\c\nd, e}")], 2.5);
        b.put(&[("x", "2")], f64::NAN);
        let h = Histogram { cumulative: vec![(0.5, 1), (1.0, 3)], count: 4, sum: 9.25 };
        out.histogram("c_seconds", "Times.").times(&[("part", "p")], &h);
        let _ = out.gauge("empty", "None now.");
    }

    #[test]
    fn a_page_declares_each_figure_once_before_its_values() {
        let want = r#"# HELP a x
# TYPE a gauge
a 1
# HELP b_total Things.
# TYPE b_total counter
b_total{x="1",y="a\"b\\c\nd, e}"} 2.5
b_total{x="2"} NaN
# HELP c_seconds Times.
# TYPE c_seconds histogram
c_seconds_bucket{part="p",le="0.5"} 1
c_seconds_bucket{part="p",le="1"} 3
c_seconds_bucket{part="p",le="+Inf"} 4
c_seconds_sum{part="p"} 9.25
c_seconds_count{part="p"} 4
# HELP empty None now.
# TYPE empty gauge
"#;
        assert_eq!(Registry::page(write), want);
    }

    #[test]
    fn samples_are_what_the_page_shows() {
        let all = Registry::samples(write);
        let names: Vec<&str> = all.iter().map(|s| s.labels["__name__"].as_str()).collect();
        let bucket = "c_seconds_bucket";
        let times = [bucket, bucket, bucket, "c_seconds_sum", "c_seconds_count"];
        assert_eq!(names, [&["a", "b_total", "b_total"][..], &times].concat());
        assert_eq!(all[1].labels["y"], "a\"b\\c\nd, e}");
        assert!(all[1].value == 2.5 && all[2].value.is_nan());
        assert_eq!((all[5].labels["le"].as_str(), all[5].value), ("+Inf", 4.0));
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "a is declared twice")]
    fn a_figure_is_declared_once() {
        Registry::page(|out| {
            out.gauge("a", "x").set(1);
            out.gauge("a", "x").set(2);
        });
    }
}
